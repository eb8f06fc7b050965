r"""The likelihood contract: everything the engine asks of p(y | f, θ)^η is one integral.

.. math:: \log Z(y; m, V, \theta, \eta) = \log \int p(y \mid f, \theta)^\eta N(f \mid m, V)\, df

with its first two derivatives in m (`algorithm.md` §2). Subclasses give ``log_density`` and get
the rest by quadrature; closed forms are overrides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from cavity.numerics.quadrature import gauss_hermite
from cavity.types import Floats, Gaussian


class LogZ(NamedTuple):
    """log Z with its first and second derivative in the mean of f."""

    value: Floats
    d1: Floats
    d2: Floats


class Likelihood(ABC):
    """p(y | f, θ), θ a log-scale or absent (``has_scale`` False).

    ``kernel`` names the compiled row kernel that implements it; None runs the NumPy path.
    """

    has_scale: ClassVar[bool] = True
    kernel: ClassVar[str | None] = None

    @abstractmethod
    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        """log p(y | f, θ); ``row_var`` is a known noise variance of the row, zero if none."""

    @abstractmethod
    def width(self, log_scale: Floats, row_var: Floats, fraction: float) -> Floats:
        """Variance-like scale of f on which p(y | f, θ)^η varies, for the node spacing."""

    @abstractmethod
    def log_z_upper(self, var: Floats, log_scale: Floats, row_var: Floats, fraction: float) -> Floats:
        """Upper bound of log Z over all y and means when V >= var."""

    def log_z(
        self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats, fraction: float = 1.0
    ) -> LogZ:
        """log ∫ p(y|f,θ)^η N(f|m,V) df and derivatives; default by 64-node Gauss–Hermite.

        From Stein's identity: ∂ log Z/∂m = E[f - m]/V and ∂² log Z/∂m² = (Var f - V)/V² under the
        tilted density. Right for densities no narrower than about a third of √V.
        """
        nodes, weights = gauss_hermite(64)
        mean, var = np.asarray(f.mean, float)[..., None], np.asarray(f.var, float)[..., None]
        offset = np.sqrt(var) * nodes
        log_p = fraction * self.log_density(
            np.asarray(y)[..., None],
            mean + offset,
            np.asarray(log_scale)[..., None],
            np.asarray(row_var)[..., None],
        )
        top = log_p.max(axis=-1, keepdims=True)
        w = weights * np.exp(log_p - top)
        total = w.sum(axis=-1)
        first = (w * offset).sum(axis=-1) / total
        second = (w * (offset - first[..., None]) ** 2).sum(axis=-1) / total
        v = var[..., 0]
        return LogZ(top[..., 0] + np.log(total), first / v, (second - v) / v**2)
