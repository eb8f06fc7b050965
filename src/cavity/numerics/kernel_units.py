r"""Hidden units as the compiled kernels know them: values, slopes, inverses and Gaussian moments of g(h).

A unit takes part as an integer ``kind``, never as a function, so that the disk cache holds. Each form has
its twin in `cavity.model.activations`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.fastmath import INLINE, erf, erfcx, exp_nonpositive, log_positive

ERF, LINEAR, TANH, RELU, SOFTPLUS, SINE, COSINE = range(7)

_JIT = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_RSQRT2 = 1.0 / math.sqrt(2.0)
_ROOT_2_PI = math.sqrt(2.0 / math.pi)

# Trapezoid rule for the moments of g where there is no closed form. Nearest singularities: tanh at ±iπ/2,
# softplus at ±iπ; error e^(-2π·(π/2)/0.3) = 5e-15. Beyond 8.5 sds lie 2e-17 of a Gaussian.
MOMENT_REACH, MOMENT_SPACING, MOMENT_BEND = 8.5, 0.5, 0.3
MOMENT_NODES = 2048  # enough up to a cavity sd of 36; at 100 the variance still has four digits


@njit(**INLINE)
def unit_value(kind, h):
    """g(h)."""
    if kind == ERF:
        return erf(h * _RSQRT2)
    if kind == TANH:
        e = exp_nonpositive(-2.0 * abs(h))
        t = (1.0 - e) / (1.0 + e)
        return t if h >= 0.0 else -t
    if kind == RELU:
        return max(h, 0.0)
    if kind == SOFTPLUS:
        return max(h, 0.0) + log_positive(1.0 + exp_nonpositive(-abs(h)))
    if kind == SINE:
        return math.sin(h)
    if kind == COSINE:
        return math.cos(h)
    return h


@njit(**INLINE)
def unit_slope(kind, h):
    """g'(h)."""
    if kind == ERF:
        return _ROOT_2_PI * exp_nonpositive(-0.5 * h * h)
    if kind == TANH:
        e = exp_nonpositive(-2.0 * abs(h))
        return 4.0 * e / ((1.0 + e) * (1.0 + e))
    if kind == RELU:
        return 1.0 if h > 0.0 else 0.0
    if kind == SOFTPLUS:
        e = exp_nonpositive(-abs(h))
        return (1.0 if h >= 0.0 else e) / (1.0 + e)
    if kind == SINE:
        return math.cos(h)
    if kind == COSINE:
        return -math.sin(h)
    return 1.0


@njit(**INLINE)
def steepest(kind, lo, hi):
    """Largest slope of g between lo and hi; a saturated unit is nearly flat there."""
    if kind in (ERF, TANH):
        return unit_slope(kind, min(max(0.0, lo), hi))
    return 1.0


@njit(**_JIT)
def unit_values(kind, lo, step, n, out):
    """g at the nodes lo + step·q; one loop a kind, so that those without a call vectorise."""
    if kind == ERF:
        for q in range(n):
            out[q] = unit_value(ERF, lo + step * q)
    elif kind == LINEAR:
        for q in range(n):
            out[q] = lo + step * q
    elif kind == TANH:
        for q in range(n):
            out[q] = unit_value(TANH, lo + step * q)
    elif kind == SOFTPLUS:
        for q in range(n):
            out[q] = unit_value(SOFTPLUS, lo + step * q)
    else:
        for q in range(n):
            out[q] = unit_value(kind, lo + step * q)


@njit(**_JIT)
def unit_inverse(kind, target):
    """An h with g(h) = target; NaN where there is none, or, for periodic units, where there are many."""
    if kind == LINEAR:
        return target
    if kind == RELU:
        return target if target > 0.0 else math.nan
    if kind == SOFTPLUS:
        return target + math.log(-math.expm1(-target)) if target > 0.0 else math.nan
    if kind in (SINE, COSINE) or abs(target) >= 1.0:
        return math.nan
    if kind == TANH:
        return math.atanh(target)
    return _erf_inverse(target)


@njit(**_JIT)
def _erf_inverse(target):
    """h with erf(h/√2) = target, |target| < 1: an approximation good to 2e-3 and three Newton steps."""
    rest = (1.0 - target) * (1.0 + target)
    if rest <= 0.0:
        return math.copysign(9.0, target)
    log_rest = math.log(rest)
    a = 2.0 / (math.pi * 0.147) + 0.5 * log_rest
    h = math.sqrt(2.0 * (math.sqrt(a * a - log_rest / 0.147) - a))
    for _ in range(3):  # erfc keeps the digits of 1 - |target|
        h += (math.erfc(h * _RSQRT2) - (1.0 - abs(target))) * math.exp(0.5 * h * h) / _ROOT_2_PI
    return math.copysign(h, target)


