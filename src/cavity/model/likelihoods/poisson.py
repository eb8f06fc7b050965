r"""Counts: y ~ Poisson(e^f). Everything by quadrature: this file is all there is to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, pdtr, xlogy

from cavity.model.likelihoods.base import Likelihood, LogZ, Peak
from cavity.types import FloatArray, Floats, Gaussian


@dataclass(frozen=True)
class PoissonLikelihood(Likelihood):
    """p(y | f) = Poisson(y | e^(f + offset)); there is no θ; ``log_scale`` and ``row_var`` are ignored.

    An offset of None is zero until `adapted` sets it to the log of the mean count, so that f is about zero.
    """

    has_scale: ClassVar[bool] = False
    location: ClassVar[bool] = False
    concave: ClassVar[bool] = True
    default_fraction: ClassVar[float] = 0.9  # whole sites oscillate on small tables
    discrete: ClassVar[bool] = True

    offset: float | None = None

    def adapted(self, y: FloatArray, weight: FloatArray) -> PoissonLikelihood:
        mean = np.average(y, weights=weight)
        return self if self.offset is not None else PoissonLikelihood(float(np.log(max(mean, 1e-3))))

    def _log_rate(self, f: Floats) -> Floats:
        return f + (0.0 if self.offset is None else self.offset)

    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        log_rate = self._log_rate(f)
        return y * log_rate - np.exp(log_rate) - gammaln(y + 1.0)

    def derivatives(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> LogZ:
        # a line search tries rates beyond any float; e^300 tells it as much
        log_rate = np.minimum(self._log_rate(f), 300.0)
        rate = np.exp(log_rate)
        return LogZ(y * log_rate - rate - gammaln(y + 1.0), y - rate, -rate)

    def peak(self, y: Floats, log_scale: Floats, row_var: Floats) -> Peak:
        mode = np.where(y > 0.0, np.log(np.maximum(y, 1.0)) - self._log_rate(0.0), np.nan)
        # from x - log(1 + x) >= x²/(2 + 4x/3): where p is within e^-8 of its peak, the rate, which is the
        # curvature, is at most this
        return Peak(mode, xlogy(y, y) - y - gammaln(y + 1.0), y + 4.0 * np.sqrt(y) + 11.0)

    def moments(self, f: Floats, log_scale: Floats, row_var: Floats) -> Gaussian:
        rate = np.exp(self._log_rate(f))
        return Gaussian(rate, rate)

    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        return np.where(np.less(y, 0.0), 0.0, pdtr(np.floor(np.maximum(y, 0.0)), np.exp(self._log_rate(f))))

    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        return np.asarray(rng.poisson(np.exp(self._log_rate(f))), float)

    def check_target(self, y: FloatArray) -> None:
        wrong = np.flatnonzero((y < 0.0) | (y != np.round(y)))
        if len(wrong):
            raise ValueError(f"y must hold counts (0, 1, 2, …), got {y[wrong[0]]:g} in row {int(wrong[0])}.")
