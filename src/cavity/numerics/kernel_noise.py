r"""Compiled tilted noise level of a row under Gaussian noise (paper, eq. qtheta_tilted).

Other likelihoods: `cavity.numerics.kernel_likelihoods.scale_tilted`. NumPy twin: `cavity.ep.row_tilted`.
"""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.fastmath import exp_nonpositive
from cavity.numerics.kernel_grids import DIRECT, LOG_SCALE_SPACING, LOG_SCALE_TAIL, MAX_NODES, SPACING
from cavity.numerics.kernel_units import _JIT

_LOG_2PI = math.log(2.0 * math.pi)


@njit(**_JIT)
def _noise_log_density(theta, mc, vc, f_var, r2, row_var, eta):
    sigma2 = math.exp(theta) + row_var
    t = f_var + sigma2 / eta
    return -0.5 * ((theta - mc) ** 2 / vc + math.log(t) + r2 / t - (1.0 - eta) * math.log(sigma2))


@njit(**_JIT)
def narrower(lo, hi, log_density):
    """Where `DIRECT` nodes from lo to hi carry any of the density, and a node more at each end."""
    best = -math.inf
    for q in range(DIRECT):
        best = max(best, log_density[q])
    first, last = DIRECT, -1
    for q in range(DIRECT):
        if log_density[q] > best - LOG_SCALE_TAIL:
            first = min(first, q)
            last = q
    coarse = (hi - lo) / (DIRECT - 1)
    return max(lo, lo + coarse * (first - 1)), min(hi, lo + coarse * (last + 1))


@njit(**_JIT)
def noise_tilted(mc, vc, f_var, resid, row_var, eta, work):
    r"""Tilted moments of θ = log σ² (paper, eq. qtheta_tilted) and of 1/V_y (eqs. mq/Sq_tilted_v2).

    Density N(θ | mc, vc) · Z(θ) N(y | m_f, V_f + σ²/η), σ² = e^θ + row_var. Returns
    log Ẑ, E θ, Var θ, E[1/V_y], Var[1/V_y], all centred.
    """
    sd = math.sqrt(vc)
    r2 = resid * resid
    at_mean = _noise_log_density(mc, mc, vc, f_var, r2, row_var, eta)
    # log-likelihood over all θ is at most its value at V_y = max(r²/η, smallest V_y)
    t_best = max(r2 / eta, f_var + row_var / eta)
    bound = -0.5 * (eta * math.log(t_best) + r2 / t_best - (1.0 - eta) * math.log(eta))
    gain = max(0.0, bound - at_mean)
    half = sd * math.sqrt(2.0 * (LOG_SCALE_TAIL + gain))
    lo, hi = -half, half
    # -r²/2V_y curves by at most 2·r²/2V_y in θ; an outlier's density can be that much narrower
    step = min(SPACING / math.sqrt(1.0 / vc + 2.0 * gain), LOG_SCALE_SPACING)
    n = int((hi - lo) / step) + 2
    if n > DIRECT:
        for _ in range(4):
            coarse = (hi - lo) / (DIRECT - 1)
            for q in range(DIRECT):
                work[1, q] = _noise_log_density(mc + lo + coarse * q, mc, vc, f_var, r2, row_var, eta)
            lo, hi = narrower(lo, hi, work[1])
            n = int((hi - lo) / step) + 2
            if n <= DIRECT:
                break
        n = min(n, MAX_NODES)
    step = (hi - lo) / (n - 1)
    s0 = 0.0
    s1 = 0.0
    i1 = 0.0
    w_row = work[0]
    inverse_row = work[1]
    best = 0.5 * (1.0 - eta) * (mc + hi)
    if row_var == 0.0:  # log σ² = θ: no logarithm in the loop, which then vectorises
        top = math.exp(mc + hi) / eta
        for q in range(n):
            z = lo + step * q
            t = f_var + top * exp_nonpositive(min(z - hi, 0.0))
            root = 1.0 / math.sqrt(t)
            exponent = -0.5 * (z * z / vc + r2 * root * root - (1.0 - eta) * (mc + z))
            w = exp_nonpositive(min(exponent - best, 0.0)) * root
            w_row[q] = w
            inverse_row[q] = root * root
            s0 += w
            s1 += w * z
            i1 += w * root * root
    if not s0 > 1e-250:  # row_var > 0, or an outlier so far out that the weights underflowed
        best = -math.inf
        for q in range(n):
            p = _noise_log_density(mc + lo + step * q, mc, vc, f_var, r2, row_var, eta)
            w_row[q] = p
            best = max(best, p)
        s0 = 0.0
        s1 = 0.0
        i1 = 0.0
        for q in range(n):
            z = lo + step * q
            w = math.exp(w_row[q] - best)
            inverse = 1.0 / (f_var + (math.exp(mc + z) + row_var) / eta)
            w_row[q] = w
            inverse_row[q] = inverse
            s0 += w
            s1 += w * z
            i1 += w * inverse
    mean = s1 / s0
    inverse_mean = i1 / s0
    s2 = 0.0
    i2 = 0.0
    for q in range(n):
        s2 += w_row[q] * (lo + step * q - mean) ** 2
        i2 += w_row[q] * (inverse_row[q] - inverse_mean) ** 2
    log_z = best + math.log(s0 * step) - 0.5 * math.log(vc) - 0.5 * _LOG_2PI + log_power(eta)
    return log_z, mc + mean, s2 / s0, inverse_mean, i2 / s0


@njit(**_JIT)
def log_power(eta):
    """Constants of Z(θ) N(y | ·): -½ log 2π + ((1-η)/2) log 2π - ½ log η."""
    return -0.5 * eta * _LOG_2PI - 0.5 * math.log(eta)
