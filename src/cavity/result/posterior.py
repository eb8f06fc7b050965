"""A fitted network in the user's units: predictions, densities, leave-one-out, evidence, summaries."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.evidence import log_evidence
from cavity.ep.guide import FEATURES
from cavity.ep.latent import latent_moments
from cavity.ep.solve import Solution
from cavity.ep.temper import predictive_state
from cavity.model.data import Prepared, check_inputs, check_vector
from cavity.result import predict
from cavity.result.loo import LeaveOneOut, leave_one_out
from cavity.types import FloatArray, Gaussian


class Predictive(NamedTuple):
    """Predictive moments of y: the epistemic variance is that of f, the aleatoric one the noise's."""

    mean: FloatArray
    var: FloatArray
    epistemic_var: FloatArray
    aleatoric_var: FloatArray


class AtRows(NamedTuple):
    """What a fitted network says of some rows: f, the log noise variance there, known variances beside it.

    These are of the standardised target; the answers are in the units of y.
    """

    fitted: FittedPosterior
    f: Gaussian
    noise: Gaussian
    row_var: FloatArray

    def moments(self, plug_in: bool = False) -> Predictive:
        """Moments of y."""
        s, likelihood = self.fitted.prepared.scaling, self.fitted.spec.likelihood
        y = predict.target_moments(self.f, self.noise, self.row_var, plug_in, likelihood)
        scale = s.y_scale**2
        known = scale * (self.f.var if likelihood.location else y.var - y.noise_var)
        return Predictive(s.y_mean + s.y_scale * y.mean, scale * y.var, known, scale * y.noise_var)

    def log_density(self, y: Any, plug_in: bool = False) -> FloatArray:
        """log p(y | x)."""
        likelihood = self.fitted.spec.likelihood
        out = predict.log_density(self._target(y), self.f, self.noise, self.row_var, plug_in, likelihood)
        return out - np.log(self.fitted.prepared.scaling.y_scale)

    def cdf(self, y: Any) -> FloatArray:
        """P(Y <= y | x)."""
        return predict.cdf(self._target(y), self.f, self.noise, self.row_var, self.fitted.spec.likelihood)

    def quantiles(self, levels: Any) -> FloatArray:
        """Quantiles of y, one column per level."""
        s, likelihood = self.fitted.prepared.scaling, self.fitted.spec.likelihood
        return s.y_mean + s.y_scale * predict.quantiles(levels, self.f, self.noise, self.row_var, likelihood)

    def _target(self, y: Any) -> FloatArray:
        return self.fitted.prepared.scaling.target(check_vector(y, len(self.f.mean), "y"))


