r"""Compiled log Z of the likelihoods that are not Gaussian, and the tilted θ of a scale mixture.

A likelihood takes part as an integer ``like`` and an array ``mix``, never as a function, so that the
disk cache holds. With f ~ N(m, V) and r = target - m:

PROBIT   Φ(y m/√(1 + V)), y = ±1, target 0 (fraction 1 only; there is no θ)
MIXTURE  σ^(1-η) Σ_j w_j N(y | m, V + c_j σ²), target y; mix holds w_j/√2π and c_j, increasing

The Gaussian forms of `cavity.numerics.kernel_tilted` stay apart: they need neither logarithms nor sums over
components. NumPy twin: `cavity.ep.row_tilted`.
"""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.fastmath import erfcx, exp_nonpositive
from cavity.numerics.kernel_grids import (
    DIRECT,
    HERMITE_NODES,
    HERMITE_SIZES,
    HERMITE_WEIGHTS,
    LOG_SCALE_SPACING,
    LOG_SCALE_TAIL,
    MAX_NODES,
    SPACING,
)
from cavity.numerics.kernel_noise import narrower
from cavity.numerics.kernel_units import _JIT

GAUSSIAN, PROBIT, MIXTURE = 0, 1, 2

# Cavities of θ this narrow, misfit counted, are for the smallest Gauss–Hermite rule: off by 1e-11 at most.
NARROW_SCALE = 0.02
_RSQRT2 = 1.0 / math.sqrt(2.0)
_ERF_SLOPE = math.sqrt(2.0 / math.pi)
_LOG_2PI = math.log(2.0 * math.pi)


@njit(**_JIT)
def probit(z):
    """log Φ(z), ρ = φ/Φ and z + ρ, in either tail."""
    if z < -100.0:  # z + ρ by its series: the difference would lose eps·z²
        x = 1.0 / (z * z)
        mean = -(1.0 - x * (2.0 - x * (10.0 - x * (74.0 - 706.0 * x)))) / z
        return math.log(0.5 * erfcx(-z * _RSQRT2)) - 0.5 * z * z, mean - z, mean
    if z < 0.0:
        scaled = erfcx(-z * _RSQRT2)
        ratio = _ERF_SLOPE / scaled
        return math.log(0.5 * scaled) - 0.5 * z * z, ratio, z + ratio
    tail = 0.5 * math.erfc(z * _RSQRT2)
    ratio = 0.5 * _ERF_SLOPE * math.exp(-0.5 * z * z) / (1.0 - tail)
    return math.log1p(-tail), ratio, z + ratio


@njit(**_JIT)
def mixture(r2, var, sigma2, mix):
    """log Σ_j w_j N(r | 0, V + c_j σ²) with mean and variance of 1/(V + c_j σ²) over the components."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for j in range(mix.shape[1]):
        inverse = 1.0 / (var + mix[1, j] * sigma2)
        w = mix[0, j] * math.sqrt(inverse) * exp_nonpositive(-0.5 * r2 * inverse)
        s0 += w
        s1 += w * inverse
        s2 += w * inverse * inverse
    shift = 0.0
    if not s0 > 1e-250:  # so far out that all of them underflowed
        shift = -0.5 * r2 / (var + mix[1, -1] * sigma2)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for j in range(mix.shape[1]):
            inverse = 1.0 / (var + mix[1, j] * sigma2)
            w = mix[0, j] * math.sqrt(inverse) * exp_nonpositive(min(-0.5 * r2 * inverse - shift, 0.0))
            s0 += w
            s1 += w * inverse
            s2 += w * inverse * inverse
    inverse = s1 / s0
    return shift + math.log(s0), inverse, max(s2 / s0 - inverse * inverse, 0.0)


@njit(**_JIT)
def log_likelihood(like, y, resid, var, sigma2, mix):
    """log Z up to what does not depend on m and V; a Gaussian's ``var`` includes the noise."""
    if like == GAUSSIAN:
        return -0.5 * (resid * resid / var + math.log(var))
    if like == PROBIT:
        return probit(-y * resid / math.sqrt(1.0 + var))[0]
    return mixture(resid * resid, var, sigma2, mix)[0]


