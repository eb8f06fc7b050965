r"""Predictions of f and y at new inputs, θ integrated by quadrature or plugged in *(paper, App. F)*."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from cavity.ep.network_numpy import function_moments, unit_moments
from cavity.ep.state import OutputPosterior, Posterior, WeightPosterior
from cavity.model.spec import ModelSpec
from cavity.numerics.quadrature import gauss_hermite
from cavity.types import FloatArray, Gaussian

NOISE_NODES = 24  # Gauss–Hermite nodes over q(θ); exact to 1e-10 in the density up to sd(θ) = 1


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
    return function_moments(g, mean, np.diag(v.cov), quad)


def noise_nodes(noise: Gaussian, plug_in: bool = False) -> tuple[FloatArray, FloatArray]:
    """Noise variances e^θ and weights that integrate over q(θ); one node when held or plugged in."""
    if plug_in or not noise.var > 0.0:
        return np.array([np.exp(noise.mean)]), np.array([1.0])
    nodes, weights = gauss_hermite(NOISE_NODES)
    return np.exp(noise.mean + np.sqrt(noise.var) * nodes), np.asarray(weights)


def target_moments(
    f: Gaussian, noise: Gaussian, row_var: FloatArray | float = 0.0, plug_in: bool = False
) -> Gaussian:
    """E y = m_f and Var y = V_f + E e^θ *(paper, after eq. pred)*."""
    var, weights = noise_nodes(noise, plug_in)
    return Gaussian(f.mean, f.var + float(weights @ var) + row_var)


def log_density(
    y: FloatArray, f: Gaussian, noise: Gaussian, row_var: FloatArray | float = 0.0, plug_in: bool = False
) -> FloatArray:
    """log p(y | x) = log ∫ N(y | m_f, V_f + e^θ) q(θ) dθ *(paper, eq. pred)*."""
    var, weights = noise_nodes(noise, plug_in)
    total = f.var[:, None] + np.reshape(row_var, (-1, 1)) + var
    log_p = -0.5 * ((y - f.mean)[:, None] ** 2 / total + np.log(2.0 * np.pi * total))
    return np.logaddexp.reduce(log_p + np.log(weights), axis=1)


def cdf(y: FloatArray, f: Gaussian, noise: Gaussian, row_var: FloatArray | float = 0.0) -> FloatArray:
    """P(Y <= y | x) with θ integrated."""
    var, weights = noise_nodes(noise)
    sd = np.sqrt(f.var[:, None] + np.reshape(row_var, (-1, 1)) + var)
    return ndtr((y - f.mean)[:, None] / sd) @ weights


def quantiles(
    levels: FloatArray, f: Gaussian, noise: Gaussian, row_var: FloatArray | float = 0.0
) -> FloatArray:
    """Quantiles of y, shape (n, len(levels)): bisection on the monotone cdf, to 1e-12 of the sd.

    The bracket is exact: a mixture's quantile lies between its components' quantiles.
    """
    levels = np.atleast_1d(np.asarray(levels, float))
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"quantile levels must lie strictly between 0 and 1, got {levels.tolist()}.")
    var, _ = noise_nodes(noise)
    sd = np.sqrt(f.var[:, None] + np.reshape(row_var, (-1, 1)) + var)
    out = np.empty((len(f.mean), len(levels)))
    for j, level in enumerate(levels):
        z = ndtri(level)
        lo, hi = (
            f.mean + z * (sd.max(axis=1) if z < 0 else sd.min(axis=1)),
            f.mean + z * (sd.min(axis=1) if z < 0 else sd.max(axis=1)),
        )
        for _ in range(60):
            mid = 0.5 * (lo + hi)
            below = cdf(mid, f, noise, row_var) < level
            lo, hi = np.where(below, mid, lo), np.where(below, hi, mid)
        out[:, j] = 0.5 * (lo + hi)
    return out
