"""Relevance by EPRegressor: inputs that are more probably relevant than not."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.cavity_regressor import warm_up
from benchmarks.methods.selection import Selection

from cavity import EPRegressor

__all__ = ["select", "warm_up"]


def select(X: np.ndarray, y: np.ndarray, **params: Any) -> Selection:
    """Fit with defaults, except for ``params``."""
    table = EPRegressor(**{"random_state": 0, **params}).fit(X, y).relevance_
    return Selection(table.mean_effect, table.probability > 0.5, table.probability)
