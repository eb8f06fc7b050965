"""Relevance on simulated data, where it is known which inputs matter: the problems and the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.harness import Meter, Task
from benchmarks.harness.benchmark import Row
from benchmarks.methods import method
from sklearn.metrics import average_precision_score

INPUTS, RELEVANT = 12, 4
NOISE = 0.3  # sd, as a share of that of the function
CORRELATION = 0.8  # of an irrelevant input with the relevant one that it shadows
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the bins of probability


class Problem(NamedTuple):
    """Rows, and which inputs the function depends on."""

    X: np.ndarray
    y: np.ndarray
    relevant: np.ndarray


def linear(X: np.ndarray) -> np.ndarray:
    """Coefficients from 1 down to 0.3."""
    return X[:, :RELEVANT] @ np.array([1.0, -0.7, 0.5, 0.3])


def nonlinear(X: np.ndarray) -> np.ndarray:
    """Four curves, two of them without a linear trend."""
    return np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + np.tanh(3.0 * X[:, 2]) + 0.7 * np.abs(X[:, 3])


def interacting(X: np.ndarray) -> np.ndarray:
    """Two products: no input has an effect of its own."""
    return X[:, 0] * X[:, 1] + 0.7 * X[:, 2] * X[:, 3]


FUNCTIONS = {"linear": linear, "nonlinear": nonlinear, "interacting": interacting, "correlated": nonlinear}


def problem(params: dict[str, Any], seed: int) -> Problem:
    """Normal inputs; in the correlated case each relevant one has a shadow that does nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(params["n"], INPUTS))
    if params["relevance"] == "correlated":
        shadows = slice(RELEVANT, 2 * RELEVANT)
        X[:, shadows] *= np.sqrt(1.0 - CORRELATION**2)
        X[:, shadows] += CORRELATION * X[:, :RELEVANT]
    f = FUNCTIONS[params["relevance"]](X)
    y = f + NOISE * np.std(f) * rng.normal(size=len(f))
    order = rng.permutation(INPUTS)  # no method profits from the order of the inputs
    return Problem(X[:, order], y, order < RELEVANT)


def run(task: Task) -> dict[str, Any]:
    """How well the selected inputs agree with the relevant ones, and how well the sizes order them."""
    data = problem(task.params, task.split)
    module = method(task.params["module"])
    getattr(module, "warm_up", lambda: None)()
    with Meter() as fitting:
        found = module.select(data.X, data.y, **task.params.get("settings", {}))
    right = int(np.sum(found.selected & data.relevant))
    n_selected = int(np.sum(found.selected))
    row = {
        "precision": right / n_selected if n_selected else 0.0,
        "recall": right / RELEVANT,
        "exact": bool(np.array_equal(found.selected, data.relevant)),
        "average_precision": float(average_precision_score(data.relevant, found.size)),
        "n_selected": n_selected,
        "n_train": len(data.y),
        "n_inputs": INPUTS,
        "fit_cpu": fitting.cpu,
    }
    if found.probability is not None:
        row |= {
            "brier": float(np.mean((found.probability - data.relevant) ** 2)),
            "probability": found.probability,
            "relevant": data.relevant,
        }
    return row


class Bin(NamedTuple):
    """Inputs whose probability of being relevant lies between two edges."""

    low: float
    high: float
    n: int
    probability: float
    relevant: float


def calibration(rows: Sequence[Row]) -> list[Bin]:
    """Mean probability beside the share that is relevant, over all inputs of all rows that have them."""
    good = [row for row in rows if "probability" in row]
    if not good:
        return []
    p = np.concatenate([row["probability"] for row in good])
    true = np.concatenate([row["relevant"] for row in good]).astype(float)
    place = np.clip(np.searchsorted(EDGES, p, side="right") - 1, 0, len(EDGES) - 2)
    return [
        Bin(EDGES[k], EDGES[k + 1], int(np.sum(mine)), float(p[mine].mean()), float(true[mine].mean()))
        for k in range(len(EDGES) - 1)
        if (mine := place == k).any()
    ]
