r"""Compiled tilted activations under a likelihood that is not Gaussian (paper, eqs. qf_cond, qh_tilted).

The grids are those of `cavity.numerics.kernel_tilted`; the likelihoods come from
`cavity.numerics.kernel_likelihoods`. NumPy twin: `cavity.ep.row_tilted.tilted_activations`.
"""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.fastmath import erf, erfcx, exp_nonpositive
from cavity.numerics.kernel_grids import DIRECT, MAX_GAIN, MAX_NODES, SATURATED, SPACING, TAIL
from cavity.numerics.kernel_likelihoods import MIXTURE, PROBIT, likelihood_at, log_likelihood, mixture
from cavity.numerics.kernel_tilted import likelihood_mode, panel_nodes, spacing, weighted_moments
from cavity.numerics.kernel_trim import TRIM, falls, fewest_nodes, halves_moments, trimmed_ends
from cavity.numerics.kernel_units import _JIT, ERF, LINEAR, RELU, unit_value, unit_values

_RSQRT2 = 1.0 / math.sqrt(2.0)
# Components that carry less than this share of a tilted density are left out.
_SHARE = 1e-9


@njit(**_JIT)
def bounds(like, y, resid, var, var_min, sigma2, mix):
    """Upper bound of log Z where V >= var_min, of its curvature at r = 0, and of r·∂/2 on the way there.

    The last is r²/2V_y for a Gaussian; a mixture's is largest where a wider component takes over.
    """
    at = log_likelihood(like, y, resid, var, sigma2, mix)
    if like == PROBIT:
        return 0.0, 1.0 / (1.0 + var_min), -at, at
    upper, curvature, _ = mixture(0.0, var_min, sigma2, mix)
    misfit = 0.0
    r2 = resid * resid
    for _ in range(8):
        if misfit >= 0.5 * r2 * curvature:  # no smaller r can reach it
            break
        misfit = max(misfit, 0.5 * r2 * mixture(r2, var, sigma2, mix)[1])
        r2 *= 0.25
    misfit += upper - mixture(0.0, var, sigma2, mix)[0]
    return upper, curvature, min(misfit, upper - at), at


@njit(**_JIT)
def _components(best, ratio, var_min, sigma2, mix):
    """How many components matter; they are ordered from narrow to wide.

    One adds at most its peak w_j/√(V + c_j σ²) times the mass of the cavity, the density has about e^best of
    it over a width that is ``ratio`` times smaller, and what lies outside counts with its squared distance.
    """
    count = mix.shape[1]
    least = _SHARE * math.exp(best) / ratio**3
    while count > 1 and mix[0, count - 1] / math.sqrt(var_min + mix[1, count - 1] * sigma2) < least:
        count -= 1
    return count


@njit(**_JIT)
def _fill(lo, step, n, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work):
    """Likelihood over e^upper at the nodes lo + step·q of h into work[0]."""
    out, r, v = work[0], work[1], work[2]
    unit_values(kind, lo, step, n, r)
    for q in range(n):
        d = scale * r[q] - mg
        v[q] = max(v0 + d * (2.0 * c + d * s), 0.0)
        r[q] = r0 - mu * d
    if like == PROBIT:
        for q in range(n):
            z = -y * r[q] / math.sqrt(1.0 + v[q])
            tail = 0.5 * exp_nonpositive(-0.5 * z * z) * erfcx(abs(z) * _RSQRT2)
            out[q] = tail if z < 0.0 else 1.0 - tail
        return
    for q in range(n):
        out[q] = 0.0
        r[q] = -0.5 * r[q] * r[q]
    for j in range(count):
        extra = mix[1, j] * sigma2
        weight = mix[0, j] * math.exp(-upper)
        for q in range(n):
            root = 1.0 / math.sqrt(v[q] + extra)
            out[q] += weight * root * exp_nonpositive(r[q] * root * root)


