r"""Compiled row kernel: cavity → moments → tilted → proposal, fused (Numba lives only here and in fastmath).

One call visits a block of rows with the posterior held still and writes the damped new sites and
diagnostics of those rows. ``cavity.ep.network`` holds the plain NumPy twin, in the same order, and
the equations are named there and here alike. Arrays only, one signature, so the disk cache holds.

Layout: rows n, units K, outputs J = K + 1 with the output bias last.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.fastmath import erf, exp_nonpositive
from cavity.numerics.kernel_grids import (
    DIRECT,
    ERF_SPACING,
    MAX_GAIN,
    MAX_NODES,
    SATURATED,
    SPACING,
    TAIL,
)
from cavity.numerics.kernel_likelihoods import GAUSSIAN
from cavity.numerics.kernel_trim import TRIM, falls, fewest_nodes, halves_moments, trimmed_ends
from cavity.numerics.kernel_units import (
    _JIT,
    ERF,
    LINEAR,
    RELU,
    steepest,
    unit_inverse,
    unit_value,
    unit_values,
)

# Panels of a unit with a kink: 10 Gauss–Legendre nodes over six spacings of the trapezoid rule, 1e-9.
PANEL = 6.0
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(10)
_RSQRT2 = 1.0 / math.sqrt(2.0)
_NO_MIX = np.zeros((2, 1))


@njit(**_JIT)
def _h_log_density(h, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise):
    """Log tilted density of one activation at h, up to a constant: quadratic part and 1/√T."""
    d = scale * unit_value(kind, h) - mg
    t = max(t0 + d * (2.0 * c + d * s), noise)
    r = r0 - mu * d
    return -0.5 * ((h - mc) ** 2 * prec + r * r / t + math.log(t))


@njit(**_JIT)
def _h_weights(lo, step, n, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise, work):
    """Unnormalised tilted weights on a grid into work[0]; returns their sum and first moment."""
    c2 = 2.0 * c
    s0 = 0.0
    s1 = 0.0
    w, g = work[0], work[1]
    unit_values(kind, lo + mc, step, n, g)
    for q in range(n):
        z = lo + step * q
        d = scale * g[q] - mg
        t = max(t0 + d * (c2 + d * s), noise)
        root = 1.0 / math.sqrt(t)
        r = (r0 - mu * d) * root
        weight = exp_nonpositive(min(-0.5 * (z * z * prec + r * r), 0.0)) * root
        w[q] = weight
        s0 += weight
        s1 += weight * z
    return s0, s1


@njit(**_JIT)
def _h_wide(mc, vc, step, scale, mg, mu, s, c, t0, r0, noise):
    r"""Tilted moments of an erf unit under a cavity wider than the bend of erf.

    The likelihood L(h) is constant beyond ±SATURATED. With a = L(-∞), b = L(∞) - L(-∞) the part
    a + bΦ(h) is integrated in closed form against N(h | mc, vc), and only L(h) - a - bΦ(h), which
    vanishes at both ends, by the trapezoid rule. Returns mean, variance and nodes; variance -1 where
    cancellation would cost more than a few digits.
    """
    lo, hi = -SATURATED, SATURATED
    n = int((hi - lo) / step) + 2
    step = (hi - lo) / (n - 1)
    prec = 1.0 / vc
    c2 = 2.0 * c
    d = -scale - mg
    t = max(t0 + d * (c2 + d * s), noise)
    r = r0 - mu * d
    low = exp_nonpositive(min(-0.5 * r * r / t, 0.0)) / math.sqrt(t)
    d = scale - mg
    t = max(t0 + d * (c2 + d * s), noise)
    r = r0 - mu * d
    rise = exp_nonpositive(min(-0.5 * r * r / t, 0.0)) / math.sqrt(t) - low
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for q in range(n):
        h = lo + step * q
        e = erf(h * _RSQRT2)
        d = scale * e - mg
        t = max(t0 + d * (c2 + d * s), noise)
        root = 1.0 / math.sqrt(t)
        r = (r0 - mu * d) * root
        rest = exp_nonpositive(min(-0.5 * r * r, 0.0)) * root - low - rise * 0.5 * (1.0 + e)
        z = h - mc
        w = rest * exp_nonpositive(-0.5 * z * z * prec)
        s0 += w
        s1 += w * z
        s2 += w * z * z
    unit = step * math.sqrt(prec / (2.0 * math.pi))
    a = mc / math.sqrt(1.0 + vc)
    cdf = 0.5 * math.erfc(-a * _RSQRT2)
    pdf = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    total = low + rise * cdf + unit * s0
    first = (rise * vc / math.sqrt(1.0 + vc) * pdf + unit * s1) / total
    second = (low * vc + rise * (vc * cdf - vc * vc * a * pdf / (1.0 + vc)) + unit * s2) / total
    var = second - first * first
    if not (total > 1e-6 * (low + abs(rise)) and var > 0.02 * second):
        return 0.0, -1.0, n
    return mc + first, var, n


@njit(**_JIT)
def spacing(prec, kind, scale, lo, hi, mu, s, t_min, misfit):
    """Step of a grid of h from lo to hi that resolves cavity, unit and likelihood; its misfit is r²/2T."""
    slope = abs(scale) * steepest(kind, lo, hi)
    # The curvature of r²/2T in g is at most (μ² + s)(1 + 4·r²/2T)/T, since T is quadratic in g.
    step = SPACING / math.sqrt(prec + slope * slope * (mu * mu + s) / t_min * (1.0 + 4.0 * misfit))
    if kind != LINEAR:
        step = min(step, ERF_SPACING)
    if s > 0.0:  # T(h) vanishes at complex h: error e^(-2π·distance/step) = 1e-11 at a quarter
        step = min(step, 0.25 * math.sqrt(t_min / s) / slope)
    return step


@njit(**_JIT)
def likelihood_mode(kind, scale, mg, mu, r0):
    """Activation at which the residual vanishes, or NaN where no activation reaches it."""
    if mu == 0.0:
        return math.nan
    return unit_inverse(kind, (mg + r0 / mu) / scale)


@njit(**_JIT)
def panel_nodes(lo, hi, step, kink, x, log_w):
    """Gauss–Legendre nodes and log weights on panels of [lo, hi] that end at a kink of g; how many."""
    wide = max(PANEL * step, (hi - lo) * len(_PANEL_NODES) / (MAX_NODES - 2 * len(_PANEL_NODES)))
    cut = min(max(kink, lo), hi)
    n = 0
    for side in range(2):
        left, right = (lo, cut) if side == 0 else (cut, hi)
        count = int(math.ceil((right - left) / wide))
        for p in range(count):
            half = 0.5 * (right - left) / count
            for j in range(len(_PANEL_NODES)):
                x[n] = left + half * (2.0 * p + 1.0 + _PANEL_NODES[j])
                log_w[n] = math.log(half * _PANEL_WEIGHTS[j])
                n += 1
    return n


@njit(**_JIT)
def weighted_moments(x, log_p, n):
    """Mean and variance of nodes x with log weights log_p, which are replaced by the weights."""
    best = -math.inf
    for q in range(n):
        best = max(best, log_p[q])
    s0 = 0.0
    s1 = 0.0
    for q in range(n):
        log_p[q] = math.exp(log_p[q] - best)
        s0 += log_p[q]
        s1 += log_p[q] * x[q]
    mean = s1 / s0
    s2 = 0.0
    for q in range(n):
        s2 += log_p[q] * (x[q] - mean) ** 2
    return mean, s2 / s0


@njit(**_JIT)
def h_tilted(mc, vc, kind, scale, mg, mu, s, c, t0, r0, noise, work):
    r"""Mean and variance of the tilted density of one activation (paper, eqs. qf_cond, qh_tilted).

    N(h | mc, vc) · N(y | m(h), V(h) + σ²/η) with m(h) = m_f + μ(g - m_g) and
    V(h) + σ²/η = t0 + 2c(g - m_g) + s(g - m_g)²; r0 = y - m_f, noise = σ²/η <= V(h) + σ²/η.
    Both modes, at the cavity and where m(h) = y, lie inside the grid by construction. The number of
    nodes used comes third.
    """
    if kind == LINEAR and s == 0.0 and c == 0.0:  # Gaussian times Gaussian
        b = mu * scale
        prec = 1.0 / vc + b * b / t0
        return mc + b * (r0 - mu * (scale * mc - mg)) / (t0 * prec), 1.0 / prec, 1
    sd = math.sqrt(vc)
    prec = 1.0 / vc
    t_min = max(noise, t0 - c * c / s) if s > 0.0 else t0
    d = scale * unit_value(kind, mc) - mg
    t = max(t0 + d * (2.0 * c + d * s), noise)
    r = r0 - mu * d
    at_mean = -0.5 * r * r / t
    gain = max(0.0, -at_mean + 0.5 * math.log(t / t_min))
    half = sd * math.sqrt(2.0 * (TAIL + gain))
    lo, hi = mc - half, mc + half
    step = spacing(prec, kind, scale, lo, hi, mu, s, t_min, gain)
    mode = math.nan
    if hi - lo > TRIM * step:
        best = at_mean - 0.5 * math.log(t)
        mode = likelihood_mode(kind, scale, mg, mu, r0)
        centre = math.nan
        if abs(mode - mc) < half:
            p = _h_log_density(mode, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise)
            if p > best:  # nothing lies above it by more than what its cavity takes from it
                best, centre = p, mode
                gain = max(0.0, -0.5 * math.log(t_min) - p)
                half = sd * math.sqrt(2.0 * (TAIL + gain))
        lo, hi = trimmed_ends(
            mc, prec, mc - half, mc + half, centre, kind, scale, mg, mu, s, c, t0, r0, GAUSSIAN, 0.0, 0.0,
            _NO_MIX, noise, best, gain,
        )  # fmt: skip
        step = spacing(prec, kind, scale, lo, hi, mu, s, t_min, gain)
    lo, hi = lo - mc, hi - mc
    mode -= mc
    n = int((hi - lo) / step) + 2
    saturates = kind == ERF and hi - lo > 3.0 * SATURATED and gain < MAX_GAIN
    most = int(2.0 * SATURATED / step) + 2 if saturates else n
    if most > TRIM and gain <= MAX_GAIN and falls(kind, mu, s, gain):
        count = fewest_nodes(prec, lo, hi, mode, mc, kind, scale, mu, s, t_min)
        while count < min(most, DIRECT):
            coarse = (hi - lo) / (count - 1)
            _h_weights(lo, coarse, count, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise, work)
            mean, var = halves_moments(lo, coarse, work[0], count)
            if var > 0.0:
                return mc + mean, var, count
            count *= 2
    if saturates:
        mean, var, wide = _h_wide(mc, vc, step, scale, mg, mu, s, c, t0, r0, noise)
        if var > 0.0:
            return mean, var, wide
    trimmed = n > DIRECT or gain > MAX_GAIN
    if trimmed:
        for _ in range(6):
            coarse = (hi - lo) / (DIRECT - 1)
            best = -math.inf
            for q in range(DIRECT):
                p = _h_log_density(mc + lo + coarse * q, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise)
                work[1, q] = p
                best = max(best, p)
            if lo <= mode <= hi:
                p = _h_log_density(mc + mode, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise)
                best = max(best, p)
            else:
                p = -math.inf
            first, last = DIRECT, -1
            for q in range(DIRECT):
                if work[1, q] > best - TAIL:
                    first = min(first, q)
                    last = max(last, q)
            left = lo + coarse * (first - 1) if last >= 0 else math.inf
            right = lo + coarse * (last + 1) if last >= 0 else -math.inf
            if p > best - TAIL:
                left = min(left, mode - coarse)
                right = max(right, mode + coarse)
            lo, hi = max(lo, left), min(hi, right)
            n = int((hi - lo) / step) + 2
            if n <= DIRECT:
                break
        n = min(n, MAX_NODES)
    if kind == RELU:
        n = panel_nodes(lo, hi, step, -mc, work[1], work[0])
        for q in range(n):
            h = mc + work[1, q]
            work[0, q] += _h_log_density(h, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise)
        mean, var = weighted_moments(work[1], work[0], n)
        return mc + mean, var, n
    if trimmed:
        step = (hi - lo) / (n - 1)
        # the largest exponent on the grid: exact shift, no underflow
        best = -math.inf
        for q in range(n):
            h = mc + lo + step * q
            p = _h_log_density(h, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise)
            work[0, q] = p
            best = max(best, p)
        s0 = 0.0
        s1 = 0.0
        for q in range(n):
            w = math.exp(work[0, q] - best)
            work[0, q] = w
            s0 += w
            s1 += w * (lo + step * q)
    else:
        step = (hi - lo) / (n - 1)
        s0, s1 = _h_weights(lo, step, n, mc, prec, kind, scale, mg, mu, s, c, t0, r0, noise, work)
    mean = s1 / s0
    s2 = 0.0
    w_row = work[0]
    for q in range(n):
        z = lo + step * q - mean
        s2 += w_row[q] * z * z
    return mc + mean, s2 / s0, n
