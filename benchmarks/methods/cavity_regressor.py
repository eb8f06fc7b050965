"""EPRegressor with its defaults, or with the parameters of a research run."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cavity import EPRegressor
from cavity.result.mixture import MixtureAtRows


class Fitted:
    """A fitted EPRegressor as the benchmarks ask it."""

    def __init__(self, model: EPRegressor) -> None:
        self.model = model
        self._last: tuple[np.ndarray, MixtureAtRows] | None = None

    def _at(self, X: np.ndarray) -> MixtureAtRows:
        """What the mixture says of the rows; the last answer is remembered, as the sampled network does."""
        if self._last is None or self._last[0] is not X:
            self._last = X, self.model.posterior_.at(X)
        return self._last[1]

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self._at(X).moments().mean

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._at(X).log_density(y)

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        return self._at(X).quantiles([0.5 - 0.5 * level, 0.5 + 0.5 * level])

    def facts(self) -> dict[str, Any]:
        model = self.model
        return {
            "loo": model.loo_,
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "n_components": len(model.posterior_.components),
            "n_hidden": len(model.output_weights_.mean) - 1,
            "noise_sd": model.noise_sd_,
            "status": model.status_,
        }

    def relevance(self) -> tuple[np.ndarray, np.ndarray]:
        """Size of effect of each input, and the probability that it is not small."""
        table = self.model.relevance_
        return table.mean_effect, table.probability


def warm_up() -> None:
    """Load the compiled kernels, so that the first fit of a process is timed like any other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        EPRegressor(n_hidden=2, max_iter=2).fit(X, X[:, 0])


def fit(X: np.ndarray, y: np.ndarray, **params: Any) -> Fitted:
    """Fit with defaults, except for ``params``."""
    return Fitted(EPRegressor(**{"random_state": 0, **params}).fit(X, y))
