"""EPClassifier with its defaults, or with the parameters of a research run."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cavity import EPClassifier


class Fitted:
    """A fitted EPClassifier as the benchmarks ask it."""

    def __init__(self, model: EPClassifier) -> None:
        self.model = model

    def log_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_log_proba(X)

    def facts(self) -> dict[str, Any]:
        model = self.model
        components = model.posterior_.components
        return {
            "loo": model.loo_,
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "n_components": len(components),
            "n_hidden": components[0].spec.n_hidden,
            "status": model.status_,
        }


def warm_up() -> None:
    """Load the compiled kernels, so that the first fit of a process is timed like any other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        EPClassifier(n_hidden=2, max_iter=2).fit(X, X[:, 0] > 0.0)


def fit(X: np.ndarray, y: np.ndarray, **params: Any) -> Fitted:
    """Fit with defaults, except for ``params``."""
    return Fitted(EPClassifier(**{"random_state": 0, **params}).fit(X, y))