@njit(**_JIT)
def _wide(mc, vc, step, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work):
    """Tilted moments under a cavity wider than the bend of erf; `kernel_tilted._h_wide` tells how."""
    n = int(2.0 * SATURATED / step) + 2
    if not 2 <= n <= MAX_NODES:  # more than the workspace holds: trim to where the density lives instead
        return 0.0, -1.0, 0
    step = 2.0 * SATURATED / (n - 1)
    _fill(
        -40.0, 80.0, 2, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work
    )  # fmt: skip
    low, rise = work[0, 0], work[0, 1] - work[0, 0]
    _fill(
        -SATURATED, step, n, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work
    )  # fmt: skip
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    prec = 1.0 / vc
    for q in range(n):
        h = -SATURATED + step * q
        z = h - mc
        rest = work[0, q] - low - rise * 0.5 * (1.0 + erf(h * _RSQRT2))
        w = rest * exp_nonpositive(-0.5 * z * z * prec)
        s0 += w
        s1 += w * z
        s2 += w * z * z
    unit = step * math.sqrt(prec / (2.0 * math.pi))
    a = mc / math.sqrt(1.0 + vc)
    cdf = 0.5 * math.erfc(-a * _RSQRT2)
    pdf = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    total = low + rise * cdf + unit * s0
    mean = (rise * vc / math.sqrt(1.0 + vc) * pdf + unit * s1) / total
    second = (low * vc + rise * (vc * cdf - vc * vc * a * pdf / (1.0 + vc)) + unit * s2) / total
    var = second - mean * mean
    if not (total > 1e-6 * (low + abs(rise)) and var > 0.02 * second):
        return 0.0, -1.0, n
    return mc + mean, var, n


