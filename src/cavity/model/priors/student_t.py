r"""The Student-t prior: Gaussian near zero, with tails that let single weights go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from cavity.model.priors.base import WeightPrior, by_fraction
from cavity.numerics.scale_mixtures import (
    PrecisionMixture,
    precision_grid,
    precision_mixture,
    precision_mixture_moments,
)
from cavity.types import FloatArray, Gaussian, Moments


@dataclass(frozen=True)
class StudentTPrior(WeightPrior):
    r"""Student-t weight, :math:`p(w\mid\varphi) = t_\nu(w\mid 0, e^\varphi)`.

    Here :math:`e^\varphi` is the **squared scale**; the variance is :math:`e^\varphi\nu/(\nu-2)`, infinite
    for :math:`\nu\le2`.

    Parameters
    ----------
    df : float
        Degrees of freedom :math:`\nu`.
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        """Refuse degrees of freedom that define no density."""
        if not 0.0 < self.df < np.inf:
            raise ValueError(f"df must be positive and finite, got {self.df}")

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`\log t_\nu(w\mid0,e^\varphi)`; see `WeightPrior.log_density`."""
        log_var = np.asarray(log_var, dtype=float)
        ratio = np.square(np.asarray(w, dtype=float) * np.exp(-0.5 * log_var)) / self.df
        return _log_constant(self.df) - 0.5 * log_var - 0.5 * (self.df + 1.0) * np.log1p(ratio)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments at every fraction: a power of a Student-t is a Gaussian scale mixture again.

        With :math:`p = \eta(\nu+1)/2` and :math:`e^x` the precision in units of :math:`e^{-\varphi}`,

        .. math:: \Big(1+\frac{u^2}\nu\Big)^{-p} = \frac1{\Gamma(p)}\int
                  \Big(\frac{\nu e^x}2\Big)^p e^{-\nu e^x/2}\,e^{-e^xu^2/2}\,dx .

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        return by_fraction(
            lambda cavity, log_var, eta: precision_mixture_moments(
                cavity, log_var, eta, _mixture(self.df, eta)
            ),
            cavity,
            log_var,
            fraction,
        )

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`w = e^{\varphi/2}t`, :math:`t\sim t_\nu`; see `WeightPrior.sample`."""
        return rng.standard_t(self.df, size) * np.exp(0.5 * np.asarray(log_var, dtype=float))


def _log_constant(df: float) -> float:
    half = 0.5 * df
    return float(gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(df * np.pi))


@lru_cache(maxsize=32)
def _mixture(df: float, fraction: float) -> PrecisionMixture:
    """The table of one power. log G is as narrow as 1/√p: half of that resolves it to 1e-9, 0.6 to 1e-7."""
    power = 0.5 * fraction * (df + 1.0)
    step = min(0.35, 0.5 / np.sqrt(power))
    x = precision_grid(step)
    half = 0.5 * df
    log_weight = fraction * _log_constant(df) - gammaln(power) + power * (x + np.log(half)) - half * np.exp(x)
    return precision_mixture(log_weight, step, power)
