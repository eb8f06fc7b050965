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
from cavity.types import FloatArray

NOISE_NODES = 24


class LooRows(NamedTuple):
    """Normal pieces of each row's leave-one-out prediction, in the units of y.

    mean, var : (n, M) moments of f; noise : (n, M, Q) noise variances at the nodes of θ;
    share : (M, Q) weights of the pieces, summing to one.
    """

    mean: FloatArray
    var: FloatArray
    noise: FloatArray
    share: FloatArray

    @property
    def predicted(self) -> FloatArray:
        """Predicted mean of each row, (n,)."""
        return self.mean @ self.share.sum(axis=1)

    @property
    def epistemic_var(self) -> FloatArray:
        """Variance of f, the spread between components included."""
        spread = (self.mean - self.predicted[:, None]) ** 2
        return (self.var + spread) @ self.share.sum(axis=1)

    @property
    def aleatoric_var(self) -> FloatArray:
        """Expected variance of the noise."""
        return np.einsum("nmq,mq->n", self.noise, self.share)

    def take(self, rows: FloatArray) -> LooRows:
        """Only these rows."""
        return self._replace(mean=self.mean[rows], var=self.var[rows], noise=self.noise[rows])

    def cdf(self, y: FloatArray) -> FloatArray:
        """P(Y_i <= y_i | all other rows): the probability integral transform at the observed y."""
        sd = np.sqrt(self.var[:, :, None] + self.noise)
        z = (np.asarray(y)[:, None, None] - self.mean[:, :, None]) / sd
        return np.einsum("nmq,mq->n", ndtr(z), self.share)

    def quantile(self, level: float) -> FloatArray:
        """Quantile of each row, by bisection between the quantiles of the pieces."""
        ends = self.mean[:, :, None] + ndtri(level) * np.sqrt(self.var[:, :, None] + self.noise)
        lo, hi = ends.min(axis=(1, 2)), ends.max(axis=(1, 2))
        for _ in range(50):
            middle = 0.5 * (lo + hi)
            below = self.cdf(middle) < level
            lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
        return 0.5 * (lo + hi)


def loo_rows(posterior: MixturePosterior) -> LooRows:
    """Leave-one-out predictions of the training rows."""
    nodes, node_share = gauss_hermite(NOISE_NODES)
    parts = []
    for c in posterior.components:
        loo, s = c.loo, c.prepared.scaling
        known = (s.y_scale**2 * c.prepared.data.row_var)[:, None]
        sd = np.sqrt(np.asarray(loo.noise.var))[:, None]
        parts.append((loo.f.mean, loo.f.var, known + np.exp(loo.noise.mean[:, None] + sd * nodes)))
    mean, var, noise = (np.stack(values, axis=1) for values in zip(*parts, strict=True))
    return LooRows(mean, var, noise, posterior.weights[:, None] * np.asarray(node_share))
