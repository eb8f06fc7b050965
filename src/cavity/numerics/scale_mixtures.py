r"""Tilted moments of Gaussian scale mixtures, continuous and finite, at any power.

A prior :math:`p(w\mid\varphi) = e^{-\varphi/2}p_0(u)`, :math:`u = w e^{-\varphi/2}`, enters a tilted density
as :math:`p^\eta`. Two ways to integrate that against a Gaussian fast and everywhere:

* Where :math:`p_0^\eta` is itself a mixture :math:`\int G(x)\,e^{-e^x u^2/2}dx` over the log-precision
  :math:`x` (Student-t, horseshoe: :math:`-\log p_0` is a Bernstein function of :math:`u^2`), sum the Gaussian
  integrals over an even grid in :math:`x`: `precision_mixture_moments`.
* Where :math:`p_0 = \sum_c A_c` is a finite mixture, its power is no mixture (the indicator cannot be taken
  out of the power: :math:`(\sum_c A_c)^\eta\ne\sum_c A_c^\eta`), but it is a sum of positive terms that are
  each as local as one component: `powered_mixture_moments`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.compilation import announced
from cavity.numerics.kernel_mixture import mixture_sums, powered_moments
from cavity.types import FloatArray, Gaussian, Moments

# Log-precisions tabulated: cavities up to 1e30 times wider or narrower in variance than the prior, 1e3 sds
# out, and behind them 50 units in which what is left decays at least like exp(-x/2).
TABLE = (-90.0, 140.0)
# Trapezoid rule for the local terms of a finite mixture, in sds of each: spacing and reach for powers close
# to one, and for the others. With a spike 1e3 times narrower than the slab the variance is off by 2e-8 at
# η = 0.9 (by 5e-8 at a spacing of 0.6) and by 1e-7 at 0.5 (3e-7 at 0.5).
_CLOSE, _RULES = 0.8, ((0.5, 6.5), (0.4, 7.2))


class PrecisionMixture(NamedTuple):
    r"""Table of :math:`G` in :math:`p_0(u)^\eta = \int G(x)\,e^{-e^x u^2/2}\,dx`.

    Attributes
    ----------
    start, step : first node and spacing of the even grid :math:`x_i`.
    log_weight : :math:`\log G(x_i)`, (I,).
    below : :math:`\log\sum_{j<i}G_j e^{k(x_j-x_i)}`, k = 0 … 4, (5, I).
    above : :math:`\log\sum_{j\ge i}G_j e^{-(k+1/2)(x_j-x_i)}`, k = 0 … 4, (5, I).
    """

    start: float
    step: float
    log_weight: FloatArray
    below: FloatArray
    above: FloatArray


def precision_grid(step: float) -> FloatArray:
    """The nodes at which `precision_mixture` wants log G."""
    return np.arange(TABLE[0], TABLE[1], step)


def precision_mixture(log_weight: FloatArray, step: float, rate: float) -> PrecisionMixture:
    """The table with its partial sums.

    Parameters
    ----------
    log_weight : ndarray
        log G on `precision_grid`.
    step : float
        Its spacing.
    rate : float
        G falls like exp(rate·x) to the left of the grid; on its right it is taken as constant.
    """
    x = precision_grid(step)
    below, above = np.empty((5, len(x))), np.empty((5, len(x)))
    for k in range(5):
        outside = log_weight[0] + k * x[0] - (rate + k) * step - np.log(-np.expm1(-(rate + k) * step))
        terms = np.concatenate([[outside], log_weight[:-1] + k * x[:-1]])
        below[k] = np.logaddexp.accumulate(terms) - k * x
    for k in range(5):
        decay = k + 0.5
        outside = log_weight[-1] - decay * (x[-1] + step) - np.log(-np.expm1(-decay * step))
        terms = np.concatenate([[outside], (log_weight - decay * x)[::-1]])
        above[k] = np.logaddexp.accumulate(terms)[:0:-1] + decay * x
    return PrecisionMixture(float(x[0]), step, log_weight, below, above)


def precision_mixture_moments(
    cavity: Gaussian, log_var: ArrayLike, fraction: float, mixture: PrecisionMixture
) -> Moments:
    r"""Moments of :math:`\mathcal N(w\mid m,v)\,p(w\mid\varphi)^\eta` for a precision mixture.

    With :math:`t = e^{x-\varphi}v`, :math:`d = 1/(1+t)` and :math:`z^2 = m^2/v`, each log-precision has

    .. math:: Z(x) = d^{1/2}e^{-z^2(1-d)/2},\qquad \mathrm E(w\mid x) = d\,m,\qquad
              \mathrm{Var}(w\mid x) = d\,v,

    so that under the weights :math:`G(x)Z(x)` the moments are :math:`m\,\mathrm E d` and
    :math:`v\,\mathrm E d + m^2\,\mathrm{Var}\,d`. The integrand is analytic in :math:`x` and the grid even,
    so its error falls exponentially in 1/step.

    Parameters
    ----------
    cavity : Gaussian
        :math:`m` and :math:`v > 0`.
    log_var : array_like
        :math:`\varphi`.
    fraction : float
        The power :math:`\eta` that ``mixture`` was made for.
    mixture : PrecisionMixture

    Returns
    -------
    Moments
        Of the broadcast shape.
    """
    fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var)))
    shape = fields[0].shape
    mean, var, phi = (field.ravel() for field in fields)
    square = mean * mean
    sums = np.empty((3, mean.size))
    with announced(mixture_sums):
        mixture_sums(square / var, np.log(var) - phi, *mixture, sums)
    log_z, gain, spread = sums
    moments = (log_z - 0.5 * fraction * phi, mean * gain, var * gain + square * spread)
    return Moments(*(field.reshape(shape) for field in moments))


def powered_mixture_moments(
    cavity: Gaussian,
    log_var: ArrayLike,
    fraction: ArrayLike,
    log_heights: FloatArray,
    variances: FloatArray,
) -> Moments:
    r"""Moments of :math:`\mathcal N(w\mid m,v)\,p(w\mid\varphi)^\eta`, :math:`p_0` a finite Gaussian mixture.

    With :math:`A_c(u) = e^{a_c-u^2/2s_c^2}` from the narrowest to the widest component :math:`C`, and
    :math:`P_c = \sum_{i>c}A_i`,

    .. math:: \Big(\sum_c A_c\Big)^\eta = A_C^\eta
              + \sum_{c<C}\big[(A_c+P_c)^\eta - P_c^\eta\big],\qquad
              (A+P)^\eta-P^\eta = \eta A\,A_C^{\eta-1}\,
              \underbrace{\frac{(1+y)^\eta-1}{\eta y}\Big(\frac P{A_C}\Big)^{\eta-1}}_{r},\quad y = \frac AP .

    The first term is a Gaussian. Each other is positive and a Gaussian, no wider than its component, times
    :math:`r\in(0,1]`, which bends on the scale of that component: some thirty trapezoid nodes, laid by that
    Gaussian times the cavity, resolve it whatever the cavity. At :math:`\eta = 1`, :math:`r = 1`.

    Parameters
    ----------
    cavity, log_var, fraction
        As in `WeightPrior.conditional_moments`.
    log_heights, variances : ndarray, shape (C,)
        :math:`a_c` and :math:`s_c^2`, narrowest component first.
    """
    fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
    shape = fields[0].shape
    flat = [field.flatten() for field in fields]  # copies: kernels take no views of one number
    out = np.empty((3, flat[0].size))
    spacing, reach = _RULES[0] if np.all(flat[3] >= _CLOSE) else _RULES[1]
    half = round(reach / spacing)
    nodes = spacing * np.arange(-half, half + 1)
    weights = np.exp(-0.5 * nodes**2)
    with announced(powered_moments):
        powered_moments(*flat, log_heights, 1.0 / variances, nodes, weights / weights.sum(), out)
    return Moments(*(row.reshape(shape) for row in out))
