"""The noise benchmark: its rows, its tasks and bars, and a run on tiny settings."""

from argparse import Namespace

import numpy as np
import pytest
from benchmarks.harness import Task
from benchmarks.noise.benchmark import QUICK, run, sources, tasks
from benchmarks.noise.sets import AUTO, LEVEL, LINEAR, N_SPLITS, ONE, SETS, bars, log_noise_var, problem


def test_whole_list():
    whole = tasks(Namespace(quick=False))
    counts = {name: sum(t.set == name for t in whole) for name in SETS}
    assert counts == {name: N_SPLITS * (2 if "data" in params else 3) for name, params in SETS.items()}
    assert all(path.is_file() for path in sources(whole[0]))
    assert {t.set for t in tasks(Namespace(quick=True))} == {"varying", "same"}


@pytest.mark.parametrize("name", ["varying", "same"])
def test_simulated_rows_have_the_noise_they_should(name):
    data = problem(SETS[name], 0)
    log_var = log_noise_var(SETS[name], data.X_test)
    scaled = (data.y_test - data.f_test) * np.exp(-0.5 * log_var)
    assert len(data.y) == 400
    # squares of 2000 normal draws average to one with an sd of 0.032, and follow no input (sd 0.022)
    assert np.mean(scaled**2) == pytest.approx(1.0, abs=0.13)
    assert np.max(np.abs(np.corrcoef(np.column_stack([scaled**2, data.X_test]).T)[0, 1:])) < 0.1
    assert (np.ptp(log_var) > 1.0) == (name == "varying") and (log_var == LEVEL).all() == (name == "same")


def test_bars_compare_the_choice_with_one_level():
    def row(method, split, lpd):
        return {"set": "varying", "split": split, "method": method, "lpd": lpd}

    rows = [row(ONE, s, -1.0) for s in range(N_SPLITS)] + [row(AUTO, s, -0.7) for s in range(N_SPLITS)]
    found = {bar.set: bar for bar in bars(rows)}
    assert found["varying"].value == pytest.approx(0.3) and found["varying"].reached
    assert found["yacht"].value is None and found["yacht"].reached is None


@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_run_knows_the_truth():
    params = {**SETS["varying"], "n": 80, "settings": {"noise": "linear", **QUICK}}
    row = run(Task("varying", 0, LINEAR, params))
    assert row["share_varying"] == pytest.approx(1.0)
    assert len(row["slopes"]) == 5 and row["slopes_rmse"] < 0.5
    assert row["lpd"] < row["lpd_truth"]
