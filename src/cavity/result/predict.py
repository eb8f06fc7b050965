r"""Predictions of f and y at new inputs, θ integrated by quadrature or plugged in *(paper, App. F)*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cavity.ep.network_numpy import function_moments, unit_moments
from cavity.ep.state import OutputPosterior, Posterior, WeightPosterior
from cavity.model.likelihoods import GaussianLikelihood, Likelihood, Predicted
from cavity.model.spec import ModelSpec
from cavity.numerics.quadrature import gauss_hermite
from cavity.types import FloatArray, Gaussian

NOISE_NODES = 24  # Gauss–Hermite nodes over q(θ); exact to 1e-10 in the density up to sd(θ) = 1
_GAUSSIAN = GaussianLikelihood()


def activation_marginals(spec: ModelSpec, w: WeightPosterior, X: FloatArray) -> Gaussian:
    """Means and variances of h_k = xᵀw_k at new rows, (n, K), for any form of q(w_k)."""
    mean = X @ w.mean.T
    var = np.empty_like(mean)
    basis = w.basis
    for k in range(spec.n_hidden):
        if w.factor.shape[1] == 1 and w.factor.shape[2] == X.shape[1] and X.shape[1] > 1:  # diagonal
            var[:, k] = (X * X) @ w.var[k]
        elif basis.rotation is None:
            image = X @ w.factor[k]
            var[:, k] = np.einsum("nr,nr->n", image, image)
        else:
            assert basis.root is not None
            white = X * basis.root[k]
            inside = white @ basis.rotation[k]
            image = inside @ w.factor[k]
            outside = np.sum(white**2, axis=1) - np.sum(inside**2, axis=1)
            var[:, k] = np.maximum(outside, 0.0) + np.sum(image**2, axis=1)
    return Gaussian(mean, np.maximum(var, np.finfo(float).tiny))


def latent_moments(spec: ModelSpec, q: Posterior, X: FloatArray) -> Gaussian:
    """Mean and variance of f(x) *(paper, eq. qf_fact with q in place of the cavity)*."""
    return latent_moments_of(spec, q.v, activation_marginals(spec, q.w, X))


def latent_moments_of(spec: ModelSpec, v: OutputPosterior, h: Gaussian) -> Gaussian:
    """The same from the marginals of the activations."""
    g = unit_moments(spec, h)
    quad = np.einsum("ni,ij,nj->n", g.mean, v.cov, g.mean, optimize=True)
    mean = np.broadcast_to(v.mean, g.mean.shape)
    return function_moments(spec, g, mean, lambda j, i: v.cov[j, i], quad)


def scale_nodes(noise: Gaussian, plug_in: bool = False) -> tuple[FloatArray, FloatArray]:
    """Values of θ, (n, Q) or (1, Q), and weights that integrate over q(θ); one if held or plugged in."""
    mean, var = np.reshape(noise.mean, (-1, 1)), np.reshape(noise.var, (-1, 1))
    if plug_in or not np.any(var > 0.0):
        return np.asarray(mean, float), np.array([1.0])
    nodes, weights = gauss_hermite(NOISE_NODES)
    return mean + np.sqrt(var) * nodes, np.asarray(weights)


def _beside(f: Gaussian, row_var: FloatArray | float) -> tuple[Gaussian, FloatArray]:
    """Moments of f and known variances as columns, to go with the nodes of θ."""
    return Gaussian(f.mean[:, None], f.var[:, None]), np.reshape(row_var, (-1, 1))


def target_moments(
    f: Gaussian,
    noise: Gaussian,
    row_var: FloatArray | float = 0.0,
    plug_in: bool = False,
    likelihood: Likelihood = _GAUSSIAN,
) -> Predicted:
    """E y, Var y and the noise's part of it; if Gaussian m_f, V_f + E e^θ, E e^θ *(after eq. pred)*."""
    theta, weights = scale_nodes(noise, plug_in)
    at, known = _beside(f, row_var)
    given = likelihood.predictive_moments(at, theta, known)
    parts = [np.broadcast_to(part, (len(f.mean), len(weights))) for part in given]
    mean = parts[0] @ weights
    return Predicted(mean, (parts[1] + (parts[0] - mean[:, None]) ** 2) @ weights, parts[2] @ weights)


