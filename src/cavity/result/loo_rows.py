r"""Leave-one-out predictions of every training row, read off the components of a mixture.

Row i is predicted by :math:`\sum_m \pi_m \int N(y \mid m_{im}, V_{im} + e^\theta)\, q_{m,-i}(\theta)
\,\mathrm d\theta`, with the moments of f and of θ taken from the cavity of component m without row i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from cavity.numerics.quadrature import gauss_hermite
from cavity.result.mixture import MixturePosterior
from cavity.result.predict import NOISE_NODES
from cavity.types import FloatArray, Gaussian, IntArray

CHUNK = 20_000  # rows at a time, to bound the memory of the nodes


class LooRows(NamedTuple):
    """Leave-one-out moments of each row and component, in the units of y.

    f, noise : (n, M) moments of f and of the log noise variance θ; known : (n, M) known noise variance;
    weights : (M,) of the components.
    """

    f: Gaussian
    noise: Gaussian
    known: FloatArray
    weights: FloatArray

    @property
    def predicted(self) -> FloatArray:
        """Predicted mean of each row, (n,)."""
        return self.f.mean @ self.weights

    @property
    def epistemic_var(self) -> FloatArray:
        """Variance of f, the spread between components included."""
        return (self.f.var + (self.f.mean - self.predicted[:, None]) ** 2) @ self.weights

    @property
    def aleatoric_var(self) -> FloatArray:
        """Expected variance of the noise."""
        return (self.known + np.exp(self.noise.mean + 0.5 * self.noise.var)) @ self.weights

    def take(self, rows: IntArray | slice) -> LooRows:
        """Only these rows."""
        f, noise = (Gaussian(q.mean[rows], q.var[rows]) for q in (self.f, self.noise))
        return LooRows(f, noise, self.known[rows], self.weights)

    def cdf(self, y: FloatArray) -> FloatArray:
        """P(Y_i <= y_i | all other rows): the probability integral transform at the observed y."""
        return self._through(y, 1.0)

    def tail(self, y: FloatArray) -> FloatArray:
        """Two-sided tail probability of each observation, 2 min(P(Y <= y), P(Y >= y))."""
        return 2.0 * np.minimum(self._through(y, 1.0), self._through(y, -1.0))

    def quantile(self, level: float) -> FloatArray:
        """Quantile of each row, by bisection between the quantiles of its normal pieces."""
        sd, _ = self._pieces()
        ends = self.f.mean[:, :, None] + ndtri(level) * sd
        lo, hi = ends.min(axis=(1, 2)), ends.max(axis=(1, 2))
        for _ in range(50):
            middle = 0.5 * (lo + hi)
            below = self.cdf(middle) < level
            lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
        return 0.5 * (lo + hi)

    def _pieces(self) -> tuple[FloatArray, FloatArray]:
        """Sds (n, M, Q) of the normals that the nodes of θ make of each row, and their shares (M, Q)."""
        nodes, share = gauss_hermite(NOISE_NODES)
        theta = self.noise.mean[:, :, None] + np.sqrt(self.noise.var)[:, :, None] * nodes
        sd = np.sqrt((self.f.var + self.known)[:, :, None] + np.exp(theta))
        return sd, self.weights[:, None] * np.asarray(share)

    def _through(self, y: FloatArray, sign: float) -> FloatArray:
        """P(Y <= y) for sign 1, P(Y >= y) for sign -1; both accurate where they are small."""
        y = np.asarray(y, float)
        out = np.empty(len(y))
        for start in range(0, len(y), CHUNK):
            part = slice(start, start + CHUNK)
            rows = self.take(part)
            sd, share = rows._pieces()
            z = (y[part, None, None] - rows.f.mean[:, :, None]) / sd
            out[part] = np.einsum("nmq,mq->n", ndtr(sign * z), share)
        return out


def loo_rows(posterior: MixturePosterior) -> LooRows:
    """Leave-one-out predictions of the engine's training rows."""
    loos = [c.loo for c in posterior.components]
    f, noise = (
        Gaussian(np.stack([q.mean for q in parts], axis=1), np.stack([q.var for q in parts], axis=1))
        for parts in ([loo.f for loo in loos], [loo.noise for loo in loos])
    )
    known = [c.prepared.scaling.y_scale**2 * c.prepared.data.row_var for c in posterior.components]
    return LooRows(f, noise, np.stack(known, axis=1), np.asarray(posterior.weights))
