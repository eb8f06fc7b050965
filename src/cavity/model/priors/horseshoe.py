r"""Horseshoe priors: an infinite spike at zero, tails that do not shrink."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exp1, expi

from cavity.model.priors.base import WeightPrior, by_fraction
from cavity.model.priors.gaussian import GaussianPrior
from cavity.numerics.normal import log_normal
from cavity.numerics.scale_mixtures import (
    PrecisionMixture,
    precision_grid,
    precision_mixture,
    precision_mixture_moments,
)
from cavity.types import FloatArray, Gaussian, Moments

_LOG_CONSTANT = -0.5 * float(np.log(2.0 * np.pi**3))
_STEP = 0.4  # moments to 1e-10; 1e-8 at 0.5


@dataclass(frozen=True)
class HorseshoePrior(WeightPrior):
    r"""Horseshoe weight: a Gaussian whose local scale is half-Cauchy, integrated out.

    .. math:: p(w\mid\varphi) = \int_0^\infty \mathcal N(w\mid0,\lambda^2e^\varphi)\,
              \frac2{\pi(1+\lambda^2)}\,d\lambda
              = \frac{e^{-\varphi/2}}{\sqrt{2\pi^3}}\,e^{u^2/2}E_1(u^2/2),\qquad u = w e^{-\varphi/2}

    :math:`e^{\varphi/2}` is the global scale of the group. The density is infinite at zero (logarithmically)
    and falls like :math:`w^{-2}`, so no variance exists.
    """

    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density; at zero that of the smallest positive number. See `WeightPrior.log_density`."""
        log_var = np.asarray(log_var, dtype=float)
        half_square = 0.5 * np.square(np.asarray(w, dtype=float) * np.exp(-0.5 * log_var))
        return _LOG_CONSTANT - 0.5 * log_var + np.log(_scaled_e1(np.maximum(half_square, 1e-300)))

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments at every fraction: a power of the horseshoe is a Gaussian scale mixture again.

        :math:`F(t) = e^{t/2}E_1(t/2)` is a Stieltjes function of :math:`t = u^2`, and so is :math:`F^\eta`
        for :math:`\eta\le1`. Its value on both sides of the cut,
        :math:`F(-s\mp i0) = e^{-s/2}(-\mathrm{Ei}(s/2)\pm i\pi) = |F|e^{\pm i\theta}`, gives

        .. math:: F(t)^\eta = \int_0^\infty W(\sigma)\,e^{-\sigma t}\,d\sigma,\qquad
                  W(\sigma) = \frac1\pi\int_0^\infty e^{-\sigma s}\,|F|^\eta\sin(\eta\theta)\,ds > 0,

        the weights of the precisions :math:`2\sigma`; for :math:`\eta = 1` simply
        :math:`1/(\sigma+\tfrac12)`. Parameters and result as in `WeightPrior.conditional_moments`.
        """
        return by_fraction(
            lambda cavity, log_var, eta: precision_mixture_moments(cavity, log_var, eta, _mixture(eta)),
            cavity,
            log_var,
            fraction,
        )

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`\lambda` half-Cauchy, then :math:`w`; see `WeightPrior.sample`."""
        local = np.abs(rng.standard_cauchy(size))
        return rng.standard_normal(size) * local * np.exp(0.5 * np.asarray(log_var, dtype=float))