def log_density(
    y: FloatArray,
    f: Gaussian,
    noise: Gaussian,
    row_var: FloatArray | float = 0.0,
    plug_in: bool = False,
    likelihood: Likelihood = _GAUSSIAN,
) -> FloatArray:
    """log p(y | x) = log ∫ p(y | f, θ) N(f | m_f, V_f) q(θ) df dθ *(paper, eq. pred)*."""
    theta, weights = scale_nodes(noise, plug_in)
    at, known = _beside(f, row_var)
    log_p = likelihood.log_z(np.asarray(y)[:, None], at, theta, known, derivatives=False).value
    return np.logaddexp.reduce(log_p + np.log(weights), axis=1)


def cdf(
    y: FloatArray,
    f: Gaussian,
    noise: Gaussian,
    row_var: FloatArray | float = 0.0,
    likelihood: Likelihood = _GAUSSIAN,
) -> FloatArray:
    """P(Y <= y | x) with f and θ integrated."""
    theta, weights = scale_nodes(noise)
    at, known = _beside(f, row_var)
    p = likelihood.predictive_cdf(np.asarray(y)[:, None], at, theta, known)
    return np.broadcast_to(p, (len(f.mean), len(weights))) @ weights


def check_levels(levels: FloatArray) -> FloatArray:
    """Quantile levels as a vector, or a `ValueError`."""
    levels = np.atleast_1d(np.asarray(levels, float))
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"quantile levels must lie strictly between 0 and 1, got {levels.tolist()}.")
    return levels


def invert(
    distribution: Callable[[FloatArray], FloatArray], level: float, centre: FloatArray, width: FloatArray,
    discrete: bool,
) -> FloatArray:  # fmt: skip
    """Smallest y with distribution(y) >= level, row by row: widen a bracket, then halve it.

    To 1e-13 of the bracket, which starts at centre ± width; among the integers where ``discrete``.
    """
    lo, hi = centre - width, centre + width
    if discrete:
        lo, hi = np.floor(lo), np.ceil(hi)
    for _ in range(200):
        high, low = distribution(lo) >= level, distribution(hi) < level
        if not (high.any() or low.any()):
            break
        reach = hi - lo
        lo, hi = np.where(high, lo - reach, lo), np.where(low, hi + reach, hi)
    for _ in range(60):
        middle = np.floor(0.5 * (lo + hi)) if discrete else 0.5 * (lo + hi)
        below = distribution(middle) < level
        lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
        if discrete and (hi - lo <= 1.0).all():
            break
    return hi if discrete else 0.5 * (lo + hi)


def quantiles(
    levels: FloatArray,
    f: Gaussian,
    noise: Gaussian,
    row_var: FloatArray | float = 0.0,
    likelihood: Likelihood = _GAUSSIAN,
) -> FloatArray:
    """Quantiles of y, shape (n, len(levels))."""
    levels = check_levels(levels)
    y = target_moments(f, noise, row_var, likelihood=likelihood)
    sd = np.sqrt(np.where(np.isfinite(y.var), y.var, f.var + np.exp(noise.mean) + row_var))

    def distribution(at: FloatArray) -> FloatArray:
        return cdf(at, f, noise, row_var, likelihood)

    columns = [invert(distribution, level, y.mean, 4.0 * sd, likelihood.discrete) for level in levels]
    return np.stack(columns, axis=1)


def outlier_probability(
    y: FloatArray, f: Gaussian, noise: Gaussian, row_var: FloatArray, likelihood: Likelihood
) -> FloatArray:
    """P(the noise of y came from an outlying component | y), f and θ integrated."""
    theta, weights = scale_nodes(noise)
    at, known = _beside(f, row_var)
    log_p = likelihood.log_z(y[:, None], at, theta, known, derivatives=False).value + np.log(weights)
    share = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    found = likelihood.outlier_probability(y[:, None], at, theta, known)
    return np.sum(share * found, axis=1) / share.sum(axis=1)
