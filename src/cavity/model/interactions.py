"""Which products of two hidden units the output layer sees besides the units themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.types import FloatArray, IntArray


def unit_pairs(interactions: Any, n_hidden: int) -> IntArray | None:
    """(P, 2) unit numbers, the smaller first; None for no products.

    Parameters
    ----------
    interactions : None or sequence of pairs
        Unit numbers, from 0. A unit with itself is refused: given the unit's activation, f would no longer
        have a variance that is quadratic in the unit's output.
    n_hidden : int
    """
    if interactions is None or len(interactions) == 0:
        return None
    pairs = []
    for pair in interactions:
        numbers = list(pair) if np.ndim(pair) == 1 else []
        if len(numbers) != 2 or not all(
            isinstance(k, int | np.integer) and 0 <= k < n_hidden for k in numbers
        ):
            raise ValueError(
                f"interactions holds {pair!r}: give pairs of unit numbers from 0 to {n_hidden - 1}."
            )
        if numbers[0] == numbers[1]:
            raise ValueError(f"interactions pairs unit {numbers[0]} with itself: choose two different units.")
        pairs.append(sorted(int(k) for k in numbers))
    if len({tuple(pair) for pair in pairs}) < len(pairs):
        raise ValueError("interactions names a pair of units twice.")
    return np.array(pairs, dtype=np.int64)


def kept_pairs(pairs: IntArray | None, keep: IntArray) -> tuple[IntArray | None, IntArray]:
    """The pairs among the units ``keep``, renumbered, and which of the old ones they are."""
    if pairs is None:
        return None, np.empty(0, dtype=np.int64)
    place = {int(k): new for new, k in enumerate(keep)}
    stay = np.array([p for p, (a, b) in enumerate(pairs) if a in place and b in place], dtype=np.int64)
    new = np.array([sorted((place[int(a)], place[int(b)])) for a, b in pairs[stay]], dtype=np.int64)
    return (new if len(stay) else None), stay


def with_products(g: FloatArray, pairs: IntArray, scale: FloatArray) -> FloatArray:
    """Unit outputs (..., K) followed by ρ_p g_a g_b of each pair, (..., K + P)."""
    if not len(pairs):
        return g
    return np.concatenate([g, scale * g[..., pairs[:, 0]] * g[..., pairs[:, 1]]], axis=-1)
