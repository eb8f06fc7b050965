r"""Inputs with a long tail drawn in, so that a few rows far out do not bend what a network makes of the rest.

.. math:: x \mapsto \psi_\lambda\!\left(\frac{x - c}{s}\right),\qquad
          \psi_\lambda(u) = \frac{(1 + u)^\lambda - 1}{\lambda}\ (u \ge 0),\quad
          -\frac{(1 - u)^{2 - \lambda} - 1}{2 - \lambda}\ (u < 0)

is the power transformation of Yeo and Johnson (2000), logarithms in the limits λ = 0 and 2, here about the
median c in units of the mean distance s from it, so that neither the unit nor the sign of an input matters.
λ maximises the likelihood of a normal distribution. Beyond the training rows it goes on straight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.model.data import TrainingData, on_grid, weighted_median
from cavity.types import FloatArray

POWERS = np.linspace(0.0, 2.0, 41)  # between logarithms of one side and the other; 1 changes nothing
# Where every input goes together with what it would become more closely than this, nothing is drawn in: fits
# would see next to nothing new.
ALIKE = 0.97


@dataclass(frozen=True, eq=False)
class DrawIn:
    """The change of standardised inputs, entries (d,); a bias column after them stays.

    ``centre`` and ``size`` are c and s, ``power`` is λ (1 for inputs that stay as they are), ``low`` and
    ``high`` the range of the training rows in units of s; ``mean`` and ``sd`` standardise what comes out, and
    ``alike`` is its correlation with what went in.
    """

    centre: FloatArray
    size: FloatArray
    power: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    sd: FloatArray
    alike: FloatArray

    def __call__(self, design: FloatArray) -> FloatArray:
        """The design with its inputs drawn in."""
        out = design.copy()
        for j in self.inputs:
            u = (design[:, j] - self.centre[j]) / self.size[j]
            inside = np.clip(u, self.low[j], self.high[j])
            z = _powers(inside, self.power[j]) + _slope(inside, self.power[j]) * (u - inside)
            out[:, j] = on_grid((z - self.mean[j]) / self.sd[j])
        return out

    @property
    def inputs(self) -> list[int]:
        """Numbers of the inputs that are changed, the most changed ones first."""
        return [int(j) for j in np.argsort(self.alike, kind="stable") if self.power[j] != 1.0]

    @property
    def long_tailed(self) -> list[int]:
        """Those that are changed by much."""
        return [j for j in self.inputs if self.alike[j] < ALIKE]


def long_tails(data: TrainingData, n_inputs: int) -> DrawIn | None:
    """How the inputs with a long tail are drawn in; None where there are none."""
    w = data.weight / data.weight.sum()
    parts = np.zeros((8, n_inputs))
    parts[[1, 2, 6, 7]] = 1.0  # size, power, sd and likeness of inputs without a spread
    for j in range(n_inputs):
        x = data.X[:, j]
        centre = weighted_median(x, data.weight)
        size = float(w @ np.abs(x - centre))
        if size > 0.0:
            u = (x - centre) / size
            power, mean, sd, alike = _most_normal(u, w)
            parts[:, j] = centre, size, power, u.min(), u.max(), mean, sd, alike
    drawn = DrawIn(*parts)
    return drawn if drawn.long_tailed else None


def _most_normal(u: FloatArray, w: FloatArray) -> tuple[float, float, float, float]:
    """λ, mean and sd of what comes out and its correlation with u, w copies of each row counted."""
    told = float(w @ (np.sign(u) * np.log1p(np.abs(u))))
    columns = [_powers(u, power) for power in POWERS]
    means = [float(w @ z) for z in columns]
    sds = [float(np.sqrt(w @ (z - mean) ** 2)) for z, mean in zip(columns, means, strict=True)]
    best = int(np.argmax([(power - 1.0) * told - np.log(sd) for power, sd in zip(POWERS, sds, strict=True)]))
    away = u - w @ u
    alike = float((w * away) @ columns[best] / (sds[best] * np.sqrt(w @ away**2)))
    return float(POWERS[best]), means[best], sds[best], alike


def _powers(u: FloatArray, power: float) -> FloatArray:
    """ψ_λ of every entry."""

    def side(size: FloatArray, exponent: float) -> FloatArray:
        return np.log1p(size) if exponent == 0.0 else np.expm1(exponent * np.log1p(size)) / exponent

    return side(np.maximum(u, 0.0), power) - side(np.maximum(-u, 0.0), 2.0 - power)


def _slope(u: FloatArray, power: float) -> FloatArray:
    """∂ψ_λ/∂u."""
    return (1.0 + np.abs(u)) ** (np.sign(u) * (power - 1.0))