class FittedPosterior:
    """The posterior of a `Solution` over prepared data; everything comes back in the units of X and y.

    ``noise_shift`` is added to the log noise variance in ``state`` and all that comes of it
    (`cavity.result.mixture` tells why), and q has the temperature of the solution (`cavity.ep.temper`); the
    solution stays what EP made of the data. ``data`` are the rows as this network sees them, those of
    ``prepared`` unless it was fitted to inputs drawn in.
    """

    def __init__(self, prepared: Prepared, solution: Solution, noise_shift: float = 0.0) -> None:
        self.prepared, self.solution, self.noise_shift = prepared, solution, noise_shift
        self.spec = solution.spec
        self.data = solution.sees(prepared.data)
        self.state = noises.shifted(self.spec, predictive_state(self.data, solution), noise_shift)

    def design(self, X: Any) -> FloatArray:
        """Design matrix of new rows, as this network sees them."""
        X = check_inputs(X)
        expected = len(self.prepared.scaling.x_mean)
        if X.shape[1] != expected:
            raise ValueError(f"X has {X.shape[1]} columns but the model was fitted on {expected}.")
        design = self.prepared.scaling.inputs(X)
        drawn = self.solution.drawn
        return design if drawn is None else drawn(design)

    def latent(self, X: Any) -> Gaussian:
        """Mean and variance of f(x)."""
        f = latent_moments(self.spec, self.state.posterior, self.design(X))
        s = self.prepared.scaling
        return Gaussian(s.y_mean + s.y_scale * f.mean, s.y_scale**2 * f.var)

    def at(self, X: Any, noise_var: Any = None) -> AtRows:
        """What the network says of new rows, worked out once; ``noise_var`` are known noise variances."""
        design = self.design(X)
        f, noise = latent_moments(self.spec, self.state.posterior, design), self._noise(design)
        return AtRows(self, f, noise, self._row_var(noise_var, len(f.mean)))

    def predict(self, X: Any, noise_var: Any = None, plug_in: bool = False) -> Predictive:
        """Moments of y at new rows; ``noise_var`` are known noise variances of those rows."""
        return self.at(X, noise_var).moments(plug_in)

    def log_density(self, X: Any, y: Any, noise_var: Any = None, plug_in: bool = False) -> FloatArray:
        """log p(y | x) per row, in the units of y."""
        return self.at(X, noise_var).log_density(y, plug_in)

    def quantiles(self, X: Any, levels: Any, noise_var: Any = None) -> FloatArray:
        """Quantiles of y, one column per level."""
        return self.at(X, noise_var).quantiles(levels)

    def cdf(self, X: Any, y: Any, noise_var: Any = None) -> FloatArray:
        """P(Y <= y | x) per row."""
        return self.at(X, noise_var).cdf(y)

    def _noise(self, design: FloatArray) -> Gaussian:
        """q of the log noise variance, of each row where it depends on the inputs."""
        return noises.of_rows(noises.of(self.state.posterior), noises.features(self.spec, design))

    def _row_var(self, noise_var: Any, n: int) -> FloatArray:
        if noise_var is None:
            return np.zeros(n)
        return check_vector(noise_var, n, "noise_var") / self.prepared.scaling.y_scale**2

    @cached_property
    def loo(self) -> LeaveOneOut:
        """Leave-one-out results of the training rows, densities and moments in the units of y."""
        s = self.prepared.scaling
        loo = leave_one_out(self.spec, self.data, self.state)
        f = Gaussian(s.y_mean + s.y_scale * loo.f.mean, s.y_scale**2 * loo.f.var)
        noise = Gaussian(loo.noise.mean + 2.0 * np.log(s.y_scale), loo.noise.var)
        return LeaveOneOut(loo.log_density - np.log(s.y_scale), f, noise, loo.improper)

    @cached_property
    def log_evidence(self) -> float:
        """log Z_EP of the training target in its own units."""
        weight = float(self.prepared.data.weight.sum())
        value = log_evidence(self.spec, self.data, self.solution.state, self.solution.step)
        return value - weight * float(np.log(self.prepared.scaling.y_scale))

    @property
    def outlier_probability(self) -> FloatArray:
        """P(outlier | y) of each training row, with f and θ as they are known without the row."""
        s, data, loo = self.prepared.scaling, self.prepared.data, self.loo
        y, known = s.y_mean + s.y_scale * data.y, s.y_scale**2 * data.row_var
        return predict.outlier_probability(y, loo.f, loo.noise, known, self.spec.likelihood)

    @property
    def noise_sd(self) -> float:
        """Posterior mean of e^(θ/2): standard deviation (or scale) of the noise, NaN where it has none.

        Where it depends on the inputs, the average over the training rows.
        """
        if not self.spec.likelihood.has_scale:
            return float("nan")
        data = self.data
        q = self._noise(data.X)
        sd = np.exp(0.5 * q.mean + 0.125 * q.var)
        mean = sd if np.ndim(sd) == 0 else np.average(sd, weights=data.weight)
        return float(mean) * self.prepared.scaling.y_scale

    @property
    def noise_slopes(self) -> Gaussian:
        """Change of the log noise variance for one standard deviation of each input, (d,); zero if none."""
        q = self.state.posterior.log_var
        if q is None:
            zero = np.zeros(len(self.prepared.scaling.x_mean))
            return Gaussian(zero, zero)
        d = len(self.prepared.scaling.x_mean)
        return Gaussian(q.mean[1 : 1 + d], np.diag(q.cov)[1 : 1 + d])

    @property
    def noise_guided(self) -> Gaussian:
        """Change of the log noise variance with the features of `cavity.ep.guide`, (3,); zero if none."""
        q = self.state.posterior.log_var
        if q is None or self.spec.noise.guide is None:
            return Gaussian(np.zeros(FEATURES), np.zeros(FEATURES))
        return Gaussian(q.mean[-FEATURES:], np.diag(q.cov)[-FEATURES:])

    @property
    def scales(self) -> Gaussian:
        """q(φ_l): log prior variance of each weight group, for standardised inputs."""
        return self.state.posterior.scale

    def summary(self) -> str:
        """A few plain sentences on how the fit went."""
        loo = self.loo
        lines = [
            self.solution.status.value,
            f"{self.spec.n_hidden} hidden unit(s), {self.spec.n_inputs - self.spec.bias} input(s), "
            f"{self.prepared.data.n_rows} row(s), {len(self.solution.history)} sweep(s), "
            f"largest moment mismatch {self.solution.mismatch:.1e}.",
            f"Leave-one-out log density {loo.mean:.3f} per row, log evidence {self.log_evidence:.2f}"
            + (f", noise sd {self.noise_sd:.4g}." if self.spec.likelihood.has_scale else "."),
        ]
        if loo.improper.any():
            lines.append(
                f"{int(loo.improper.sum())} row(s) had an improper whole-site cavity: "
                "their leave-one-out density is optimistic."
            )
        return "\n".join([*lines, *self.prepared.notes])
