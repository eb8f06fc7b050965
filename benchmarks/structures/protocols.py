"""Training and test rows of each protocol, from a task's parameters alone.

Nothing is learned from the test rows: methods standardise by themselves, on the rows they are given.
``inner`` cuts the training rows of a split again, 90 to 10, and forgets its test rows: that is where settings
may be chosen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.accuracy.protocols import Problem
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold, StratifiedKFold

from cavity import datasets

FRESH_ROWS = 2000  # test rows of simulated data
GROSS = 10.0  # sd of outliers, in sds of the clean target
SHARE = 0.1  # of the training rows that are outliers


def problem(params: dict[str, Any], split: int) -> Problem:
    """The problem that a task's parameters describe."""
    found = PROTOCOLS[params["protocol"]](params, split)
    if params.get("most_train"):
        found = replace(found, X=found.X[: params["most_train"]], y=found.y[: params["most_train"]])
    if params.get("most_inputs"):
        m = params["most_inputs"]
        found = replace(found, X=found.X[:, :m], X_test=found.X_test[:, :m])
    return found if params.get("inner") is None else inner(found, params, split)


def inner(outer: Problem, params: dict[str, Any], split: int) -> Problem:
    """Fold ``inner`` of ten of the training rows as the test rows; the outer test rows are dropped."""
    folds = StratifiedKFold if params.get("classes") else KFold
    parts = folds(10, shuffle=True, random_state=100 + split).split(outer.X, outer.y)
    train, test = list(parts)[params["inner"]]
    return Problem(outer.X[train], outer.y[train], outer.X[test], outer.y[test])


def k_fold(params: dict[str, Any], split: int) -> Problem:
    """Fold ``split`` of ``folds``, shuffled by seed 0; for classes each fold has its share of them."""
    X, y, *_ = datasets.load(params["data"])
    X = np.log(X) if params.get("inputs") == "log" else X
    folds = StratifiedKFold if params.get("classes") else KFold
    train, test = list(folds(params["folds"], shuffle=True, random_state=0).split(X, y))[split]
    return Problem(X[train], y[train], X[test], y[test])


def published(params: dict[str, Any], split: int) -> Problem:
    """The one split that comes with the data."""
    X, y, _, splits = datasets.load(params["data"])
    train, test = (splits[params[name]] for name in ("train", "test"))
    return Problem(X[train], y[train], X[test], y[test])


def outliers(params: dict[str, Any], split: int) -> Problem:
    """Friedman's first function with noise; unless ``clean``, a tenth of the training rows are far off.

    ``known`` leaves these rows out, as nobody could who does not know them.
    """
    n = params["n"]
    X, y = make_friedman1(n + FRESH_ROWS, n_features=10, noise=1.0, random_state=split)
    truth = make_friedman1(n + FRESH_ROWS, n_features=10, noise=0.0, random_state=split)[1]
    rng = np.random.default_rng(split)
    wrong = rng.choice(n, int(SHARE * n), replace=False)
    shift = GROSS * np.std(y[:n]) * rng.normal(size=len(wrong))
    if not params.get("clean"):
        y[wrong] += shift
    train = np.setdiff1d(np.arange(n), wrong) if params.get("known") else slice(n)
    return Problem(X[train], y[train], X[n:], y[n:], f_test=truth[n:])


PROTOCOLS = {"k_fold": k_fold, "published": published, "outliers": outliers}
