r"""The prior of the output weights: heavy-tailed and non-negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from cavity.model.priors.base import WeightPrior
from cavity.numerics.normal import LOG_2PI
from cavity.numerics.quadrature import follow_mixture
from cavity.types import FloatArray, Gaussian, IntArray, Moments

# Panels of the first grid. The usual output weight (prior and cavity of like width) is then resolved at once,
# to 1e-14; 48 would send half of them through a doubling, 128 costs twice the nodes for the same digits.
_PANELS = 72


@dataclass(frozen=True)
class TruncatedStudentTPrior(WeightPrior):
    r"""Student-t weight kept on the non-negative half-line *(paper, eq. prv)*.

    .. math:: p(v\mid\varphi) = 2\,t_\nu(v\mid 0, \sigma^2),\quad v\ge0,\qquad \sigma^2 = e^\varphi

    Here ``log_var`` is the log of the **squared scale** :math:`\sigma^2`, as in the paper, not of a
    variance: the untruncated variance is :math:`\sigma^2\nu/(\nu-2)`, and infinite for :math:`\nu\le2`.

    Parameters
    ----------
    df : float
        Degrees of freedom :math:`\nu`.
    """

    df: float = 4.0

    kinks: ClassVar[tuple[float, ...]] = (0.0,)
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def __post_init__(self) -> None:
        """Refuse degrees of freedom that define no density."""
        if not self.df > 0.0:
            raise ValueError(f"df must be positive, got {self.df}")

    @property
    def _log_constant(self) -> float:
        half = 0.5 * self.df
        return float(np.log(2.0) + gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(self.df * np.pi))

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`\log 2t_\nu(v\mid0,e^\varphi)`, ``-inf`` below zero."""
        w, log_var = np.asarray(w, dtype=float), np.asarray(log_var, dtype=float)
        ratio = np.square(w * np.exp(-0.5 * log_var)) / self.df
        inside = self._log_constant - 0.5 * log_var - 0.5 * (self.df + 1.0) * np.log1p(ratio)
        return np.where(w >= 0.0, inside, -np.inf)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments of :math:`\mathcal N(v\mid m, s^2)\,p(v\mid\varphi)^\eta`, following the density.

        In units of the cavity's sd, :math:`x = v/s` and :math:`z = m/s`, the half-line is mapped on the
        whole line by

        .. math:: x = \log(1 + e^y),\qquad y = u - e^{c-u}.

        Nodes even in :math:`u` are even in :math:`x` at the cavity's own scale, even in :math:`\log x`
        below it, where a narrow prior or a cavity deep in the negative half-line puts the density, and thin
        out doubly exponentially below :math:`e^c`, the finest scale of the two. The integrand is analytic
        in :math:`u`, so the trapezoid rule of `follow_mixture` converges exponentially. Relative errors are
        below 1e-9, that of the mean in tilted sds.

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
        shape = fields[0].shape
        mean, var, log_var, fraction = (field.ravel() for field in fields)
        sd = np.sqrt(var)
        z = mean / sd
        power = 0.5 * fraction * (self.df + 1.0)
        with np.errstate(over="ignore"):
            width = self.df * np.exp(log_var) / var  # of the prior in cavity units, squared
        below = np.minimum(z, 0.0)
        finest, lo, hi = _cover(z, width, power)

        def transformed(u: FloatArray, items: IntArray) -> Moments:
            wall = np.exp(finest[items, None] - u)
            y = u - wall
            x = np.log1p(np.exp(-np.abs(y))) + np.maximum(y, 0.0)
            # (x - z)² less z² if z < 0: at z = -1e3 the square alone would cost six digits
            square = x * x - 2.0 * below[items, None] * x
            positive = z[items, None] > 0.0
            square = np.where(positive, np.square(x - z[items, None]), square)
            log_slope = y - x + np.log1p(wall)  # of x in u
            log_prior = power[items, None] * np.log1p(x * x / width[items, None])
            return Moments(log_slope - 0.5 * square - log_prior, x, np.zeros_like(x))

        both = follow_mixture(transformed, lo, hi, n_panels=_PANELS)
        log_z = both.log_z - 0.5 * (LOG_2PI + below * below) + fraction * (self._log_constant - 0.5 * log_var)
        result = (log_z, sd * both.value.mean, var * both.value.var)
        return Moments(*(field.reshape(shape) for field in result))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`v = \sigma|t|` with :math:`t\sim t_\nu`; see `WeightPrior.sample`."""
        return np.abs(rng.standard_t(self.df, size)) * np.exp(0.5 * np.asarray(log_var, dtype=float))


def _cover(z: FloatArray, width: FloatArray, power: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Finest scale :math:`c` and the first interval in :math:`u`, for `follow_mixture` to mend.

    The prior falls in :math:`x`, so beyond :math:`\max(z,0)` the density falls at least like its Gaussian:
    9.8 sds are 48 nats, 44 for the second moment; a cavity below zero makes it fall like :math:`e^{zx}`
    too. On the left 3.8 units below :math:`c` are 40 nats. A cavity more than 12 sds above zero whose
    density at zero is 45 nats down leaves nothing below :math:`z - 11`.
    """
    finest = np.log(np.minimum(1.0 / np.maximum(1.0, -z), np.sqrt(width / np.maximum(2.0 * power, 1e-20))))
    finest = np.minimum(finest, 0.0)
    right = np.where(z < 0.0, np.minimum(9.8, 55.0 / np.maximum(-z, 1.0)), np.maximum(z, 0.0) + 9.8)
    hi = right + np.log(-np.expm1(-right)) + 0.1
    above = np.maximum(z, 0.0)
    drop_at_zero = 0.5 * above * above - power * np.log1p(above * above / width)
    lo = np.where((above > 12.0) & (drop_at_zero > 45.0), above - 11.0, finest - 3.8)
    return finest, lo, hi
