"""The infinite network: exact Gaussian process, neural-network covariance, marginal-likelihood optimum.

``ard`` gives each input a weight variance of its own, otherwise they share one. Hyperparameters are point
estimates under uniform priors on the log scale; ``noise_prior`` puts a Gaussian on the log noise variance
instead. Only training rows are seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.nn_kernel import ArcsineKernel
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from scipy.stats import norm

RESTARTS = 4  # beside the first start; drawn log-uniformly within STARTS
STARTS = {"weight_var": (1e-2, 1e2), "bias_var": (1e-2, 1e2), "output_var": (1e-1, 1e1), "noise": (1e-3, 1.0)}
NOISE_BOUNDS = (1e-6, 1e2)
JITTER = 1e-10
BLOCK = 1000  # rows at a time
MAX_ITER = 15_000  # SciPy's own limit
REFUSED = 1e10  # value of hyperparameters whose covariance has lost its positive definiteness to rounding


class InfiniteNetwork:
    """A fitted process; predictions in the units of y."""

    def __init__(self, kernel: ArcsineKernel, noise_var: float, X: np.ndarray, y: np.ndarray, scaling: Any):
        self.kernel, self.noise_var, self.X = kernel, noise_var, X
        self._x_mean, self._x_scale, self._y_mean, self._y_scale = scaling
        self._factor = _factor(kernel(X), noise_var)
        self._alpha = cho_solve(self._factor, y)
        self._facts: dict[str, Any] = {}
        self._last: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]] | None = None

    def latent(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of f(x), so many rows at a time; the last answer is remembered."""
        if self._last is None or self._last[0] is not X:
            parts = [self._block(X[i : i + BLOCK]) for i in range(0, len(X), BLOCK)]
            mean, sd = (np.concatenate(column) for column in zip(*parts, strict=True))
            self._last = X, (mean, sd)
        return self._last[1]

    def _block(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Z = (X - self._x_mean) / self._x_scale
        cross = self.kernel(Z, self.X)
        half = solve_triangular(self._factor[0], cross.T, lower=True)
        var = np.maximum(self.kernel.diag(Z) - np.sum(half**2, axis=0), 0.0)
        return self._y_mean + self._y_scale * (cross @ self._alpha), self._y_scale * np.sqrt(var)

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self.latent(X)[0]

    def _target(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, sd = self.latent(X)
        return mean, np.sqrt(sd**2 + self.noise_var * self._y_scale**2)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return norm.logpdf(y, *self._target(X))

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        return np.stack(norm.interval(level, *self._target(X)), axis=1)

    def facts(self) -> dict[str, Any]:
        return {
            "noise_sd": float(np.sqrt(self.noise_var) * self._y_scale),
            "weight_var": np.atleast_1d(self.kernel.weight_var),
            "bias_var": self.kernel.bias_var,
            "output_var": self.kernel.output_var,
            **self._facts,
        }


def objective(
    theta: np.ndarray,
    kernel: ArcsineKernel,
    X: np.ndarray,
    y: np.ndarray,
    noise_prior: tuple[float, float] | None = None,
) -> tuple[float, np.ndarray]:
    """Minus the log marginal likelihood and its gradient; θ are the kernel's logs, then the log noise."""
    kernel = kernel.clone_with_theta(theta[:-1])
    noise_var = float(np.exp(theta[-1]))
    try:
        K, sums = kernel.with_sums(X)
        factor = _factor(K, noise_var)
    except np.linalg.LinAlgError:
        # Signal variance over noise beyond 1e12, in a corner of the bounds: the line search steps back.
        return REFUSED, np.zeros_like(theta)
    alpha = cho_solve(factor, y)
    value = -0.5 * y @ alpha - np.log(np.diag(factor[0])).sum() - 0.5 * len(y) * np.log(2.0 * np.pi)
    W = np.outer(alpha, alpha)
    W -= _inverse(factor)
    W *= 0.5
    gradient = np.append(sums(W), noise_var * np.trace(W))
    if noise_prior is not None:
        mean, var = noise_prior
        value -= 0.5 * (theta[-1] - mean) ** 2 / var
        gradient[-1] -= (theta[-1] - mean) / var
    return -value, -gradient


def fit(
    X: np.ndarray,
    y: np.ndarray,
    ard: bool = False,
    standardise: bool = True,
    noise_prior: tuple[float, float] | None = None,
    restarts: int = RESTARTS,
    max_iter: int = MAX_ITER,
) -> InfiniteNetwork:
    """The best of several optima; without ``standardise`` X and y are taken as they are.

    ``max_iter`` ends the search of each start early, for many rows; ``converged`` tells if the best ended.
    """
    d = X.shape[1]
    x_sd = np.where(np.ptp(X, axis=0) > 0.0, X.std(axis=0), 1.0)
    scaling = (X.mean(axis=0), x_sd, y.mean(), y.std()) if standardise else (0.0, 1.0, 0.0, 1.0)
    Z, target = (X - scaling[0]) / scaling[1], (y - scaling[2]) / scaling[3]
    kernel = ArcsineKernel(np.ones(d) if ard else 1.0)
    bounds = [*kernel.bounds, tuple(np.log(NOISE_BOUNDS))]
    found = [
        minimize(
            objective,
            start,
            (kernel, Z, target, noise_prior),
            "L-BFGS-B",
            True,
            bounds=bounds,
            options={"maxiter": max_iter},
        )
        for start in _starts(kernel, restarts)
    ]
    best = min(found, key=lambda result: result.fun)
    fitted = InfiniteNetwork(
        kernel.clone_with_theta(best.x[:-1]), float(np.exp(best.x[-1])), Z, target, scaling
    )
    fitted._facts = {
        "log_evidence": -float(best.fun),
        "optima": sorted(-float(r.fun) for r in found),
        "n_evaluations": sum(int(r.nfev) for r in found),
        "converged": bool(best.success),
    }
    return fitted


def _starts(kernel: ArcsineKernel, restarts: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    count = np.size(kernel.weight_var)
    names = ["bias_var", "output_var", *["weight_var"] * count, "noise"]
    low, high = np.log([STARTS[name] for name in names]).T
    first = np.append(kernel.theta, np.log(0.1))
    return [first, *(rng.uniform(low, high) for _ in range(restarts))]


def _inverse(factor: tuple[np.ndarray, bool]) -> np.ndarray:
    """The inverse from its lower factor, which it overwrites; a third of the work of n solutions."""
    inverse, info = dpotri(factor[0], lower=True, overwrite_c=True)
    assert info == 0
    for start in range(0, len(inverse), BLOCK):  # mirror the lower triangle without a second array
        stop = start + BLOCK
        corner = np.tril(inverse[start:stop, start:stop])
        inverse[start:stop, start:stop] = corner + np.tril(corner, -1).T
        inverse[start:stop, stop:] = inverse[stop:, start:stop].T
    return inverse.T


def _factor(K: np.ndarray, noise_var: float) -> tuple[np.ndarray, bool]:
    covariance = K.T.copy(order="F")  # symmetric, in the order that LAPACK wants
    covariance[np.diag_indices_from(covariance)] += noise_var + JITTER
    return cho_factor(covariance, lower=True, overwrite_a=True)
