r"""Compiled trimming of the grid of one tilted activation to where its density lives.

The log density of an activation lies below that at the cavity mean by more than `TAIL` outside
mc ± sd·√(2(TAIL + gain)), gain being the most that the likelihood can still win. Where the likelihood is
much narrower than the cavity it lies below it much earlier, and where the unit is saturated that decides
the number of nodes: a grid that reaches into the bend of g has to resolve the likelihood there.
"""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.kernel_grids import TAIL
from cavity.numerics.kernel_likelihoods import log_likelihood
from cavity.numerics.kernel_units import _JIT, ERF, LINEAR, SOFTPLUS, TANH, unit_slope, unit_value

TRIM = 64  # grids of more nodes are trimmed, and tried with fewer
AGREE = 1e-6  # of the halves of a grid; the whole was then off by at most 5e-8, mostly by less than 1e-9
BEND = 0.5  # spacing that sees the bend of any g
_HALVINGS = 14
_CLOSE = 0.2  # an end is found when what it may still move is this share of its distance


@njit(**_JIT)
def falls(kind, mu, s, gain):
    """Whether the likelihood falls on both sides of where the residual vanishes, as far as anyone looks."""
    return kind in (ERF, LINEAR, TANH, SOFTPLUS) and mu * mu > 2.0 * (TAIL + gain) * s


@njit(**_JIT)
def trimmed_ends(
    mc, prec, lo, hi, mode, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, floor, best, gain
):  # fmt: skip
    r"""Ends of a grid of h within [lo, hi], past which the log density is `TAIL` below ``best``.

    ``best`` is that at ``mode``, where the residual vanishes, or else at the cavity mean (mode NaN). Away
    from both of them both factors of the density fall, so that halving finds the ends; from the mode towards
    the cavity mean the likelihood has to fall by itself. r²/T, T quadratic in g, can turn around only
    where it exceeds μ²/s: where that is not far out in the tail, or g is not monotone, the ends stay.
    """
    if not falls(kind, mu, s, gain):
        return lo, hi
    at_mode = not math.isnan(mode)
    centre = mode if at_mode else mc
    r_mean = r0 - mu * (scale * unit_value(kind, mc) - mg)
    for side in range(2):
        inner, outer = centre, (lo if side == 0 else hi)
        towards = at_mode and (mc < mode if side == 0 else mc > mode)
        for q in range(_HALVINGS + 1):
            h = outer if q == 0 else 0.5 * (inner + outer)
            d = scale * unit_value(kind, h) - mg
            r = r0 - mu * d
            v = max(v0 + d * (2.0 * c + d * s), floor)
            out = at_mode or r * r_mean < 0.0 or abs(r) > abs(r_mean)
            if out:
                p = log_likelihood(like, y, r, v, sigma2, mix)
                out = p - (0.0 if towards else 0.5 * prec * (h - mc) ** 2) < best - TAIL
            if out:
                outer = h
            elif q == 0:  # it does not fall enough on this side
                break
            else:
                inner = h
            if abs(outer - inner) < _CLOSE * abs(inner - centre):
                break
        if side == 0:
            lo = outer
        else:
            hi = outer
    return lo, hi


@njit(**_JIT)
def fewest_nodes(prec, lo, hi, mode, mc, kind, scale, mu, s, t_min):
    """Nodes of the coarsest grid worth trying: it sees the bend of g and the peak of the likelihood, if any.

    lo, hi and mode are relative to mc. `kernel_tilted.spacing` resolves the steepest part of the grid; where
    the density is small there, fewer nodes do.
    """
    width = BEND
    if lo <= mode <= hi:
        slope = scale * unit_slope(kind, mc + mode)
        width = min(width, 1.0 / math.sqrt(prec + slope * slope * (mu * mu + s) / t_min))
    return max(TRIM, int((hi - lo) / width) + 2)


@njit(**_JIT)
def halves_moments(lo, step, w, n):
    """Mean and variance of nodes lo + step·q with weights w; variance -1 where the grid is too coarse.

    Its even and odd nodes are rules of their own. Errors of the trapezoid rule fall exponentially in
    1/step: where the halves agree to `AGREE`, the whole is good to about the square of that.
    """
    e0 = 0.0
    e1 = 0.0
    o0 = 0.0
    o1 = 0.0
    n -= n % 2  # an end carries nothing
    for q in range(0, n, 2):
        x = lo + step * q
        e0 += w[q]
        e1 += w[q] * x
        o0 += w[q + 1]
        o1 += w[q + 1] * (x + step)
    if not (e0 > 1e-200 and o0 > 1e-200):
        return 0.0, -1.0
    mean = (e1 + o1) / (e0 + o0)
    e2 = 0.0
    o2 = 0.0
    for q in range(0, n, 2):
        x = lo + step * q - mean
        e2 += w[q] * x * x
        o2 += w[q + 1] * (x + step) ** 2
    var = (e2 + o2) / (e0 + o0)
    apart = max(abs(e0 / o0 - 1.0), abs(e2 / e0 - o2 / o0) / var)
    apart = max(apart, abs(e1 / e0 - o1 / o0) / math.sqrt(var))
    return mean, var if apart < AGREE else -1.0
