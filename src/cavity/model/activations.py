r"""Activations g of the hidden units: a value, and the moments of g(h) for Gaussian h.

A unit's output is ``scale * g(h)``, the scale 1/√K of the paper's eq. gx kept in the model
specification, so that pruning units does not change what the others mean. It is negative for every other
unit whose -g(h) no weights can make (ReLU, softplus): output weights are non-negative, and without that a
sum of such units could only bend upwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf, erfcx, expit

from cavity.numerics import kernel_units as kernel
from cavity.numerics.bounded import chunks
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import FloatArray, Gaussian, IntArray


class Activation(ABC):
    """g(h). ``kernel_code`` names the compiled form where one exists; None runs the NumPy path.

    ``kink`` is where g has a corner, None where it is smooth. ``start`` are mean and variance that the zero
    start gives the bias weight, None for the model's own.
    """

    kernel_code: ClassVar[int | None] = None
    kink: ClassVar[float | None] = None
    start: ClassVar[tuple[float, float] | None] = None

    @abstractmethod
    def __call__(self, h: FloatArray) -> FloatArray:
        """Value of g at h."""

    def slope(self, h: FloatArray) -> FloatArray:
        """g'(h), for gradients of a point estimate; default by central differences (error ~1e-10)."""
        return (self(np.asarray(h) + 1e-5) - self(np.asarray(h) - 1e-5)) / 2e-5

    @property
    def mirrored(self) -> bool:
        """True where some weights make -g(h), so that an output weight needs no sign; default: g is odd."""
        h = np.linspace(0.05, 6.0, 12)
        return bool(np.allclose(self(h), -self(-h), rtol=1e-9, atol=1e-12))

    @property
    def max_slope(self) -> float:
        """Largest |g'|; it sets the node spacing of the tilted quadrature."""
        h = np.linspace(-12.0, 12.0, 4801)
        return float(np.max(np.abs(np.diff(self(h)) / np.diff(h)))) * 1.05 + 1e-12

    def steepest(self, lo: FloatArray, hi: FloatArray) -> FloatArray:
        """Largest |g'| between lo and hi, or a bound of it."""
        return np.full(np.shape(lo), self.max_slope)

    @property
    def bend(self) -> float:
        """Scale of h on which g bends; the node spacing never exceeds 0.5 of it."""
        return 1.0

    @property
    def limits(self) -> tuple[float, float] | None:
        """Values of g at -∞ and ∞ if it has reached them (to 1e-10) at ±6.5, else None."""
        return None

    def moments(self, h: Gaussian) -> Gaussian:
        """Mean and variance of g(h), h ~ N; default by the trapezoid rule, centred.

        The nodes are at most 0.3 bends of g and half a sd apart: to 1e-13 up to a sd of 36 for a g that is
        smooth on the scale 1. Wider cavities get 2048 nodes; at a sd of 100 the variance has four digits.
        """
        mean, var = np.broadcast_arrays(np.asarray(h.mean, float), np.asarray(h.var, float))
        m, sd = mean.ravel(), np.sqrt(var).ravel()
        most = np.maximum(1.0 / kernel.MOMENT_SPACING, sd / (kernel.MOMENT_BEND * self.bend))
        count = np.minimum((2.0 * kernel.MOMENT_REACH * most).astype(np.int64) + 2, kernel.MOMENT_NODES)
        out = np.empty((2, m.size))
        for items in chunks(count):
            z = np.linspace(-kernel.MOMENT_REACH, kernel.MOMENT_REACH, int(count[items[-1]]))
            w = np.exp(-0.5 * z * z)
            w /= w.sum()
            g = self(m[items, None] + sd[items, None] * z)
            out[0, items] = g @ w
            out[1, items] = ((g - out[0, items, None]) ** 2) @ w
        return Gaussian(out[0].reshape(mean.shape), out[1].reshape(mean.shape))


