r"""The likelihood contract: everything the engine asks of p(y | f, θ)^η is one integral.

.. math:: \log Z(y; m, V, \theta, \eta) = \log \int p(y \mid f, \theta)^\eta N(f \mid m, V)\, df

with its first two derivatives in m. A likelihood says what its density is and where it peaks, and gets the
integral by quadrature; closed forms are overrides. What a fitted model needs besides (moments, distribution
function, draws) is three short methods. `cavity.model.likelihoods.poisson` is the shortest live example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from cavity.numerics.bounded import bounded_grids, grid_moments, log_normaliser
from cavity.numerics.kernel_grids import MAX_NODES, SPACING
from cavity.numerics.quadrature import gauss_hermite
from cavity.types import FloatArray, Floats, Gaussian, IntArray

LOG_SCALES = np.linspace(-14.0, 1.0, 151)  # of `Likelihood.fitted_log_scale`, standardised target
FARTHEST_GAIN = 1e12  # of log p from the mean of f to its peak, which may be infinite where e^f overflows
CONCAVE_NODES = 1024
PREDICTIVE_NODES = 48  # Gauss–Hermite nodes over f where a likelihood has no closed predictive form


class LogZ(NamedTuple):
    """A logarithm with its first and second derivative in the (mean of) f."""

    value: Floats
    d1: Floats
    d2: Floats


class Peak(NamedTuple):
    """Where p(y | f) peaks over f (NaN: nowhere), log p there, and how sharply it falls.

    ``curvature`` is the largest -∂² log p/∂f² where p is within e^-8 of its peak; it sets the grids' spacing.
    """

    mode: Floats
    log_density: Floats
    curvature: Floats


class Bounds(NamedTuple):
    """What the engine's grids rest on: log Z is at most ``upper`` and curves by at most ``curvature`` in m.

    ``misfit`` bounds how many times that much it curves on the way from m to the peak; where it is larger
    than the gain in log Z on that way, the gain counts.
    """

    upper: Floats
    curvature: Floats
    misfit: Floats


class Predicted(NamedTuple):
    """Mean and variance of y when f is uncertain; ``noise_var`` is the part that remains once f is known."""

    mean: Floats
    var: Floats
    noise_var: Floats


class KernelForm(NamedTuple):
    """The likelihood as the compiled kernels know it: a code and its components, arrays only."""

    code: int
    mix: FloatArray


class Likelihood(ABC):
    """p(y | f, θ), θ a log-scale or absent (``has_scale`` False). Subclasses are frozen dataclasses.

    Attributes
    ----------
    has_scale : bool
        There is a θ to infer.
    location : bool
        y is f plus noise of scale e^(θ/2): the target is standardised, and rows may have known noise
        variances (``row_var``, added to e^θ).
    sign : bool
        y is the sign of f plus noise of variance one; noise of another variance is f on another scale.
    discrete : bool
        y takes integer values only.
    concave : bool
        log p is concave in f: times a Gaussian it has one peak, and 1024 nodes over it do.
    robust : bool
        Some rows may be outliers: e^(θ/2) is the scale of most rows, not the sd of all.
    default_fraction : float
        η that suits it: where the integral has a closed form.
    """

    has_scale: ClassVar[bool] = True
    location: ClassVar[bool] = True
    sign: ClassVar[bool] = False
    discrete: ClassVar[bool] = False
    concave: ClassVar[bool] = False
    robust: ClassVar[bool] = False
    default_fraction: ClassVar[float] = 1.0

    @abstractmethod
    def log_density(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        """log p(y | f, θ); ``row_var`` is a known noise variance of the row, zero if none."""

    @abstractmethod
    def peak(self, y: Floats, log_scale: Floats, row_var: Floats) -> Peak:
        """Where p(y | f, θ) peaks over f, and how sharply."""

    @abstractmethod
    def moments(self, f: Floats, log_scale: Floats, row_var: Floats) -> Gaussian:
        """E[y | f, θ] and Var[y | f, θ]."""

    @abstractmethod
    def cdf(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> Floats:
        """P(Y <= y | f, θ)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, f: Floats, log_scale: Floats, row_var: Floats) -> FloatArray:
        """Draws of y given f, of the broadcast shape."""

    def check_target(self, y: FloatArray) -> None:  # noqa: B027
        """Raise a `ValueError` that names the first row whose y cannot come from this likelihood."""

    def adapted(self, y: FloatArray, weight: FloatArray) -> Likelihood:
        """The same likelihood with what it takes from the training target, if anything."""
        return self

    def learnt(self, residual: FloatArray, weight: FloatArray) -> Likelihood:
        """The same likelihood with what residuals of a first, rough fit tell of its shape, if anything."""
        return self

    def fitted_log_scale(self, y: FloatArray, f: FloatArray, row_var: Floats, weight: FloatArray) -> float:
        """The θ under which y is most likely, given f; the default takes the best of a grid."""
        total = [weight @ self.log_density(y, f, scale, row_var) for scale in LOG_SCALES]
        return float(LOG_SCALES[int(np.argmax(total))])

    def kernel_form(self, fraction: float) -> KernelForm | None:
        """The compiled form at this fraction; None runs the NumPy path."""
        return None

    def derivatives(self, y: Floats, f: Floats, log_scale: Floats, row_var: Floats) -> LogZ:
        """log p with its derivatives in f; default by central differences, good to 1e-7 of the peak's."""
        step = 1e-4 / np.sqrt(self.peak(y, log_scale, row_var).curvature)
        low, mid, high = (
            self.log_density(y, f + sign * step, log_scale, row_var) for sign in (-1.0, 0.0, 1.0)
        )
        return LogZ(mid, (high - low) / (2.0 * step), (high - 2.0 * mid + low) / step**2)

    def bounds(
        self, y: Floats, f: Gaussian, var_min: Floats, log_scale: Floats, row_var: Floats, fraction: float
    ) -> Bounds:
        """Bounds of log Z for V >= ``var_min``; ``f`` are the moments of f where a grid starts from.

        The default ignores what V takes off the peak. If -∂² η log p <= κ, then -∂² log Z <= 1/(V + 1/κ).
        """
        peak = self.peak(y, log_scale, row_var)
        return Bounds(
            fraction * peak.log_density, 1.0 / (var_min + 1.0 / (fraction * peak.curvature)), np.inf
        )

    def log_z(
        self,
        y: Floats,
        f: Gaussian,
        log_scale: Floats,
        row_var: Floats,
        fraction: float = 1.0,
        derivatives: bool = True,
    ) -> LogZ:
        """log ∫ p(y|f,θ)^η N(f|m,V) df and derivatives (NaN if not asked for), by quadrature.

        Under the tilted density ∂ = E[f - m]/V and ∂² = (Var f - V)/V², which keep their digits where V is
        wide against the likelihood, and ∂ = E[η ∂ log p], ∂² = E[η ∂² log p] + Var[η ∂ log p], which do
        elsewhere.
        """
        parts = np.broadcast_arrays(*(np.asarray(a, float) for a in (y, *f, log_scale, row_var)))
        shape = parts[0].shape
        target, mean, var, scale, known = (np.ravel(a) for a in parts)
        peak = self.peak(target, scale, known)
        at_mean = fraction * self.log_density(target, mean, scale, known)
        gain = np.clip(fraction * peak.log_density - at_mean, 0.0, FARTHEST_GAIN)
        step = SPACING / np.sqrt(1.0 / var + fraction * peak.curvature * (1.0 + 4.0 * gain))
        out = np.full((3, len(mean)), np.nan)

        def log_factor(x: FloatArray, items: IntArray) -> FloatArray:
            i = (items, None)
            return fraction * self.log_density(target[i], x, scale[i], known[i])

        mode = np.broadcast_to(np.asarray(peak.mode, float), mean.shape)
        most = CONCAVE_NODES if self.concave else MAX_NODES
        with np.errstate(over="ignore"):
            for grid in bounded_grids(log_factor, Gaussian(mean, var), gain, step, mode, most):
                i = grid.items
                out[0, i] = log_normaliser(grid) - 0.5 * np.log(2.0 * np.pi * var[i])
                if derivatives:
                    moments, w = grid_moments(grid, mean)
                    at = (i, None)
                    x = np.where(w > 0.0, grid.x, mean[at])
                    _, d1, d2 = self.derivatives(target[at], x, scale[at], known[at])
                    slope = fraction * np.sum(w * d1, axis=1)
                    spread = np.sum(w * (fraction * d1 - slope[:, None]) ** 2, axis=1)
                    wide = var[i] * fraction * np.broadcast_to(peak.curvature, mean.shape)[i] > 1.0
                    out[1, i] = np.where(wide, (moments.mean - mean[i]) / var[i], slope)
                    second = fraction * np.sum(w * d2, axis=1) + spread
                    out[2, i] = np.where(wide, (moments.var - var[i]) / var[i] ** 2, second)
        return LogZ(*(row.reshape(shape) for row in out))

    def predictive_moments(self, f: Gaussian, log_scale: Floats, row_var: Floats) -> Predicted:
        """E y and Var y for f ~ N; in closed form where y is f plus noise."""
        if self.location:
            noise = self.moments(f.mean, log_scale, row_var).var
            return Predicted(f.mean, f.var + noise, noise + np.zeros_like(f.var))
        x, weights = _nodes(f)
        given = self.moments(x, np.asarray(log_scale)[..., None], np.asarray(row_var)[..., None])
        mean, noise = given.mean @ weights, given.var @ weights
        return Predicted(mean, noise + (given.mean - mean[..., None]) ** 2 @ weights, noise)

    def predictive_cdf(self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats) -> Floats:
        """P(Y <= y) for f ~ N."""
        x, weights = _nodes(f)
        scale, known = np.asarray(log_scale)[..., None], np.asarray(row_var)[..., None]
        return self.cdf(np.asarray(y)[..., None], x, scale, known) @ weights

    def outlier_probability(self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats) -> Floats:
        """P(y is an outlier | y) for f ~ N; zero where the likelihood knows of none."""
        return np.zeros(np.broadcast_shapes(*(np.shape(a) for a in (y, *f, log_scale, row_var))))


def _nodes(f: Gaussian) -> tuple[FloatArray, FloatArray]:
    nodes, weights = gauss_hermite(PREDICTIVE_NODES)
    mean, var = np.asarray(f.mean, float), np.asarray(f.var, float)
    return mean[..., None] + np.sqrt(var)[..., None] * nodes, np.asarray(weights)
