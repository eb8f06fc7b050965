"""The benchmark of single choices: its tasks, and a run on tiny settings."""

import os
from argparse import Namespace

import pytest
from benchmarks.accuracy.protocols import problem
from benchmarks.accuracy.sets import CAVITY
from benchmarks.starts.benchmark import N_SPLITS, SETS, STARTS, VARIANTS, sources, tasks

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")


def test_whole_list():
    whole = tasks(Namespace(quick=False))
    assert len({task.digest for task in whole}) == len(whole) == len(SETS) * N_SPLITS * len(VARIANTS)
    assert next(iter(VARIANTS)) == CAVITY and "settings" not in whole[0].params
    assert all(path.is_file() for task in whole for path in sources(task))


@needs_data
def test_test_rows_are_never_seen():
    task = tasks(Namespace(quick=False))[0]
    inner, outer = problem(task.params, 0), problem({**task.params, "inner": None}, 0)
    rows = {tuple(row) for row in outer.X}
    assert len(inner.y) + len(inner.y_test) == len(outer.y)
    assert all(tuple(row) in rows for row in inner.X_test)


@needs_data
@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_variant_runs():
    small = {task.method: task for task in tasks(Namespace(quick=True)) if task.set == "yacht"}
    assert small.keys() == VARIANTS.keys()
    row = STARTS.run(small["paper's zero start"])
    assert row["n_train"] == 54 and row["n_test"] == 6 and row["mse"] < 3.0
