r"""The prior of the output weights: heavy-tailed and non-negative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.model.priors.base import WeightPrior
from cavity.numerics.compilation import announced
from cavity.numerics.kernel_truncated import half_line_t_moments
from cavity.types import FloatArray, Gaussian, Moments


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
        return math.log(2.0) + math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(self.df * math.pi)

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`\log 2t_\nu(v\mid0,e^\varphi)`, ``-inf`` below zero."""
        w, log_var = np.asarray(w, dtype=float), np.asarray(log_var, dtype=float)
        ratio = np.square(w * np.exp(-0.5 * log_var)) / self.df
        inside = self._log_constant - 0.5 * log_var - 0.5 * (self.df + 1.0) * np.log1p(ratio)
        return np.where(w >= 0.0, inside, -np.inf)

    def slope(self, w: FloatArray, log_var: float) -> FloatArray:
        """See `WeightPrior.slope`."""
        return -(self.df + 1.0) * w / (self.df * math.exp(log_var) + w * w)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments of :math:`\mathcal N(v\mid m, s^2)\,p(v\mid\varphi)^\eta`, following the density.

        In units of the cavity's sd, :math:`x = v/s` and :math:`z = m/s`, the half-line is mapped on the
        whole line by

        .. math:: x = \log(1 + e^y),\qquad y = u - e^{c-u}.

        Nodes even in :math:`u` are even in :math:`x` at the cavity's own scale, even in :math:`\log x`
        below it, where a narrow prior or a cavity deep in the negative half-line puts the density, and thin
        out doubly exponentially below :math:`e^c`, the finest scale of the two. The integrand is analytic
        in :math:`u`, so the trapezoid rule of `half_line_t_moments` converges exponentially. Relative errors
        are below 1e-9, that of the mean in tilted sds.

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
        flat = [np.array(field).ravel() for field in fields]  # copies: broadcast ones warn when written to
        out = np.empty((3, flat[0].size))
        with announced(half_line_t_moments):
            half_line_t_moments(*flat, self.df, self._log_constant, out)
        return Moments(*out.reshape(3, *fields[0].shape))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`v = \sigma|t|` with :math:`t\sim t_\nu`; see `WeightPrior.sample`."""
        return np.abs(rng.standard_t(self.df, size)) * np.exp(0.5 * np.asarray(log_var, dtype=float))
