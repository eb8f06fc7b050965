r"""Gaussian noise with θ = log σ², inferred or known, plus a known variance per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cavity.model.likelihoods.base import Likelihood, LogZ
from cavity.types import Floats, Gaussian

_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class GaussianLikelihood(Likelihood):
    r"""p(y | f, θ) = N(y | f, e^θ + s²), s² the row's known noise variance (zero if none).

    .. math:: p^\eta \to (2\pi\sigma^2)^{(1-\eta)/2} \eta^{-1/2} N(y \mid m, V + \sigma^2/\eta)

    at every η *(paper, eqs. qh_tilted, qtheta_tilted: the factor Z(θ))*.
    """

    kernel: ClassVar[str | None] = "gaussian"

    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        var = np.exp(log_scale) + row_var
        return -0.5 * ((y - f) ** 2 / var + np.log(var) + _LOG_2PI)

    def width(self, log_scale: Floats, row_var: Floats, fraction: float) -> Floats:
        return (np.exp(log_scale) + row_var) / fraction

    def _log_power(self, sigma2: Floats, fraction: float) -> Floats:
        return 0.5 * (1.0 - fraction) * (_LOG_2PI + np.log(sigma2)) - 0.5 * np.log(fraction)

    def log_z_upper(self, var: Floats, log_scale: Floats, row_var: Floats, fraction: float) -> Floats:
        sigma2 = np.exp(log_scale) + row_var
        return self._log_power(sigma2, fraction) - 0.5 * (_LOG_2PI + np.log(var + sigma2 / fraction))

    def log_z(
        self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats, fraction: float = 1.0
    ) -> LogZ:
        """Closed form at every fraction."""
        sigma2 = np.exp(log_scale) + row_var
        total = f.var + sigma2 / fraction
        resid = y - f.mean
        value = self._log_power(sigma2, fraction) - 0.5 * (_LOG_2PI + np.log(total) + resid**2 / total)
        return LogZ(value, resid / total, -1.0 / total * np.ones_like(resid))
