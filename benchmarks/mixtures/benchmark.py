"""Errors of unlike methods on the same test rows, and what is left of them in the best mixture.

A mixture with weights w predicts Σ_m w_m f_m, so its mean squared error is wᵀEw, E the mean products of the
methods' errors. A row holds E of one fold; the least wᵀEw over all folds together, weights chosen on the test
rows themselves, is below what any rule could reach that has to choose without them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.accuracy import protocols
from benchmarks.accuracy.benchmark import missing_data, package_sources
from benchmarks.accuracy.sets import CAVITY
from benchmarks.accuracy.sets import SETS as ALL_SETS
from benchmarks.harness import Bar, Benchmark, Task
from benchmarks.harness.benchmark import Row
from benchmarks.methods import FOLDER, method
from scipy.optimize import minimize
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

# Modules with their settings; both kinds of trees in usual settings, the same for both sets.
MODULES: dict[str, tuple[str, dict[str, Any]]] = {
    CAVITY: ("cavity_regressor", {}),
    "gp": ("gp_nn", {"restarts": 0}),
    "bayesian_ridge": ("bayesian_ridge", {}),
}
TREES: dict[str, Any] = {
    "extra_trees": ExtraTreesRegressor(500, min_samples_leaf=2, max_features=0.4, random_state=0),
    "boosted_trees": HistGradientBoostingRegressor(
        max_iter=300, learning_rate=0.03, max_leaf_nodes=8, l2_regularization=1.0, random_state=0
    ),
}
NAMES = (*MODULES, *TREES)
SETS = ("housing", "crime")
ALL = "all methods"


def tasks(options: Namespace) -> list[Task]:
    """All methods on each fold of each set."""
    out = []
    for name in SETS:
        of = ALL_SETS[name]
        params = of.params | ({"most_train": 60, "most_test": 30} if options.quick else {})
        for split in range(1 if options.quick else of.n_splits):
            out.append(Task(name, split, ALL, params))
    return out


def run(task: Task) -> dict[str, Any]:
    """Mean products of errors, in units of the training target's standard deviation."""
    data = protocols.problem(task.params, task.split)
    sd = float(np.std(data.y))
    predicted = []
    for module, settings in MODULES.values():
        predicted.append(method(module).fit(data.X, data.y, **settings).mean(data.X_test))
    predicted += [tree.fit(data.X, data.y).predict(data.X_test) for tree in TREES.values()]
    errors = (np.stack(predicted) - data.y_test) / sd
    products = errors @ errors.T / len(data.y_test)
    pairs = combinations_with_replacement(range(len(NAMES)), 2)
    return {"n_test": len(data.y_test)} | {pair(NAMES[a], NAMES[b]): float(products[a, b]) for a, b in pairs}


def pair(a: str, b: str) -> str:
    """The column of the mean product of two methods' errors."""
    return f"{a} × {b}"


def products(rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """E over the test rows of all these rows of results."""
    count = np.array([row["n_test"] for row in rows], float)
    out = np.empty((len(NAMES), len(NAMES)))
    for a, b in combinations_with_replacement(range(len(NAMES)), 2):
        values = np.array([row[pair(NAMES[a], NAMES[b])] for row in rows])
        out[a, b] = out[b, a] = float(values @ count / count.sum())
    return out


def best_weights(products: np.ndarray) -> np.ndarray:
    """Non-negative weights that sum to one and leave the least squared error."""
    n = len(products)
    found = minimize(
        lambda w: (w @ products @ w, 2.0 * products @ w),
        np.full(n, 1.0 / n),
        jac=True,
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    w = np.clip(found.x, 0.0, None)
    return w / w.sum()


def sources(task: Task) -> list[Path]:
    """Protocol, methods, this file, and the rooms of the package that runs."""
    modules = [module for module, _ in MODULES.values()]
    methods = [FOLDER / f"{name}.py" for name in (*modules, "gaussian", "nn_kernel")]
    return [Path(str(protocols.__file__)), Path(__file__), *methods, *package_sources()]


def bars(rows: Sequence[Row]) -> list[Bar]:
    """None: the errors are the result."""
    return []


MIXTURES = Benchmark(
    name="mixtures",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: tuple(pair(a, a) for a in NAMES),
    about="Mean products of the errors of unlike methods on the same test rows, in squared standard "
    "deviations of the training target: the squared error of any mixture follows from them.",
    seeds="KFold(10, shuffle=True, random_state=0); random starts and trees: 0",
    refusal=missing_data,
)
