"""The command as a user types it: what it prints where, what it writes, and how it ends."""

import io
import json
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import frame, write

import cavity
from cavity.cli import console as console_module
from cavity.cli import fit as fit_command
from cavity.cli import main, models
from cavity.cli.evaluate import Held, _loo_bias
from cavity.result.calibration import mean_and_error
from cavity.tables import TableEncoder

QUICK = ["--hidden", "2", "--max-iter", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table and a model fitted to it."""
    path = tmp_path_factory.mktemp("cli")
    data = write(path / "data.csv", frame(40))
    assert main(["fit", data, "--target", "y", "--out", str(path / "m.cavity"), "--quiet", *QUICK]) in {0, 3}
    return path


@pytest.fixture
def settled(monkeypatch):
    """Short fits count as converged, so that exit codes are about something else."""
    monkeypatch.setattr(fit_command, "LARGE_MISMATCH", np.inf)


def run(capsys, *arguments):
    """Exit code, standard output and standard error."""
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def complaint(capsys, *arguments):
    """The one sentence of a run that must fail."""
    code, out, err = run(capsys, *arguments)
    assert code == 1
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("cavity: ")
    assert "Traceback" not in err
    return last.removeprefix("cavity: ")


def feed(monkeypatch, raw):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(raw), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)


@pytest.mark.usefixtures("settled")
def test_fit_says_what_it_found_and_saves_it(tmp_path, capsys):
    data, out = write(tmp_path / "data.csv", frame()), tmp_path / "m.cavity"
    code, text, err = run(capsys, "fit", data, "--target", "y", "--out", out, *QUICK)
    assert code == 0
    assert "5 inputs (2 numbers, 1 true/false, 2 categories with 2 to 3 levels)" in err
    assert "Fitting took" in err
    assert "What matters" in text
    # one row per column of the table, not per level
    assert "colour  " in text
    assert "colour=red" not in text
    model = cavity.load(out)
    assert list(model.feature_names_in_) == TableEncoder.from_json(model.extra_["table"]).features


@pytest.mark.usefixtures("settled")
def test_fit_as_json(tmp_path, capsys):
    data, out = write(tmp_path / "data.csv", frame().assign(id=range(24))), tmp_path / "m.cavity"
    code, text, err = run(capsys, "fit", data, "--target", "y", "--out", out, "--json", "--quiet", *QUICK)
    assert code == 0
    assert err == ""
    found = json.loads(text)
    assert found["n_rows"] == 24
    assert found["target"] == "y"
    assert {row["name"] for row in found["relevance"]} == {"size", "colour", "sex", "paid", "count", "id"}
    assert found["notes"]
    assert np.isfinite(found["loo"])


def test_exit_code_of_a_fit_far_from_converged(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fit_command, "LARGE_MISMATCH", -1.0)
    data, out = write(tmp_path / "data.csv", frame()), tmp_path / "m.cavity"
    code, _, err = run(capsys, "fit", data, "--target", "y", "--out", out, "--quiet", *QUICK)
    assert code == 3
    assert "far from converged" in err
    assert out.is_file()


@pytest.mark.usefixtures("settled")
def test_an_interrupted_fit_is_saved(tmp_path, capsys, monkeypatch):
    class Impatient(models.Sweeps):
        def __call__(self, record, state=None):
            super().__call__(record, state)
            if record.stage == "converge" and record.sweep == 2:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(models, "Sweeps", Impatient)
    before = signal.getsignal(signal.SIGINT)
    data, out = write(tmp_path / "data.csv", frame()), tmp_path / "m.cavity"
    code, _, err = run(capsys, "fit", data, "--target", "y", "--out", out, *QUICK)
    assert code == 130
    assert "interrupted; what was found by then is saved" in err
    assert signal.getsignal(signal.SIGINT) is before
    assert np.isfinite(cavity.load(out).loo_)


@pytest.mark.usefixtures("settled")
def test_weights_count_copies(tmp_path, capsys):
    weighted = frame().assign(w=np.resize([1, 2], 24))
    repeated = weighted.loc[weighted.index.repeat(weighted["w"])].drop(columns="w")
    found = []
    for data, more in ((weighted, ["--weights", "w"]), (repeated, [])):
        path = write(tmp_path / "data.csv", data)
        arguments = [
            "fit",
            path,
            "--target",
            "y",
            "--json",
            "--quiet",
            "--out",
            tmp_path / "m",
            *more,
            *QUICK,
        ]
        code, text, _ = run(capsys, *arguments)
        assert code == 0
        found.append(json.loads(text)["loo"])
    # standardising sums the copies in another order; the fit carries that on
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.usefixtures("settled")
def test_ard_gives_the_levels_of_a_column_one_scale(tmp_path, capsys):
    data, out = write(tmp_path / "data.csv", frame()), tmp_path / "m.cavity"
    code, _, _ = run(capsys, "fit", data, "--target", "y", "--prior", "ard", "--out", out, "-q", *QUICK)
    assert code == 0
    model = cavity.load(out)
    assert list(model.groups) == ["size", "colour", "colour", "colour", "sex", "paid", "count"]
    assert model.relevance_.name == ("size", "colour", "sex", "paid", "count")


@pytest.mark.usefixtures("settled")
def test_likelihood_and_noise_of_numbers(tmp_path, capsys):
    data, out = write(tmp_path / "data.csv", frame()), tmp_path / "m.cavity"
    begin = ("fit", data, "--target", "y", "--out", out, "-q", *QUICK)
    assert run(capsys, *begin, "--likelihood", "student-t", "--noise", "one")[0] == 0
    model = cavity.load(out)
    assert model.likelihood == "student-t" and model.noise is None
    assert run(capsys, *begin, "--noise", "linear")[0] == 0
    assert cavity.load(out).noise_slopes_.mean.shape == (7,)
    said = complaint(capsys, "fit", data, "--target", "colour", "--ignore", "y", "--noise", "one", *QUICK)
    assert "--noise is for a target of numbers; 'colour' has classes" in said


def test_predict_on_raw_tables_in_any_order(folder, capsys, monkeypatch):
    new = frame(6, seed=1)
    straight = run(capsys, "predict", folder / "m.cavity", write(folder / "a.csv", new), "--intervals")
    turned = new[list(reversed(new.columns))].assign(extra=1).drop(columns="y")
    feed(monkeypatch, turned.to_csv(index=False, sep=";").encode())
    other = run(capsys, "predict", folder / "m.cavity", "-", "--intervals")
    assert straight[0] == other[0] == 0
    assert straight[1] == other[1]
    assert "'extra'" in other[2]
    assert "holds 'y' too" in straight[2]
    table = pd.read_csv(io.StringIO(straight[1]))
    assert list(table.columns) == ["row", "prediction", "sd", "lower", "upper"]
    assert list(table["row"]) == [1, 2, 3, 4, 5, 6]
    assert (table["lower"] < table["prediction"]).all()
    assert (table["prediction"] < table["upper"]).all()


def test_predict_agrees_with_python(folder, capsys):
    new = frame(6, seed=1)
    path = write(folder / "a.csv", new)
    code, text, _ = run(capsys, "predict", folder / "m.cavity", path, "--intervals", "80%", "--json")
    assert code == 0
    found = json.loads(text)
    assert found["level"] == 0.8
    model, encoder = models.load(str(folder / "m.cavity"))
    X = encoder.encode(models.read_table(path)).X
    rows = found["predictions"]
    np.testing.assert_allclose([row["prediction"] for row in rows], model.predict(X))
    ends = np.array([[row["lower"], row["upper"]] for row in rows])
    np.testing.assert_allclose(ends, model.predict_interval(X, 0.8))


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".json"])
def test_predict_to_a_file(folder, capsys, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path, out = write(folder / "a.csv", frame(6, seed=1)), folder / f"p{ending}"
    code, text, _ = run(capsys, "predict", folder / "m.cavity", path, "--keep", "--out", out)
    assert code == 0
    assert text == ""
    if ending == ".json":
        table = pd.DataFrame(json.loads(out.read_text())["predictions"])
    elif ending == ".parquet":
        table = pd.read_parquet(out)
    else:
        table = pd.read_csv(out, sep="\t" if ending == ".tsv" else ",")
    assert list(table.columns) == [*frame().columns, "row", "prediction", "sd"]


def test_predict_with_missing_values(folder, capsys):
    new = frame(6, seed=1)
    new.loc[1, "size"] = np.nan
    path = write(folder / "a.csv", new)
    assert "'size' 1 of 6 rows" in complaint(capsys, "predict", folder / "m.cavity", path)
    _, text, _ = run(capsys, "predict", folder / "m.cavity", path, "--drop-missing")
    assert [line.split(",")[0] for line in text.split()] == ["row", "1", "3", "4", "5", "6"]
    _, text, err = run(capsys, "predict", folder / "m.cavity", path, "--impute")
    assert len(text.split()) == 7
    assert "filled with the median" in err


def test_predict_with_a_model_from_python(tmp_path, capsys):
    data = frame()[["size", "count"]]
    cavity.EPRegressor(n_hidden=2, max_iter=2, tol=9.0).fit(data, frame()["y"]).save(tmp_path / "m")
    path = write(tmp_path / "a.csv", data[["count", "size"]])
    code, text, _ = run(capsys, "predict", tmp_path / "m", path)
    assert code == 0
    assert len(text.split()) == 25


def test_evaluate(tmp_path, capsys):
    data = frame(30)
    data.loc[3, "size"] = np.nan
    path = write(tmp_path / "data.csv", data)
    arguments = ["evaluate", path, "--target", "y", "--cv", "3", "--impute", *QUICK]
    code, text, err = run(capsys, *arguments)
    assert code == 0
    assert "fold 1" in err or "3 folds" in err
    assert "Bayesian linear model" in text
    assert [line.split()[0] for line in text.splitlines()[2:7]] == ["fold", "1", "2", "3", "all"]
    code, text, _ = run(capsys, *arguments, "--json", "--quiet", "--jobs", "2")
    found = json.loads(text)
    assert [fold["rows"] for fold in found["folds"]] == [10, 10, 10]
    for kind in ("cavity", "linear"):
        pooled = np.sqrt(np.mean([fold[kind]["rmse"] ** 2 for fold in found["folds"]]))
        assert found["overall"][kind]["rmse"] == pytest.approx(pooled)
        assert found["overall"][kind]["mlpd"] == pytest.approx(
            np.mean([fold[kind]["mlpd"] for fold in found["folds"]])
        )
        assert 0.0 <= found["overall"][kind]["coverage"] <= 1.0
    gain = found["overall"]["cavity"]["mlpd"] - found["overall"]["linear"]["mlpd"]
    assert found["mlpd_gain"]["mean"] == pytest.approx(gain)


def test_evaluate_says_where_leave_one_out_misleads():
    """Row by row: the mean over the fits that a row trained, less what the fit without it says."""
    folds = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    held = [
        Held(None, np.array(h), None, True, np.array(loo))
        for h, loo in (([-1, -2], [-3, -4]), ([-5, -6], [0, 0]))
    ]
    bias, weight = _loo_bias(folds, [(h, h) for h in held], None)
    np.testing.assert_allclose(bias, [1.0, 2.0, 2.0, 2.0])
    assert mean_and_error(bias, weight) == pytest.approx((1.75, 0.25))


def test_a_fold_is_filled_from_its_own_training_rows(tmp_path, capsys, monkeypatch):
    data = frame(30)
    data.loc[3, "size"] = np.nan
    filled = []

    class Watched(cavity.EPRegressor):
        def fit(self, X, y, sample_weight=None):
            known = data["size"].iloc[X.index]
            if 3 in X.index:
                filled.append((X.loc[3, "size"], known.median()))
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(models, "EPRegressor", Watched)
    path = write(tmp_path / "data.csv", data)
    code, _, _ = run(capsys, "evaluate", path, "--target", "y", "--cv", "3", "--impute", "-q", *QUICK)
    assert code == 0
    # the row is held out once, and the medians of the training rows differ
    assert len(filled) == 2
    assert filled[0][1] != filled[1][1]
    assert all(value == median for value, median in filled)


def test_info(folder, capsys):
    code, text, _ = run(capsys, "info", folder / "m.cavity")
    assert code == 0
    assert "EPRegressor for 'y'" in text
    assert "blue, green, red" in text
    _, text, _ = run(capsys, "info", folder / "m.cavity", "--json")
    assert [c["kind"] for c in json.loads(text)["columns"]] == [
        "number", "category", "category", "boolean", "number",
    ]  # fmt: skip


def test_report(folder, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    path, out = write(folder / "a.csv", frame(6, seed=1)), folder / "r.html"
    code, _, err = run(capsys, "report", folder / "m.cavity", "-o", out, "--data", path, "--title", "A & B")
    assert code == 0
    assert "A &amp; B" in out.read_text(encoding="utf-8")
    assert "open it in a browser" in err
    lacking = write(folder / "b.csv", frame(6).drop(columns="y"))
    message = complaint(capsys, "report", folder / "m.cavity", "-o", out, "--data", lacking)
    assert message == "b.csv has no target column 'y' to score the model on."


@pytest.mark.usefixtures("settled")
def test_rows_are_those_of_the_table_although_some_were_left_out(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    data = frame(60)
    data.loc[[2, 9], "size"] = np.nan
    data.loc[5, "y"] = np.nan
    data.loc[20, "y"] += 5.0
    path, out = write(tmp_path / "data.csv", data), tmp_path / "m.cavity"
    named = r"too far from the leave-one-out prediction.*: 21 \(counted from 1\)"
    arguments = ["fit", path, "--target", "y", "--drop-missing", "--out", out, "--json", *QUICK]
    code, text, _ = run(capsys, *arguments)
    assert code == 0
    assert any(re.search(named, worry["text"]) for worry in json.loads(text)["worries"])
    _, text, _ = run(capsys, "info", out)
    assert re.search(named, " ".join(text.split()))
    assert run(capsys, "report", out, "-o", tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert re.search(named, page)
    assert "row 21<" in page, "the figure of observed rows names it too"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,y\n1,2\n2,3\n", "has no target column 'z'"),
        ("a,z\n1,1\n2,oops\n3,4\n", "text 'oops' in data row 2"),
        ("a,z\n1,1\nx,2\n3,4\n", "'a' of data.csv should hold numbers.*text 'x' in data row 2"),
        ("a,z\n1,7\n2,7\n", "is 7 in every row"),
        ("a,z\n1,7\n", "a fit needs at least 2"),
        ("a,z\n1,1\ninf,2\n3,4\n", "infinite in data row 2"),
        ("", "is empty"),
        ("a,z\n1,1\n,2\n3,4\n", "missing values .'a' 1 of 3 rows.*--drop-missing keeps the 2"),
        (b"a,z\n\xc3\xa4,1\n\xe4,2\n", "mixes encodings.*byte 0xe4 in line 3"),
        (b"PK\x03\x04nonsense", "damaged"),
        (b"\x00\x01\x02", "binary file"),
    ],
)
def test_bad_tables_end_a_fit_in_one_sentence(tmp_path, capsys, content, sentence):
    data = write(tmp_path / "data.csv", content)
    message = complaint(capsys, "fit", data, "--target", "z", "--out", tmp_path / "m")
    assert re.search(sentence, message), message
    assert not (tmp_path / "m").exists()


def test_negative_weights(tmp_path, capsys):
    data = write(tmp_path / "data.csv", frame().assign(w=np.r_[1.0, -2.0, np.ones(22)]))
    message = complaint(capsys, "fit", data, "--target", "y", "--weights", "w", "--out", tmp_path / "m")
    assert "negative (-2) in data row 2" in message


def test_bad_tables_at_predict(folder, capsys):
    new = frame(6)
    lacking = write(folder / "b.csv", new.drop(columns=["size", "sex"]))
    assert "needs: 'size', 'sex'" in complaint(capsys, "predict", folder / "m.cavity", lacking)
    strange = write(folder / "b.csv", new.replace("red", "mauve"))
    message = complaint(capsys, "predict", folder / "m.cavity", strange)
    assert "'mauve' in data row 1 and 1 more row" in message
    code, _, err = run(capsys, "predict", folder / "m.cavity", strange, "--unseen", "ignore")
    assert code == 0
    assert "count as unknown" in err
    empty = write(folder / "b.csv", new.iloc[:0])
    assert "no rows to predict" in complaint(capsys, "predict", folder / "m.cavity", empty)


def test_bad_models(folder, capsys):
    data = write(folder / "a.csv", frame(6))
    (folder / "void.cavity").write_bytes(b"")
    assert "is empty (0 bytes)" in complaint(capsys, "predict", folder / "void.cavity", data)
    assert "not a cavity model" in complaint(capsys, "predict", data, data)
    assert "There is no model" in complaint(capsys, "info", folder / "nothing.cavity")
    torn = (folder / "m.cavity").read_bytes()[:-300]
    (folder / "torn.cavity").write_bytes(torn)
    complaint(capsys, "info", folder / "torn.cavity")


def test_a_model_whose_columns_were_tampered_with(folder, capsys):
    model = cavity.load(folder / "m.cavity")
    stored = model.extra_["table"]
    model.save(folder / "less.cavity", extra={"table": {**stored, "columns": stored["columns"][1:]}})
    assert "do not fit its network" in complaint(capsys, "info", folder / "less.cavity")
    model.save(folder / "rows.cavity", extra={"table": stored, "rows_left_out": [1000]})
    assert "not those of its fit" in complaint(capsys, "info", folder / "rows.cavity")
    model.save(folder / "odd.cavity", extra={"table": {**stored, "columns": "none"}})
    assert "damaged" in complaint(capsys, "info", folder / "odd.cavity")


def test_outputs_are_checked_before_the_work(tmp_path, capsys):
    data = write(tmp_path / "data.csv", frame())
    message = complaint(capsys, "fit", data, "--target", "y", "--out", tmp_path / "no" / "m")
    assert "There is no folder" in message
    assert "is a folder" in complaint(capsys, "fit", data, "--target", "y", "--out", tmp_path)
    message = complaint(capsys, "predict", tmp_path / "m", data, "--out", tmp_path / "p.xlsx")
    assert "its ending says how" in message


def test_too_few_rows_to_evaluate(tmp_path, capsys):
    data = write(tmp_path / "data.csv", frame(6))
    assert "ask for --cv 3" in complaint(capsys, "evaluate", data, "--target", "y")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "data.csv"],
        ["fit", "data.csv", "--target", "y", "--impute", "--drop-missing"],
        ["fit", "data.csv", "--target", "y", "--hidden", "0"],
        ["fit", "data.csv", "--target", "y", "--prior", "horse"],
        ["fit", "data.csv", "--target", "y", "--time-limit", "-1"],
        ["predict", "m", "data.csv", "--intervals", "often"],
        ["predict", "m", "data.csv", "--intervals", "100%"],
        ["evaluate", "data.csv", "--target", "y", "--cv", "1"],
        ["frobnicate"],
    ],
)
def test_wrong_usage_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: cavity" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "report", "info", "demo"])
def test_help_teaches(capsys, command):
    assert main([]) == 2
    assert f"cavity {command}" in capsys.readouterr().err or command == "info"
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text or command in {"report", "info", "demo"}


def test_errors_show_their_place_on_request(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        main(["fit", str(tmp_path / "no.csv"), "--target", "y", "--out", str(tmp_path / "m"), "--traceback"])


def test_a_closed_pipe_is_no_error(folder):
    data = write(folder / "long.csv", pd.concat([frame(40)] * 200))
    command = [sys.executable, "-m", "cavity", "predict", str(folder / "m.cavity"), data, "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"row,prediction,sd\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_progress_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(console_module, "LINE_SECONDS", 0.0)
    for quiet in (False, True):
        with console_module.Console(quiet).progress("Work") as progress:
            progress.at(0.3, "step one")
            progress.finish("All done.")
        err = capsys.readouterr().err
        assert ("Work: step one, 0.0 s" in err) is not quiet
        assert ("Work took 0.0 s. All done." in err) is not quiet


def test_numbers_for_people():
    shown = [console_module.number(v) for v in (1234.567, 0.5, 0.012345, 123456.7, -2.0, 1e-9, 0.0, np.nan)]
    assert shown == ["1235", "0.5000", "0.01235", "123500", "-2.000", "1e-09", "0", "–"]


@pytest.mark.slow
def test_demo(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, text, _ = run(capsys, "demo", "--out", tmp_path / "demo")
    assert code == 0
    assert "On 1000 new rows" in text
    assert "The first patient" in text
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "report.html", "diabetes.html", "case2-effects.svg", "case2-relevance.svg",
        "diabetes-relevance.svg", "diabetes-observed.svg",
    }  # fmt: skip