class _Compiled(Activation):
    """An activation that the kernels know, of slope one at most."""

    has_mirror: ClassVar[bool] = True

    @property
    def mirrored(self) -> bool:
        return self.has_mirror

    @property
    def max_slope(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Erf(_Compiled):
    """g(h) = erf(h/√2) = 2Φ(h) - 1 *(paper, eq. gx, without its 1/√K)*."""

    kernel_code: ClassVar[int | None] = kernel.ERF

    def __call__(self, h: FloatArray) -> FloatArray:
        return erf(np.asarray(h) / np.sqrt(2.0))

    def slope(self, h: FloatArray) -> FloatArray:
        return np.sqrt(2.0 / np.pi) * np.exp(-0.5 * np.asarray(h) ** 2)

    def steepest(self, lo: FloatArray, hi: FloatArray) -> FloatArray:
        return self.slope(np.clip(0.0, lo, hi))

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
class Linear(_Compiled):
    """g(h) = h: the unit is a sparse linear model."""

    kernel_code: ClassVar[int | None] = kernel.LINEAR

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.asarray(h, float)

    def slope(self, h: FloatArray) -> FloatArray:
        return np.ones_like(np.asarray(h, float))

    @property
    def bend(self) -> float:
        return np.inf

    def moments(self, h: Gaussian) -> Gaussian:
        """Moments of h itself."""
        return Gaussian(np.asarray(h.mean, float), np.asarray(h.var, float))


@dataclass(frozen=True)
class Tanh(_Compiled):
    """g(h) = tanh h; its moments by quadrature."""

    kernel_code: ClassVar[int | None] = kernel.TANH

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.tanh(h)

    def slope(self, h: FloatArray) -> FloatArray:
        return 1.0 - np.tanh(h) ** 2

    def steepest(self, lo: FloatArray, hi: FloatArray) -> FloatArray:
        return self.slope(np.clip(0.0, lo, hi))


@dataclass(frozen=True)
class Relu(_Compiled):
    """g(h) = max(h, 0)."""

    has_mirror: ClassVar[bool] = False
    kernel_code: ClassVar[int | None] = kernel.RELU
    kink: ClassVar[float | None] = 0.0

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.maximum(np.asarray(h, float), 0.0)

    def slope(self, h: FloatArray) -> FloatArray:
        return (np.asarray(h) > 0.0).astype(float)

    def moments(self, h: Gaussian) -> Gaussian:
        r"""With z = m/√V and φ, Φ at z: E = mΦ + √V φ and Var/V = Φ + z²Φ(1-Φ) + zφ(1-2Φ) - φ².

        For z < 0 in terms of R = Φ/φ, E/√V = φ(1 + zR) and E g²/V = φ(R + z(zR + 1)); of the last, six of
        sixteen digits are lost at z = -30, where it is 1e-200.
        """
        mean, var = np.asarray(h.mean, float), np.asarray(h.var, float)
        sd = np.sqrt(var)
        z = mean / sd
        pdf = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        ratio = np.sqrt(0.5 * np.pi) * erfcx(np.abs(z) / np.sqrt(2.0))  # of the smaller tail to the density
        tail, far = pdf * ratio, np.abs(z)
        first = pdf * np.maximum(1.0 - far * ratio, 0.0)
        second = pdf * np.maximum(ratio + far * (far * ratio - 1.0), 0.0)
        spread = (1.0 - tail) * (1.0 + z * z * tail) - z * pdf * (1.0 - 2.0 * tail) - pdf * pdf
        low = z < 0.0
        return Gaussian(
            np.where(low, sd * first, mean * (1.0 - tail) + sd * pdf),
            var * np.where(low, np.maximum(second - first * first, 0.0), spread),
        )


@dataclass(frozen=True)
class Softplus(_Compiled):
    """g(h) = log(1 + e^h), a smooth ReLU; its moments by quadrature."""

    has_mirror: ClassVar[bool] = False
    kernel_code: ClassVar[int | None] = kernel.SOFTPLUS

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, h)

    def slope(self, h: FloatArray) -> FloatArray:
        return expit(h)


@dataclass(frozen=True)
class Sine(_Compiled):
    """g(h) = sin h: periodic, so for targets known to be."""

    kernel_code: ClassVar[int | None] = kernel.SINE
    # Over the wide bias of the paper's zero start a sine is zero on average, with no slope to follow.
    start: ClassVar[tuple[float, float] | None] = (0.0, 0.25)

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.sin(h)

    def slope(self, h: FloatArray) -> FloatArray:
        return np.cos(h)

    def moments(self, h: Gaussian) -> Gaussian:
        """E = e^(-V/2) sin m, Var = ½(1 - a)(1 - a + 2a cos² m) with a = e^-V."""
        return _wave_moments(h, np.sin, np.cos)


