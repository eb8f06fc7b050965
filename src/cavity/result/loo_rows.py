r"""Leave-one-out predictions of every training row, read off the components of a mixture.

Row i is predicted by :math:`\sum_m \pi_m \int p_m(y \mid f, \theta)\, N(f \mid m_{im}, V_{im})\,
q_{m,-i}(\theta)\,\mathrm df\,\mathrm d\theta`, with the moments of f and of θ taken from the cavity of
component m without row i, and p_m its likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cavity.model.likelihoods import Likelihood, Predicted
from cavity.result import predict
from cavity.result.mixture import MixturePosterior
from cavity.types import FloatArray, Gaussian, IntArray

CHUNK = 20_000  # rows at a time, to bound the memory of the nodes


class LooRows(NamedTuple):
    """Leave-one-out moments of each row and component, in the units of y.

    f, noise : (n, M) moments of f and of the log noise variance θ; known : (n, M) known noise variance;
    weights : (M,) of the components; likelihoods : of the components.
    """

    f: Gaussian
    noise: Gaussian
    known: FloatArray
    weights: FloatArray
    likelihoods: tuple[Likelihood, ...]

    @property
    def predicted(self) -> FloatArray:
        """Predicted mean of each row, (n,)."""
        return sum(w * y.mean for w, y in zip(self.weights, self._moments(), strict=True))

    @property
    def epistemic_var(self) -> FloatArray:
        """Variance that knowing f would take away, the spread between components included."""
        centre, total = self.predicted, np.zeros(len(self.known))
        for m, (w, y) in enumerate(zip(self.weights, self._moments(), strict=True)):
            own = self.f.var[:, m] if self.likelihoods[m].location else y.var - y.noise_var
            total += w * (own + (y.mean - centre) ** 2)
        return total

    @property
    def aleatoric_var(self) -> FloatArray:
        """Expected variance of the noise."""
        return sum(w * y.noise_var for w, y in zip(self.weights, self._moments(), strict=True))

    def take(self, rows: IntArray | slice) -> LooRows:
        """Only these rows."""
        f, noise = (Gaussian(q.mean[rows], q.var[rows]) for q in (self.f, self.noise))
        return LooRows(f, noise, self.known[rows], self.weights, self.likelihoods)

    def cdf(self, y: FloatArray) -> FloatArray:
        """P(Y_i <= y_i | all other rows): the probability integral transform at the observed y."""
        y = np.asarray(y, float)
        out = np.empty(len(y))
        for start in range(0, len(y), CHUNK):
            part = slice(start, start + CHUNK)
            out[part] = sum(
                w * predict.cdf(y[part], *given)
                for w, given in zip(self.weights, self.take(part)._parts(), strict=True)
            )
        return out

    def tail(self, y: FloatArray) -> FloatArray:
        """Two-sided tail probability of each observation, 2 min(P(Y <= y), P(Y >= y)), at most one."""
        y = np.asarray(y, float)
        if self.likelihoods[0].location:  # noise is symmetric: mirrored, both are accurate where small
            mirrored = self._replace(f=Gaussian(-self.f.mean, self.f.var))
            above = mirrored.cdf(-y)
        else:
            above = 1.0 - self.cdf(y - 1.0)
        return np.minimum(2.0 * np.minimum(self.cdf(y), above), 1.0)

    def quantile(self, level: float) -> FloatArray:
        """Quantile of each row."""
        var = self.epistemic_var + self.aleatoric_var
        theta = np.exp(self.noise.mean) @ self.weights
        sd = np.sqrt(np.where(np.isfinite(var), var, self.epistemic_var + theta))
        discrete = self.likelihoods[0].discrete
        return predict.invert(self.cdf, level, self.predicted, sd, discrete)

    def _parts(self) -> Iterator[tuple[Gaussian, Gaussian, FloatArray, Likelihood]]:
        """f, θ, known variances and likelihood of each component."""
        for m, likelihood in enumerate(self.likelihoods):
            f, noise = (Gaussian(q.mean[:, m], q.var[:, m]) for q in (self.f, self.noise))
            yield f, noise, self.known[:, m], likelihood

    def _moments(self) -> list[Predicted]:
        """Moments of y under each component."""
        return [predict.target_moments(f, q, known, likelihood=p) for f, q, known, p in self._parts()]


def loo_rows(posterior: MixturePosterior) -> LooRows:
    """Leave-one-out predictions of the engine's training rows."""
    loos = [c.loo for c in posterior.components]
    f, noise = (
        Gaussian(np.stack([q.mean for q in parts], axis=1), np.stack([q.var for q in parts], axis=1))
        for parts in ([loo.f for loo in loos], [loo.noise for loo in loos])
    )
    known = [c.prepared.scaling.y_scale**2 * c.prepared.data.row_var for c in posterior.components]
    likelihoods = tuple(c.spec.likelihood for c in posterior.components)
    return LooRows(f, noise, np.stack(known, axis=1), np.asarray(posterior.weights), likelihoods)
