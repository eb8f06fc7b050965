"""Which inputs a method takes to be relevant.

Modules that answer have ``select(X, y)``, which returns a `Selection`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Selection(NamedTuple):
    """A size of relevance for each input, those that the method's own rule selects, and their probability.

    ``probability`` is None of methods that do not give one.
    """

    size: np.ndarray
    selected: np.ndarray
    probability: np.ndarray | None = None


def above_mean(size: np.ndarray) -> Selection:
    """The rule of scikit-learn's SelectFromModel, for methods that give sizes and no rule of their own."""
    return Selection(size, size >= np.mean(size))