@njit(**_JIT)
def likelihood_at(like, y, resid, var, sigma2, eta, mix):
    """log Z with its first two derivatives in m, at known σ²."""
    if like == PROBIT:
        root = 1.0 / math.sqrt(1.0 + var)
        log_z, ratio, mean = probit(-y * resid * root)
        return log_z, y * ratio * root, -ratio * mean * root * root
    value, inverse, spread = mixture(resid * resid, var, sigma2, mix)
    value += 0.5 * (1.0 - eta) * math.log(sigma2)
    return value, resid * inverse, resid * resid * spread - inverse


@njit(**_JIT)
def _scale_grid(mc, vc, f_var, r2, row_var, eta, mix, gain, z, log_density):
    """A uniform grid of θ - mc into z, trimmed to where the tilted density lives; how many nodes."""
    half = math.sqrt(vc * 2.0 * (LOG_SCALE_TAIL + gain))
    lo, hi = -half, half
    step = min(SPACING / math.sqrt(1.0 / vc + 2.0 * gain), LOG_SCALE_SPACING)
    n = int((hi - lo) / step) + 2
    if n > DIRECT:
        for _ in range(4):
            coarse = (hi - lo) / (DIRECT - 1)
            for q in range(DIRECT):
                x = lo + coarse * q
                sigma2 = math.exp(mc + x) + row_var
                p = mixture(r2, f_var, sigma2, mix)[0] + 0.5 * (1.0 - eta) * math.log(sigma2)
                log_density[q] = p - 0.5 * x * x / vc
            lo, hi = narrower(lo, hi, log_density)
            n = int((hi - lo) / step) + 2
            if n <= DIRECT:
                break
        n = min(n, MAX_NODES)
    for q in range(n):
        z[q] = lo + (hi - lo) / (n - 1) * q
    return n


@njit(**_JIT)
def scale_tilted(mc, vc, f_var, resid, row_var, eta, mix, work):
    r"""Tilted θ of a scale mixture (paper, eq. qtheta_tilted), σ² = e^θ + row_var.

    Returns log Ẑ, E θ, Var θ, and E[∂], E[∂²] + Var[∂] of log Z in m over the tilted θ.
    """
    sd = math.sqrt(vc)
    r2 = resid * resid
    count = mix.shape[1]
    sigma2 = math.exp(mc) + row_var
    at_mean = mixture(r2, f_var, sigma2, mix)[0] + 0.5 * (1.0 - eta) * math.log(sigma2)
    # σ^(1-η) N(r | 0, T) with c σ² <= T is at most c^(-(1-η)/2) T^(-η/2) e^(-r²/2T), largest at T = r²/η
    t_best = max(r2 / eta, f_var + mix[1, 0] * row_var)
    total = 0.0
    for j in range(count):
        total += mix[0, j] * mix[1, j] ** (-0.5 * (1.0 - eta))
    gain = max(0.0, math.log(total) - 0.5 * (eta * math.log(t_best) + r2 / t_best) - at_mean)
    narrow = vc * (1.0 + 2.0 * gain) < NARROW_SCALE
    p_row, inverse, spread, z = work[0], work[1], work[2], work[3]
    if narrow:
        n = HERMITE_SIZES[0]
        for q in range(n):
            z[q] = sd * HERMITE_NODES[0, q]
    else:
        n = _scale_grid(mc, vc, f_var, r2, row_var, eta, mix, gain, z, p_row)
    best = -math.inf
    for q in range(n):
        sigma2 = math.exp(mc + z[q]) + row_var
        p, inverse[q], spread[q] = mixture(r2, f_var, sigma2, mix)
        p_row[q] = p + 0.5 * (1.0 - eta) * math.log(sigma2)
        p_row[q] += math.log(HERMITE_WEIGHTS[0, q]) if narrow else -0.5 * z[q] * z[q] / vc
        best = max(best, p_row[q])
    s0 = 0.0
    s1 = 0.0
    i1 = 0.0
    for q in range(n):
        p_row[q] = math.exp(p_row[q] - best)
        s0 += p_row[q]
        s1 += p_row[q] * z[q]
        i1 += p_row[q] * inverse[q]
    mean = s1 / s0
    i1 /= s0
    s2 = 0.0
    i2 = 0.0
    for q in range(n):
        s2 += p_row[q] * (z[q] - mean) ** 2
        i2 += p_row[q] * (spread[q] + (inverse[q] - i1) ** 2)
    log_z = best + math.log(s0)
    if not narrow:
        log_z += math.log(z[1] - z[0]) - 0.5 * (math.log(vc) + _LOG_2PI)
    return log_z, mc + mean, s2 / s0, resid * i1, r2 * i2 / s0 - i1
