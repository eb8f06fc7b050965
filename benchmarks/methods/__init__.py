"""Methods under comparison, one file each, so that a change of one leaves the results of the others.

A module has ``fit(X, y, **params)``, which returns an object with ``mean(X)``, ``log_density(X, y)`` and
``interval(X, level)`` in the units of y, or for classes ``log_proba(X)``, and ``facts()``, a dictionary of
what else is worth a column; it may have ``warm_up()``, run before the clock starts. Modules for both take
``classes=True``. Those that say which inputs matter have ``select(X, y)`` instead, as in `selection`.
Packages that cavity does not need are imported where they are used, so that a missing one is a row with its
error.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent


def method(name: str) -> ModuleType:
    """The module of a method."""
    return import_module(f"benchmarks.methods.{name}")
