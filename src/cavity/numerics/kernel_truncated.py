r"""Moments of a Gaussian times a power of a Student-t on the half-line, compiled.

A sweep asks for those of K output weights some fifteen times in a row; in NumPy each call costs a
millisecond whatever K. Per item the same steps as `quadrature.follow_mixture`: cover the density, then halve
the spacing of the trapezoid rule until two spacings agree.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.normal import LOG_2PI
from cavity.numerics.quadrature import AGREEMENT, DROP

# Panels of the first grid. The usual output weight (prior and cavity of like width) is then resolved at once,
# to 1e-14; 48 would send half of them through a doubling, 128 costs twice the nodes for the same digits.
_PANELS = 72
_KEEP_WHILE_COARSE = 60.0
_WORTH_TRIMMING = 0.6
_MAX_MOVES = 80
_MAX_DOUBLINGS = 6
_ROUNDING = 4.0 * np.finfo(np.float64).eps
_COMPILED = dict(cache=True, nogil=True, error_model="numpy")


@njit(**_COMPILED)
def _node(u, finest, z, width, power):
    """x and log density in u, less -z²/2 where z < 0."""
    wall = math.exp(finest - u)
    y = u - wall
    x = math.log1p(math.exp(-abs(y))) + max(y, 0.0)
    # (x - z)² less z² if z < 0: at z = -1e3 the square alone would cost six digits
    square = (x - z) * (x - z) if z > 0.0 else x * x - 2.0 * z * x
    log_slope = y - x + math.log1p(wall)  # of x in u
    return x, log_slope - 0.5 * square - power * math.log1p(x * x / width)


@njit(**_COMPILED)
def _sums(x, psi, p, n_panels, spacing):
    """log normaliser, mean and centred variance of x over all nodes, and over every second one."""
    top = -np.inf
    for q in range(n_panels + 1):
        top = max(top, psi[q])
    total, first, coarse_total, coarse_first = 0.0, 0.0, 0.0, 0.0
    origin = x[0]
    for q in range(n_panels + 1):
        p[q] = math.exp(psi[q] - top)
        total += p[q]
        first += p[q] * (x[q] - origin)
        if q % 2 == 0:
            coarse_total += p[q]
            coarse_first += p[q] * (x[q] - origin)
    mean, coarse_mean = first / total, coarse_first / coarse_total
    spread, coarse_spread = 0.0, 0.0
    for q in range(n_panels + 1):
        offset = x[q] - origin - mean
        spread += p[q] * offset * offset
        if q % 2 == 0:
            offset = x[q] - origin - coarse_mean
            coarse_spread += p[q] * offset * offset
    fine = (top + math.log(total * spacing), origin + mean, spread / total)
    coarse = (
        top + math.log(2.0 * coarse_total * spacing),
        origin + coarse_mean,
        coarse_spread / coarse_total,
    )
    return fine, coarse


@njit(**_COMPILED)
def _cover(z, width, power):
    r"""Finest scale :math:`c` and the first interval in :math:`u`.

    The prior falls in :math:`x`, so beyond :math:`\max(z,0)` the density falls at least like its Gaussian:
    9.8 sds are 48 nats, 44 for the second moment; a cavity below zero makes it fall like :math:`e^{zx}`
    too. On the left 3.8 units below :math:`c` are 40 nats. A cavity more than 12 sds above zero whose
    density at zero is 45 nats down leaves nothing below :math:`z - 11`.
    """
    finest = math.log(min(1.0 / max(1.0, -z), math.sqrt(width / max(2.0 * power, 1e-20)), 1.0))
    right = min(9.8, 55.0 / max(-z, 1.0)) if z < 0.0 else z + 9.8
    hi = right + math.log(-math.expm1(-right)) + 0.1
    above = max(z, 0.0)
    drop_at_zero = 0.5 * above * above - power * math.log1p(above * above / width)
    lo = above - 11.0 if above > 12.0 and drop_at_zero > 45.0 else finest - 3.8
    return finest, lo, hi


@njit(**_COMPILED)
def half_line_t_moments(cav_mean, cav_var, log_var, fraction, df, log_constant, out):
    r"""log Z, mean and variance of :math:`N(v\mid m,s^2)\,p(v)^\eta` with p a Student-t on v ≥ 0.

    The first four arguments are (J,) arrays, ``out`` is (3, J) and written; NaN where the density is no
    number or stays unresolved. See `TruncatedStudentTPrior.conditional_moments` for the map x(u).
    """
    most = _PANELS << _MAX_DOUBLINGS
    x, psi, p = np.empty(most + 1), np.empty(most + 1), np.empty(most + 1)
    for j in range(len(cav_mean)):
        out[:, j] = np.nan
        sd = math.sqrt(cav_var[j])
        z, power = cav_mean[j] / sd, 0.5 * fraction[j] * (df + 1.0)
        width = df * math.exp(log_var[j]) / cav_var[j]  # of the prior in cavity units, squared
        finest, lo, hi = _cover(z, width, power)
        settled = False
        for _ in range(_MAX_MOVES):
            step = (hi - lo) / _PANELS
            top, top_square = -np.inf, -np.inf
            for q in range(_PANELS + 1):
                x[q], psi[q] = _node(lo + q * step, finest, z, width, power)
                top = max(top, psi[q])
                p[q] = psi[q] + 2.0 * math.log(x[q])
                top_square = max(top_square, p[q])
            if not math.isfinite(top):
                break
            first, last = _PANELS, 0
            ends = (False, False)
            for q in range(_PANELS + 1):
                level = max(psi[q] - top, p[q] - top_square)
                if level > -_KEEP_WHILE_COARSE:
                    first, last = min(first, q), max(last, q)
                if level > -DROP:
                    ends = (ends[0] or q == 0, ends[1] or q == _PANELS)
            length = hi - lo
            if ends[0] or ends[1]:
                lo -= length * ends[0]
                hi += length * ends[1]
                continue
            new_lo, new_hi = lo + max(first - 1, 0) * step, lo + min(last + 1, _PANELS) * step
            if new_hi - new_lo >= _WORTH_TRIMMING * length:
                settled = True
                break
            lo, hi = new_lo, new_hi
        if not settled:
            continue
        panels, spacing = _PANELS, (hi - lo) / _PANELS
        for doubling in range(_MAX_DOUBLINGS + 1):
            fine, coarse = _sums(x, psi, p, panels, spacing)
            agreed = AGREEMENT + _ROUNDING * abs(fine[0])
            if (
                abs(fine[0] - coarse[0]) <= agreed
                and abs(fine[1] - coarse[1]) <= agreed * math.sqrt(fine[2])
                and abs(fine[2] - coarse[2]) <= agreed * fine[2]
            ):
                below = min(z, 0.0)
                out[0, j] = fine[0] + fraction[j] * (log_constant - 0.5 * log_var[j])
                out[0, j] -= 0.5 * (LOG_2PI + below * below)
                out[1, j], out[2, j] = sd * fine[1], cav_var[j] * fine[2]
                break
            if doubling == _MAX_DOUBLINGS:
                break
            for q in range(panels, 0, -1):
                x[2 * q], psi[2 * q] = x[q], psi[q]
            panels, spacing = 2 * panels, 0.5 * spacing
            for q in range(1, panels, 2):
                x[q], psi[q] = _node(lo + q * spacing, finest, z, width, power)
