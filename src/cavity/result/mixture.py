r"""A stacked mixture of fitted posteriors that answers like a single one.

The noise of each fit takes in what that fit gets wrong about f. Stacked fits err in different places, so the
mixture errs less than each of them, and under their noise it is too wide: 95 % intervals hold 96 or 97 %.
One shift :math:`\delta` of all log noise variances makes up for it, at the maximum of

.. math:: \sum_i w_i \log \sum_m \pi_m\,p_m(y_i\mid y_{-i}, \theta + \delta)
          - \tfrac12\Bigl(1 + \kappa\sum_i w_i\Bigr)\delta^2 ,

drawn to zero because leave-one-out flatters where there are few rows for many weights.

The same for classes, where y is the sign of f plus noise of variance one: averaged over fits that differ in
where they are sure, probabilities lie too near to one half, and less noise makes up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from cavity.ep.ensemble import CARRYING
from cavity.ep.solve import Solution, Status
from cavity.model.data import MOST_NAMED, Prepared, column
from cavity.result.posterior import AtRows, FittedPosterior, Predictive
from cavity.result.predict import check_levels, invert, log_density
from cavity.types import FloatArray, Gaussian

SHIFTS = (-2.0, 0.5)  # between which the shift lies
# κ: where leave-one-out flatters it asks for too much. Without κ it asked for -1.6 on inner splits of Yacht,
# where -0.6 was best; with 0.05 intervals of Concrete held too few rows; with 0.2 all of eight sets gained.
STIFFNESS = 0.2
SIGN_STIFFNESS = 0.0  # κ of classes: leave-one-out asks for too little rather than too much on five sets
ACCURACY = 0.01  # of the shift: its effect on the density is a hundred times smaller


class MixtureAtRows(NamedTuple):
    """What a mixture says of some rows, from what each of its fits says of them (`AtRows`)."""

    mixture: MixturePosterior
    parts: tuple[AtRows, ...]

    def moments(self, plug_in: bool = False) -> Predictive:
        """Moments of y; the spread between components counts as epistemic."""
        weights, parts = self.mixture.weights, [part.moments(plug_in) for part in self.parts]
        f = _mix(weights, [p.mean for p in parts], [p.epistemic_var for p in parts])
        aleatoric = np.asarray(sum(w * p.aleatoric_var for w, p in zip(weights, parts, strict=True)))
        return Predictive(f.mean, f.var + aleatoric, f.var, aleatoric)  # either part may be infinite

    def log_density(self, y: Any, plug_in: bool = False) -> FloatArray:
        """log Σ_m weight_m p_m(y | x)."""
        parts = np.stack([part.log_density(y, plug_in) for part in self.parts])
        return np.logaddexp.reduce(parts + np.log(self.mixture.weights)[:, None], axis=0)

    def cdf(self, y: Any) -> FloatArray:
        """P(Y <= y | x)."""
        return np.asarray(
            sum(w * part.cdf(y) for w, part in zip(self.mixture.weights, self.parts, strict=True))
        )

    def quantiles(self, levels: Any) -> FloatArray:
        """Quantiles of y, one column per level."""
        levels = check_levels(levels)
        if len(self.parts) == 1:
            return self.parts[0].quantiles(levels)
        y = self.moments()
        sd = np.sqrt(np.where(np.isfinite(y.var), y.var, y.epistemic_var + self.mixture.noise_sd**2))
        discrete = self.mixture.main.spec.likelihood.discrete
        columns = [invert(self.cdf, level, y.mean, sd, discrete) for level in levels]
        return np.stack(columns, axis=1)


class MixturePosterior:
    """Σ_m weight_m p_m(y | x), the weights from stacking; one component is the simple case.

    ``on_folds``: kinds of models were weighed on folds that were fitted again, not by leave-one-out.
    """

    def __init__(
        self, components: list[FittedPosterior], weights: FloatArray, on_folds: bool = False
    ) -> None:
        self.components, self.weights, self.on_folds = components, np.asarray(weights, float), on_folds

    @classmethod
    def of(
        cls,
        prepared: Prepared,
        solutions: Sequence[Solution],
        weights: FloatArray,
        noise_shift: float = 0.0,
        on_folds: bool = False,
    ) -> MixturePosterior:
        """The mixture of several solutions over the same rows."""
        return cls([FittedPosterior(prepared, s, noise_shift) for s in solutions], weights, on_folds)

    @property
    def noise_shift(self) -> float:
        """What was added to the log noise variance of each fit, because their mean errs less than they do."""
        return self.main.noise_shift

    def calibrated(self) -> MixturePosterior:
        """The mixture under the noise that makes its rows, each left out, most probable.

        A single fit stays as it is, and so does one with more inputs than rows, where leave-one-out flatters.
        """
        main = self.main
        open_noise = all(c.spec.noise.inferred and c.spec.likelihood.location for c in self.components)
        sign = all(c.spec.likelihood.sign for c in self.components)
        many = main.spec.n_inputs > main.prepared.data.n_rows
        if len(self.components) == 1 or many or not (open_noise or sign):
            return self
        share = SIGN_STIFFNESS if sign else STIFFNESS
        stiff = 1.0 + share * float(main.prepared.data.weight.sum())
        found = minimize_scalar(
            lambda shift: 0.5 * stiff * shift**2 - self._density_with(shift),
            bounds=SHIFTS,
            method="bounded",
            options={"xatol": ACCURACY},
        )
        if not found.fun < -self._density_with(0.0):  # no better, or no number
            return self
        return self._over(main.prepared, float(found.x))

    def _density_with(self, shift: float) -> float:
        """Leave-one-out log density of all rows, copies counted, with a shift of the log noise variance."""
        s, data = self.main.prepared.scaling, self.main.prepared.data
        y, known = s.y_mean + s.y_scale * data.y, s.y_scale**2 * data.row_var
        parts = []
        for c in self.components:
            f, noise = c.loo.f, Gaussian(c.loo.noise.mean + shift, c.loo.noise.var)
            if c.spec.likelihood.sign:
                f = Gaussian(np.exp(-0.5 * shift) * f.mean, np.exp(-shift) * f.var)
            parts.append(log_density(y, f, noise, known, likelihood=c.spec.likelihood))
        mixed = np.logaddexp.reduce(np.stack(parts) + np.log(self.weights)[:, None], axis=0)
        return float(data.weight @ mixed)

    def drawn_note(self, names: Sequence[str] | None = None) -> str:
        """A sentence on inputs that some fits see drawn in; empty where none do."""
        drawn = next((c.solution.drawn for c in self.components if c.solution.drawn is not None), None)
        if drawn is None:
            return ""
        seen = np.array([c.solution.drawn is not None for c in self.components])
        tails = drawn.long_tailed
        listed = ", ".join(column(names, j) for j in tails[:MOST_NAMED])
        more = ", …" if len(tails) > MOST_NAMED else ""
        return (
            f"Long tails: {len(tails)} input(s), {listed}{more}. Fits that see such inputs drawn in have "
            f"{self.weights[seen].sum():.0%} of the weight."
        )

    def with_note(self, note: str) -> MixturePosterior:
        """The same with one more sentence on what was found."""
        prepared = self.main.prepared
        return self._over(prepared._replace(notes=(*prepared.notes, note)), self.noise_shift)

    def _over(self, prepared: Prepared, noise_shift: float) -> MixturePosterior:
        """The same solutions and weights over other rows or under another noise."""
        solutions = [c.solution for c in self.components]
        return MixturePosterior.of(prepared, solutions, self.weights, noise_shift, self.on_folds)

    @property
    def main(self) -> FittedPosterior:
        """The component of largest weight."""
        return self.components[int(np.argmax(self.weights))]

    def latent(self, X: Any) -> Gaussian:
        """Mean and variance of f(x), the spread between components included."""
        parts = [c.latent(X) for c in self.components]
        return _mix(self.weights, [p.mean for p in parts], [p.var for p in parts])

    def at(self, X: Any, noise_var: Any = None) -> MixtureAtRows:
        """What the mixture says of new rows, worked out once; ``noise_var`` are known noise variances."""
        return MixtureAtRows(self, tuple(c.at(X, noise_var) for c in self.components))

    def predict(self, X: Any, noise_var: Any = None, plug_in: bool = False) -> Predictive:
        """Moments of y; the spread between components counts as epistemic."""
        return self.at(X, noise_var).moments(plug_in)

    def log_density(self, X: Any, y: Any, noise_var: Any = None, plug_in: bool = False) -> FloatArray:
        """log Σ_m weight_m p_m(y | x)."""
        return self.at(X, noise_var).log_density(y, plug_in)

    def cdf(self, X: Any, y: Any, noise_var: Any = None) -> FloatArray:
        """P(Y <= y | x)."""
        return self.at(X, noise_var).cdf(y)

    def quantiles(self, X: Any, levels: Any, noise_var: Any = None) -> FloatArray:
        """Quantiles of y, one column per level."""
        return self.at(X, noise_var).quantiles(levels)

    @property
    def loo_log_density(self) -> FloatArray:
        """Leave-one-out log densities of the mixture, in the units of y."""
        parts = np.stack([c.loo.log_density for c in self.components])
        return np.logaddexp.reduce(parts + np.log(self.weights)[:, None], axis=0)

    @property
    def mean_loo(self) -> float:
        """Their mean over the rows, weighted."""
        return float(np.average(self.loo_log_density, weights=self.main.prepared.data.weight))

    @property
    def mismatch(self) -> float:
        """Largest moment mismatch of the fits that carry the mixture and did not end by themselves."""
        carrying = self.weights * len(self.weights) >= CARRYING
        ended = (Status.CONVERGED, Status.SETTLED)
        parts = zip(self.components, carrying, strict=True)
        return max(
            (c.solution.mismatch for c, counts in parts if counts and c.solution.status not in ended),
            default=0.0,
        )

    @property
    def outlier_probability(self) -> FloatArray:
        """P(outlier | y) of each training row, the fits weighted by how well they predict it without it."""
        log_p = np.stack([c.loo.log_density for c in self.components]) + np.log(self.weights)[:, None]
        share = np.exp(log_p - np.logaddexp.reduce(log_p, axis=0))
        found = np.sum(share * np.stack([c.outlier_probability for c in self.components]), axis=0)
        return np.minimum(found, 1.0)  # rounding

    @property
    def log_evidence(self) -> float:
        """Stacking-weighted mean of the components' log evidence."""
        return float(self.weights @ np.array([c.log_evidence for c in self.components]))

    @property
    def noise_sd(self) -> float:
        """Noise sd (or scale), squares averaged over the components that have the main one's likelihood."""
        kind = self.main.spec.likelihood
        alike = np.array([c.spec.likelihood == kind for c in self.components])
        squares = np.array([c.noise_sd**2 for c in self.components])
        return float(np.sqrt(np.average(squares[alike], weights=self.weights[alike])))

    @property
    def noise_slopes(self) -> Gaussian:
        """Change of the log noise variance for one standard deviation of each input, (d,), of the mixture."""
        parts = [c.noise_slopes for c in self.components]
        return _mix(self.weights, [p.mean for p in parts], [p.var for p in parts])

    @property
    def noise_guided(self) -> Gaussian:
        """Change of the log noise variance with size, its square and slope of the function, (3,)."""
        parts = [c.noise_guided for c in self.components]
        return _mix(self.weights, [p.mean for p in parts], [p.var for p in parts])


def _mix(weights: FloatArray, means: list[FloatArray], variances: list[FloatArray]) -> Gaussian:
    """Moments of a mixture, centred."""
    mean = sum(w * m for w, m in zip(weights, means, strict=True))
    var = sum(w * (v + (m - mean) ** 2) for w, m, v in zip(weights, means, variances, strict=True))
    return Gaussian(mean, var)
