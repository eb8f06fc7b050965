r"""Compiled sums over the components of Gaussian mixtures; `cavity.numerics.scale_mixtures` explains them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.fastmath import erfcx, exp_nonpositive, log_positive

_JIT = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})

# Components whose t = v·precision, or its inverse, is below this share of 1/(1 + z²) are summed by three
# terms of a series; the fourth is 1e-9 of them. At 2e-2 it is 1e-6; at 2e-4 the sums are a third longer.
SERIES = 2e-3
_RSQRT2 = 1.0 / math.sqrt(2.0)


@njit(**_JIT)
def mixture_sums(z2, log_ratio, start, step, log_weight, below, above, out):
    r"""Moments of :math:`d_i = 1/(1+t_i)` under the weights :math:`G_i\,d_i^{1/2}e^{-z^2(1-d_i)/2}`.

    Here :math:`t_i = e^{x_i}v/e^\varphi` and ``log_ratio`` is :math:`\log v - \varphi`. Writes the log of the
    sum of the weights, mean and variance of :math:`d` into ``out`` (3, J); NaN where :math:`z^2` is not below
    1e30. With :math:`y = z^2/2`,

    .. math:: d^{\alpha}e^{-y(1-d)} = \sum_k(-t)^kL_k^{(\alpha-1)}(-y)
              = e^{-y}t^{-\alpha}\sum_k(-1/t)^kL_k^{(\alpha-1)}(y)

    (Laguerre polynomials) give the two ends of the sums from ``below`` and ``above``. The variance is taken
    of :math:`d` or of :math:`1-d`, whichever is small: the rounding of the other may grow like :math:`z^2`.
    """
    n_table = len(log_weight)
    growth = np.exp(step * np.arange(n_table))
    d = np.empty(n_table)
    psi = np.empty(n_table)
    low, high = np.empty(5), np.empty(5)
    for item in range(len(z2)):
        if not z2[item] < 1e30:
            out[:, item] = np.nan
            continue
        y = 0.5 * z2[item]
        span = math.log((1.0 + z2[item]) / SERIES)
        count = min(int(2.0 * span / step) + 2, n_table - 1)
        first = int(math.floor((-span - log_ratio[item] - start) / step))
        first = min(max(first, 0), n_table - 1 - count)
        end = first + count
        log_t0 = start + step * first + log_ratio[item]
        log_t1 = log_t0 + step * count
        t0, inverse = math.exp(log_t0), math.exp(-log_t1)

        for i in range(count):
            t = t0 * growth[i]
            d[i] = 1.0 / (1.0 + t)
            psi[i] = log_weight[first + i] - y * t * d[i]
        top = max(below[0, first], above[0, end] - 0.5 * log_t1 - y)
        for i in range(count):
            top = max(top, psi[i])
        total, d1, d2, k1, k2 = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(count):
            mass = exp_nonpositive(psi[i] - top) * math.sqrt(d[i])
            gone = t0 * growth[i] * d[i]
            total += mass
            d1 += mass * d[i]
            d2 += mass * d[i] * d[i]
            k1 += mass * gone
            k2 += mass * gone * gone

        power, inverse_power = 1.0, 1.0
        for k in range(5):
            low[k] = math.exp(below[k, first] - top) * power
            high[k] = math.exp(above[k, end] - 0.5 * log_t1 - y - top) * inverse_power
            power *= t0
            inverse_power *= inverse
        a, b, c = _series(0.5, -y, low, 0), _series(1.5, -y, low, 0), _series(2.5, -y, low, 0)
        total, d1, d2 = total + a, d1 + b, d2 + c
        k1, k2 = k1 + _series(1.5, -y, low, 1), k2 + _series(2.5, -y, low, 2)
        a, b, c = _series(0.5, y, high, 0), _series(1.5, y, high, 1), _series(2.5, y, high, 2)
        total, d1, d2 = total + a, d1 + b, d2 + c
        k1, k2 = k1 + a - b, k2 + a - 2.0 * b + c

        mean, gone = d1 / total, k1 / total
        out[0, item] = top + math.log(total * step)
        out[1, item] = mean
        spread = d2 / total - mean * mean if mean < 0.5 else k2 / total - gone * gone
        out[2, item] = max(spread, 0.0)


@njit(**_JIT)
def _series(a, y, end, shift):
    """Three terms of the series of d^a e^(-y(1-d)) at one end, from the sum with the power ``shift`` on."""
    first = a - y
    second = 0.5 * (a * (a + 1.0) - 2.0 * (a + 1.0) * y + y * y)
    return end[shift] - first * end[shift + 1] + second * end[shift + 2]


@njit(**_JIT)
def powered_moments(mean, var, log_var, fraction, a, precision, nodes, weights, out):
    r"""Moments of a Gaussian times a power of a finite mixture, rows log_z, mean, var of ``out`` (3, J).

    The sum of terms of `cavity.numerics.scale_mixtures.powered_mixture_moments`; a term that is at most
    e^-40 of the widest component's is left out.
    """
    C = len(a)
    log_z, centre, spread = np.empty(C), np.empty(C), np.empty(C)
    rest = np.empty((2, len(nodes)))
    for item in range(len(mean)):
        m, v, eta = abs(mean[item]), var[item], fraction[item]  # the density is even: mirrored exactly
        shrink = math.exp(-log_var[item])
        for c in range(C - 1, -1, -1):
            if c == C - 1:
                rate, height = eta * precision[c], eta * a[c]
            else:
                rate = precision[c] + (eta - 1.0) * precision[C - 1]
                height = a[c] + (eta - 1.0) * a[C - 1] + math.log(eta)
            rate *= shrink
            gain = 1.0 / (1.0 + v * rate)
            log_z[c] = height - 0.5 * math.log1p(v * rate) - 0.5 * rate * gain * m * m
            centre[c], spread[c] = gain * m, gain * v
            if c == C - 1 or eta == 1.0 or log_z[c] < log_z[C - 1] - 40.0:
                continue
            s0, s1, s2 = _local_sums(centre[c], spread[c], shrink, eta, c, a, precision, nodes, weights, rest)
            offset = s1 / s0
            log_z[c] += math.log(s0)
            centre[c] += math.sqrt(spread[c]) * offset
            spread[c] *= s2 / s0 - offset * offset
        top = log_z[0]
        for c in range(1, C):
            top = max(top, log_z[c])
        total, first, second = 0.0, 0.0, 0.0
        for c in range(C):
            share = math.exp(log_z[c] - top)
            total += share
            first += share * centre[c]
        first /= total
        for c in range(C):
            share = math.exp(log_z[c] - top) / total
            second += share * (spread[c] + (centre[c] - first) ** 2)
        out[0, item] = top + math.log(total) - 0.5 * eta * log_var[item]
        out[1, item] = first * np.sign(mean[item])
        out[2, item] = second


@njit(**_JIT)
def _local_sums(mean, var, shrink, eta, c, a, precision, nodes, weights, rest):
    """Moments 0, 1, 2 of the factor r of component c over the nodes, in sds about the mean."""
    last = len(a) - 1
    sd = math.sqrt(var)
    height, rate = math.exp(a[c] - a[last]), 0.5 * shrink * (precision[c] - precision[last])
    rest[0, :] = 1.0
    rest[1, :] = weights
    for i in range(c + 1, last):
        height_i, rate_i = math.exp(a[i] - a[last]), 0.5 * shrink * (precision[i] - precision[last])
        for q in range(len(nodes)):
            w = mean + sd * nodes[q]
            rest[0, q] += height_i * exp_nonpositive(-rate_i * w * w)
    if c + 1 < last:
        for q in range(len(nodes)):
            rest[1, q] *= exp_nonpositive((eta - 1.0) * log_positive(rest[0, q]))
    s0, s1, s2 = 0.0, 0.0, 0.0
    for q in range(len(nodes)):
        w = mean + sd * nodes[q]
        y = max(height * exp_nonpositive(-rate * w * w) / rest[0, q], 1e-30)
        inverse = exp_nonpositive(-eta * log_positive(1.0 + y))
        r = (1.0 - inverse) / (eta * y * inverse)
        # below 1e-5 by its series, whose next term is (1-η)(2-η)(3-η)y³/24 = 1e-16
        r = r if y > 1e-5 else 1.0 - (1.0 - eta) * y * (0.5 - (2.0 - eta) * y / 6.0)
        r *= rest[1, q]
        s0 += r
        s1 += nodes[q] * r
        s2 += nodes[q] * nodes[q] * r
    return s0, s1, s2


@njit(**_JIT)
def mixture_cdf(resid, var, sigma2, weight, ratio, out):
    """Write Σ_j w_j Φ(r/√(V + c_j σ²)) of each item: what quantiles of wide-tailed noise spend their time on.

    The smaller tail is computed, so that probabilities near zero keep their digits; beyond 27 of z it is
    below the smallest number.
    """
    for item in range(len(resid)):
        out[item] = 0.0
    for j in range(len(weight)):  # items inside: there are many of them, so this vectorises
        for item in range(len(resid)):
            z = min(_RSQRT2 * abs(resid[item]) / math.sqrt(var[item] + ratio[j] * sigma2[item]), 30.0)
            tail = 0.5 * exp_nonpositive(-z * z) * erfcx(z)
            out[item] += weight[j] * (tail if resid[item] < 0.0 else 1.0 - tail)
