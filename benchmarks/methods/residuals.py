"""A predictive spread for methods that give none: their errors on training rows held back from the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

HELD_BACK = 0.2  # share of the training rows on which settings and spread are chosen


class Spread:
    """Predictions of a fitted model with one standard deviation for all rows."""

    def __init__(self, model: Any, sd: float) -> None:
        self.model, self.sd = model, sd

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        mean = np.asarray(self.model.predict(X))
        return (mean, np.full(len(mean), self.sd)) if return_std else mean


def hold_back(X: np.ndarray, y: np.ndarray, classes: bool) -> list[np.ndarray]:
    """Inputs to fit, inputs held back, targets to fit, targets held back; classes keep their shares."""
    return train_test_split(X, y, test_size=HELD_BACK, random_state=0, stratify=y if classes else None)


def root_mean_square(error: np.ndarray) -> float:
    """Standard deviation of errors about zero."""
    return float(np.sqrt(np.mean(error**2)))
