"""Scores of a model that predicts by a Gaussian's mean and standard deviation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm


class GaussianPredictions:
    """Wraps a fitted scikit-learn regressor with ``predict(X, return_std=True)``."""

    def __init__(self, model: Any, facts: dict[str, Any]) -> None:
        self.model, self._facts = model, facts

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean, sd = self.model.predict(X, return_std=True)
        return norm.logpdf(y, mean, sd)

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        mean, sd = self.model.predict(X, return_std=True)
        return np.stack(norm.interval(level, mean, sd), axis=1)

    def facts(self) -> dict[str, Any]:
        return self._facts
