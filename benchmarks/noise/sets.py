"""Simulated rows whose noise is known, real ones whose noise is not, and the bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.accuracy import protocols
from benchmarks.accuracy.protocols import FRESH_ROWS, Problem
from benchmarks.harness import Bar, differences
from benchmarks.harness.benchmark import Row

ONE, AUTO, LINEAR = "cavity_one_level", "cavity_auto", "cavity_linear"
SETTINGS: dict[str, dict[str, Any]] = {
    ONE: {"noise": None},
    AUTO: {"noise": "auto"},
    LINEAR: {"noise": "linear"},
}

# Slopes of the log noise variance over five standard normal inputs; those of "same" have none.
SLOPES = {"varying": (1.4, 0.0, 0.0, -0.8, 0.0), "same": (0.0,) * 5}
LEVEL = 2.0 * np.log(0.3)
N_SPLITS = 2


def simulated(params: dict[str, Any], split: int) -> Problem:
    """A step in x₀ and a line in x₂, with noise whose log variance is linear in the inputs, or the same."""
    rng = np.random.default_rng(split)
    X = rng.normal(size=(params["n"] + FRESH_ROWS, 5))
    f = np.tanh(1.5 * X[:, 0]) + 0.3 * X[:, 2]
    y = f + np.exp(0.5 * log_noise_var(params, X)) * rng.normal(size=len(f))
    n = params["n"]
    return Problem(X[:n], y[:n], X[n:], y[n:], f_test=f[n:])


def log_noise_var(params: dict[str, Any], X: np.ndarray) -> np.ndarray:
    """What the noise of simulated rows is."""
    return LEVEL + X @ np.array(SLOPES[params["noise"]])


def problem(params: dict[str, Any], split: int) -> Problem:
    """The problem that a task's parameters describe."""
    return simulated(params, split) if "noise" in params else protocols.canonical(params, split)


SETS: dict[str, dict[str, Any]] = {
    "varying": {"noise": "varying", "n": 400},
    "same": {"noise": "same", "n": 400},
    **{name: {"data": name} for name in ("yacht", "energy", "boston", "concrete", "wine_red")},
}


def bars(rows: Sequence[Row]) -> list[Bar]:
    """How far the choice by leave-one-out is ahead of one level: clearly, or at least not behind."""
    out = []
    for name in SETS:
        gaps = differences(rows, name, (AUTO, ONE), "lpd")
        gap = float(np.mean(gaps)) if gaps else None
        least = 0.2 if name == "varying" else -0.01
        reached = gap >= least if gap is not None and len(gaps) >= N_SPLITS else None
        out.append(Bar(name, f"mean lpd of {AUTO} over {ONE}'s by at least {least:g}", gap, least, reached))
    return out