@njit(cache=True, nogil=True, error_model="numpy")
def unit_outputs(h, kinds, scale, g, slope):
    """Write s_k g_k(h_ik) and its derivative for activations (n, K): what a MAP fit spends its time on.

    All units as erf first, in a loop without branches and with one exponential for both, which vectorises;
    then those that are another kind.
    """
    for i in range(h.shape[0]):
        for k in range(h.shape[1]):
            e = exp_nonpositive(-0.5 * h[i, k] * h[i, k])
            g[i, k] = math.copysign(scale[k] * (1.0 - e * erfcx(abs(h[i, k]) * _RSQRT2)), scale[k] * h[i, k])
            slope[i, k] = scale[k] * _ROOT_2_PI * e
    for k in range(h.shape[1]):
        if kinds[k] != ERF:
            for i in range(h.shape[0]):
                g[i, k] = scale[k] * unit_value(kinds[k], h[i, k])
                slope[i, k] = scale[k] * unit_slope(kinds[k], h[i, k])


# ── moments of g(h), h ~ N(mean, var) ───────────────────────────────────────────────────────────


@njit(**_JIT)
def erf_moments(mean, var):
    r"""Mean and variance of erf(h/√2), h ~ N(mean, var) (paper, App. B, after eq. qf_fact).

    The variance integral in the form (4/π) ∫_b^1 exp(-a²(1+x²)/2)/(1+x²) dx with a = m/√(1+V),
    b = 1/√(1+2V): the paper's integral after sin u = (1-x²)/(1+x²)..., free of cancellation.
    """
    a = mean / math.sqrt(1.0 + var)
    m = math.erf(a * _RSQRT2)
    b = 1.0 / math.sqrt(1.0 + 2.0 * var)
    # 1 - b without cancellation for small var
    half = 0.5 * (2.0 * var / ((1.0 + 2.0 * var) * (1.0 + b)))
    mid = b + half
    total = 0.0
    for q in range(16):
        x = mid + half * _NODES[q]
        u = 1.0 + x * x
        total += _WEIGHTS[q] * exp_nonpositive(-0.5 * a * a * u) / u
    return m, 4.0 / math.pi * half * total


@njit(**_JIT)
def relu_moments(mean, var):
    """Mean and variance of max(h, 0): see `cavity.model.activations.Relu.moments`."""
    sd = math.sqrt(var)
    z = mean / sd
    pdf = 0.5 * _ROOT_2_PI * exp_nonpositive(-0.5 * z * z)
    ratio = erfcx(abs(z) * _RSQRT2) / _ROOT_2_PI  # of the smaller tail to the density
    tail = pdf * ratio
    if z < 0.0:
        first = pdf * max(1.0 - abs(z) * ratio, 0.0)
        second = pdf * max(ratio + abs(z) * (abs(z) * ratio - 1.0), 0.0)
        return sd * first, var * max(second - first * first, 0.0)
    spread = (1.0 - tail) * (1.0 + z * z * tail) - z * pdf * (1.0 - 2.0 * tail) - pdf * pdf
    return mean * (1.0 - tail) + sd * pdf, var * spread


@njit(**_JIT)
def unit_moments(kind, mean, var, work):
    """Mean and variance of g(h); work holds two rows of at least MOMENT_NODES."""
    if kind == ERF:
        return erf_moments(mean, var)
    if kind == LINEAR:
        return mean, var
    if kind == RELU:
        return relu_moments(mean, var)
    if kind in (SINE, COSINE):
        s, c = math.sin(mean), math.cos(mean)
        damp = math.exp(-var)
        lost = -math.expm1(-var)
        if kind == SINE:
            return math.exp(-0.5 * var) * s, 0.5 * lost * (lost + 2.0 * damp * c * c)
        return math.exp(-0.5 * var) * c, 0.5 * lost * (lost + 2.0 * damp * s * s)
    sd = math.sqrt(var)
    n = min(int(2.0 * MOMENT_REACH * max(1.0 / MOMENT_SPACING, sd / MOMENT_BEND)) + 2, MOMENT_NODES)
    step = 2.0 * MOMENT_REACH / (n - 1)
    g, w = work[0], work[1]
    unit_values(kind, mean - MOMENT_REACH * sd, step * sd, n, g)
    s0 = 0.0
    s1 = 0.0
    for q in range(n):
        z = -MOMENT_REACH + step * q
        w[q] = exp_nonpositive(-0.5 * z * z)
        s0 += w[q]
        s1 += w[q] * g[q]
    centre = s1 / s0
    s2 = 0.0
    for q in range(n):
        s2 += w[q] * (g[q] - centre) * (g[q] - centre)
    return centre, s2 / s0


@njit(**_JIT)
def all_unit_moments(h_mean, h_var, kinds, scale, mean, var):
    """Write means and variances of s_k g_k(h_ik), h ~ N, for activations (n, K), as predictions need them."""
    work = np.empty((2, MOMENT_NODES))
    for i in range(h_mean.shape[0]):
        for k in range(h_mean.shape[1]):
            m, v = unit_moments(kinds[k], h_mean[i, k], h_var[i, k], work)
            mean[i, k] = scale[k] * m
            var[i, k] = scale[k] * scale[k] * v
