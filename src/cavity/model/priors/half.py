r"""Any even prior kept on the non-negative half-line, for output weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.model.priors.base import WeightPrior
from cavity.model.priors.laplace import LaplacePrior
from cavity.numerics.normal import LOG_2PI
from cavity.numerics.quadrature import follow_mixture
from cavity.types import FloatArray, Gaussian, IntArray, Moments

_PANELS = 72  # as for the truncated Student-t
_LADDER = np.geomspace(1e-8, 1e4, 121)  # of prior scales, to find where the density first falls


@dataclass(frozen=True)
class HalfPrior(WeightPrior):
    r"""One half of an even density, :math:`p(v\mid\varphi) = 2\,p_0(v\mid\varphi)` for :math:`v\ge0`.

    Parameters
    ----------
    even : WeightPrior
        :math:`p_0`, symmetric about zero and falling away from it.
    """

    even: WeightPrior = field(default_factory=LaplacePrior)

    kinks: ClassVar[tuple[float, ...]] = (0.0,)
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def __post_init__(self) -> None:
        """Refuse a density that is not even."""
        w = np.array([1e-3, 0.1, 1.0, 7.0])
        if not np.array_equal(self.even.log_density(w, 0.3), self.even.log_density(-w, 0.3)):
            raise ValueError(f"{self.even} is not symmetric about zero: it has no half.")

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """As the even density."""
        return self.even.log_concave

    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density, ``-inf`` below zero; see `WeightPrior.log_density`."""
        w = np.asarray(w, dtype=float)
        return np.where(w >= 0.0, np.log(2.0) + self.even.log_density(np.abs(w), log_var), -np.inf)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments of :math:`\mathcal N(v\mid m, s^2)\,p(v\mid\varphi)^\eta`, following the density.

        In units of the cavity's sd the half-line is mapped on the whole line by
        :math:`x = \log(1+e^y)`, :math:`y = u-e^{c-u}`: even in :math:`u` is even in :math:`x` at the cavity's
        scale, in :math:`\log x` below it, and doubly exponential below :math:`e^c`, the finest scale there
        is: that of the cavity or the one on which the prior first falls by a nat.

        Parameters and result as in `WeightPrior.conditional_moments`.
        """
        fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
        shape = fields[0].shape
        mean, var, log_var, fraction = (field.ravel() for field in fields)
        sd = np.sqrt(var)
        z = mean / sd
        below, above = np.minimum(z, 0.0), np.maximum(z, 0.0)

        def log_power(x: FloatArray, items: IntArray) -> FloatArray:
            w, phi = x * sd[items, None], log_var[items, None]
            return fraction[items, None] * self.even.log_density(w, phi)

        everything = np.arange(z.size)
        ladder = (np.exp(0.5 * log_var) / sd)[:, None] * _LADDER
        on_ladder = log_power(ladder, everything)
        fallen = on_ladder < on_ladder[:, :1] - 1.0
        rung = np.where(fallen.any(axis=1), fallen.argmax(axis=1), len(_LADDER) - 1)
        finest = np.log(np.minimum(np.minimum(ladder[everything, rung], 1.0), 1.0 / np.maximum(1.0, -z)))
        # 9.8 sds beyond the cavity are 48 nats; a cavity 12 sds out whose density at zero is 45 nats down
        # leaves nothing below z - 11
        right = np.where(z < 0.0, np.minimum(9.8, 55.0 / np.maximum(-z, 1.0)), above + 9.8)
        drop = 0.5 * above * above - on_ladder[:, 0] + log_power(above[:, None], everything)[:, 0]
        lo = np.where((above > 12.0) & (drop > 45.0), above - 11.0, finest - 3.8)

        def transformed(u: FloatArray, items: IntArray) -> Moments:
            wall = np.exp(finest[items, None] - u)
            y = u - wall
            x = np.log1p(np.exp(-np.abs(y))) + np.maximum(y, 0.0)
            # (x - z)² less z² if z < 0: at z = -1e3 the square alone would cost six digits
            square = np.where(
                z[items, None] > 0.0, np.square(x - z[items, None]), x * x - 2.0 * below[items, None] * x
            )
            log_slope = y - x + np.log1p(wall)
            return Moments(log_slope - 0.5 * square + log_power(x, items), x, np.zeros_like(x))

        both = follow_mixture(transformed, lo, right + np.log(-np.expm1(-right)) + 0.1, n_panels=_PANELS)
        log_z = both.log_z - 0.5 * (LOG_2PI + below * below) + fraction * np.log(2.0)
        out = np.stack([log_z, sd * both.value.mean, var * both.value.var])
        lost = ~np.isfinite(out).all(axis=0)  # a narrow peak between zero and a cavity hundreds of sds out
        if lost.any():
            some = Gaussian(mean[lost], var[lost])
            out[:, lost] = super().conditional_moments(some, log_var[lost], fraction[lost])
        return Moments(*(row.reshape(shape) for row in out))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw from the even density and drop the sign; see `WeightPrior.sample`."""
        return np.abs(self.even.sample(rng, log_var, size))
