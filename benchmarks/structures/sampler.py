r"""A long Gibbs run of a linear model with a spike and a slab: what exact inclusion probabilities would be.

.. math:: y = Xw + \varepsilon,\qquad w_j = 0 \text{ or } w_j\sim\mathcal N(0,e^\varphi)
          \text{ with probability } \pi,\qquad \varepsilon_i\sim\mathcal N(0,e^\theta)

with :math:`\pi\sim\mathrm{Beta}(2, d+1)` and normal priors of :math:`\varphi` and :math:`\theta`, as
`EPLinearRegressor` has them, or with all three known. The spike is a point: the estimator's is so narrow that
all weights in it explain a hundredth of the variance.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True)
def _visit(
    rng: Any, XT: Any, squares: Any, w: Any, residual: Any, pi: float, slab: float, noise: float, p: Any
) -> None:
    """Draw every weight given the others, in random order; P(in the slab) is left in ``p``."""
    log_odds = np.log(pi) - np.log(1.0 - pi)
    for j in rng.permutation(np.arange(len(w))):
        x, old = XT[j], w[j]
        precision = squares[j] / noise + 1.0 / slab
        mean = (x @ residual + squares[j] * old) / noise / precision
        logit = log_odds - 0.5 * np.log(slab * precision) + 0.5 * mean * mean * precision
        p[j] = 1.0 / (1.0 + np.exp(-logit))
        new = mean + rng.standard_normal() / np.sqrt(precision) if rng.random() < p[j] else 0.0
        if new != old:
            residual -= x * (new - old)
            w[j] = new


@numba.njit(cache=True)
def _log_variance(
    rng: Any, now: float, count: float, square: float, mean: float, var: float, width: float
) -> float:
    """Three Metropolis steps on the log variance of ``count`` normal numbers whose squares add up so."""
    for _ in range(3):
        new = now + width * rng.standard_normal()
        gain = -0.5 * (count * (new - now) + square * (np.exp(-new) - np.exp(-now)))
        gain -= 0.5 * ((new - mean) ** 2 - (now - mean) ** 2) / var
        if np.log(rng.random()) < gain:
            now = new
    return now


@numba.njit(cache=True)
def _run(X: Any, y: Any, slab: Any, noise: Any, pi: float, burn_in: int, draws: int, rng: Any) -> Any:
    n, d = X.shape
    XT = np.ascontiguousarray(X.T)
    squares = np.array([XT[j] @ XT[j] for j in range(d)])
    w, residual, p, total = np.zeros(d), y.copy(), np.zeros(d), np.zeros(d)
    phi, theta, known = slab[0], noise[0], slab[1] == 0.0
    for sweep in range(burn_in + draws):
        _visit(rng, XT, squares, w, residual, pi, np.exp(phi), np.exp(theta), p)
        if not known:
            inside = np.sum(w != 0.0)
            pi = rng.beta(2.0 + inside, 1.0 + d + d - inside)
            phi = _log_variance(rng, phi, inside, w @ w, slab[0], slab[1], 0.7)
            theta = _log_variance(rng, theta, n, residual @ residual, noise[0], noise[1], 0.2)
        if sweep >= burn_in:
            total += p
    return total / draws


def inclusion(
    X: np.ndarray,
    y: np.ndarray,
    slab: tuple[float, float],
    noise: tuple[float, float],
    pi: float,
    *,
    burn_in: int = 500,
    draws: int = 2500,
    seed: int = 0,
) -> np.ndarray:
    """Posterior inclusion probabilities, (d,), for centred data.

    ``slab`` and ``noise`` are mean and variance of the log-variances' priors; of variance zero they are known
    to be the means, and ``pi`` is known too; else it is where the chain begins.
    """
    rng = np.random.default_rng(seed)
    found: np.ndarray = _run(X, y, np.array(slab), np.array(noise), pi, burn_in, draws, rng)
    return found
