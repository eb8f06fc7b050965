"""The structures benchmark: its protocols, its scores and bars, and a run on tiny settings."""

import json
import os
from argparse import Namespace

import numpy as np
import pytest
from benchmarks.accuracy.protocols import Problem
from benchmarks.harness import command
from benchmarks.methods import method
from benchmarks.structures.benchmark import STRUCTURES, sources, tasks
from benchmarks.structures.protocols import GROSS, problem
from benchmarks.structures.score import of_classes, of_numbers
from benchmarks.structures.sets import SETS, SMALL_CLASSES, bars, methods

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")
DEFAULTS = Namespace(params=None, methods="", quick=False, inner=None)


def test_whole_list():
    whole = tasks(DEFAULTS)
    counts = {name: sum(t.set == name for t in whole) for name in SETS}
    assert counts == {name: of.n_splits * len(of.methods) for name, of in SETS.items()}
    ours = {t.params["module"] for t in whole if t.method == "cavity" and t.params.get("classes")}
    assert ours == {"cavity_classifier"}
    for task in whole:
        assert all(path.is_file() for path in sources(task))


def test_research_runs_are_apart():
    whole = {task.digest for task in tasks(DEFAULTS)}
    apart = Namespace(**{**vars(DEFAULTS), "params": [{"n_starts": 4}]})
    assert not whole & {task.digest for task in tasks(apart)}
    assert {task.method for task in tasks(apart)} == {"cavity n_starts=4"}


def test_outliers_are_in_a_tenth_of_the_training_rows_only():
    clean, dirty = (problem({"protocol": "outliers", "n": 200, "clean": c}, 1) for c in (True, False))
    assert np.array_equal(clean.X, dirty.X) and np.array_equal(clean.y_test, dirty.y_test)
    shift = (dirty.y - clean.y)[dirty.y != clean.y]
    # 20 normal draws: their sd is within half of its size with a probability above 0.999
    assert len(shift) == 20 and np.std(shift) == pytest.approx(GROSS * np.std(clean.y), rel=0.5)
    # noise of variance one: 2000 squares average to one with an sd of 0.032
    assert np.mean((dirty.y_test - dirty.f_test) ** 2) == pytest.approx(1.0, abs=0.15)


@needs_data
def test_folds_have_their_share_of_the_classes():
    params = SETS["sonar"].params
    parts = [problem(params, split) for split in range(10)]
    assert sum(len(part.y_test) for part in parts) == 208
    shares = [part.y_test.mean() for part in parts]
    assert max(shares) - min(shares) < 0.1
    inner = problem(params | {"inner": 2}, 0)
    rows = {row.tobytes() for row in parts[0].X}
    assert {row.tobytes() for row in np.vstack([inner.X, inner.X_test])} == rows


@needs_data
def test_published_splits():
    leukemia = problem(SETS["leukemia"].params | {"most_inputs": 7}, 0)
    assert leukemia.X.shape == (38, 7) and leukemia.X_test.shape == (34, 7)
    assert np.bincount(leukemia.y_test.astype(int)).tolist() == [20, 14]


def test_scores_of_classes():
    class Model:
        def log_proba(self, X):
            return np.log(np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]))

    data = Problem(np.zeros((1, 1)), np.zeros(1), np.zeros((3, 1)), np.array([0.0, 1.0, 1.0]))
    found = of_classes(data, Model())
    assert found["errors"] == 1 and found["accuracy"] == pytest.approx(2.0 / 3.0)
    assert found["lpd"] == pytest.approx(np.log([0.8, 0.7, 0.4]).mean())
    assert found["brier"] == pytest.approx((0.2**2 + 0.3**2 + 0.6**2) / 3.0)


