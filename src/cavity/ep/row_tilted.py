r"""Tilted moments of a row's noise level and activations in NumPy, for any pieces *(paper, Apps. C, D)*."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from cavity.model.activations import Activation
from cavity.model.spec import ModelSpec
from cavity.numerics import kernel_grids as nodes
from cavity.numerics.bounded import LogFactor, bounded_grids, chunks, grid_moments
from cavity.numerics.kernel_tilted import likelihood_mode
from cavity.numerics.quadrature import log_trapezoid_moments
from cavity.types import FloatArray, Floats, Gaussian, IntArray


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
    """f given h *(eq. qf_cond)*: m(h) = m_f + μ(g - m_g), V(h) = t0 + 2c(g - m_g) + s(g - m_g)²; all (n,)."""

    f_mean: Floats
    mu: Floats
    g_mean: Floats
    t0: Floats
    c: Floats
    s: Floats

    def moments(self, g: Floats) -> Gaussian:
        """Moments of f at unit outputs g, of shape (n,) or (n, Q)."""
        f_mean, mu, g_mean, t0, c, s = (_beside(part, g) for part in self)
        d = g - g_mean
        return Gaussian(f_mean + mu * d, np.maximum(t0 + d * (2.0 * c + d * s), 0.0))


def _beside(part: Floats, g: Floats) -> Floats:
    """A field per row, shaped to go with nodes of the rows."""
    return part[..., None] if np.ndim(g) > np.ndim(part) > 0 else part


def tilted_activations(
    spec: ModelSpec,
    unit: int,
    cavity: Gaussian,
    given: Conditional,
    y: FloatArray,
    row_var: FloatArray,
    log_scale: FloatArray,
    fraction: float,
) -> Gaussian:
    """Means and variances of the tilted activations of a unit *(paper, eqs. qh_tilted, qh_tilted2)*, (n,).

    The densities are N(h | cavity)·Z(y; m(h), V(h), θ̂, η). The likelihood is bounded, so the kernel's grid
    covers every point within e^-28 of the density at the cavity mean, all modes included.
    """
    likelihood, activation, scale = spec.likelihood, spec.activations[unit], spec.activation_scale[unit]
    m, v = cavity
    flat = (given.s == 0.0) & (given.c == 0.0)
    if activation.bend == np.inf and flat.all():  # f is Gaussian: moments from the derivatives of log Z
        b = given.mu * scale
        at = given.moments(scale * m)
        z = likelihood.log_z(y, Gaussian(at.mean, at.var + b * b * v), log_scale, row_var, fraction)
        return Gaussian(m + v * b * z.d1, v + v * v * b * b * z.d2)

    def log_factor(h: FloatArray, items: IntArray) -> FloatArray:
        f = Conditional(*(part[items] for part in given)).moments(scale * activation(h))
        i = (items, None)
        return likelihood.log_z(y[i], f, log_scale[i], row_var[i], fraction, derivatives=False).value

    n = len(y)
    curved = given.s > 0.0
    s = np.where(curved, given.s, 1.0)
    var_min = np.where(curved, np.maximum(given.t0 - given.c**2 / s, 0.0), given.t0)
    at_mean = log_factor(m[:, None], np.arange(n))[:, 0]
    bounds = likelihood.bounds(y, given.moments(scale * activation(m)), var_min, log_scale, row_var, fraction)
    gain = np.maximum(bounds.upper - at_mean, 0.0)
    misfit = np.minimum(bounds.misfit, gain)
    # the likelihood's curvature in g grows with its misfit, since V(h) is quadratic in g
    half = np.sqrt(v * 2.0 * (nodes.TAIL + gain))
    slope = np.maximum(abs(scale) * activation.steepest(m - half, m + half), np.finfo(float).tiny)
    curvature = slope**2 * (given.mu**2 + given.s) * bounds.curvature * (1.0 + 4.0 * misfit)
    step = np.minimum(nodes.SPACING / np.sqrt(1.0 / v + curvature), nodes.ERF_SPACING * activation.bend)
    # V(h) + 1/curvature vanishes at complex h: error e^(-2π·distance/step) = 1e-11 at a quarter
    step = np.where(curved, np.minimum(step, 0.25 / (np.sqrt(bounds.curvature * s) * slope)), step)
    mean, var = np.full(n, np.nan), np.full(n, np.nan)
    if activation.limits is not None:
        fits = 2.0 * nodes.SATURATED / step + 2.0 <= nodes.MAX_NODES
        wide = np.flatnonzero((2.0 * half > 3.0 * nodes.SATURATED) & (gain < nodes.MAX_GAIN) & fits)
        mean[wide], var[wide] = _wide_activations(cavity, step, log_factor, wide, bounds.upper)
    todo = np.flatnonzero(~(var > 0.0))
    mode = None
    code = activation.kernel_code
    if code is not None:
        rest = likelihood.peak(y, log_scale, row_var).mode - given.f_mean
        mode = np.full(len(todo), np.nan)
        for place, i in enumerate(todo):
            if not np.isnan(rest[i]):
                mode[place] = likelihood_mode(code, scale, given.g_mean[i], given.mu[i], rest[i])
    here = Gaussian(m[todo], v[todo])
    grids = bounded_grids(
        lambda h, items: log_factor(h, todo[items]), here, gain[todo], step[todo], mode, kink=activation.kink
    )
    for grid in grids:
        found, _ = grid_moments(grid, here.mean)
        mean[todo[grid.items]], var[todo[grid.items]] = found.mean, found.var
    return Gaussian(mean, var)


def _wide_activations(
    cavity: Gaussian, step: FloatArray, log_factor: LogFactor, items: IntArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Tilted moments under cavities wider than the bend of a saturating g; see the kernel's `_h_wide`.

    L(h) - a - bΦ(h), a and b from the limits of g, vanishes beyond ±6.5 and is integrated by the
    trapezoid rule; a + bΦ(h) in closed form. NaN where cancellation would cost a few digits.
    """
    edge = nodes.SATURATED
    out = np.full((2, len(items)), np.nan)
    count = (2.0 * edge / step[items]).astype(np.int64) + 2
    for chunk in chunks(count):
        i = items[chunk]
        m, v = cavity.mean[i], cavity.var[i]
        spacing = 2.0 * edge / (count[chunk] - 1)
        node = np.arange(count[chunk[-1]])
        h = np.minimum(-edge + spacing[:, None] * node, edge)
        far = np.broadcast_to([-40.0, 40.0], (len(i), 2))  # erf is ±1 to the last bit
        likelihood = np.exp(log_factor(np.hstack([far, h]), i) - upper[i, None])
        low, rise = likelihood[:, 0], likelihood[:, 1] - likelihood[:, 0]
        z = h - m[:, None]
        rest = likelihood[:, 2:] - low[:, None] - rise[:, None] * ndtr(h)
        rest *= np.exp(-0.5 * z * z / v[:, None]) * (node < count[chunk, None])
        unit = spacing / np.sqrt(2.0 * np.pi * v)
        a = m / np.sqrt(1.0 + v)
        cdf, pdf = ndtr(a), np.exp(-0.5 * a * a) / np.sqrt(2.0 * np.pi)
        total = low + rise * cdf + unit * rest.sum(axis=1)
        safe = np.where(total > 1e-6 * (low + np.abs(rise)), total, np.nan)
        first = (rise * v / np.sqrt(1.0 + v) * pdf + unit * (rest * z).sum(axis=1)) / safe
        second = low * v + rise * (v * cdf - v * v * a * pdf / (1.0 + v))
        second = (second + unit * (rest * z * z).sum(axis=1)) / safe
        var = second - first * first
        good = var > 0.02 * second
        out[0, chunk], out[1, chunk] = np.where(good, m + first, np.nan), np.where(good, var, np.nan)
    return out[0], out[1]


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
