"""Classes on the command line: which targets are classes, what is written, said and refused."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import fitted, frame, write
from tests.cli.test_cli import complaint, run

import cavity
from cavity.cli import fit as fit_command
from cavity.cli import main
from cavity.tables import TableEncoder

QUICK = ["--hidden", "2", "--starts", "1", "--max-iter", "3"]


def labelled(n=60, seed=0):
    """The table of numbers, its target cut at its median into two words."""
    data = frame(n, seed)
    return data.assign(y=np.where(data["y"] > data["y"].median(), "high", "low"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of classes and a model fitted to it."""
    path = tmp_path_factory.mktemp("classes")
    data = write(path / "data.csv", labelled())
    arguments = ["fit", data, "--target", "y", "--out", str(path / "m.cavity"), "--quiet", *QUICK]
    assert main(arguments) in {0, 3}
    return path


def test_text_and_truth_are_classes_and_numbers_are_not(tmp_path):
    data = frame()
    for values, classes in (
        (np.where(data["y"] > 2.5, "b", "a"), ("a", "b")),
        (data["y"] > 2.5, ("False", "True")),
        (data["y"], ()),
        ((data["y"] > 2.5).astype(int), ()),
    ):
        assert fitted(tmp_path / "t.csv", data.assign(y=values))[0].classes == classes
    zeros = data.assign(y=(data["y"] > 2.5).astype(int))
    assert fitted(tmp_path / "t.csv", zeros, task="classification")[0].classes == ("0", "1")


def test_the_encoder_keeps_the_classes(tmp_path):
    encoder = fitted(tmp_path / "t.csv", labelled())[0]
    stored = encoder.to_json()
    assert TableEncoder.from_json(stored) == encoder
    old = {key: value for key, value in stored.items() if key != "classes"}
    assert TableEncoder.from_json({**old, "version": 1}).classes == ()


def test_rows_without_a_class_are_refused_or_dropped(tmp_path, capsys):
    data = labelled()
    data.loc[3, "y"] = None
    path = write(tmp_path / "t.csv", data)
    assert "missing values ('y' 1 of 60 rows)" in complaint(capsys, "fit", path, "--target", "y")
    assert list(fitted(tmp_path / "t.csv", data, missing="drop")[1]) == [i for i in range(60) if i != 3]


def test_one_class_and_a_class_for_each_row_are_refused(tmp_path, capsys):
    one = write(tmp_path / "one.csv", frame().assign(y="same"))
    assert "is 'same' in every row" in complaint(capsys, "fit", one, "--target", "y")
    many = write(tmp_path / "many.csv", frame().assign(y=[f"case {i}" for i in range(24)]))
    assert "24 different values in 24 rows" in complaint(capsys, "fit", many, "--target", "y")


def test_fit_speaks_of_classes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fit_command, "LARGE_MISMATCH", np.inf)
    data, out = write(tmp_path / "data.csv", labelled()), tmp_path / "m.cavity"
    code, text, err = run(capsys, "fit", data, "--target", "y", "--out", out, *QUICK)
    assert code == 0
    assert "target 'y' with classes 'high', 'low'" in err and "--intervals" not in err
    for words in ("right ", "log score", "Brier score", "observed (down), predicted (across)", "score f"):
        assert words in text
    code, text, _ = run(capsys, "info", out, "--json")
    found = json.loads(text)
    assert found["kind"] == "EPClassifier" and found["classes"] == ["high", "low"]
    assert np.sum(found["loo_confusion"]) == 60
    assert sum(b["weight"] for b in found["loo_calibration"]) == pytest.approx(60.0)
    assert found["loo_accuracy"] == pytest.approx(np.trace(found["loo_confusion"]) / 60.0)


def test_two_numbers_are_a_regression_with_a_hint(tmp_path, capsys):
    zeros = frame().assign(y=lambda t: (t["y"] > 2.5).astype(int))
    data, out = write(tmp_path / "data.csv", zeros), tmp_path / "m.cavity"
    _, _, err = run(capsys, "fit", data, "--target", "y", "--out", out, *QUICK)
    assert "--task classification would fit their probabilities" in err
    assert type(cavity.load(out)).__name__ == "EPRegressor"


def test_predict_writes_classes_and_probabilities(folder, capsys):
    code, text, err = run(capsys, "predict", folder / "m.cavity", folder / "data.csv")
    assert code == 0
    found = pd.read_csv(pd.io.common.StringIO(text))
    assert list(found.columns) == ["row", "prediction", "p(high)", "p(low)"]
    np.testing.assert_allclose(found["p(high)"] + found["p(low)"], 1.0, atol=1e-8)
    assert ((found["p(high)"] > 0.5) == (found["prediction"] == "high")).all()
    assert "% right, log score" in err
    message = complaint(capsys, "predict", folder / "m.cavity", folder / "data.csv", "--intervals")
    assert "A class has no interval" in message


def test_predict_without_or_with_other_classes(folder, tmp_path, capsys):
    other = write(tmp_path / "other.csv", labelled().assign(y="strange"))
    code, text, err = run(capsys, "predict", folder / "m.cavity", other)
    assert code == 0 and "right" not in err  # nothing to compare with, and that is no reason to stop
    assert len(text.splitlines()) == 61


def test_evaluate_stands_beside_logistic_regression(tmp_path, capsys):
    data = write(tmp_path / "data.csv", labelled())
    few = ["--cv", "2", *QUICK]
    code, text, _ = run(capsys, "evaluate", data, "--target", "y", *few)
    assert code == 0 and "logistic regression" in text and "log score" in text
    code, text, _ = run(capsys, "evaluate", data, "--target", "y", *few, "--json", "--quiet")
    found = json.loads(text)
    assert found["classes"] == ["high", "low"] and [f["rows"] for f in found["folds"]] == [30, 30]
    ours, theirs = (found["overall"][name]["log_score"] for name in ("cavity", "logistic"))
    assert found["log_score_gain"]["mean"] == pytest.approx(ours - theirs)
    rare = labelled().assign(y=["odd"] + ["even"] * 59)
    message = complaint(capsys, "evaluate", write(tmp_path / "rare.csv", rare), "--target", "y", *few)
    assert "The rarest class has 1 row(s)" in message


def test_report_of_a_classifier(folder, capsys):
    pytest.importorskip("jinja2")
    page = folder / "page.html"
    code, _, _ = run(capsys, "report", folder / "m.cavity", "--out", page, "--data", folder / "data.csv")
    assert code == 0
    text = page.read_text(encoding="utf-8")
    for words in (
        "What the model makes of y",
        "right, leave-one-out",
        "given besides",
        "a class has neither",
    ):
        assert words in text
