r"""Stacking: mixture weights that maximise the leave-one-out log score, drawn a little to equality."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cavity.types import FloatArray

# A Dirichlet prior worth this share of the rows for each fit. Leave-one-out densities of an EP fit flatter
# overfitted starts; plain stacking then bets on the one that flatters itself most. See docs/starts.md.
EQUALITY = 0.01
IMPOSSIBLE = -1e6  # log density that stands for none where every fit has such rows
SAME_FIT = 0.01  # rms difference of two vectors of leave-one-out log densities below which one is dropped


def stacking_weights(
    log_density: FloatArray,
    weight: FloatArray | None = None,
    equality: float = EQUALITY,
    tol: float = 1e-10,
    max_iter: int = 20000,
) -> FloatArray:
    r"""Maximise :math:`\sum_i w_i \log \sum_m \pi_m p_{im} + a\sum_i w_i \sum_m \log\pi_m` by EM.

    Parameters
    ----------
    log_density : (n, M) array
        Leave-one-out log densities of M fits.
    weight : (n,) array, optional
        Copies of each row.
    equality : float
        :math:`a`: zero is plain stacking, large values give equal weights.

    Returns
    -------
    (M,) array
        Weights that sum to one, zero for fits that are not `usable`. The problem is concave, so EM from equal
        weights finds the optimum; it stops when a step changes no weight by more than ``tol`` of itself, or
        of one where ``equality`` is zero and weights vanish.
    """
    n, M = log_density.shape
    fine = usable(log_density)
    if len(fine) < M:
        out = np.zeros(M)
        out[fine] = stacking_weights(log_density[:, fine], weight, equality, tol, max_iter)
        return out
    log_density = np.nan_to_num(log_density, nan=IMPOSSIBLE, neginf=IMPOSSIBLE, posinf=-IMPOSSIBLE)
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    p = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    pi = np.full(M, 1.0 / M)
    for _ in range(max_iter):
        gain = (w / (p @ pi)) @ p / w.sum()
        new = (pi * gain + equality) / (1.0 + M * equality)
        change = np.max(np.abs(new - pi) / new) if equality > 0.0 else gain.max() - 1.0
        pi = new
        if change < tol:
            break
    return pi / pi.sum()


def usable(log_density: FloatArray) -> list[int]:
    """Columns without a row that is impossible or no number, as of fits that fell apart; all if none is."""
    fine = np.flatnonzero(np.isfinite(log_density).all(axis=0)).tolist()
    return fine or list(range(log_density.shape[1]))


def distinct(log_density: FloatArray, order: Iterable[int]) -> list[int]:
    """Columns that are not near-copies of one that comes earlier in ``order``, sorted."""
    kept: list[int] = []
    for m in order:
        gaps = [np.sqrt(np.mean((log_density[:, m] - log_density[:, k]) ** 2)) for k in kept]
        if not gaps or min(gaps) > SAME_FIT:
            kept.append(int(m))
    return sorted(kept)


def drop_small(weights: FloatArray, smallest: float = 0.01) -> FloatArray:
    """Set weights below ``smallest`` to zero and renormalise; the largest always stays."""
    keep = weights >= min(smallest, float(weights.max()))
    kept = np.where(keep, weights, 0.0)
    return kept / kept.sum()
