r"""Finite mixtures of Gaussians, and the one with a spike and a slab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from cavity.model.priors.base import WeightPrior
from cavity.numerics.normal import LOG_2PI
from cavity.numerics.scale_mixtures import powered_mixture_moments
from cavity.types import FloatArray, Gaussian, Moments

WIDEST_SPIKE = 0.3  # of the slab, where the slab is adapted; wider, the two are hardly told apart


@dataclass(frozen=True)
class GaussianMixturePrior(WeightPrior):
    r"""Zero-mean Gaussians of several widths.

    .. math:: p(w\mid\varphi) = \sum_c\pi_c\,\mathcal N(w\mid0,s_c^2e^\varphi)

    Parameters
    ----------
    weights : tuple of float
        :math:`\pi_c > 0`, summing to one.
    variances : tuple of float
        :math:`s_c^2`, in units of :math:`e^\varphi`.
    """

    weights: tuple[float, ...] = (0.75, 0.25)
    variances: tuple[float, ...] = (0.01, 1.0)

    def __post_init__(self) -> None:
        """Refuse what is no mixture."""
        weights, variances = np.asarray(self.weights, float), np.asarray(self.variances, float)
        if weights.ndim != 1 or weights.shape != variances.shape or not len(weights):
            raise ValueError(
                f"weights and variances must have the same length, got {self.weights}, {self.variances}"
            )
        if not (np.all(weights > 0.0) and abs(weights.sum() - 1.0) < 1e-9):
            raise ValueError(f"weights must be positive and sum to one, got {self.weights}")
        if not (np.all(variances > 0.0) and np.all(np.isfinite(variances))):
            raise ValueError(f"variances must be positive and finite, got {self.variances}")

    def _components(self) -> tuple[FloatArray, FloatArray]:
        """Log heights at zero and variances for φ = 0, narrowest first."""
        variances = np.asarray(self.variances, dtype=float)
        order = np.argsort(variances, kind="stable")
        weights, variances = np.asarray(self.weights, dtype=float)[order], variances[order]
        return np.log(weights) - 0.5 * (LOG_2PI + np.log(variances)), variances

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density; see `WeightPrior.log_density`."""
        heights, variances = self._components()
        log_var = np.asarray(log_var, dtype=float)
        half_square = 0.5 * np.square(np.asarray(w, dtype=float) * np.exp(-0.5 * log_var))
        logs = [a - half_square / s for a, s in zip(heights, variances, strict=True)]
        return np.logaddexp.reduce(logs, axis=0) - 0.5 * log_var

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments at every fraction by `powered_mixture_moments`; closed form at 1.

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        return powered_mixture_moments(cavity, log_var, fraction, *self._components())

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw the component, then :math:`w`; see `WeightPrior.sample`."""
        sds = np.sqrt(np.asarray(self.variances, dtype=float))
        sd = rng.choice(sds, size=size, p=np.asarray(self.weights) / np.sum(self.weights))
        return rng.standard_normal(size) * sd * np.exp(0.5 * np.asarray(log_var, dtype=float))


@dataclass(frozen=True)
class SpikeAndSlabPrior(WeightPrior):
    r"""A weight that is either almost zero or anything.

    .. math:: p(w\mid\varphi) = (1-\pi)\,\mathcal N(w\mid0,s^2e^\varphi)+\pi\,\mathcal N(w\mid0,e^\varphi)

    The slab has the variance :math:`e^\varphi`; the spike is a narrow Gaussian instead of a point at zero, so
    that a power of the density exists and the posterior of a weight stays a density. By default a tenth of
    the weights is expected in the slab, whose variance is 1, give or take a factor of 3.

    Parameters
    ----------
    inclusion : float
        :math:`\pi`, the prior probability that a weight is in the slab.
    spike : float
        :math:`s`, standard deviation of the spike in units of the slab's.
    """

    inclusion: float = 0.1
    spike: float = 0.01

    scale_prior: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse what is no mixture."""
        if not 0.0 < self.inclusion < 1.0:
            raise ValueError(f"inclusion must lie strictly between 0 and 1, got {self.inclusion}")
        if not 0.0 < self.spike < 1.0:
            raise ValueError(f"spike must lie strictly between 0 and 1, got {self.spike}")

    @property
    def _mixture(self) -> GaussianMixturePrior:
        return GaussianMixturePrior((1.0 - self.inclusion, self.inclusion), (self.spike**2, 1.0))

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density; see `WeightPrior.log_density`."""
        return self._mixture.log_density(w, log_var)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments at every fraction; see `GaussianMixturePrior` and `WeightPrior.conditional_moments`."""
        return self._mixture.conditional_moments(cavity, log_var, fraction)

    def inclusion_probability(self, cavity: Gaussian, log_var: ArrayLike) -> FloatArray:
        r"""Probability that the weight is in the slab, given :math:`\varphi` and the rest of the posterior.

        .. math:: \mathrm{logit}\,P = \mathrm{logit}\,\pi + \log\mathcal N(m\mid0,v+e^\varphi)
                  - \log\mathcal N(m\mid0,v+s^2e^\varphi)

        Parameters
        ----------
        cavity : Gaussian
            :math:`m` and :math:`v`: the posterior without the whole prior site.
        log_var : array_like
            :math:`\varphi`.
        """
        mean, var = np.asarray(cavity.mean, dtype=float), np.asarray(cavity.var, dtype=float)
        slab = np.exp(np.asarray(log_var, dtype=float))
        wide, narrow = var + slab, var + self.spike**2 * slab
        log_odds = np.log(self.inclusion) - np.log1p(-self.inclusion) + 0.5 * np.log(narrow / wide)
        return expit(log_odds + 0.5 * mean * mean * (wide - narrow) / (wide * narrow))

    def slab_square(self, cavity: Gaussian, log_var: ArrayLike) -> FloatArray:
        r""":math:`\mathrm E(w^2)` of a weight that is in the slab, given :math:`\varphi` and the cavity.

        With :math:`d = e^\varphi/(v+e^\varphi)` it is :math:`d^2m^2 + dv`.
        """
        mean, var = np.asarray(cavity.mean, dtype=float), np.asarray(cavity.var, dtype=float)
        slab = np.exp(np.asarray(log_var, dtype=float))
        share = slab / (var + slab)
        return share * (share * mean * mean + var)

    def adapted(self, inclusion: float, change: float) -> SpikeAndSlabPrior:
        r"""Another :math:`\pi`, and the same width of the spike after :math:`\varphi` changed by so much."""
        return SpikeAndSlabPrior(inclusion, min(self.spike * float(np.exp(-0.5 * change)), WIDEST_SPIKE))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw the component, then :math:`w`; see `WeightPrior.sample`."""
        return self._mixture.sample(rng, log_var, size)
