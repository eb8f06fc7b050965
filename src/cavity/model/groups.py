"""Which input weights share a prior scale φ_l: common, per input (ARD), per unit, or any array."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.types import IntArray

GROUPINGS = ("common", "input", "unit")


def weight_groups(groups: Any, n_hidden: int, n_inputs: int) -> IntArray:
    """Group index l_j of every weight, shape (K, d), groups numbered 0 … L-1.

    Parameters
    ----------
    groups : {"common", "input", "unit"} or array
        One scale for all weights; one per input (ARD, *paper, Sec. 2.1*); one per hidden unit; an
        array of d labels (one per input, e.g. blocks of a one-hot code) or of K × d labels.
    n_hidden, n_inputs : int
        K and d, the bias not counted.
    """
    shape = (n_hidden, n_inputs)
    if isinstance(groups, str):
        if groups == "common":
            return np.zeros(shape, dtype=np.int64)
        if groups == "input":
            return np.broadcast_to(np.arange(n_inputs), shape).astype(np.int64)
        if groups == "unit":
            return np.broadcast_to(np.arange(n_hidden)[:, None], shape).astype(np.int64)
        raise ValueError(f"groups={groups!r} is unknown: use one of {GROUPINGS} or an array of labels.")
    labels = np.asarray(groups)
    if labels.shape == (n_inputs,):
        labels = np.broadcast_to(labels, shape)
    if labels.shape != shape:
        raise ValueError(
            f"groups has shape {labels.shape} but the network has {n_inputs} inputs, {n_hidden} units: "
            f"give {n_inputs} labels, or an array of shape {shape}."
        )
    _, index = np.unique(labels, return_inverse=True)
    return index.reshape(shape).astype(np.int64)
