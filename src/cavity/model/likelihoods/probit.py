r"""Two classes, y = ±1: p(y | f) = Φ(y f)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from cavity.model.likelihoods.base import KernelForm, Likelihood, LogZ, Peak
from cavity.numerics.kernel_likelihoods import PROBIT
from cavity.numerics.normal import half_line_moments, log_cdf
from cavity.types import FloatArray, Floats, Gaussian


@dataclass(frozen=True)
class ProbitLikelihood(Likelihood):
    r"""p(y | f) = Φ(y f) for y = ±1; there is no θ, and ``log_scale`` and ``row_var`` are ignored.

    .. math:: \log Z = \log \Phi(z),\quad \partial = y\,\rho/\sqrt{1+V},\quad
              \partial^2 = -\rho\,(z + \rho)/(1+V),\qquad z = y\,m/\sqrt{1+V},\ \rho = \phi(z)/\Phi(z)

    at η = 1; at other fractions by quadrature.
    """

    has_scale: ClassVar[bool] = False
    location: ClassVar[bool] = False
    sign: ClassVar[bool] = True
    concave: ClassVar[bool] = True
    discrete: ClassVar[bool] = True

    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        return log_cdf(np.multiply(y, f))

    def peak(self, y: Floats, log_scale: Floats, row_var: Floats) -> Peak:
        one = np.ones(np.shape(y))
        return Peak(np.nan * one, 0.0 * one, one)  # Φ rises without end; -∂² log Φ lies in (0, 1)

    def moments(self, f: Floats, log_scale: Floats, row_var: Floats) -> Gaussian:
        p = ndtr(f)
        return Gaussian(2.0 * p - 1.0, 4.0 * p * (1.0 - p))

    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        return np.where(np.less(y, -1.0), 0.0, np.where(np.less(y, 1.0), ndtr(-np.asarray(f)), 1.0))

    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        return np.where(rng.random(np.shape(f)) < ndtr(f), 1.0, -1.0)

    def check_target(self, y: FloatArray) -> None:
        wrong = np.flatnonzero(np.abs(y) != 1.0)
        if len(wrong):
            raise ValueError(f"y must be -1 or 1 in every row, got {y[wrong[0]]:g} in row {int(wrong[0])}.")

    def kernel_form(self, fraction: float) -> KernelForm | None:
        return KernelForm(PROBIT, np.zeros((2, 1))) if fraction == 1.0 else None

    def derivatives(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> LogZ:
        z = np.multiply(y, f)
        half = half_line_moments(z)  # its mean is z + ρ, its variance 1 - ρ(z + ρ)
        return LogZ(log_cdf(z), y * (half.mean - z), half.var - 1.0)

    def log_z(
        self,
        y: Floats,
        f: Gaussian,
        log_scale: Floats,
        row_var: Floats,
        fraction: float = 1.0,
        derivatives: bool = True,
    ) -> LogZ:
        """Closed form at fraction 1."""
        if fraction != 1.0:
            return super().log_z(y, f, log_scale, row_var, fraction, derivatives)
        root = 1.0 / np.sqrt(1.0 + np.asarray(f.var, float))
        value, d1, d2 = self.derivatives(y, f.mean * root, log_scale, row_var)
        return LogZ(value, d1 * root, d2 * root**2)
