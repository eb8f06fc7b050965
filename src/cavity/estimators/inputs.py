"""The user's table as arrays: scikit-learn's checks, with messages that name the row and the column."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from cavity.model.data import check_inputs, check_vector
from cavity.types import FloatArray

REFUSALS = (ValueError, TypeError, OverflowError)
LARGEST = 1e150  # of |y|: its square is the largest a variance can be


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a data frame, None for anything else."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def check_names(X: Any) -> None:
    """Refuse a data frame of two columns with one name: nobody could say which is which."""
    names = column_names(X) or []
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"X has more than one column called {name!r}: rename or remove one.")


def training_table(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """X and y of a fit as float64; sets ``n_features_in_`` and ``feature_names_in_``."""
    check_names(X)
    try:
        X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
    except REFUSALS as error:
        raise _located(X, y, error) from None
    large = np.flatnonzero(np.abs(y) > LARGEST)
    if len(large):
        raise ValueError(
            f"y is {y[large[0]]:g} in row {large[0]}: variances of such numbers overflow. Use a larger unit, "
            f"so that no value exceeds {LARGEST:g}."
        )
    return X, y


def labelled_table(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, Any]:
    """X as float64 and the class labels y as they are."""
    check_names(X)
    check_labels(y)
    try:
        X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_min_samples=2)
    except REFUSALS as error:
        raise _located(X, None, error) from None
    return X, y


def new_table(estimator: Any, X: Any) -> FloatArray:
    """X of new rows as float64: the columns of the fit, in its order."""
    check_names(X)
    try:
        return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False))
    except REFUSALS as error:
        raise _located(X, None, error) from None


def check_labels(y: Any) -> None:
    """Refuse labels that are missing, or that cannot be sorted because some are text and some are not."""
    labels = np.asarray(y) if isinstance(y, list | tuple | np.ndarray) or hasattr(y, "__array__") else None
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "Of":
        return
    missing = [i for i, label in enumerate(labels.tolist()) if label is None or str(label) in ("nan", "<NA>")]
    missing = [i for i in missing if not isinstance(labels[i], str)]
    if missing:
        raise ValueError(f"y is missing (NaN) in row {missing[0]} ({len(missing)} such rows): drop them.")
    text = np.array([isinstance(label, str) for label in labels])
    if text.any() and not text.all():
        one, other = int(np.argmax(text)), int(np.argmin(text))
        raise ValueError(
            f"y mixes text with other labels: {labels[one]!r} in row {one}, {labels[other]!r} in row "
            f"{other}. Make them all text, or all numbers."
        )


def _located(X: Any, y: Any, error: Exception) -> Exception:
    """The same error with the row and column of the first bad cell, where a cell is to blame."""
    if not any(sign in str(error) for sign in ("convert", "NaN", "infinity", "promoted", "argument must be")):
        return error
    try:
        if np.ndim(X) != 2 or hasattr(X, "toarray"):
            return error
        rows = len(check_inputs(X, column_names(X)))
        if y is not None and np.ndim(y) == 1 and len(y) == rows:
            check_vector(y, rows, "y")
    except (TypeError, ValueError) as better:
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
