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


def group_parents(parents: Any, group_of: IntArray) -> IntArray:
    """Parent index of every group, (L,), parents numbered 0 … P-1.

    Parameters
    ----------
    parents : None, "common" or array
        None: each group stands alone (all -1). "common": all groups have one parent. Labels of the d inputs
        or of the K × d weights: a group's parent is the label of its weights, which must agree.
    group_of : (K, d) array
        Group of each weight, as from `weight_groups`.
    """
    L = int(group_of.max()) + 1
    if parents is None:
        return np.full(L, -1)
    if isinstance(parents, str) and parents != "common":
        raise ValueError(f'parents={parents!r} is unknown: use "common" or an array of labels.')
    labels = weight_groups(parents, *group_of.shape).ravel()
    first = np.zeros(L, dtype=np.int64)
    first[group_of.ravel()[::-1]] = labels[::-1]
    if np.any(labels != first[group_of.ravel()]):
        wrong = int(group_of.ravel()[np.argmax(labels != first[group_of.ravel()])])
        raise ValueError(f"parents must be the same for all weights of a group; group {wrong} has several.")
    return first
