r"""The Gaussian prior: ridge, or ARD when each input has its own scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.model.priors.base import WeightPrior
from cavity.numerics.normal import LOG_2PI, log_normal
from cavity.types import FloatArray, Gaussian, Moments


@dataclass(frozen=True)
class GaussianPrior(WeightPrior):
    r"""Zero-mean Gaussian weight, :math:`p(w\mid\varphi) = \mathcal N(w\mid 0, e^\varphi)`.

    With one scale per input this is automatic relevance determination, the alternative the paper gives beside
    its eq. prw.
    """

    log_concave: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`\log\mathcal N(w\mid0,e^\varphi)`; see `WeightPrior.log_density`."""
        return log_normal(w, 0.0, np.exp(np.asarray(log_var, dtype=float)))

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Closed form at every fraction *(paper, eq. qphi_tilted)*.

        With
        :math:`p^\eta = \mathcal N(w\mid 0, e^\varphi/\eta)\,(2\pi e^\varphi)^{(1-\eta)/2}\,\eta^{-1/2}` and
        the gain :math:`\kappa = 1/(1 + \eta v e^{-\varphi})`,

        .. math:: \log Z = \tfrac12\log\kappa
                           - \tfrac\eta2\left(\log 2\pi + \varphi + \kappa m^2 e^{-\varphi}\right),
                  \qquad \mathrm E\,w = \kappa m,\qquad \mathrm{Var}\,w = \kappa v,

        written so that :math:`\eta = 0` is no exception. Parameters and result as in
        `WeightPrior.conditional_moments`.
        """
        mean, var = np.asarray(cavity.mean, dtype=float), np.asarray(cavity.var, dtype=float)
        log_var, fraction = np.asarray(log_var, dtype=float), np.asarray(fraction, dtype=float)
        precision = np.exp(-log_var)
        ratio = fraction * precision * var
        gain = 1.0 / (1.0 + ratio)
        log_z = -0.5 * np.log1p(ratio) - 0.5 * fraction * (LOG_2PI + log_var + gain * precision * mean * mean)
        return Moments(log_z, gain * mean, np.multiply(gain, var, out=np.empty_like(log_z)))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`w\sim\mathcal N(0, e^\varphi)`; see `WeightPrior.sample`."""
        return rng.standard_normal(size) * np.exp(0.5 * np.asarray(log_var, dtype=float))
