"""The user's table as arrays: scikit-learn's checks, with messages that name the row and the column."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from cavity.model.data import check_inputs, check_vector
from cavity.types import FloatArray


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a data frame, None for anything else."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def training_table(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """X and y of a fit as float64; sets ``n_features_in_`` and ``feature_names_in_``."""
    try:
        X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
    except ValueError as error:
        raise _located(X, y, error) from None
    return X, np.asarray(y, dtype=np.float64)


def labelled_table(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, Any]:
    """X as float64 and the class labels y as they are."""
    try:
        X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_min_samples=2)
    except ValueError as error:
        raise _located(X, None, error) from None
    return X, y


def new_table(estimator: Any, X: Any) -> FloatArray:
    """X of new rows as float64: the columns of the fit, in its order."""
    try:
        return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False))
    except ValueError as error:
        raise _located(X, None, error) from None


def _located(X: Any, y: Any, error: ValueError) -> ValueError:
    """The same error with the row and column of the first bad cell, where a cell is to blame."""
    if not any(sign in str(error) for sign in ("convert", "NaN", "infinity")):
        return error
    try:
        if np.ndim(X) != 2:
            return error
        rows = len(check_inputs(X, column_names(X)))
        if y is not None and np.ndim(y) == 1 and len(y) == rows:
            check_vector(y, rows, "y")
    except ValueError as better:
        return better
    except Exception:
        return error
    return error


def row_vector(values: Any, n: int, what: str) -> FloatArray | None:
    """Weights or variances of the rows; one number stands for all rows."""
    if values is None:
        return None
    if isinstance(values, Real):
        return np.full(n, float(values))
    return check_vector(values, n, what)
