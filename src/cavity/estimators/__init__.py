"""Estimators in scikit-learn's manner: the shell between a user's table and the engine."""

from __future__ import annotations

import os

from cavity.estimators.base import EPEstimator
from cavity.estimators.classifier import EPClassifier
from cavity.estimators.linear import EPLinearClassifier, EPLinearRegressor
from cavity.estimators.regressor import EPRegressor
from cavity.result.store import ModelFileError, read_model

#: Estimators that a model file may name.
ESTIMATORS: dict[str, type[EPEstimator]] = {
    "EPClassifier": EPClassifier,
    "EPLinearClassifier": EPLinearClassifier,
    "EPLinearRegressor": EPLinearRegressor,
    "EPRegressor": EPRegressor,
}


def load_model(path: str | os.PathLike[str]) -> EPEstimator:
    """A fitted estimator from a file that `EPEstimator.save` wrote.

    Reading runs no code of the file. What is not a whole, unchanged model of this or an older format is
    refused with a `ModelFileError`, a `ValueError` whose text says why.
    """
    stored = read_model(path)
    if stored.estimator not in ESTIMATORS:
        raise ModelFileError(
            f"{os.fspath(path)} holds a {stored.estimator}, which this version of cavity does not know: "
            f"it knows {', '.join(sorted(ESTIMATORS))}."
        )
    return ESTIMATORS[stored.estimator]._restored(stored, os.fspath(path))


__all__ = [
    "ESTIMATORS",
    "EPClassifier",
    "EPEstimator",
    "EPLinearClassifier",
    "EPLinearRegressor",
    "EPRegressor",
    "ModelFileError",
    "load_model",
]
