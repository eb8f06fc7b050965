r"""The Laplace prior: the lasso's density, sparse under a shared scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.model.priors.base import WeightPrior
from cavity.numerics.normal import half_line_moments
from cavity.types import FloatArray, Gaussian, Moments

_HALF_LOG_2 = 0.5 * float(np.log(2.0))
_SQRT_2 = float(np.sqrt(2.0))


@dataclass(frozen=True)
class LaplacePrior(WeightPrior):
    r"""Laplace weight of variance :math:`e^\varphi` *(paper, eq. prw)*.

    .. math:: p(w\mid\varphi) = \frac1{2\lambda}\,e^{-|w|/\lambda},\qquad \lambda = 2^{-1/2}\,e^{\varphi/2}
    """

    log_concave: ClassVar[bool] = True
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`-\log 2\lambda - |w|/\lambda`; see `WeightPrior.log_density`."""
        half_log_var = 0.5 * np.asarray(log_var, dtype=float)
        return -_HALF_LOG_2 - half_log_var - _SQRT_2 * np.abs(w) * np.exp(-half_log_var)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Closed form at every fraction: two half-line Gaussians *(paper, eq. qphi_tilted)*.

        With :math:`z = |m|/\sqrt v` and :math:`c = \eta\sqrt v/\lambda` (how many times narrower the prior
        is than the cavity), the tilted density is, in units of the cavity's sd and up to the sign of
        :math:`m`, a mixture of :math:`\mathcal N(z-c, 1)` on the positive and :math:`\mathcal N(z+c, 1)` on
        the negative half-line, i.e. of two half-line Gaussians at :math:`a_\pm = \pm z - c` with masses
        :math:`\propto e^{a_\pm^2/2}\Phi(a_\pm)`.

        Parameters and result as in `WeightPrior.conditional_moments`.

        Notes
        -----
        Both masses share :math:`e^{-z^2/2}`, which is never formed before they are compared:
        `half_line_moments` returns :math:`\log\Phi(a) + \min(a,0)^2/2`, and :math:`a_-\le0` always. The
        variance is a sum of positive terms. Relative errors are below 1e-11 from priors 1e10 times narrower
        than the cavity (a pruned weight) to 1e10 times wider; that of the mean is measured in tilted sds.
        """
        mean, var = np.asarray(cavity.mean, dtype=float), np.asarray(cavity.var, dtype=float)
        log_var, fraction = np.asarray(log_var, dtype=float), np.asarray(fraction, dtype=float)
        sd = np.sqrt(var)
        z = np.abs(mean) / sd
        c = (_SQRT_2 * fraction) * sd * np.exp(-0.5 * log_var)
        a = z - c
        near, away = half_line_moments(a), half_line_moments(-z - c)

        lifted = np.maximum(a, 0.0)
        log_odds = near.log_z - away.log_z + 0.5 * lifted * lifted  # ≥ 0: the half-line of the cavity's mean
        with np.errstate(under="ignore"):
            odds_away = np.exp(-log_odds)
        p_near = 1.0 / (1.0 + odds_away)
        p_away = odds_away * p_near

        # (a² - z²)/2 if a > 0, without the two squares
        exponent = np.where(a > 0.0, -0.5 * c * (z + a), -0.5 * z * z)
        log_z = exponent + near.log_z + np.log1p(odds_away) - fraction * (_HALF_LOG_2 + 0.5 * log_var)
        tilted_mean = np.copysign(sd, mean) * (p_near * near.mean - p_away * away.mean)
        between = near.mean + away.mean
        tilted_var = var * (p_near * near.var + p_away * (away.var + p_near * between * between))
        return Moments(log_z, tilted_mean, tilted_var)

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`|w|\sim\mathrm{Exp}(1/\lambda)` with a fair sign; see `WeightPrior.sample`."""
        return rng.laplace(size=size) * np.exp(0.5 * np.asarray(log_var, dtype=float)) / _SQRT_2
