r"""Gaussian noise, now and then much wider: the outlier model of the paper's discussion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from cavity.model.data import weighted_median
from cavity.model.likelihoods.base import LogZ, Peak
from cavity.model.likelihoods.scale_mixture import Components, ScaleMixtureLikelihood, _mixed
from cavity.types import FloatArray, Floats, Gaussian

SHARE, RATIO = 0.05, 10.0  # what is expected where nothing is given
GUESS_ROWS, GUESS_OUTLIERS = 20.0, 2.0  # what the guess is worth
# Of the learnt ratio. The kernels keep eleven digits up to 1e12, for residuals of any size; beyond, the
# narrow rows are as good as exact, and 1e16 loses derivatives.
LEAST_RATIO, MOST_RATIO = 3.0, 1e12
EM_STEPS = 50


@dataclass(frozen=True)
class OutlierLikelihood(ScaleMixtureLikelihood):
    """p(y | f, θ) = (1 - ε) N(y | f, σ²) + ε N(y | f, c²σ²), σ² = e^θ + s².

    Closed form at fraction 1; a power of this density is no mixture of Gaussians of positive weights.

    Attributes
    ----------
    share : ε, the share of outliers expected beforehand; None learns it where a fit begins (else 0.05).
    ratio : c, how many times wider their noise is; None likewise (else 10).
    """

    share: float | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        if self.share is not None and not 0.0 < self.share < 1.0:
            raise ValueError(f"share must lie strictly between 0 and 1, got {self.share!r}.")
        if self.ratio is not None and not (np.isfinite(self.ratio) and self.ratio > 1.0):
            raise ValueError(f"ratio must be larger than 1, got {self.ratio!r}.")

    @property
    def known(self) -> tuple[float, float]:
        """ε and c, the prior guess for what is None."""
        return (
            SHARE if self.share is None else float(self.share),
            RATIO if self.ratio is None else float(self.ratio),
        )

    def learnt(self, residual: FloatArray, weight: FloatArray) -> OutlierLikelihood:
        """EM of the mixture on residuals; the prior guess is worth 20 rows for ε and 2 outliers for c²."""
        share, ratio = self.known
        square, total = residual**2, weight.sum()
        if not square.any():
            return self
        least = float(square.max()) / MOST_RATIO**2
        narrow = max(weighted_median(square, weight) / 0.455, least)  # median of a χ²_1
        for _ in range(EM_STEPS):
            log_odds = np.log(share / ((1.0 - share) * ratio)) + 0.5 * square / narrow * (1.0 - ratio**-2)
            wide = weight * expit(log_odds)
            narrow = max(float((weight - wide + wide / ratio**2) @ square / total), least)
            if self.share is None:
                share = (wide.sum() + GUESS_ROWS * SHARE) / (total + GUESS_ROWS)
            if self.ratio is None:
                far = float(wide @ square) / narrow + GUESS_OUTLIERS * RATIO**2
                found = np.sqrt(far / (wide.sum() + GUESS_OUTLIERS))
                ratio = float(np.clip(found, LEAST_RATIO, MOST_RATIO))
        return OutlierLikelihood(float(share), float(ratio))

    def components(self, fraction: float) -> Components | None:
        return self._whole() if fraction == 1.0 else None

    def _whole(self) -> Components:
        share, ratio = self.known
        return np.array([1.0 - share, share]), np.array([1.0, ratio**2])

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
        share, ratio = self.known
        return Gaussian(f, (1.0 + share * (ratio**2 - 1.0)) * var)

    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        z = (y - f) / np.sqrt(np.exp(log_scale) + row_var)
        share, ratio = self.known
        return (1.0 - share) * ndtr(z) + share * ndtr(z / ratio)

    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        sd = np.sqrt(np.exp(log_scale) + row_var)
        shape = np.broadcast_shapes(np.shape(f), np.shape(sd))
        share, ratio = self.known
        wide = np.where(rng.random(shape) < share, ratio, 1.0)
        return f + sd * wide * rng.standard_normal(shape)
