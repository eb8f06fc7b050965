r"""Gaussian noise, now and then much wider: the outlier model of the paper's discussion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from cavity.model.likelihoods.base import LogZ, Peak
from cavity.model.likelihoods.scale_mixture import Components, ScaleMixtureLikelihood, _mixed
from cavity.types import FloatArray, Floats, Gaussian


@dataclass(frozen=True)
class OutlierLikelihood(ScaleMixtureLikelihood):
    """p(y | f, θ) = (1 - ε) N(y | f, σ²) + ε N(y | f, c²σ²), σ² = e^θ + s².

    Closed form at fraction 1; a power of this density is no mixture of Gaussians of positive weights.

    Attributes
    ----------
    share : ε, the share of outliers expected beforehand.
    ratio : c, how many times wider their noise is.
    """

    share: float = 0.05
    ratio: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must lie strictly between 0 and 1, got {self.share!r}.")
        if not (np.isfinite(self.ratio) and self.ratio > 1.0):
            raise ValueError(f"ratio must be larger than 1, got {self.ratio!r}.")

    def components(self, fraction: float) -> Components | None:
        return self._whole() if fraction == 1.0 else None

    def _whole(self) -> Components:
        return np.array([1.0 - self.share, self.share]), np.array([1.0, self.ratio**2])

    def outlying(self, ratio: FloatArray) -> FloatArray:
        return ratio > 1.0

    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        return _mixed(self._whole(), np.square(y - f), 0.0, np.exp(log_scale) + row_var)[0]

    def derivatives(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> LogZ:
        r = np.asarray(y - f, float)
        value, inverse, spread = _mixed(self._whole(), r**2, 0.0, np.exp(log_scale) + row_var)
        return LogZ(value, r * inverse, r**2 * spread - inverse)

    def peak(self, y: Floats, log_scale: Floats, row_var: Floats) -> Peak:
        value, inverse, _ = _mixed(self._whole(), np.zeros(np.shape(y)), 0.0, np.exp(log_scale) + row_var)
        # The density's complex zeros lie about 0.9σ off the axis, and its powers are not analytic there: a
        # grid made for three times the curvature leaves 1e-9, one made for the curvature itself 5e-7.
        return Peak(y, value, 3.0 * inverse)

    def moments(self, f: Floats, log_scale: Floats, row_var: Floats) -> Gaussian:
        var = np.exp(log_scale) + row_var
        return Gaussian(f, (1.0 + self.share * (self.ratio**2 - 1.0)) * var)

    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        z = (y - f) / np.sqrt(np.exp(log_scale) + row_var)
        return (1.0 - self.share) * ndtr(z) + self.share * ndtr(z / self.ratio)

    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        sd = np.sqrt(np.exp(log_scale) + row_var)
        shape = np.broadcast_shapes(np.shape(f), np.shape(sd))
        wide = np.where(rng.random(shape) < self.share, self.ratio, 1.0)
        return f + sd * wide * rng.standard_normal(shape)
