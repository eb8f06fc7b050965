"""What all regressors share: noise and likelihoods from the parameters, and predictions of numbers."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.base import EPEstimator, _pair, with_callbacks
from cavity.estimators.fitted import WeightSummary
from cavity.estimators.inputs import row_vector, training_table
from cavity.model.data import Prepared
from cavity.model.likelihoods import Likelihood, ProbitLikelihood, likelihood_of
from cavity.model.spec import Noise
from cavity.result.draws import draw, functions, log_noise_vars, share_draws
from cavity.result.posterior import Predictive
from cavity.types import FloatArray, IntArray

WIDEST_SLOPE = 1.0  # prior variance of the change of the log noise variance by an sd of an input
GUIDE_VAR = 0.25  # the same by an sd of the function, of its square, or of the log of its squared slope


def sloping_noise(n_inputs: int, guided: bool = False) -> Noise:
    """Noise that depends on the inputs; all slopes together have at most as wide a prior as θ itself.

    ``guided``: it depends on the function too.
    """
    level = Noise()
    slope_var = min(WIDEST_SLOPE, level.var / n_inputs)
    return replace(level, slope_var=slope_var, guide_var=GUIDE_VAR if guided else 0.0)


class EPRegression(RegressorMixin, EPEstimator):
    """A regressor without its parameters: subclasses say what the function of x is."""

    _noise_names: ClassVar[tuple[str, ...]] = ("linear",)

    likelihood: Any
    noise: Any

    @property
    def _auto_likelihood(self) -> bool:
        """True where leave-one-out decides between Gaussian noise and noise with wider tails."""
        return isinstance(self.likelihood, str) and self.likelihood == "auto"

    def _likelihoods(self) -> list[Likelihood]:
        given = "gaussian" if self._auto_likelihood else self.likelihood
        several = list(given) if isinstance(given, list | tuple) else [given]
        if "probit" in several or any(isinstance(item, ProbitLikelihood) for item in several):
            raise ValueError("the probit likelihood is for classes: use EPClassifier.")
        found = [likelihood_of(item, leave_out=("probit",)) for item in several]
        if not found:
            raise ValueError("likelihood must name at least one likelihood, got an empty list.")
        if len({item.discrete for item in found}) > 1:
            raise ValueError("densities and probabilities of counts cannot be compared: list one kind only.")
        given = self.noise is not None and not (isinstance(self.noise, str) and self.noise == "auto")
        if given and not all(item.has_scale for item in found):
            raise ValueError("noise is given, but the likelihood of counts has no noise level: leave it out.")
        return found

    def _noise(self, prepared: Prepared) -> Noise:
        if self.noise is None:
            return Noise()
        if isinstance(self.noise, str):
            return self._varying_noise(prepared)
        if isinstance(self.noise, Real):
            held = float(self.noise)
            if not (np.isfinite(held) and held >= 0.0):
                raise ValueError(f"noise must be a standard deviation >= 0, got {self.noise!r}.")
            unknown = np.flatnonzero(prepared.data.row_var <= 0.0)
            if held == 0.0 and len(unknown):
                raise ValueError(
                    f"noise=0 but row {int(prepared.rows[unknown].min())} has no known noise variance: give "
                    "noise_var to fit, or leave noise to be inferred."
                )
            sd = held / prepared.scaling.y_scale
            return Noise(2.0 * float(np.log(sd)) if sd > 0.0 else -np.inf, 0.0)
        return Noise(*_pair(self.noise, "noise"))

    def _varying_noise(self, prepared: Prepared) -> Noise:
        """Noise that depends on the inputs, as the name says; "auto" begins without."""
        if self.noise not in self._noise_names:
            names = " or ".join(f'"{name}"' for name in self._noise_names)
            raise ValueError(
                f"noise must be None, {names}, (mean, variance) or a standard deviation, got {self.noise!r}."
            )
        if self.noise == "auto":
            return Noise()
        n, d = prepared.data.n_rows, self.n_features_in_
        if d >= n:
            raise ValueError(
                f"noise={self.noise!r} learns a slope for each input and needs more rows than inputs, "
                f"got {n} distinct row(s) and {d} inputs: leave noise out."
            )
        if self.noise == "varying" and not (self.interactions is None and self.mask is None):
            what = "interactions" if self.mask is None else "a mask"
            raise ValueError(
                f'noise="varying" follows a function that is found without {what}: give noise="linear", '
                f"which depends on the inputs alone, or leave {what} out."
            )
        return sloping_noise(d, guided=self.noise == "varying")

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, noise_var: Any = None) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array or data frame, (n, d)
            Numbers only, none missing.
        y : array, (n,)
        sample_weight : array, (n,), optional
            Copies that a row stands for; 0 leaves it out.
        noise_var : array, (n,), optional
            Known noise variance of each row, in squared units of y, on top of the inferred noise.
        """
        X, y = training_table(self, X, y)
        return self._fit(X, y, sample_weight, noise_var)

    def predict(
        self, X: Any, return_std: bool = False, noise_var: Any = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at new rows, and its standard deviation (noise included) if asked for."""
        parts = self.predict_components(X, noise_var)
        return (parts.mean, np.sqrt(parts.var)) if return_std else parts.mean

    def predict_components(self, X: Any, noise_var: Any = None) -> Predictive:
        """Mean and variance of y, and the variance in two parts.

        ``epistemic_var`` is what more data would reduce (the weights are not known, and stacked fits
        differ), ``aleatoric_var`` the noise.
        """
        X = self._table(X)
        return self.posterior_.predict(X, row_vector(noise_var, len(X), "noise_var"))

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95), noise_var: Any = None) -> FloatArray:
        """Quantiles of y: one column per level, (n, len(q)); (n,) for a single number q."""
        X = self._table(X)
        levels = np.asarray(q, dtype=float)
        if levels.ndim > 1 or not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(f"q must hold levels strictly between 0 and 1, got {q!r}.")
        out = self.posterior_.quantiles(X, levels, row_vector(noise_var, len(X), "noise_var"))
        return out[:, 0] if levels.ndim == 0 else out

    def predict_interval(self, X: Any, level: float = 0.95, noise_var: Any = None) -> FloatArray:
        """Central interval of y that holds it with probability ``level``: columns lower and upper."""
        check_is_fitted(self)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        return self.predict_quantiles(X, (0.5 - 0.5 * level, 0.5 + 0.5 * level), noise_var)

    def log_density(self, X: Any, y: Any, noise_var: Any = None) -> FloatArray:
        """log p(y | x) of each row, in the units of y."""
        X = self._table(X)
        return self.posterior_.log_density(X, y, row_vector(noise_var, len(X), "noise_var"))

    def predict_density(self, X: Any, y: Any, noise_var: Any = None) -> FloatArray:
        """p(y | x) of each row, in the units of y."""
        return np.exp(self.log_density(X, y, noise_var))

    def sample_y(
        self, X: Any, n_samples: Any = 1, random_state: Any = 0, noise_var: Any = None
    ) -> FloatArray:
        """Draws of y, (n, n_samples): each column is one network drawn from the posterior, plus noise."""
        X = self._table(X)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer of at least 1, got {n_samples!r}.")
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        posterior = self.posterior_
        scaling = posterior.main.prepared.scaling
        known = row_vector(noise_var, len(X), "noise_var")
        known = np.zeros(len(X)) if known is None else known
        component_of = share_draws(posterior.weights, int(n_samples), rng)
        out = np.empty((len(X), int(n_samples)))
        for m, component in enumerate(posterior.components):
            mine = np.flatnonzero(component_of == m)
            draws = draw(component, len(mine), rng)
            spec, design = component.spec, component.design(X)
            f, log_var = functions(spec, draws, design), log_noise_vars(spec, draws, design)
            y = spec.likelihood.sample(rng, f, log_var, known / scaling.y_scale**2)
            out[:, mine] = (scaling.y_mean + scaling.y_scale * y).T
        return out

    @property
    def outlier_probability_(self) -> FloatArray:
        """Probability that each row of X is an outlier, judged without it; NaN for rows of weight zero."""
        check_is_fitted(self)
        found = self.posterior_.outlier_probability
        row_of = self.posterior_.main.prepared.row_of
        return np.where(row_of < 0, np.nan, found[row_of])

    @property
    def outliers_(self) -> IntArray:
        """Rows of X that are outliers with a probability above one half."""
        return np.flatnonzero(self.outlier_probability_ > 0.5)

    @property
    def noise_sd_(self) -> float:
        """Posterior mean of the noise standard deviation (of its scale, if robust), in the units of y."""
        check_is_fitted(self)
        return self.posterior_.noise_sd

    @property
    def noise_slopes_(self) -> WeightSummary:
        """Mean and sd of the change of the log noise variance for one sd of each input, (d,)."""
        check_is_fitted(self)
        posterior = self.posterior_
        if not any(c.spec.noise.varies for c in posterior.components):
            raise AttributeError('the noise of this fit does not depend on the inputs: give noise="linear".')
        slopes = posterior.noise_slopes
        return WeightSummary(slopes.mean, np.sqrt(slopes.var))

    @property
    def noise_function_slopes_(self) -> WeightSummary:
        """Mean and sd of the change of the log noise variance with the function, (3,).

        For one sd of f, of the square of that less one, and of the log of its squared slope.
        """
        check_is_fitted(self)
        posterior = self.posterior_
        if not any(c.spec.noise.guide is not None for c in posterior.components):
            raise AttributeError(
                'the noise of this fit does not depend on the function: give noise="varying".'
            )
        slopes = posterior.noise_guided
        return WeightSummary(slopes.mean, np.sqrt(slopes.var))
