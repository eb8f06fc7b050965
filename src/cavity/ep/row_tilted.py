r"""Tilted moments of a row's noise level and activations in NumPy, for any pieces *(paper, Apps. C, D)*."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from cavity.model.activations import Activation
from cavity.model.spec import ModelSpec
from cavity.numerics import kernel_tilted as nodes
from cavity.numerics.quadrature import log_trapezoid_moments
from cavity.types import FloatArray, Floats, Gaussian


class TiltedNoise(NamedTuple):
    """log Ẑ, tilted θ, and E[∂], E[∂²] + Var[∂] of log Z in the mean of f over the tilted θ."""

    log_z: FloatArray
    theta: Gaussian
    slope: FloatArray
    curvature: FloatArray


def tilted_noise(
    spec: ModelSpec, y: FloatArray, row_var: FloatArray, f: Gaussian, cavity: Gaussian, fraction: float
) -> TiltedNoise:
    """Tilted θ and output direction *(paper, eqs. qtheta_tilted, mq_tilted_v2, Sq_tilted_v2)*.

    A trapezoid rule on a grid twice as fine as the kernel's, widened and trimmed to the tilted density.
    """
    n = len(y)
    sd = np.sqrt(cavity.var)
    lo, hi = cavity.mean - 9.0 * sd, cavity.mean + 9.0 * sd

    def log_density(theta: FloatArray) -> FloatArray:
        ff = Gaussian(f.mean[:, None], f.var[:, None])
        value = spec.likelihood.log_z(y[:, None], ff, theta, row_var[:, None], fraction).value
        return value - 0.5 * (theta - cavity.mean[:, None]) ** 2 / cavity.var[:, None]

    grid = np.linspace(0.0, 1.0, 129)
    for _ in range(60):  # widen until both ends are negligible
        p = log_density(lo[:, None] + (hi - lo)[:, None] * grid)
        top = p.max(axis=1)
        low, high = p[:, 0] > top - nodes.LOG_SCALE_TAIL, p[:, -1] > top - nodes.LOG_SCALE_TAIL
        if not (low.any() or high.any()):
            break
        width = hi - lo
        lo, hi = np.where(low, lo - width, lo), np.where(high, hi + width, hi)
    for _ in range(4):  # trim to what matters
        x = lo[:, None] + (hi - lo)[:, None] * grid
        p = log_density(x)
        keep = p > p.max(axis=1)[:, None] - nodes.LOG_SCALE_TAIL
        first, last = keep.argmax(axis=1), len(grid) - 1 - keep[:, ::-1].argmax(axis=1)
        rows = np.arange(n)
        lo, hi = x[rows, np.maximum(first - 1, 0)], x[rows, np.minimum(last + 1, len(grid) - 1)]
    step = np.minimum(0.5 * nodes.SPACING * sd, 0.5 * nodes.LOG_SCALE_SPACING)
    count = int(np.clip(np.max((hi - lo) / step), 64, nodes.MAX_NODES)) + 2
    x = lo[:, None] + (hi - lo)[:, None] * np.linspace(0.0, 1.0, count)
    z = spec.likelihood.log_z(
        y[:, None], Gaussian(f.mean[:, None], f.var[:, None]), x, row_var[:, None], fraction
    )
    p = z.value - 0.5 * (x - cavity.mean[:, None]) ** 2 / cavity.var[:, None]
    moments = log_trapezoid_moments(x, p)
    w = np.exp(p - p.max(axis=1)[:, None])
    w /= w.sum(axis=1)[:, None]
    slope = np.sum(w * z.d1, axis=1)
    spread = np.sum(w * (z.d1 - slope[:, None]) ** 2, axis=1)
    log_z = moments.log_z - 0.5 * np.log(2.0 * np.pi * cavity.var)
    curvature = np.sum(w * z.d2, axis=1) + spread
    return TiltedNoise(log_z, Gaussian(moments.mean, moments.var), slope, curvature)


class Conditional(NamedTuple):
    """f given h *(eq. qf_cond)*: m(h) = m_f + μ(g - m_g), V(h) = t0 + 2c(g - m_g) + s(g - m_g)²."""

    f_mean: float
    mu: float
    g_mean: float
    t0: float
    c: float
    s: float

    def moments(self, g: Floats) -> Gaussian:
        """Moments of f at unit outputs g."""
        d = g - self.g_mean
        return Gaussian(self.f_mean + self.mu * d, np.maximum(self.t0 + d * (2.0 * self.c + d * self.s), 0.0))


def tilted_activation(
    spec: ModelSpec,
    activation: Activation,
    scale: float,
    cavity: Gaussian,
    given: Conditional,
    y: float,
    row_var: float,
    log_scale: float,
    fraction: float,
) -> Gaussian:
    """Mean and variance of the tilted density of one activation *(paper, eqs. qh_tilted, qh_tilted2)*.

    The density is N(h | cavity)·Z(y; m(h), V(h), θ̂, η), integrated by a trapezoid rule on the kernel's
    grid: it covers every point within e^-36 of the density at the cavity mean, both modes included.
    """
    likelihood = spec.likelihood
    m, v = float(cavity.mean), float(cavity.var)
    width = float(likelihood.width(np.float64(log_scale), np.float64(row_var), fraction))
    var_min = max(given.t0 - given.c**2 / given.s, 0.0) if given.s > 0.0 else given.t0
    t_min = var_min + width
    slope = scale * activation.max_slope
    if activation.bend == np.inf and given.s == 0.0 and given.c == 0.0:
        z = likelihood.log_z(
            np.float64(y),
            given.moments(np.float64(scale * m)),
            np.float64(log_scale),
            np.float64(row_var),
            fraction,
        )
        b = given.mu * scale
        var = v + v * v * b * b * float(z.d2)
        return Gaussian(m + v * b * float(z.d1), var)

    def log_density(h: FloatArray) -> FloatArray:
        f = given.moments(scale * activation(h))
        value = likelihood.log_z(np.float64(y), f, np.float64(log_scale), np.float64(row_var), fraction).value
        return value - 0.5 * (h - m) ** 2 / v

    at_mean = float(log_density(np.array([m]))[0])
    upper = float(
        likelihood.log_z_upper(np.float64(var_min), np.float64(log_scale), np.float64(row_var), fraction)
    )
    gain = max(0.0, upper - at_mean)
    # as in the kernel: the likelihood's curvature in g grows with its misfit
    curvature = slope**2 * (given.mu**2 + given.s) / t_min
    step = nodes.SPACING / np.sqrt(1.0 / v + curvature * (1.0 + 4.0 * gain))
    step = min(step, nodes.ERF_SPACING * activation.bend)
    if given.s > 0.0:
        step = min(step, 0.25 * np.sqrt(t_min / given.s) / slope)
    half = np.sqrt(v * 2.0 * (nodes.TAIL + gain))
    lo, hi = m - half, m + half
    if activation.limits is not None and hi - lo > 3.0 * nodes.SATURATED and gain < nodes.MAX_GAIN:
        wide = _wide_activation(activation, scale, m, v, step, log_density, max(upper, at_mean))
        if wide is not None:
            return wide
    count = int((hi - lo) / step) + 2
    if count > nodes.DIRECT or gain > nodes.MAX_GAIN:
        code = activation.kernel_code
        resid = float(y - given.f_mean)
        mode = (
            nodes.likelihood_mode(code, scale, given.g_mean, given.mu, resid) if code is not None else np.nan
        )
        # without a kernel form the second mode is unknown: look sixteen times closer instead
        lo, hi = _trim(log_density, lo, hi, step, mode, nodes.DIRECT * (1 if code is not None else 16))
        count = int((hi - lo) / step) + 2
    count = min(count, nodes.MAX_NODES)
    h = np.linspace(lo, hi, count)
    p = log_density(h)
    w = np.exp(p - p.max())
    mean = float(np.sum(w * (h - m)) / np.sum(w))
    return Gaussian(m + mean, float(np.sum(w * (h - m - mean) ** 2) / np.sum(w)))


def _trim(
    log_density: Callable[[FloatArray], FloatArray],
    lo: float,
    hi: float,
    step: float,
    mode: float,
    count: int,
) -> tuple[float, float]:
    """Shrink an interval to where the density is within e^-28 of its top, as the kernel does."""
    for _ in range(6):
        coarse = (hi - lo) / (count - 1)
        h = lo + coarse * np.arange(count)
        p = log_density(h)
        at_mode = float(log_density(np.array([mode]))[0]) if lo <= mode <= hi else -np.inf
        best = max(float(p.max()), at_mode)
        keep = np.flatnonzero(p > best - nodes.TAIL)
        left, right = (h[keep[0]] - coarse, h[keep[-1]] + coarse) if len(keep) else (np.inf, -np.inf)
        if at_mode > best - nodes.TAIL:
            left, right = min(left, mode - coarse), max(right, mode + coarse)
        lo, hi = max(lo, left), min(hi, right)
        if int((hi - lo) / step) + 2 <= nodes.DIRECT:
            break
    return lo, hi


def _wide_activation(
    activation: Activation,
    scale: float,
    m: float,
    v: float,
    step: float,
    log_density: Callable[[FloatArray], FloatArray],
    shift: float,
) -> Gaussian | None:
    """Tilted moments under a cavity wider than the bend of a saturating g; see the kernel's `_h_wide`.

    L(h) - a - bΦ(h), a and b from the limits of g, vanishes beyond ±6.5 and is integrated by the
    trapezoid rule; a + bΦ(h) in closed form. None where cancellation would cost a few digits.
    """
    edge = nodes.SATURATED
    h = np.linspace(-edge, edge, int(2.0 * edge / step) + 2)
    far = np.array([-40.0, 40.0])  # erf is ±1 to the last bit
    log_l = log_density(np.concatenate([far, h])) + 0.5 * (np.concatenate([far, h]) - m) ** 2 / v
    likelihood = np.exp(log_l - shift)
    low, rise = likelihood[0], likelihood[1] - likelihood[0]
    z = h - m
    rest = (likelihood[2:] - low - rise * ndtr(h)) * np.exp(-0.5 * z * z / v)
    unit = (h[1] - h[0]) / np.sqrt(2.0 * np.pi * v)
    a = m / np.sqrt(1.0 + v)
    cdf, pdf = float(ndtr(a)), float(np.exp(-0.5 * a * a) / np.sqrt(2.0 * np.pi))
    total = low + rise * cdf + unit * rest.sum()
    if not total > 1e-6 * (low + abs(rise)):
        return None
    first = (rise * v / np.sqrt(1.0 + v) * pdf + unit * (rest * z).sum()) / total
    second = (low * v + rise * (v * cdf - v * v * a * pdf / (1.0 + v)) + unit * (rest * z * z).sum()) / total
    var = second - first * first
    return Gaussian(m + first, var) if var > 0.02 * second else None


def tilted_activation_2d(
    spec: ModelSpec,
    activation: Activation,
    scale: float,
    cavity: Gaussian,
    given: Conditional,
    y: float,
    row_var: float,
    theta: Gaussian,
    fraction: float,
) -> Gaussian:
    """The same with θ integrated over its cavity too *(paper, eq. qh_tilted_2d)*, on a dense grid.

    The engine uses eq. qh_tilted2 as the paper does; this is what tests measure its error with.
    """
    h = cavity.mean + np.sqrt(cavity.var) * np.linspace(-12.0, 12.0, 2001)
    t = theta.mean + np.sqrt(theta.var) * np.linspace(-12.0, 12.0, 801)
    f = given.moments(scale * activation(h))
    z = spec.likelihood.log_z(
        np.float64(y), Gaussian(f.mean[:, None], f.var[:, None]), t[None], np.float64(row_var), fraction
    )
    p = z.value - 0.5 * (h[:, None] - cavity.mean) ** 2 / cavity.var - 0.5 * (t - theta.mean) ** 2 / theta.var
    w = np.exp(p - p.max()).sum(axis=1)
    mean = float(np.sum(w * h) / np.sum(w))
    return Gaussian(mean, float(np.sum(w * (h - mean) ** 2) / np.sum(w)))
