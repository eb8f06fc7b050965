"""NGBoost with a normal distribution: its paper's settings, the number of rounds chosen on rows held back."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from benchmarks.methods.residuals import hold_back

MOST_ROUNDS, PATIENCE, RATE = 2000, 50, 0.01
LARGE, PART = 20_000, 0.1  # from so many rows on, each round sees a tenth of them, as in the paper


class _Normal:
    """Mean and standard deviation of the predicted distribution."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        found = self.model.pred_dist(X)
        return (found.loc, found.scale) if return_std else found.loc


def warm_up() -> None:
    """Import the package before the clock starts."""
    import ngboost  # noqa: F401


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """Early stopping of depth-three trees at a learning rate of 0.01, then a fit to all rows."""
    from ngboost import NGBClassifier, NGBRegressor

    y = y.astype(int) if classes else y
    kind = NGBClassifier if classes else NGBRegressor
    shared = {
        "learning_rate": RATE,
        "minibatch_frac": PART if len(X) >= LARGE else 1.0,
        "verbose": False,
        "random_state": 0,
    }
    X_fit, X_held, y_fit, y_held = hold_back(X, y, classes)
    tried = kind(n_estimators=MOST_ROUNDS, early_stopping_rounds=PATIENCE, **shared)
    tried.fit(X_fit, y_fit, X_val=X_held, Y_val=y_held)
    rounds = MOST_ROUNDS if tried.best_val_loss_itr is None else int(tried.best_val_loss_itr) + 1
    model = kind(n_estimators=rounds, **shared).fit(X, y)
    facts = {"n_rounds": rounds}
    return ClassPredictions(model, facts) if classes else GaussianPredictions(_Normal(model), facts)