@dataclass(frozen=True)
class Cosine(_Compiled):
    """g(h) = cos h, a sine a quarter period on: the bias weight tells them apart."""

    has_mirror: ClassVar[bool] = True  # cos(h + π) = -cos h
    kernel_code: ClassVar[int | None] = kernel.COSINE
    # Even in h: from zero mean its weights could not choose a sign. A quarter period back it is a sine.
    start: ClassVar[tuple[float, float] | None] = (-0.5 * np.pi, 0.25)

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.cos(h)

    def slope(self, h: FloatArray) -> FloatArray:
        return -np.sin(h)

    def moments(self, h: Gaussian) -> Gaussian:
        """E = e^(-V/2) cos m, Var = ½(1 - a)(1 - a + 2a sin² m) with a = e^-V."""
        return _wave_moments(h, np.cos, np.sin)


def _wave_moments(
    h: Gaussian, value: Callable[[FloatArray], FloatArray], other: Callable[[FloatArray], FloatArray]
) -> Gaussian:
    mean, var = np.asarray(h.mean, float), np.asarray(h.var, float)
    lost = -np.expm1(-var)
    spread = 0.5 * lost * (lost + 2.0 * np.exp(-var) * other(mean) ** 2)
    return Gaussian(np.exp(-0.5 * var) * value(mean), spread)


@dataclass(frozen=True)
class Custom(Activation):
    """g given as a vectorised function; a top-level function keeps the model picklable."""

    function: Callable[[FloatArray], FloatArray]

    def __call__(self, h: FloatArray) -> FloatArray:
        return np.asarray(self.function(np.asarray(h, float)), float)


ACTIVATIONS: dict[str, type[Activation]] = {
    "erf": Erf,
    "linear": Linear,
    "tanh": Tanh,
    "relu": Relu,
    "softplus": Softplus,
    "sine": Sine,
    "cosine": Cosine,
}


def _one(item: Any) -> Activation:
    if isinstance(item, Activation):
        return item
    if isinstance(item, str) and item in ACTIVATIONS:
        return ACTIVATIONS[item]()
    if callable(item):
        return Custom(item)
    raise ValueError(
        f"activation {item!r} is unknown: use one of {list(ACTIVATIONS)}, several joined by +, "
        "a function or an Activation."
    )


def _counts(activation: Any) -> list[tuple[Any, int | None]] | None:
    """Activations and how many units have each, None for all others; None where there is no such list."""
    if isinstance(activation, Mapping):
        return [(item, None if count is None else int(count)) for item, count in activation.items()]
    if isinstance(activation, str):
        *few, most = (part.strip() for part in activation.split("+"))
        return [*((part, 1) for part in few), (most, None)]
    if isinstance(activation, Activation) or callable(activation):
        return [(activation, None)]
    return None


def kernel_codes(activations: tuple[Activation, ...]) -> IntArray:
    """Codes of the compiled forms, -1 where there is none."""
    codes = [a.kernel_code if a.kernel_code is not None else -1 for a in activations]
    return np.array(codes, dtype=np.int64)


def described_units(activation: Any) -> int | None:
    """How many hidden units a description of activations asks for; None where it fits any number."""
    counts = _counts(activation)
    if counts is None:
        return len(activation)
    return None if any(count is None for _, count in counts) else sum(count or 0 for _, count in counts)


def unit_activations(activation: Any, n_hidden: int) -> tuple[Activation, ...]:
    """The activation of each unit.

    Parameters
    ----------
    activation : str, Activation, function, mapping or sequence
        One for all units; "linear+erf" for one linear unit, the others erf ("a+b+c": one a, one b, the others
        c); a mapping of activations to numbers of units, None for all others; or one per unit.
    n_hidden : int
    """
    counts = _counts(activation)
    if counts is None:
        items = list(activation)
    else:
        open_ended = [item for item, count in counts if count is None]
        if len(open_ended) > 1:
            raise ValueError("activation leaves the number of units open twice: give all numbers but one.")
        rest = n_hidden - sum(count or 0 for _, count in counts)
        if open_ended and rest < 1:
            raise ValueError(
                f"activation={activation!r} needs more than {n_hidden} hidden unit(s), some for each kind."
            )
        items = [item for item, count in counts for _ in range(rest if count is None else count)]
    if len(items) != n_hidden:
        raise ValueError(f"activation has {len(items)} entries but the network has {n_hidden} hidden units.")
    return tuple(_one(item) for item in items)


def unit_signs(activations: tuple[Activation, ...]) -> FloatArray:
    """Signs of the units: -1 for every other one of a kind whose -g(h) no weights make."""
    signs, seen = np.ones(len(activations)), {}  # type: tuple[FloatArray, dict[Activation, int]]
    for k, activation in enumerate(activations):
        if not activation.mirrored:
            seen[activation] = seen.get(activation, 0) + 1
            signs[k] = 1.0 if seen[activation] % 2 else -1.0
    return signs
