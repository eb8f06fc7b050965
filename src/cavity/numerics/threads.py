"""BLAS on one thread: fits are many small products, whose last digits must not depend on the machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> Any:
    """What NumPy and SciPy have loaded by now; to look it up takes longer than a small fit."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS runs on one thread."""
    return _libraries().limit(limits=1)