def test_scores_of_numbers_do_not_depend_on_units_or_outliers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=60)
    one, ten = (
        of_numbers(Problem(X, unit * y, X, unit * y), method("lasso_cv").fit(X, unit * y))
        for unit in (1.0, 10.0)
    )
    assert ten["mlpd"] == pytest.approx(one["mlpd"], abs=1e-6)
    assert ten["rmse"] == pytest.approx(10.0 * one["rmse"]) and ten["mse"] == pytest.approx(
        100.0 * one["mse"]
    )
    far = np.where(np.arange(60) == 3, 1e6, y)
    fitted = method("lasso_cv").fit(X, y)
    unit = of_numbers(Problem(X, far, X, y), fitted)["mlpd"] - of_numbers(Problem(X, y, X, y), fitted)["mlpd"]
    assert abs(unit) < 0.1  # a single value moves a quartile by one rank


@pytest.mark.parametrize("name", ["logistic_cv", "gp_classifier", "cavity_classifier"])
def test_classifiers_tell_two_classes_apart(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0.0).astype(float)
    settings = {"n_hidden": 2, "n_starts": 1, "max_iter": 30} if name == "cavity_classifier" else {}
    fitted = method(name).fit(X, y, **settings)
    log_p = fitted.log_proba(X)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-9)
    assert np.mean(log_p.argmax(axis=1) == y) > 0.85 and fitted.facts()


def rows_of(name, value, worse=0.0):
    """Rows of a set: ours has this value everywhere, the others one lower, or higher where small is good."""
    ours = ("cavity", "cavity_gaussian")
    return [
        {
            "set": name,
            "split": split,
            "method": m,
            **{k: value - (m not in ours) for k in ("lpd", "accuracy", "mlpd")},
            "mse": value + (m not in ours) - worse,
            "errors": 2,
            "fit_cpu": 1.0,
        }
        for split in range(SETS[name].n_splits)
        for m in methods(name)
    ]


def test_bars():
    rows = [row for name in SETS for row in rows_of(name, 1.0)]
    reached = {(bar.set, bar.what.split()[1]): bar.reached for bar in bars(rows)}
    assert reached["sonar", "lpd"] and reached["leukemia", "errors"] and reached["riboflavin", "mse"]
    assert reached["housing", "mlpd"] is False  # Student-t is one below there
    most = next(bar for bar in bars(rows) if bar.what.startswith("sets with"))
    assert most.value == len(SMALL_CLASSES) and most.reached
    part = [row for row in rows if row["set"] != "sonar" or row["split"] > 0]
    assert [bar.reached for bar in bars(part) if bar.set == "sonar"] == [None, None]
    assert next(bar for bar in bars(part) if bar.what.startswith("sets with")).reached is None


def test_bar_on_outliers_is_a_ratio():
    def ratio(dirty, clean):
        values = {"cavity_outliers": dirty, "cavity_clean": clean}
        rows = [
            {"set": "gross_outliers", "split": s, "method": m, "mse": v}
            for s in range(5)
            for m, v in values.items()
        ]
        return next(bar for bar in bars(rows) if "cavity_outliers" in bar.what)

    assert ratio(1.05, 1.0).reached and ratio(1.05, 1.0).value == pytest.approx(1.05)
    assert ratio(1.2, 1.0).reached is False


@needs_data
def test_quick_run(tmp_path):
    out = tmp_path / "out.json"
    asked = ["--quick", "--only", "colon,outlier_data", "--splits", "1", "--inner", "--params"]
    tiny = '{"max_iter": 2, "n_hidden": 2, "n_starts": 1}'
    assert command(STRUCTURES, [*asked, tiny, "--cache", str(tmp_path), "--out", str(out)]) == 0
    rows = {row["set"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows.keys() == {"colon", "outlier_data"}
    colon = rows["colon"]
    assert colon["n_inputs"] == 300 and colon["n_train"] + colon["n_test"] == 55  # of 62 rows in ten folds
    assert colon["loo_bias"] == pytest.approx(colon["loo"] - colon["lpd"], abs=1e-5)
    assert 0.0 <= rows["outlier_data"]["coverage95"] <= 1.0
