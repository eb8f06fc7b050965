"""Relevance by interpret's explainable boosting machine: importances of all terms that an input is in."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.ebm import machine, warm_up
from benchmarks.methods.selection import Selection, above_mean

__all__ = ["select", "warm_up"]


def select(X: np.ndarray, y: np.ndarray) -> Selection:
    """Importances of a machine with its defaults; those of an interaction count for both of its inputs."""
    model = machine(classes=False).fit(X, y)
    size = np.zeros(X.shape[1])
    for inputs, importance in zip(model.term_features_, model.term_importances(), strict=True):
        size[list(inputs)] += importance
    return above_mean(size)
