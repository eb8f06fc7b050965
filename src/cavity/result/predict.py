r"""Predictions of f and y at new inputs, θ integrated by quadrature or plugged in *(paper, App. F)*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from cavity.model.likelihoods import GaussianLikelihood, Likelihood, Predicted
from cavity.numerics.quadrature import gauss_hermite
from cavity.types import FloatArray, Gaussian

NOISE_NODES = 24  # Gauss–Hermite nodes over q(θ); exact to 1e-10 in the density up to sd(θ) = 1
# Fewer are enough up to these sds of θ: to 1e-9 in the density at six noise sds from f.
FEW_NODES = ((0.02, 5), (0.05, 6), (0.1, 9))
NEAR_GUESS = 0.2  # sds around a normal quantile where others are looked for first
_GAUSSIAN = GaussianLikelihood()


def scale_nodes(noise: Gaussian, plug_in: bool = False) -> tuple[FloatArray, FloatArray]:
    """Values of θ, (n, Q) or (1, Q), and weights that integrate over q(θ); one if held or plugged in."""
    mean, var = np.reshape(noise.mean, (-1, 1)), np.reshape(noise.var, (-1, 1))
    if plug_in or not np.any(var > 0.0):
        return np.asarray(mean, float), np.array([1.0])
    widest = float(np.sqrt(np.max(var)))
    nodes, weights = gauss_hermite(next((count for sd, count in FEW_NODES if widest <= sd), NOISE_NODES))
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
    distribution: Callable[[FloatArray], FloatArray], level: float, mean: FloatArray, sd: FloatArray,
    discrete: bool,
) -> FloatArray:  # fmt: skip
    """Smallest y with distribution(y) >= level, row by row: move a bracket to it, then close it.

    To 1e-12 of the sd, from near where a normal distribution of this mean and sd has it; among the integers
    where ``discrete``.
    """
    guess = mean + float(ndtri(level)) * sd
    lo, hi = guess - NEAR_GUESS * sd, guess + NEAR_GUESS * sd
    if discrete:
        lo, hi = np.floor(lo), np.ceil(hi)
    below, above = distribution(lo) - level, distribution(hi) - level
    for _ in range(200):
        high, low = below >= 0.0, above < 0.0
        if not (high.any() or low.any()):
            break
        reach = 2.0 * (hi - lo)
        next_one = np.where(high, lo - reach, hi + reach)
        value = distribution(next_one) - level
        lo, hi = (
            np.where(high, next_one, np.where(low, hi, lo)),
            np.where(high, lo, np.where(low, next_one, hi)),
        )
        below, above = (
            np.where(high, value, np.where(low, above, below)),
            np.where(high, below, np.where(low, value, above)),
        )
    if not discrete:
        least = np.maximum(1e-12 * sd, np.spacing(np.abs(guess)))
        return root(lambda y: distribution(y) - level, lo, hi, below, above, least)
    while (hi - lo > 1.0).any():
        middle = np.floor(0.5 * (lo + hi))
        short = distribution(middle) < level
        lo, hi = np.where(short, middle, lo), np.where(short, hi, middle)
    return hi


def root(
    function: Callable[[FloatArray], FloatArray], lo: FloatArray, hi: FloatArray, below: FloatArray,
    above: FloatArray, least: FloatArray,
) -> FloatArray:  # fmt: skip
    """Where increasing functions vanish between lo and hi, row by row, by Chandrupatla's method.

    ``below`` and ``above`` are the values at lo and hi, of opposite sign; ``least`` is how near is near
    enough. Inverse quadratic interpolation where three points allow it, halving elsewhere: a few evaluations
    instead of forty.
    """
    a, b, fa, fb = lo, hi, below, above
    c, fc = a, fa
    share = np.full(len(lo), 0.5)
    for _ in range(100):
        x = a + share * (b - a)
        fx = function(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        nearest = np.where(np.abs(fa) < np.abs(fb), a, b)
        gap = np.abs(b - a)
        done = (gap <= 2.0 * least) | (fa == 0.0) | (fb == 0.0)
        if done.all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):  # rows that are done, or whose values tie
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            smooth = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            inner = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            edge = np.minimum(least / gap, 0.5)
        share = np.where(smooth & np.isfinite(inner), inner, 0.5)
        share = np.where(done, 0.0, np.clip(share, edge, 1.0 - edge))
    return nearest


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

    columns = [invert(distribution, level, y.mean, sd, likelihood.discrete) for level in levels]
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
