"""The benchmark of mixtures: the quadratic form, its least value, and a run on tiny settings."""

import os
from argparse import Namespace

import numpy as np
import pytest
from benchmarks.mixtures.benchmark import (
    MIXTURES,
    NAMES,
    SETS,
    best_weights,
    pair,
    products,
    sources,
    tasks,
)

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")


def rows_of(errors, counts):
    """Rows of results of folds with so many test rows each."""
    out, at = [], 0
    for count in counts:
        part = errors[:, at : at + count]
        at += count
        row = {"n_test": count}
        for a, first in enumerate(NAMES):
            row |= {pair(first, NAMES[b]): float(np.mean(part[a] * part[b])) for b in range(a, len(NAMES))}
        out.append(row)
    return out


def test_whole_list():
    whole = tasks(Namespace(quick=False))
    assert len({task.digest for task in whole}) == len(whole) == 10 * len(SETS)
    assert all(path.is_file() for task in whole for path in sources(task))


def test_the_squared_error_of_a_mixture_follows_from_the_products():
    errors = np.random.default_rng(0).normal(size=(len(NAMES), 70)) + np.arange(len(NAMES))[:, None] * 0.1
    w = np.array([0.1, 0.4, 0.2, 0.3, 0.0])
    E = products(rows_of(errors, [40, 30]))
    np.testing.assert_allclose(w @ E @ w, np.mean((w @ errors) ** 2), rtol=1e-12)


def test_best_weights_leave_the_least_error():
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(len(NAMES), 200)) * np.array([1.0, 1.0, 2.0, 5.0, 1.0])[:, None]
    errors[4] = 2.0 * errors[0]  # never worth a share
    E = errors @ errors.T / 200
    w = best_weights(E)
    assert w.min() >= 0.0 and abs(w.sum() - 1.0) < 1e-12 and w[4] < 1e-6
    others = rng.dirichlet(np.ones(len(NAMES)), 2000)
    assert w @ E @ w <= np.einsum("mi,ij,mj->m", others, E, others).min() + 1e-9


@needs_data
@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_fold_runs():
    task = tasks(Namespace(quick=True))[0]
    row = MIXTURES.run(task)
    E = products([row])
    assert row["n_test"] == 30 and np.all(np.linalg.eigvalsh(E) > -1e-12) and np.all(np.diag(E) < 3.0)
