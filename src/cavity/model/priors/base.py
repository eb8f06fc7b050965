r"""What a prior of a weight must say, and what follows from that alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.normal import log_normal
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import FloatArray, Gaussian, Moments

# Nodes a panel, and rungs of each ladder of panels (from 1e-7 of the narrowest scale to the whole cover, a
# ratio of 2.6 at worst). A Gaussian's variance is off by 1e-14 so, by 6e-12 with 8 nodes, 3e-10 at 24 rungs.
_NODES = 12
_RUNGS = 48
_PEAKS = 4
_ITEMS_AT_ONCE = 32


class WeightPrior(ABC):
    r"""A density :math:`p(w\mid\varphi)` of one weight given the log-variance :math:`\varphi` of its group.

    Only `log_density` is required. Everything else has a default that is slow and safe; the default of
    `conditional_moments` is also the oracle every closed form is tested against. Subclasses are frozen
    dataclasses: parameters only, no fitted state. A prior with a spike at zero may add a method
    ``inclusion_probability(cavity, log_var)``, the probability that the weight is not in it.

    Attributes
    ----------
    log_concave : bool
        :math:`\log p` is concave in :math:`w`; then a tilted variance never exceeds its cavity's.
    exact : bool
        :math:`p(w\mid\varphi)` is :math:`\mathcal N(w\mid0,e^\varphi)`; where its scale is held it is its own
        site.
    kinks : tuple of float
        Where :math:`\log p` is not smooth in :math:`w`.
    support : tuple of float
        Interval outside which the density is zero.
    scale_prior : tuple of float
        Mean and variance of the default hyperprior of :math:`\varphi` *(paper, eq. pruw)*, for standardised
        inputs. The paper's: a scale of 0.01, known to a factor of 3.5, which many weights can move.
    """

    log_concave: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    kinks: ClassVar[tuple[float, ...]] = ()
    support: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    scale_prior: ClassVar[tuple[float, float]] = (2.0 * float(np.log(0.01)), 2.5**2)

    @abstractmethod
    def log_density(self, w: ArrayLike, log_var: ArrayLike) -> FloatArray:
        r"""Log-density :math:`\log p(w\mid\varphi)`.

        Parameters
        ----------
        w : array_like
            Weight :math:`w`.
        log_var : array_like
            :math:`\varphi`; :math:`e^\varphi` is the variance of :math:`w`. Broadcasts against ``w``.

        Returns
        -------
        ndarray
            ``-inf`` outside the support.
        """

    def slope(self, w: FloatArray, log_var: float) -> FloatArray:
        r"""∂ log p/∂w inside the support, for MAP fits: central differences, or what a family knows."""
        step = 1e-5 * np.maximum(np.abs(w), 1e-3)
        above, below = self.log_density(np.stack([w + step, w - step]), log_var)
        return (above - below) / (2.0 * step)

    def conditional_moments(self, cavity: Gaussian, log_var: ArrayLike, fraction: ArrayLike = 1.0) -> Moments:
        r"""Moments of the tilted weight at a given scale *(paper, eq. qphi_tilted)*.

        .. math:: Z = \int \mathcal N(w\mid m, v)\,p(w\mid\varphi)^\eta\,dw,\qquad
                  \mathrm E\,w,\qquad \mathrm{Var}\,w

        This default is quadrature on Gauss–Legendre panels, about 0.5 ms a cavity: right for trying a
        prior and for testing one, too slow for a production sweep. Override it when a faster form exists.
        It resolves what happens at zero, at the ``kinks``, in the cavity, and at up to four peaks further
        apart than a twentieth of the cover, which is zero and the mean and ten cavity sds beyond both.
        Name in ``kinks`` what is sharper than that and lies elsewhere.

        Parameters
        ----------
        cavity : Gaussian
            :math:`m` and :math:`v > 0`.
        log_var : array_like
            :math:`\varphi`.
        fraction : array_like
            Power :math:`\eta` of the prior term.

        Returns
        -------
        Moments
            Of the broadcast shape of all arguments.
        """
        fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
        shape = fields[0].shape
        flat = [field.ravel() for field in fields]
        out = np.empty((3, flat[0].size))
        for start in range(0, flat[0].size, _ITEMS_AT_ONCE):
            some = slice(start, start + _ITEMS_AT_ONCE)
            out[:, some] = self._panel_moments(*(field[some, None] for field in flat))
        return Moments(*(row.reshape(shape) for row in out))

    def sample(self, rng: np.random.Generator, log_var: ArrayLike, size: int | tuple[int, ...]) -> FloatArray:
        r"""Draw :math:`w\sim p(w\mid\varphi)`.

        This default inverts the distribution function tabulated at :math:`w = e^{\varphi/2}\sinh t`, good
        to about 1e-4 of a probability: enough for a prior predictive plot.

        Parameters
        ----------
        rng : numpy.random.Generator
        log_var : array_like
            :math:`\varphi`, broadcastable to ``size``.
        size : int or tuple of int

        Returns
        -------
        ndarray, shape ``size``
        """
        edges = np.linspace(-12.0, 12.0, 8001)  # to 8e4 prior sds
        middle = 0.5 * (edges[:-1] + edges[1:])
        level = rng.random(size)
        log_var = np.broadcast_to(np.asarray(log_var, dtype=float), level.shape)
        drawn = np.empty(level.shape)
        for value in np.unique(log_var):
            sd, here = np.exp(0.5 * value), log_var == value
            mass = np.exp(self.log_density(sd * np.sinh(middle), value)) * np.cosh(middle)
            cdf = np.concatenate([[0.0], np.cumsum(mass)])
            drawn[here] = np.interp(level[here], cdf / cdf[-1], sd * np.sinh(edges))
        return drawn

    def _panel_moments(
        self, m: FloatArray, v: FloatArray, log_var: FloatArray, fraction: FloatArray
    ) -> FloatArray:
        """Rows log_z, mean, var for cavities of shape (J, 1).

        Each part of the cover answers a failure: a grid without cuts at the kinks is spoilt by them; one
        laid by the nominal scales misses a spike much narrower and the cavity's own tails; and one laid
        around cavity and prior misses a tilted mode that lies at neither. So: an even cover, the cavity's
        ±1, 3, 6, 10 sd, ladders of panels about zero and the kinks, and, once these have shown where the
        density peaks, about its peaks.
        """
        sd, prior_sd = np.sqrt(v), np.exp(0.5 * log_var)

        def log_tilted(w: FloatArray) -> FloatArray:
            some = (slice(None),) + (None,) * (w.ndim - 2)
            power = fraction[some] * self.log_density(w, log_var[some])
            return log_normal(w, m[some], v[some]) + power

        lo = np.maximum(np.minimum(m, 0.0) - 10.0 * sd, self.support[0])
        hi = np.minimum(np.maximum(m, 0.0) + 10.0 * sd, self.support[1])
        rungs = np.geomspace(
            1e-7 * np.minimum(sd, prior_sd)[:, 0], np.maximum(hi - lo, prior_sd)[:, 0], _RUNGS, axis=-1
        )
        ladder = np.concatenate([-rungs[:, ::-1], np.zeros_like(m), rungs], axis=-1)
        cuts = np.concatenate(
            [
                lo + (hi - lo) * np.linspace(0.0, 1.0, 41),
                m + sd * np.array([-10.0, -6.0, -3.0, -1.0, 1.0, 3.0, 6.0, 10.0]),
                *(centre + ladder for centre in {0.0, *self.kinks}),
            ],
            axis=-1,
        )
        # what falls outside serves the even cover instead: a repeated cut would look like a peak
        even = lo + (hi - lo) * np.linspace(0.0, 1.0, cuts.shape[-1])
        cuts = np.sort(np.where((cuts < lo) | (cuts > hi), even, cuts), axis=-1)
        peaks = _peaks(log_tilted, cuts)
        around = (peaks[:, :, None] + ladder[:, None, :]).reshape(m.shape[0], -1)
        cuts = np.sort(np.concatenate([cuts, np.clip(around, lo, hi)], axis=-1), axis=-1)

        nodes, weights = gauss_legendre(_NODES)
        half = 0.5 * np.diff(cuts, axis=-1)[:, :, None]
        w = (cuts[:, :-1, None] + half) + half * nodes
        log_p = log_tilted(w)
        top = log_p.max(axis=(1, 2), keepdims=True)
        mass = np.exp(log_p - top) * half * weights
        total = mass.sum(axis=(1, 2), keepdims=True)
        mass /= total
        origin = peaks[:, :1, None]
        mean = (mass * (w - origin)).sum(axis=(1, 2), keepdims=True) + origin
        var = (mass * np.square(w - mean)).sum(axis=(1, 2))
        return np.stack([(top + np.log(total))[:, 0, 0], mean[:, 0, 0], var])


def by_fraction(
    moments: Callable[[Gaussian, FloatArray, float], Moments],
    cavity: Gaussian,
    log_var: ArrayLike,
    fraction: ArrayLike,
) -> Moments:
    """Call ``moments(cavity, log_var, η)`` once for each fraction that occurs; they are usually all one."""
    if np.ndim(fraction) == 0:
        return moments(cavity, np.asarray(log_var, dtype=float), float(fraction))  # type: ignore[arg-type]
    fields = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (*cavity, log_var, fraction)))
    out = np.empty((3, *fields[0].shape))
    for eta in np.unique(fields[3]):
        here = fields[3] == eta
        mean, var, phi, _ = (field[here] for field in fields)
        out[:, here] = moments(Gaussian(mean, var), phi, float(eta))
    return Moments(*out)


def _peaks(log_density: Callable[[FloatArray], FloatArray], cuts: FloatArray) -> FloatArray:
    """Where each row peaks, as seen from its cuts, shape (J, 4); other points if there are fewer."""
    at_cuts = log_density(cuts)
    padded = np.pad(at_cuts, ((0, 0), (1, 1)), constant_values=-np.inf)
    is_peak = (at_cuts >= padded[:, :-2]) & (at_cuts >= padded[:, 2:])
    order = np.argsort(np.where(is_peak, at_cuts, -np.inf), axis=-1)[:, ::-1][:, :_PEAKS]
    left = np.take_along_axis(cuts, np.maximum(order - 1, 0), axis=-1)
    right = np.take_along_axis(cuts, np.minimum(order + 1, cuts.shape[-1] - 1), axis=-1)
    steps = np.linspace(0.0, 1.0, 9)
    for _ in range(24):  # each round keeps two of eight cells: 4^-24 of the first, below rounding
        grid = left[:, :, None] + (right - left)[:, :, None] * steps
        best = log_density(grid).argmax(axis=-1)[:, :, None]
        left = np.take_along_axis(grid, np.maximum(best - 1, 0), axis=-1)[:, :, 0]
        right = np.take_along_axis(grid, np.minimum(best + 1, 8), axis=-1)[:, :, 0]
    return 0.5 * (left + right)
