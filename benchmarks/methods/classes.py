"""Scores of a model that predicts the probabilities of two classes."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALLEST = 1e-15  # a probability that a peer rounds to zero counts as this, so that its score stays finite


class ClassPredictions:
    """Wraps a fitted scikit-learn classifier with ``predict_proba``."""

    def __init__(self, model: Any, facts: dict[str, Any]) -> None:
        self.model, self._facts = model, facts

    def log_proba(self, X: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(self.model.predict_proba(X), SMALLEST))

    def facts(self) -> dict[str, Any]:
        return self._facts
