r"""Compiled tilted activations under narrow cavities (paper, eqs. qf_cond, qh_tilted): few nodes do.

Where there are many rows, one of them says little about a unit: over the cavity of its activation the unit
is nearly straight and the likelihood nearly flat. A Gauss–Hermite rule, which has the cavity as its weight,
then needs 8 or 16 nodes where the trapezoid rules of `kernel_tilted` and `kernel_activations`, made for any
density, take 32.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.fastmath import erfcx, exp_nonpositive
from cavity.numerics.kernel_grids import HERMITE_NODES, HERMITE_SIZES, HERMITE_WEIGHTS
from cavity.numerics.kernel_likelihoods import PROBIT
from cavity.numerics.kernel_units import _JIT, ERF, LINEAR, RELU, TANH, steepest, unit_value

# For each rule the largest variance of a cavity, and what a likelihood may bend within it, see `rule_for`:
# mean (in sds) and variance (relative) are then off by 1e-9 at most.
WIDEST = np.array([0.05, 0.2])
MOST_BENT = np.array([0.003, 0.06])
NEAR = 4.0  # sds within which the slope of a unit counts
MOST_MISFIT = 300.0  # beyond it the likelihood could underflow

_RSQRT2 = 1.0 / math.sqrt(2.0)


@njit(**_JIT)
def rule_for(mc, vc, kind, scale, mu, s, curvature, misfit):
    """The smallest rule that does under the cavity N(mc, vc), -1 for none.

    ``curvature`` bounds that of -log Z in the mean of f, ``misfit`` is how far log Z is below its peak. The
    curvature in g is at most (μ² + s) times that and 1 + 4·misfit, since V(h) is quadratic in g.
    """
    wide = 2.0 * vc if kind == TANH else vc  # it has poles at ±iπ/2
    if wide > WIDEST[-1] or kind == RELU or not misfit < MOST_MISFIT:
        return -1
    reach = NEAR * math.sqrt(vc)
    slope = scale * steepest(kind, mc - reach, mc + reach)
    bent = vc * slope * slope * (mu * mu + s) * curvature * (1.0 + 4.0 * misfit)
    for rule in range(len(HERMITE_SIZES)):
        if wide <= WIDEST[rule] and bent <= MOST_BENT[rule]:
            return rule
    return -1


@njit(**_JIT)
def _residuals(rule, mc, sd, kind, scale, mg, mu, s, c, t0, r0, least, work):
    """Residuals and variances at the nodes into work[1] and work[2]."""
    r, t = work[1], work[2]
    n = HERMITE_SIZES[rule]
    if kind == ERF:
        for q in range(n):
            r[q] = unit_value(ERF, mc + sd * HERMITE_NODES[rule, q])
    elif kind == LINEAR:
        for q in range(n):
            r[q] = mc + sd * HERMITE_NODES[rule, q]
    else:
        for q in range(n):
            r[q] = unit_value(kind, mc + sd * HERMITE_NODES[rule, q])
    for q in range(n):
        d = scale * r[q] - mg
        t[q] = max(t0 + d * (2.0 * c + d * s), least)
        r[q] = r0 - mu * d


@njit(**_JIT)
def _moments(rule, mc, sd, p):
    """Mean and variance of the activation with the likelihood p at the nodes."""
    n = HERMITE_SIZES[rule]
    s0 = 0.0
    s1 = 0.0
    for q in range(n):
        p[q] *= HERMITE_WEIGHTS[rule, q]
        s0 += p[q]
        s1 += p[q] * HERMITE_NODES[rule, q]
    mean = s1 / s0
    s2 = 0.0
    for q in range(n):
        z = HERMITE_NODES[rule, q] - mean
        s2 += p[q] * z * z
    return mc + sd * mean, sd * sd * s2 / s0, n


@njit(**_JIT)
def narrow_tilted(rule, mc, vc, kind, scale, mg, mu, s, c, t0, r0, noise, work):
    """`kernel_tilted.h_tilted` under a narrow cavity."""
    sd = math.sqrt(vc)
    _residuals(rule, mc, sd, kind, scale, mg, mu, s, c, t0, r0, noise, work)
    p, r, t = work[0], work[1], work[2]
    for q in range(HERMITE_SIZES[rule]):
        root = 1.0 / math.sqrt(t[q])
        z = r[q] * root
        p[q] = exp_nonpositive(-0.5 * z * z) * root
    return _moments(rule, mc, sd, p)


@njit(**_JIT)
def narrow_tilted_by(rule, mc, vc, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, work):
    """`kernel_activations.h_tilted_by` under a narrow cavity."""
    sd = math.sqrt(vc)
    _residuals(rule, mc, sd, kind, scale, mg, mu, s, c, v0, r0, 0.0, work)
    p, r, v = work[0], work[1], work[2]
    n = HERMITE_SIZES[rule]
    if like == PROBIT:
        for q in range(n):
            z = -y * r[q] / math.sqrt(1.0 + v[q])
            tail = 0.5 * exp_nonpositive(-0.5 * z * z) * erfcx(abs(z) * _RSQRT2)
            p[q] = tail if z < 0.0 else 1.0 - tail
        return _moments(rule, mc, sd, p)
    for q in range(n):
        p[q] = 0.0
        r[q] = -0.5 * r[q] * r[q]
    for j in range(mix.shape[1]):
        extra = mix[1, j] * sigma2
        weight = mix[0, j]
        for q in range(n):
            root = 1.0 / math.sqrt(v[q] + extra)
            p[q] += weight * root * exp_nonpositive(r[q] * root * root)
    return _moments(rule, mc, sd, p)
