r"""Stacking: mixture weights that maximise the leave-one-out log score."""

from __future__ import annotations

import numpy as np

from cavity.types import FloatArray


def stacking_weights(
    log_density: FloatArray, weight: FloatArray | None = None, tol: float = 1e-10, max_iter: int = 20000
) -> FloatArray:
    r"""Maximise :math:`\sum_i w_i \log \sum_m \pi_m p_{im}` over the simplex by EM.

    Parameters
    ----------
    log_density : (n, M) array
        Leave-one-out log densities of M fits.
    weight : (n,) array, optional
        Copies of each row.

    Returns
    -------
    (M,) array
        Weights that sum to one. The problem is concave, so EM from equal weights finds the optimum; it
        stops when no weight could gain more than ``tol`` per row (the optimality condition
        :math:`\sum_i w_i p_{im}/p_i \le n` holds to that).
    """
    n, M = log_density.shape
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    p = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    pi = np.full(M, 1.0 / M)
    for _ in range(max_iter):
        gain = (w / (p @ pi)) @ p / w.sum()
        pi = pi * gain
        if gain.max() - 1.0 < tol:
            break
    return pi / pi.sum()


def drop_small(weights: FloatArray, smallest: float = 0.01) -> FloatArray:
    """Set weights below ``smallest`` to zero and renormalise; the largest always stays."""
    keep = weights >= min(smallest, float(weights.max()))
    kept = np.where(keep, weights, 0.0)
    return kept / kept.sum()
