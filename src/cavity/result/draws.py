"""Draws of weights, noise and scales from q, and the functions they make."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.ep.dual import rotation
from cavity.ep.noise import features
from cavity.ep.state import WeightPosterior
from cavity.model.interactions import with_products
from cavity.model.spec import ModelSpec
from cavity.result.posterior import FittedPosterior
from cavity.types import FloatArray, Gaussian, IntArray


class Draws(NamedTuple):
    """S independent draws from q, for standardised data.

    w : (S, K, d) input weights, the bias last where there is one; v : (S, J) output weights, the bias
    last; log_noise_var : (S,) θ; log_prior_var : (S, L) φ; noise_slopes : (S, p) where the noise depends on
    the inputs, (d) of them for these and then those of the function (`cavity.ep.guide`), if it depends on it.
    """

    w: FloatArray
    v: FloatArray
    log_noise_var: FloatArray
    log_prior_var: FloatArray
    noise_slopes: FloatArray | None = None


def is_diagonal(w: WeightPosterior) -> bool:
    """True where q(w_k) is kept as variances only."""
    return w.factor.shape[1] == 1 and w.mean.shape[1] > 1


def draw_weights(w: WeightPosterior, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Draw the input weights, (S, K, d), from any form of q(w_k) *(paper, eq. qep_w)*."""
    K, d = w.mean.shape
    out = np.empty((n_draws, K, d))
    basis = w.basis
    for k in range(K):
        if is_diagonal(w):
            out[:, k] = w.mean[k] + np.sqrt(w.var[k]) * rng.standard_normal((n_draws, d))
            continue
        z = rng.standard_normal((n_draws, w.factor.shape[2])) @ w.factor[k].T
        if basis.inputs is None:
            out[:, k] = w.mean[k] + z
        else:  # w = Λ^(-½)(Qz + z⊥), z⊥ a standard draw projected off the rows' span
            assert basis.root is not None
            q = rotation(basis, k)
            rest = rng.standard_normal((n_draws, d))
            out[:, k] = w.mean[k] + basis.root[k] * (z @ q.T + rest - (rest @ q) @ q.T)
    return out


def _draw_gaussian(q: Gaussian, n_draws: int, rng: np.random.Generator) -> FloatArray:
    mean, sd = np.asarray(q.mean, float), np.sqrt(np.asarray(q.var, float))
    return mean + sd * rng.standard_normal((n_draws, *mean.shape))


def draw(posterior: FittedPosterior, n_draws: int, rng: np.random.Generator) -> Draws:
    """Draw everything that one fitted posterior knows."""
    q = posterior.state.posterior
    w = draw_weights(q.w, n_draws, rng)
    values, vectors = np.linalg.eigh(q.v.cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    v = q.v.mean + rng.standard_normal((n_draws, len(q.v.mean))) @ root.T
    if q.log_var is None:
        return Draws(w, v, _draw_gaussian(q.noise, n_draws, rng), _draw_gaussian(q.scale, n_draws, rng))
    root = np.linalg.cholesky(q.log_var.cov)
    u = q.log_var.mean + rng.standard_normal((n_draws, len(root))) @ root.T
    return Draws(w, v, u[:, 0], _draw_gaussian(q.scale, n_draws, rng), u[:, 1:])


def log_noise_vars(spec: ModelSpec, draws: Draws, design: FloatArray) -> FloatArray:
    """Log noise variance at the rows of a design, (S, n), standardised; (S, 1) where it is one for all."""
    if draws.noise_slopes is None:
        return draws.log_noise_var[:, None]
    return np.column_stack([draws.log_noise_var, draws.noise_slopes]) @ features(spec, design).T


def output_inputs(spec: ModelSpec, h: FloatArray) -> FloatArray:
    """Scaled outputs of the units for activations h (..., K), and the products of pairs of them."""
    g = np.empty_like(h)
    for k, activation in enumerate(spec.activations):
        g[..., k] = spec.activation_scale[k] * activation(h[..., k])
    return with_products(g, spec.pairs, spec.pair_scale)


def functions(spec: ModelSpec, draws: Draws, design: FloatArray) -> FloatArray:
    """f at the rows of a design, (S, n), standardised *(paper, eq. fx_mlp)*."""
    out = np.empty((len(draws.w), len(design)))
    for s, (w, v) in enumerate(zip(draws.w, draws.v, strict=True)):
        out[s] = output_inputs(spec, design @ w.T) @ v[:-1] + v[-1]
    return out


def share_draws(weights: FloatArray, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Component of each draw of a mixture."""
    if len(weights) == 1:
        return np.zeros(n_draws, dtype=np.int64)
    return rng.choice(len(weights), size=n_draws, p=weights / weights.sum())
