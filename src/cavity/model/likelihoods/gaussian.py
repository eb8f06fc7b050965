r"""Gaussian noise with θ = log σ², inferred or known, plus a known variance per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from cavity.model.likelihoods.base import Bounds, KernelForm, Likelihood, LogZ, Peak
from cavity.numerics.kernel_likelihoods import GAUSSIAN
from cavity.types import FloatArray, Floats, Gaussian

SMALLEST_VAR = 1e-12  # of `GaussianLikelihood.fitted_log_scale`
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class GaussianLikelihood(Likelihood):
    r"""p(y | f, θ) = N(y | f, e^θ + s²), s² the row's known noise variance (zero if none).

    .. math:: p^\eta \to (2\pi\sigma^2)^{(1-\eta)/2} \eta^{-1/2} N(y \mid m, V + \sigma^2/\eta)

    at every η *(paper, eqs. qh_tilted, qtheta_tilted: the factor Z(θ))*.
    """

    default_fraction: ClassVar[float] = 0.95

    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        var = np.exp(log_scale) + row_var
        return -0.5 * ((y - f) ** 2 / var + np.log(var) + _LOG_2PI)

    def peak(self, y: Floats, log_scale: Floats, row_var: Floats) -> Peak:
        var = np.exp(log_scale) + row_var
        return Peak(y, -0.5 * (np.log(var) + _LOG_2PI), 1.0 / var)

    def moments(self, f: Floats, log_scale: Floats, row_var: Floats) -> Gaussian:
        return Gaussian(f, np.exp(log_scale) + row_var)

    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        return ndtr((y - f) / np.sqrt(np.exp(log_scale) + row_var))

    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        sd = np.sqrt(np.exp(log_scale) + row_var)
        return f + sd * rng.standard_normal(np.broadcast_shapes(np.shape(f), np.shape(sd)))

    def kernel_form(self, fraction: float) -> KernelForm | None:
        return KernelForm(GAUSSIAN, np.zeros((2, 1)))

    def derivatives(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> LogZ:
        var = np.exp(log_scale) + row_var
        return LogZ(self.log_density(y, f, log_scale, row_var), (y - f) / var, -1.0 / var)

    def fitted_log_scale(self, y: FloatArray, f: FloatArray, row_var: Floats, weight: FloatArray) -> float:
        """Log of the mean squared residual less the known variances of the rows."""
        return float(np.log(max(np.average((y - f) ** 2 - row_var, weights=weight), SMALLEST_VAR)))

    def _log_power(self, sigma2: Floats, fraction: float) -> Floats:
        return 0.5 * (1.0 - fraction) * (_LOG_2PI + np.log(sigma2)) - 0.5 * np.log(fraction)

    def bounds(
        self, y: Floats, f: Gaussian, var_min: Floats, log_scale: Floats, row_var: Floats, fraction: float
    ) -> Bounds:
        sigma2 = np.exp(log_scale) + row_var
        total = var_min + sigma2 / fraction
        upper = self._log_power(sigma2, fraction) - 0.5 * (_LOG_2PI + np.log(total))
        return Bounds(upper, 1.0 / total, np.inf)

    def log_z(
        self,
        y: Floats,
        f: Gaussian,
        log_scale: Floats,
        row_var: Floats,
        fraction: float = 1.0,
        derivatives: bool = True,
    ) -> LogZ:
        """Closed form at every fraction."""
        sigma2 = np.exp(log_scale) + row_var
        total = f.var + sigma2 / fraction
        resid = y - f.mean
        value = self._log_power(sigma2, fraction) - 0.5 * (_LOG_2PI + np.log(total) + resid**2 / total)
        return LogZ(value, resid / total, -1.0 / total * np.ones_like(resid))

    def predictive_cdf(self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats) -> Floats:
        return ndtr((y - f.mean) / np.sqrt(f.var + np.exp(log_scale) + row_var))
