"""The column to predict: numbers, or the names of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.tables import columns as col
from cavity.tables.read import TableError, listed, pandas
from cavity.types import FloatArray

TASKS = ("regression", "classification")
MOST_CLASSES = 20  # up to here a target may have as many classes as it likes, short of one per row


def classes_of(values: Any, name: str, table: str, task: str | None = None) -> tuple[str, ...]:
    """Names of the classes, sorted; empty where the target is read as numbers.

    Without a task, text and true/false are classes and anything else numbers.
    """
    if task == "regression" or (task is None and not _is_named(values, name, table)):
        return ()
    text = col.levels(values).dropna()
    found = tuple(sorted(set(text)))
    n = len(text)
    if len(found) > 2 and (len(found) == n or len(found) > max(MOST_CLASSES, n / 2)):
        few = listed([repr(v) for v in text.iloc[:2]], 2)
        raise TableError(
            f"The target {name!r} of {table} has {len(found)} different values in {n} rows ({few}, …), too "
            "many to be classes: join some of them, or choose --task regression if they are quantities."
        )
    return found


def codes(values: Any, classes: tuple[str, ...], name: str, table: str) -> FloatArray:
    """Number of each row's class, NaN where missing; a class that the fit did not see is refused."""
    text = col.levels(values)
    place = {label: float(code) for code, label in enumerate(classes)}
    unknown = text[text.notna() & ~text.isin(classes)]
    if len(unknown):
        raise TableError(
            f"The target {name!r} of {table} is {unknown.iloc[0]!r} in data row "
            f"{int(unknown.index[0]) + 1}, a class that the fit did not see (it saw "
            f"{listed([repr(label) for label in classes], 6)})."
        )
    return np.array([place.get(label, np.nan) for label in text])


def _is_named(values: Any, name: str, table: str) -> bool:
    """True for text and truth values; what cannot be read either way is left to the reader of numbers."""
    if pandas().api.types.is_bool_dtype(values.dtype):
        return True
    try:
        return col.kind_of(values, name, table) != col.NUMBER
    except TableError:
        return False
