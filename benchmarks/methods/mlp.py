"""scikit-learn's multilayer perceptron, its penalty tuned on rows held back from the fit.

The network has the 50 rectified units of the usual protocol. As scikit-learn's guide advises, inputs and
target are standardised, L-BFGS is taken for small sets and Adam for larger ones, and the penalty is searched
for over powers of ten. It gives no spread: for numbers that is the error on the rows held back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from benchmarks.methods.residuals import Spread, hold_back, root_mean_square
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

UNITS = 50
PENALTIES = tuple(10.0**power for power in range(-5, 2))
SMALL = 2000  # rows up to which L-BFGS is used


def network(alpha: float, n: int, classes: bool) -> Any:
    """The pipeline for one penalty."""
    solver = {"solver": "lbfgs", "max_iter": 1000} if n <= SMALL else {"solver": "adam", "max_iter": 200}
    kind = MLPClassifier if classes else MLPRegressor
    pipe = make_pipeline(
        StandardScaler(), kind(hidden_layer_sizes=(UNITS,), alpha=alpha, random_state=0, **solver)
    )
    return pipe if classes else TransformedTargetRegressor(pipe, transformer=StandardScaler())


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """The penalty with the smallest loss on the rows held back, then a fit to all rows."""
    X_fit, X_held, y_fit, y_held = hold_back(X, y, classes)

    def loss(alpha: float) -> float:
        model = network(alpha, len(X), classes).fit(X_fit, y_fit)
        if classes:
            return float(log_loss(y_held, model.predict_proba(X_held)))
        return root_mean_square(y_held - model.predict(X_held))

    losses = {alpha: loss(alpha) for alpha in PENALTIES}
    alpha = min(losses, key=lambda one: losses[one])
    model = network(alpha, len(X), classes).fit(X, y)
    if classes:
        return ClassPredictions(model, {"penalty": alpha})
    return GaussianPredictions(Spread(model, losses[alpha]), {"penalty": alpha, "noise_sd": losses[alpha]})
