"""Relevance by permutation importance, of a random forest or a multilayer perceptron, on rows held back."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.mlp import fit as fit_mlp
from benchmarks.methods.residuals import hold_back
from benchmarks.methods.selection import Selection
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance

REPEATS, TREES = 30, 300


def select(X: np.ndarray, y: np.ndarray, of: str = "forest") -> Selection:
    """Inputs whose importance is two standard deviations above zero, the rule of scikit-learn's guide."""
    X_fit, X_held, y_fit, y_held = hold_back(X, y, classes=False)
    if of == "forest":
        model: Any = RandomForestRegressor(TREES, random_state=0).fit(X_fit, y_fit)
    else:
        model = fit_mlp(X_fit, y_fit).model.model  # the pipeline inside
    found = permutation_importance(
        model, X_held, y_held, scoring="neg_mean_squared_error", n_repeats=REPEATS, random_state=0
    )
    return Selection(found.importances_mean, found.importances_mean > 2.0 * found.importances_std)
