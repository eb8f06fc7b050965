r"""Activations g of the hidden units: a value, and the moments of g(h) for Gaussian h.

A unit's output is ``scale * g(h)``, the scale 1/√K of the paper's eq. gx kept in the model
specification, so that pruning units does not change what the others mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import erf

from cavity.numerics.kernel_tilted import ERF, LINEAR
from cavity.numerics.quadrature import gauss_hermite, gauss_legendre
from cavity.types import FloatArray, Gaussian


class Activation(ABC):
    """g(h). ``kernel_code`` names the compiled form where one exists; None runs the NumPy path."""

    odd: ClassVar[bool] = False
    kernel_code: ClassVar[int | None] = None

    @abstractmethod
    def __call__(self, h: FloatArray) -> FloatArray:
        """Value of g at h."""

    def slope(self, h: FloatArray) -> FloatArray:
        """g'(h), for gradients of a point estimate; default by central differences (error ~1e-10)."""
        return (self(np.asarray(h) + 1e-5) - self(np.asarray(h) - 1e-5)) / 2e-5

    @property
    def max_slope(self) -> float:
        """Largest |g'|; it sets the node spacing of the tilted quadrature."""
        h = np.linspace(-12.0, 12.0, 4801)
        return float(np.max(np.abs(np.diff(self(h)) / np.diff(h)))) * 1.05 + 1e-12

    @property
    def bend(self) -> float:
        """Scale of h on which g bends; the node spacing never exceeds 0.45 of it."""
        return 1.0

    @property
    def limits(self) -> tuple[float, float] | None:
        """Values of g at -∞ and ∞ if it has reached them (to 1e-10) at ±6.5, else None."""
        return None

    def moments(self, h: Gaussian) -> Gaussian:
        """Mean and variance of g(h), h ~ N; default by 128-node Gauss–Hermite, centred.

        For a g that bends on the scale 1 the variance is right to 3e-12 at V = 5, 2e-7 at V = 10 and
        8e-4 at V = 30; a g used with wider cavities should bring its own.
        """
        nodes, weights = gauss_hermite(128)
        mean, var = np.asarray(h.mean, float), np.asarray(h.var, float)
        g = self(mean[..., None] + np.sqrt(var)[..., None] * nodes)
        g_mean = g @ weights
        return Gaussian(g_mean, ((g - g_mean[..., None]) ** 2) @ weights)


@dataclass(frozen=True)
class Erf(Activation):
    """g(h) = erf(h/√2) = 2Φ(h) - 1 *(paper, eq. gx, without its 1/√K)*."""

    odd: ClassVar[bool] = True
    kernel_code: ClassVar[int | None] = ERF

    def __call__(self, h: FloatArray) -> FloatArray:
        return erf(np.asarray(h) / np.sqrt(2.0))

    def slope(self, h: FloatArray) -> FloatArray:
        return np.sqrt(2.0 / np.pi) * np.exp(-0.5 * np.asarray(h) ** 2)

    @property
    def max_slope(self) -> float:
        return float(np.sqrt(2.0 / np.pi))

    @property
    def limits(self) -> tuple[float, float] | None:
        return -1.0, 1.0

    def moments(self, h: Gaussian) -> Gaussian:
        r"""E = erf(a/√2), Var = (4/π) ∫_b^1 exp(-a²(1+x²)/2)/(1+x²) dx *(paper, App. B)*.

        a = m/√(1+V), b = 1/√(1+2V): the paper's integral over sin u with the substitution
        x = √((1-sin u)/(1+sin u)), which removes the cancellation. 16 Gauss–Legendre nodes: relative error
        below 1e-12 for |m| <= 40, 1e-8 <= V <= 1e6.
        """
        mean, var = np.asarray(h.mean, float), np.asarray(h.var, float)
        a = mean / np.sqrt(1.0 + var)
        b = 1.0 / np.sqrt(1.0 + 2.0 * var)
        half = var / ((1.0 + 2.0 * var) * (1.0 + b))
        nodes, weights = gauss_legendre(16)
        u = 1.0 + ((b + half)[..., None] + half[..., None] * nodes) ** 2
        integral = half * ((np.exp(-0.5 * (a * a)[..., None] * u) / u) @ weights)
        return Gaussian(erf(a / np.sqrt(2.0)), 4.0 / np.pi * integral)


@dataclass(frozen=True)
class Linear(Activation):
    """g(h) = h: the unit is a sparse linear model."""

    odd: ClassVar[bool] = True
    kernel_code: ClassVar[int | None] = LINEAR

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.asarray(h, float)

    def slope(self, h: FloatArray) -> FloatArray:
        return np.ones_like(np.asarray(h, float))

    @property
    def max_slope(self) -> float:
        return 1.0

    @property
    def bend(self) -> float:
        return np.inf

    def moments(self, h: Gaussian) -> Gaussian:
        """Moments of h itself."""
        return Gaussian(np.asarray(h.mean, float), np.asarray(h.var, float))


@dataclass(frozen=True)
class Custom(Activation):
    """g given as a vectorised function; a top-level function keeps the model picklable."""

    function: Callable[[FloatArray], FloatArray]

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.asarray(self.function(np.asarray(h, float)), float)


ACTIVATIONS: dict[str, type[Activation]] = {"erf": Erf, "linear": Linear}