@njit(**_JIT)
def h_tilted_by(mc, vc, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, work):
    r"""Mean and variance of one tilted activation (paper, eqs. qf_cond, qh_tilted), and the nodes used.

    N(h | mc, vc) · Z(y; m(h), V(h)) with m(h) = m_f + μ(g - m_g) and V(h) = v0 + 2c(g - m_g) + s(g - m_g)²;
    r0 = target - m_f. The likelihood is bounded, so every point within e^-28 of the density at the cavity
    mean lies inside the grid, whatever the number of modes.
    """
    d = scale * unit_value(kind, mc) - mg
    resid = r0 - mu * d
    var = max(v0 + d * (2.0 * c + d * s), 0.0)
    if kind == LINEAR and s == 0.0 and c == 0.0:  # f is Gaussian: moments from the derivatives of log Z
        b = mu * scale
        _, slope, curvature = likelihood_at(like, y, resid, v0 + b * b * vc, sigma2, 1.0, mix)
        return mc + vc * b * slope, vc + vc * vc * b * b * curvature, 1
    sd = math.sqrt(vc)
    prec = 1.0 / vc
    var_min = max(0.0, v0 - c * c / s) if s > 0.0 else max(v0, 0.0)
    upper, curvature, misfit, at_mean = bounds(like, y, resid, var, var_min, sigma2, mix)
    gain = max(0.0, upper - at_mean)
    t_min = 1.0 / curvature
    half = sd * math.sqrt(2.0 * (TAIL + gain))
    lo, hi = mc - half, mc + half
    step = spacing(prec, kind, scale, lo, hi, mu, s, t_min, misfit)
    best, mode = at_mean, math.nan
    if hi - lo > TRIM * step:
        centre = math.nan
        mode = likelihood_mode(kind, scale, mg, mu, r0) if like == MIXTURE else math.nan
        if abs(mode - mc) < half:
            d = scale * unit_value(kind, mode) - mg
            p = log_likelihood(like, y, 0.0, max(v0 + d * (2.0 * c + d * s), 0.0), sigma2, mix)
            p -= 0.5 * (mode - mc) ** 2 * prec
            if p > best:
                best, centre = p, mode
                gain = max(0.0, upper - p)
                misfit = min(misfit, gain)
                half = sd * math.sqrt(2.0 * (TAIL + gain))
        lo, hi = trimmed_ends(
            mc, prec, mc - half, mc + half, centre, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix,
            0.0, best, gain,
        )  # fmt: skip
        step = spacing(prec, kind, scale, lo, hi, mu, s, t_min, misfit)
    count = _components(best, SPACING * sd / step, var_min, sigma2, mix) if like == MIXTURE else 0
    n = int((hi - lo) / step) + 2
    p_row = work[0]
    saturates = kind == ERF and hi - lo > 3.0 * SATURATED and gain < MAX_GAIN
    most = int(2.0 * SATURATED / step) + 2 if saturates else n
    if most > TRIM and gain <= MAX_GAIN and falls(kind, mu, s, gain):
        few = fewest_nodes(prec, lo - mc, hi - mc, mode - mc, mc, kind, scale, mu, s, t_min)
        while few < min(most, DIRECT):
            coarse = (hi - lo) / (few - 1)
            _fill(
                lo, coarse, few, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper,
                work,
            )  # fmt: skip
            for q in range(few):
                z = lo - mc + coarse * q
                p_row[q] *= exp_nonpositive(-0.5 * z * z * prec)
            mean, spread = halves_moments(lo - mc, coarse, p_row, few)
            if spread > 0.0:
                return mc + mean, spread, few
            few *= 2
    if saturates:
        mean, spread, wide = _wide(
            mc, vc, step, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work
        )  # fmt: skip
        if spread > 0.0:
            return mean, spread, wide
    if n > DIRECT or gain > MAX_GAIN:
        for _ in range(6):
            coarse = (hi - lo) / (DIRECT - 1)
            best = -math.inf
            at_mode = -math.inf
            for q in range(-1, DIRECT):
                h = lo + coarse * q if q >= 0 else mode
                if q < 0 and not lo <= h <= hi:
                    continue
                d = scale * unit_value(kind, h) - mg
                v = max(v0 + d * (2.0 * c + d * s), 0.0)
                p = log_likelihood(like, y, r0 - mu * d, v, sigma2, mix) - 0.5 * (h - mc) ** 2 * prec
                best = max(best, p)
                if q >= 0:
                    p_row[q] = p
                else:
                    at_mode = p
            left, right = math.inf, -math.inf
            for q in range(DIRECT):
                if p_row[q] > best - TAIL:
                    left = min(left, lo + coarse * (q - 1))
                    right = max(right, lo + coarse * (q + 1))
            if at_mode > best - TAIL:
                left = min(left, mode - coarse)
                right = max(right, mode + coarse)
            lo, hi = max(lo, left), min(hi, right)
            n = int((hi - lo) / step) + 2
            if n <= DIRECT:
                break
        n = min(n, MAX_NODES)
    if kind == RELU:
        n = panel_nodes(lo, hi, step, 0.0, work[1], p_row)
        for q in range(n):
            h = work[1, q]
            d = scale * unit_value(kind, h) - mg
            v = max(v0 + d * (2.0 * c + d * s), 0.0)
            p_row[q] += log_likelihood(like, y, r0 - mu * d, v, sigma2, mix) - 0.5 * (h - mc) ** 2 * prec
        mean, spread = weighted_moments(work[1], p_row, n)
        return mean, spread, n
    step = (hi - lo) / (n - 1)
    if gain <= MAX_GAIN:
        _fill(lo, step, n, kind, scale, mg, mu, s, c, v0, r0, like, y, sigma2, mix, count, upper, work)
        for q in range(n):
            z = lo + step * q - mc
            p_row[q] *= exp_nonpositive(-0.5 * z * z * prec)
    else:  # so far off that the weights would underflow: shift by the largest exponent
        best = -math.inf
        for q in range(n):
            h = lo + step * q
            d = scale * unit_value(kind, h) - mg
            v = max(v0 + d * (2.0 * c + d * s), 0.0)
            p_row[q] = log_likelihood(like, y, r0 - mu * d, v, sigma2, mix) - 0.5 * (h - mc) ** 2 * prec
            best = max(best, p_row[q])
        for q in range(n):
            p_row[q] = math.exp(p_row[q] - best)
    s0 = 0.0
    s1 = 0.0
    for q in range(n):
        s0 += p_row[q]
        s1 += p_row[q] * (lo - mc + step * q)
    mean = s1 / s0
    s2 = 0.0
    for q in range(n):
        z = lo - mc + step * q - mean
        s2 += p_row[q] * z * z
    return mc + mean, s2 / s0, n
