"""scikit-learn's linear regression with automatic relevance determination, on standardised inputs."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.gaussian import GaussianPredictions
from sklearn.linear_model import ARDRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fit(X: np.ndarray, y: np.ndarray) -> GaussianPredictions:
    """Fit with default hyperpriors."""
    model = make_pipeline(StandardScaler(), ARDRegression()).fit(X, y)
    return GaussianPredictions(model, {"n_iter": int(model[-1].n_iter_)})
