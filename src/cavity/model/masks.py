"""Which inputs a hidden unit sees: additive models, one block of units per group of inputs, or any array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.types import FloatArray


def numbered(mask: Any, names: Any) -> Any:
    """The mask with inputs by number, where its sets name them; ``names`` of all inputs, or None."""
    if names is None or not isinstance(mask, list | tuple):
        return mask
    place = {str(name): j for j, name in enumerate(names)}
    return [[place.get(j, j) for j in ([s] if isinstance(s, str) else s)] for s in mask]


def input_sets(mask: Any, n_inputs: int) -> list[list[int]] | None:
    """The sets of inputs that units are dealt to in turn; None where ``mask`` is an array or no mask.

    "additive" is one set per input.
    """
    if isinstance(mask, str):
        if mask != "additive":
            raise ValueError(f'mask={mask!r} is unknown: use "additive", lists of inputs, or an array.')
        return [[j] for j in range(n_inputs)]
    if mask is None or isinstance(mask, np.ndarray) or not isinstance(mask, Sequence):
        return None
    sets = [list(inputs) if isinstance(inputs, Sequence | np.ndarray) else [inputs] for inputs in mask]
    for inputs in sets:
        if not inputs or not all(isinstance(j, int | np.integer) and 0 <= j < n_inputs for j in inputs):
            raise ValueError(
                f"mask holds {inputs}: each set must name some of the inputs 0 … {n_inputs - 1}."
            )
    return sets


def weight_mask(mask: Any, n_hidden: int, n_inputs: int) -> FloatArray:
    """(K, d) booleans: the weights that exist; the others are zero.

    Parameters
    ----------
    mask : None, "additive", sequence of sets of inputs, or array
        None: every unit sees every input. "additive": unit k sees input k mod d only, so that f is a sum of
        functions of one input. Sets of column numbers: unit k sees set k mod (number of sets). An array of
        K × d booleans: the user's own.
    n_hidden, n_inputs : int
        K and d, the bias not counted (every unit keeps its bias).
    """
    if mask is None:
        return np.ones((n_hidden, n_inputs), dtype=bool)
    sets = input_sets(mask, n_inputs)
    if sets is None:
        free = np.asarray(mask)
        if (
            free.shape != (n_hidden, n_inputs)
            or free.dtype.kind not in "biu"
            or not np.isin(free, (0, 1)).all()
        ):
            raise ValueError(f"mask must be an array of {n_hidden} × {n_inputs} booleans, one per weight.")
        free = free.astype(bool)
    else:
        if n_hidden < len(sets):
            raise ValueError(
                f"{len(sets)} sets of inputs need at least as many hidden units, got {n_hidden}."
            )
        free = np.zeros((n_hidden, n_inputs), dtype=bool)
        for k in range(n_hidden):
            free[k, sets[k % len(sets)]] = True
    if not free.any(axis=1).all():
        raise ValueError(f"mask leaves unit {int(np.argmin(free.any(axis=1)))} without an input.")
    return free
