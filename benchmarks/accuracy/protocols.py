"""Training and test rows of each protocol, from a task's parameters alone.

The test rows of a split are seen by nothing but the final scores. ``inner`` cuts the training rows of a split
again, 90 to 10, and forgets its test rows: that is where settings may be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from cavity import datasets

FRESH_ROWS = 2000  # test inputs of simulated data


@dataclass(frozen=True)
class Problem:
    """Rows to learn from, rows to score, and what is known about the truth."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    f_test: np.ndarray | None = None  # the true function at the test rows
    noise_var: float | None = None
    relevant: np.ndarray | None = None  # which inputs matter


def problem(params: dict[str, Any], split: int) -> Problem:
    """The problem that a task's parameters describe."""
    found = PROTOCOLS[params["protocol"]](params, split)
    if params.get("most_train"):
        found = replace(found, X=found.X[: params["most_train"]], y=found.y[: params["most_train"]])
    if params.get("most_test"):
        found = replace(found, **_first(found, params["most_test"]))
    return found if params.get("inner") is None else inner(found, split, params["inner"])


def inner(outer: Problem, split: int, fold: int) -> Problem:
    """Fold ``fold`` of the training rows as the test rows; the outer test rows are dropped."""
    train, test = list(KFold(10, shuffle=True, random_state=split).split(outer.X))[fold]
    return replace(
        outer, X=outer.X[train], y=outer.y[train], X_test=outer.X[test], y_test=outer.y[test], f_test=None
    )


def k_fold(params: dict[str, Any], split: int) -> Problem:
    """Fold ``split`` of ten, shuffled by seed 0."""
    X, y, *_ = datasets.load(params["data"])
    y = np.sqrt(y) if params.get("target") == "sqrt" else y
    train, test = list(KFold(10, shuffle=True, random_state=0).split(X))[split]
    return Problem(X[train], y[train], X[test], y[test])


def canonical(params: dict[str, Any], split: int) -> Problem:
    """The published 90/10 splits of the UCI sets."""
    X, y, _, splits = datasets.load(params["data"])
    train, test = splits[f"train_{split}"], splits[f"test_{split}"]
    return Problem(X[train], y[train], X[test], y[test])


def noise_inputs(params: dict[str, Any], split: int) -> Problem:
    """Uniform inputs that mean nothing beside the real ones; training rows at random, the rest test."""
    X, y, *_ = datasets.load(params["data"])
    rng = np.random.default_rng(split)
    n, real = X.shape
    X = np.hstack([X, rng.uniform(size=(n, params["n_noise"]))])
    order = rng.permutation(n)
    train, test = order[: params["n_train"]], order[params["n_train"] :]
    return Problem(X[train], y[train], X[test], y[test], relevant=np.arange(X.shape[1]) < real)


def case2(params: dict[str, Any], split: int) -> Problem:
    """Case 2 of the paper, with fresh test rows; input 1 does nothing."""
    rng = np.random.default_rng(split)
    train, test = datasets.case2(params["n"], rng), datasets.case2(FRESH_ROWS, rng)
    return Problem(
        train.X,
        train.y,
        test.X,
        test.y,
        f_test=train.f(test.X),
        noise_var=train.noise_sd**2,
        relevant=np.arange(train.X.shape[1]) > 0,
    )


PROTOCOLS = {"k_fold": k_fold, "canonical": canonical, "noise_inputs": noise_inputs, "case2": case2}


def _first(found: Problem, most: int) -> dict[str, Any]:
    f = None if found.f_test is None else found.f_test[:most]
    return {"X_test": found.X_test[:most], "y_test": found.y_test[:most], "f_test": f}