@dataclass(frozen=True)
class RegularizedHorseshoePrior(WeightPrior):
    r"""Horseshoe times a Gaussian slab that bounds the weights it lets go.

    .. math:: p(w\mid\varphi) = C(\varphi)^{-1}\,p_{HS}(w\mid\varphi)\,\mathcal N(w\mid0,c^2)

    Given its local scale a weight has the precision :math:`e^{-\varphi}\lambda^{-2}+c^{-2}` of Piironen and
    Vehtari (2017); multiplying densities, as Nishimura and Suchard (2023) do, instead of scales keeps the
    horseshoe's spike as it is.

    Parameters
    ----------
    slab : float
        Standard deviation :math:`c` of the slab. It is not multiplied by :math:`e^{\varphi/2}`: 2 says that
        no weight of a standardised input is much above 4, however small the global scale.
    """

    slab: float = 2.0

    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def __post_init__(self) -> None:
        """Refuse a slab that is no Gaussian."""
        if not 0.0 < self.slab < np.inf:
            raise ValueError(f"slab must be a positive and finite sd, got {self.slab}")

    def _log_norm(self, log_var: ArrayLike) -> FloatArray:
        r""":math:`\log C(\varphi)`: what the horseshoe says of a cavity that is the slab."""
        return HorseshoePrior().conditional_moments(Gaussian(0.0, self.slab**2), log_var).log_z

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density; see `WeightPrior.log_density`."""
        unbounded = HorseshoePrior().log_density(w, log_var)
        return unbounded + log_normal(w, 0.0, self.slab**2) - self._log_norm(log_var)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments at every fraction: those of the horseshoe, the slab joined to the cavity first.

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        slab = GaussianPrior().conditional_moments(cavity, 2.0 * np.log(self.slab), fraction)
        inner = Gaussian(slab.mean, slab.var)
        moments = HorseshoePrior().conditional_moments(inner, log_var, fraction)
        return moments._replace(log_z=moments.log_z + slab.log_z - fraction * self._log_norm(log_var))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw from the horseshoe, keep with probability :math:`e^{-w^2/2c^2}`; see `WeightPrior.sample`."""
        log_var = np.broadcast_to(np.asarray(log_var, dtype=float), size)
        w = np.empty(log_var.shape)
        left = np.ones(log_var.shape, dtype=bool)
        while left.any():
            w[left] = HorseshoePrior().sample(rng, log_var[left], int(left.sum()))
            left[left] = rng.random(int(left.sum())) > np.exp(-0.5 * np.square(w[left] / self.slab))
        return w


def _scaled_e1(x: FloatArray) -> FloatArray:
    """e^x E₁(x) for x > 0; above 8 by its continued fraction, 40 levels of which leave 1e-15 there."""
    far = np.maximum(x, 8.0)
    tail = far + 81.0
    for level in range(40, 0, -1):
        tail = far + (2.0 * level - 1.0) - level * level / tail
    near = np.minimum(x, 8.0)
    return np.where(x > 8.0, 1.0 / tail, exp1(near) * np.exp(near))


def _scaled_ei(x: FloatArray) -> FloatArray:
    """e^-x Ei(x) for x > 0; above 50 by its asymptotic series, of which 16 terms leave 1e-14 there."""
    near, far = np.minimum(x, 50.0), np.maximum(x, 50.0)
    series = np.ones_like(far)
    for k in range(16, 0, -1):
        series = 1.0 + series * (k / far)
    return np.where(x > 50.0, series / far, np.exp(-near) * expi(near))


@lru_cache(maxsize=32)
def _mixture(fraction: float) -> PrecisionMixture:
    r"""The table of one power: :math:`G(x) = (2\pi^3)^{-\eta/2}\,W(e^x/2)\,e^x/2`."""
    x = precision_grid(_STEP)
    # s = e^y: from e^-35 of the smallest that e^(-σs) leaves to where it leaves nothing
    spacing = 0.15
    y = np.arange(-x[-1] - 35.0, -x[0] + 6.0, spacing)
    half = 0.5 * np.exp(y)
    cut = np.pi * np.exp(-half)
    ei = _scaled_ei(half)
    log_density = fraction * np.log(np.hypot(cut, ei)) + np.log(np.sin(fraction * np.arctan2(cut, -ei))) + y
    log_terms = log_density - np.exp(x)[:, None] * half
    log_w = np.logaddexp.reduce(log_terms, axis=1) + np.log(spacing / np.pi)
    return precision_mixture(fraction * _LOG_CONSTANT + log_w + x - np.log(2.0), _STEP, fraction)
