"""LightGBM, the number of trees chosen by cross-validation; for numbers the error there is the spread."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from benchmarks.methods.residuals import Spread

MOST_TREES, PATIENCE, FOLDS = 2000, 50, 5
SETTINGS = {"learning_rate": 0.05, "num_threads": 1, "verbosity": -1, "seed": 0, "deterministic": True}


class _Booster:
    """A fitted booster as scikit-learn has its classifiers."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.booster.predict(X, num_threads=1)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = self.predict(X)
        return np.stack([1.0 - p, p], axis=1)


def warm_up() -> None:
    """Import the package before the clock starts."""
    import lightgbm  # noqa: F401


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """Default trees, a learning rate of 0.05, early stopping on five folds, then a fit to all rows."""
    import lightgbm

    objective = {"objective": "binary"} if classes else {"objective": "regression", "metric": "rmse"}
    data = lightgbm.Dataset(X, y, free_raw_data=False)
    history = lightgbm.cv(
        SETTINGS | objective,
        data,
        MOST_TREES,
        nfold=FOLDS,
        stratified=classes,
        seed=0,
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    loss = next(values for name, values in history.items() if name.endswith("-mean"))
    model = _Booster(lightgbm.train(SETTINGS | objective, lightgbm.Dataset(X, y), len(loss)))
    if classes:
        return ClassPredictions(model, {"n_trees": len(loss)})
    return GaussianPredictions(Spread(model, loss[-1]), {"n_trees": len(loss), "noise_sd": loss[-1]})
