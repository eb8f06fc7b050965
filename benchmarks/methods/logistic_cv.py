"""scikit-learn's logistic regression, its ridge penalty tuned by cross-validated log loss."""

from __future__ import annotations

import warnings

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fit(X: np.ndarray, y: np.ndarray) -> ClassPredictions:
    """Ten penalties from 1e-4 to 1e4, five folds, standardised inputs."""
    tuned = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=5000)
    with warnings.catch_warnings():  # names of parameters change between versions
        warnings.simplefilter("ignore", FutureWarning)
        model = make_pipeline(StandardScaler(), tuned).fit(X, y)
    return ClassPredictions(model, {"penalty": 1.0 / float(np.ravel(tuned.C_)[0])})
