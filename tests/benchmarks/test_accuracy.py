"""The accuracy benchmark: its protocols, its scores, and a run on tiny settings."""

import json
import os
import warnings
from argparse import Namespace

import numpy as np
import pytest
from benchmarks.accuracy import score
from benchmarks.accuracy.benchmark import ACCURACY, tasks
from benchmarks.accuracy.protocols import Problem, inner, problem
from benchmarks.accuracy.sets import MORE, SETS, bars
from benchmarks.harness import Task, command
from benchmarks.methods import method
from sklearn.model_selection import KFold

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")
TINY = '{"max_iter": 2, "n_hidden": 2}'
DEFAULTS = Namespace(params=None, methods="", quick=False, inner=None)


def options(**more):
    return Namespace(**{**vars(DEFAULTS), **more})


def test_whole_list():
    counts = {name: sum(t.set == name and t.method == "cavity" for t in tasks(DEFAULTS)) for name in SETS}
    assert counts == {name: of.n_splits for name, of in SETS.items()}
    changed = [task for task in tasks(DEFAULTS) if "settings" in task.params]
    assert {task.method for task in changed} == {MORE}  # the bars look at the defaults alone
    assert {task.set for task in changed} == {"housing"}


def test_research_runs_are_apart():
    whole = {task.digest for task in tasks(DEFAULTS)}
    for apart in (options(params=[{"n_starts": 4}]), options(inner=1)):
        assert not whole & {task.digest for task in tasks(apart)}
    two = options(params=[{"n_starts": 4, "prior": "ard"}, {"n_hidden": 9}])
    labels = {task.method for task in tasks(two)}
    assert labels == {"cavity n_starts=4,prior=ard", "cavity n_hidden=9"}


def test_inner_rows_are_training_rows():
    rng = np.random.default_rng(0)
    outer = Problem(rng.normal(size=(50, 2)), np.arange(50.0), rng.normal(size=(9, 2)), -np.ones(9))
    cut = inner(outer, split=3, fold=1)
    train, test = list(KFold(10, shuffle=True, random_state=3).split(outer.X))[1]
    assert np.array_equal(cut.y, outer.y[train]) and np.array_equal(cut.y_test, outer.y[test])
    assert np.array_equal(cut.X_test, outer.X[test])


def test_case2_has_its_truth():
    found = problem({"protocol": "case2", "n": 30}, 1)
    assert found.X.shape == (30, 10) and found.noise_var == pytest.approx(0.04)
    # 2000 squared residuals of mean s² average to s² with relative sd sqrt(2/2000) = 0.032.
    assert np.mean((found.y_test - found.f_test) ** 2) == pytest.approx(0.04, rel=0.15)
    assert found.relevant.tolist() == [False] + [True] * 9
    assert not np.array_equal(found.y, problem({"protocol": "case2", "n": 30}, 2).y)


@needs_data
def test_noise_inputs_stand_behind_the_real_ones():
    params = {"protocol": "noise_inputs", "data": "kin40k", "n_noise": 3, "n_train": 100, "most_test": 200}
    found = problem(params, 0)
    assert found.X.shape == (100, 11) and found.X_test.shape == (200, 11)
    assert found.relevant.sum() == 8 and found.relevant[:8].all()
    assert abs(np.corrcoef(np.vstack([found.X, found.X_test])[:, 8:].T, rowvar=True)[0, 1]) < 0.3


def test_standardised_scores_do_not_depend_on_units(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=80)
    rows = []
    for unit in (1.0, 10.0):
        data = Problem(X[:60], unit * y[:60], X[60:], unit * y[60:])
        monkeypatch.setattr(score, "problem", lambda params, split, data=data: data)
        rows.append(score.run(Task("toy", 0, "bayesian_ridge", {"module": "bayesian_ridge"})))
    one, ten = rows
    assert ten["mlpd"] == pytest.approx(one["mlpd"], abs=1e-6) and ten["mse"] == pytest.approx(one["mse"])
    # The density of 10 y is a tenth of that of y.
    assert ten["lpd"] == pytest.approx(one["lpd"] - np.log(10.0), abs=1e-6)
    assert ten["rmse"] == pytest.approx(10.0 * one["rmse"])


def test_ranks_of_relevant_inputs():
    class Model:
        def relevance(self):
            return np.array([0.1, 3.0, 2.0, 0.5]), np.array([0.2, 1.0, 1.0, 0.7])

    X = np.zeros((1, 4))
    data = Problem(X, X[:, 0], X, X[:, 0], relevant=np.array([False, True, True, False]))
    found = score.relevance(data, Model())
    assert found["ranks"].tolist() == [1, 2] and found["real_first"] and found["found"] == 1.0
    assert found["false_alarms"] == 1 and not found["irrelevant_called"]


def test_gaussian_process_predicts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.05 * rng.normal(size=40)
    with warnings.catch_warnings():  # a length-scale may end at its bound: input 2 does nothing
        warnings.simplefilter("ignore")
        fitted = method("gp_ard").fit(X, y)
    assert np.mean((fitted.mean(X) - y) ** 2) < 0.01
    assert fitted.interval(X, 0.95).shape == (40, 2)


def test_bars_are_open_until_all_splits_are_there():
    rows = [
        {"set": "yacht", "split": split, "method": name, "lpd": value, "mlpd": value, "fit_cpu": 1.0}
        for split in range(20)
        for name, value in (("cavity", -0.1), ("bayesian_ridge", -3.0))
    ]
    assert [bar.reached for bar in bars(rows) if bar.set == "yacht"] == [True, True, True]
    assert [bar.reached for bar in bars(rows[:-2]) if bar.set == "yacht"] == [None, None, None]
    worse = [{**row, "lpd": -0.2} for row in rows]
    assert [bar.reached for bar in bars(worse) if bar.set == "yacht"] == [False, True, True]


def test_missing_data_are_refused_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    asked = ["--inner", "--only", "yacht,case2", "--splits", "1"]  # of which no row is committed
    with pytest.raises(SystemExit):
        command(ACCURACY, [*asked, "--cache", str(tmp_path)])
    assert "yacht: not found; set CAVITY_DATA" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("name", ["case2", pytest.param("yacht", marks=needs_data)])
def test_quick_run(tmp_path, name):
    out = tmp_path / "out.json"
    asked = ["--quick", "--only", name, "--splits", "1", "--inner", "--params", TINY]
    where = ["--methods", "cavity,bayesian_ridge", "--cache", str(tmp_path), "--out", str(out)]
    assert command(ACCURACY, [*asked, *where]) == 0
    summary = json.loads(out.read_text())
    methods = {row["method"]: row for row in summary["rows"]}
    assert methods.keys() == {"cavity", "bayesian_ridge", "cavity max_iter=2,n_hidden=2"}
    ours = methods["cavity max_iter=2,n_hidden=2"]
    assert ours["n_hidden"] == 2 and ours["loo_bias"] == pytest.approx(ours["loo"] - ours["lpd"], abs=1e-5)
    assert 0.0 <= ours["coverage95"] <= 1.0 and ours["fit_cpu"] > 0.0
