"""scikit-learn's lasso, its penalty tuned by cross-validation; the error there is its predictive spread."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.gaussian import GaussianPredictions
from sklearn.linear_model import LassoCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


class _Spread:
    """Predictions of a pipeline with one standard deviation for all rows."""

    def __init__(self, model: Pipeline, sd: float) -> None:
        self.model, self.sd = model, sd

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        mean = self.model.predict(X)
        return (mean, np.full(len(mean), self.sd)) if return_std else mean


def fit(X: np.ndarray, y: np.ndarray) -> GaussianPredictions:
    """A path of a hundred penalties, ten folds, standardised inputs."""
    tuned = LassoCV(cv=10, max_iter=10_000, random_state=0)
    model = make_pipeline(StandardScaler(), tuned).fit(X, y)
    sd = float(np.sqrt(tuned.mse_path_.mean(axis=1).min()))
    return GaussianPredictions(_Spread(model, sd), {"n_used": int(np.sum(tuned.coef_ != 0.0))})
