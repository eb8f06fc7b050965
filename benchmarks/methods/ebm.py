"""interpret's explainable boosting machine with its defaults; for numbers the spread is the error held back.

Most of its time goes into the bags, so the machine that is only there for the spread has fewer of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from benchmarks.methods.residuals import Spread, hold_back, root_mean_square

BAGS_FOR_SPREAD = 4


def machine(classes: bool, **settings: Any) -> Any:
    """An unfitted machine."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if classes else ExplainableBoostingRegressor
    return kind(n_jobs=1, random_state=0, **settings)


def warm_up() -> None:
    """Import the package before the clock starts."""
    import interpret.glassbox  # noqa: F401


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """Defaults: fourteen bags, interactions found by the machine."""
    model = machine(classes).fit(X, y)
    facts = {"n_terms": len(model.term_features_)}
    if classes:
        return ClassPredictions(model, facts)
    X_fit, X_held, y_fit, y_held = hold_back(X, y, classes)
    other = machine(classes, outer_bags=BAGS_FOR_SPREAD).fit(X_fit, y_fit)
    sd = root_mean_square(y_held - other.predict(X_held))
    return GaussianPredictions(Spread(model, sd), facts | {"noise_sd": sd})
