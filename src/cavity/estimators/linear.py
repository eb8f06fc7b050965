"""Sparse linear models: regression and classification with few of many inputs."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.ep.inclusion import has_inclusion, inclusion_probabilities
from cavity.ep.options import FitOptions
from cavity.estimators.base import EPEstimator
from cavity.estimators.classification import EPClassification
from cavity.estimators.regression import EPRegression
from cavity.estimators.wide import DAMPING, NOISE, SPIKE_FRACTION, STRAIGHT, spike_and_slab
from cavity.model.data import Prepared, TrainingData
from cavity.model.spec import ModelSpec, Noise
from cavity.result.coefficients import Coefficients, coefficients, interval
from cavity.types import FloatArray


class EPLinear(EPEstimator):
    """A network of one linear unit whose output weight is one: what both linear estimators share."""

    n_hidden = 1
    activation = "linear"
    mask = None
    output_prior = STRAIGHT
    interactions = None
    n_starts = 1
    block_size = None
    warm_start = False

    @property
    def _adaptive(self) -> bool:
        """Whether the prior is fitted with the data: named, not given with its parameters."""
        return isinstance(self.prior, str) and self.prior == "spike-and-slab"

    def _prior_family(self, n_inputs: int, prior: Any) -> tuple[Any, str, tuple[float, float] | None]:
        if not self._adaptive:
            return prior, "input" if isinstance(prior, str) and prior == "ard" else "common", None
        if self.parents is not None:
            raise ValueError(
                'parents correlate inferred scales, prior="spike-and-slab" fits its own: give '
                "prior=SpikeAndSlabPrior() with its parameters, or leave parents out."
            )
        scale = self.prior_scale
        slab = abs(float(scale)) if isinstance(scale, Real) and scale else None
        adaptive, hyperprior = spike_and_slab(n_inputs, slab)
        return adaptive, "common", hyperprior

    def _options(self, spec: ModelSpec, data: TrainingData) -> FitOptions:
        options = super()._options(spec, data)
        step = options.step
        assert step is not None
        if self.damping == "auto" and spec.resolved_form(data.n_rows) != "diagonal":
            step = replace(step, damping=DAMPING)
        if self._adaptive:
            step = replace(step, fraction_weight=SPIKE_FRACTION)
        return replace(options, start="linear", adapt_prior=self._adaptive, step=step, flat=0.0)

    def _coefficients(self) -> Coefficients:
        """Of one fitted model."""
        check_is_fitted(self)
        return coefficients(self.posterior_.main)

    def _inclusion(self) -> FloatArray:
        """Of one fitted model, (d,)."""
        check_is_fitted(self)
        main = self.posterior_.main
        if not has_inclusion(main.spec):
            raise AttributeError('inclusion_ needs a prior with a spike at zero: prior="spike-and-slab".')
        return inclusion_probabilities(main.spec, main.solution.state)[0, : self.n_features_in_]

    def _prior_inclusion(self) -> float:
        """Of one fitted model."""
        self._inclusion()
        return float(self.posterior_.main.spec.blocks[0].prior.inclusion)  # type: ignore[attr-defined]


class EPLinearRegressor(EPLinear, EPRegression):
    """Sparse Bayesian linear regression by expectation propagation.

    y = intercept + xᵀw + noise, with a prior under which few of the coefficients w are large. Their
    posterior, the noise level and the prior scales come from one fit that needs no cross-validation, with any
    number of inputs: beyond the number of rows the work grows with n²d. X and y are standardised inside, and
    all that comes out is in their units.

    Parameters
    ----------
    prior : str or WeightPrior
        Family of the coefficients. "spike-and-slab": each is in, or almost zero, and `inclusion_` says how
        probably; the prior probability and the size of those that are in are estimated from the data.
        "laplace": the Bayesian lasso; "horseshoe" and "regularized-horseshoe": almost zero or hardly shrunk;
        "ard": Gaussian with a scale for each coefficient; "gaussian": ridge; "student-t"; "mixture". A
        `SpikeAndSlabPrior` with its own parameters keeps them.
    groups : None, {"common", "input"} or array
        Which coefficients share a scale: all (the default but for "ard"), none, or those with equal labels,
        d of them.
    parents : None, "common" or array
        Groups of groups, as for `EPRegressor`; not with "spike-and-slab" by name.
    prior_scale : None, (mean, variance) or float
        Hyperprior of the log prior variance, for standardised data; a number holds the prior standard
        deviation there.
    likelihood : {"gaussian", "student-t", "outliers", "poisson"}, Likelihood, or a list of these
        As for `EPRegressor`; "student-t" and "outliers" bear rows that are far off.
    noise : None, "linear", (mean, variance) or float
        "linear" lets the log noise variance depend on the inputs, as for `EPRegressor`. A pair is the prior
        of the log noise variance for a standardised target; a number holds the noise standard deviation
        there, in the units of y.
    form : {"auto", "full", "dual", "diagonal"}
        How the posterior covariance is kept: d × d, n × n, whichever is smaller, or variances only.
    fraction, damping : "auto" or float
        Power of the likelihood sites, and share of a proposed site that is taken, in (0, 1].
    max_iter, tol : int, float
        Most sweeps, and the moment mismatch (in posterior sds) that ends them.
    time_limit : float, optional
        Seconds; the state reached by then is kept.
    n_jobs : int, optional
        Threads over rows.
    random_state : int, RandomState or None
        Of nothing in the fit, which has one start; kept for scikit-learn's tools.
    verbose : "auto", int or callable
        As for `EPRegressor`.

    Attributes
    ----------
    coef_, coef_sd_ : (d,) array
        Posterior means and standard deviations of the coefficients, in units of y per unit of x.
    intercept_, intercept_sd_ : float
    inclusion_ : (d,) array
        Probability that each coefficient is not in the spike; only with a spike-and-slab prior.
    prior_inclusion_ : float
        The prior probability of that, estimated or given; only with a spike-and-slab prior.
    loo_, loo_i_, log_evidence_, relevance_, noise_sd_, noise_slopes_, likelihood_, outlier_probability_, \
outliers_, n_iter_, converged_, status_, history_, posterior_, notes_, n_features_in_, feature_names_in_
        As for `EPRegressor`. The evidence is at the estimated hyperparameters of "spike-and-slab".

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import EPLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 100))
    >>> y = 2.0 * X[:, 3] + 0.5 * rng.normal(size=40)
    >>> int(EPLinearRegressor().fit(X, y).inclusion_.argmax())
    3
    """

    def __init__(
        self,
        *,
        prior: Any = "spike-and-slab",
        groups: Any = None,
        parents: Any = None,
        prior_scale: Any = None,
        likelihood: Any = "gaussian",
        noise: Any = None,
        form: str = "auto",
        fraction: Any = "auto",
        damping: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: Any = "auto",
    ) -> None:
        self.prior = prior
        self.groups = groups
        self.parents = parents
        self.prior_scale = prior_scale
        self.likelihood = likelihood
        self.noise = noise
        self.form = form
        self.fraction = fraction
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _noise(self, prepared: Prepared) -> Noise:
        return NOISE if self.noise is None else super()._noise(prepared)

    @property
    def coef_(self) -> FloatArray:
        """Posterior means of the coefficients, (d,), in units of y per unit of x."""
        return self._coefficients().mean

    @property
    def coef_sd_(self) -> FloatArray:
        """Posterior standard deviations of the coefficients, (d,)."""
        return self._coefficients().sd

    @property
    def intercept_(self) -> float:
        """Posterior mean of the intercept."""
        return self._coefficients().intercept

    @property
    def intercept_sd_(self) -> float:
        """Posterior standard deviation of the intercept."""
        return self._coefficients().intercept_sd

    def coef_interval(self, level: float = 0.95) -> FloatArray:
        """Central intervals of the coefficients: columns lower and upper, (d, 2)."""
        found = self._coefficients()
        return interval(found.mean, found.sd, level)

    @property
    def inclusion_(self) -> FloatArray:
        """Probability that each coefficient is not in its prior's spike, (d,)."""
        return self._inclusion()

    @property
    def prior_inclusion_(self) -> float:
        """Prior probability of not being in the spike, as estimated or given."""
        return self._prior_inclusion()


class EPLinearClassifier(EPLinear, EPClassification):
    """Sparse Bayesian linear classification by expectation propagation.

    Two classes: P(second class | x) = Φ(intercept + xᵀw), a probit model, averaged over the posterior of the
    coefficients w, few of which are large under the prior. More classes: one such model for each class
    against the others, and P(class | x) proportional to what its model says, as for `EPClassifier`.

    Parameters
    ----------
    prior, groups, parents, prior_scale, form, fraction, damping, max_iter, tol, time_limit, n_jobs, \
random_state, verbose
        As for `EPLinearRegressor`; scales are those of the latent function, where 1 moves a probability from
        0.5 to 0.84.
    class_weight : None, "balanced" or dict
        Weights that multiply those of the rows, by class.

    Attributes
    ----------
    coef_, coef_sd_ : (1, d) array, or (C, d) for C > 2 classes
        Posterior means and standard deviations of the coefficients, per unit of x; one row a model. In
        logistic units they are larger by about 1.7.
    intercept_, intercept_sd_ : (1,) array, or (C,)
    inclusion_ : (d,) array, or (C, d)
        Probability that each coefficient is not in the spike; only with a spike-and-slab prior.
    prior_inclusion_ : float, or (C,) array
    classes_, loo_, loo_i_, loo_proba_, log_evidence_, relevance_, posterior_, estimators_, n_iter_, \
converged_, status_, history_, notes_, n_features_in_, feature_names_in_
        As for `EPClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import EPLinearClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 100))
    >>> y = np.where(X[:, 3] + 0.3 * rng.normal(size=60) > 0, "high", "low")
    >>> int(EPLinearClassifier().fit(X, y).inclusion_.argmax())
    3
    """

    def __init__(
        self,
        *,
        prior: Any = "spike-and-slab",
        groups: Any = None,
        parents: Any = None,
        prior_scale: Any = None,
        class_weight: Any = None,
        form: str = "auto",
        fraction: Any = "auto",
        damping: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: Any = "auto",
    ) -> None:
        self.prior = prior
        self.groups = groups
        self.parents = parents
        self.prior_scale = prior_scale
        self.class_weight = class_weight
        self.form = form
        self.fraction = fraction
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _all(self, name: str) -> FloatArray:
        """One field of the coefficients of every model."""
        return np.array([getattr(EPLinear._coefficients(model), name) for model in self._networks])

    @property
    def coef_(self) -> FloatArray:
        """Posterior means of the coefficients of the latent function, (1, d) or (C, d)."""
        return self._all("mean")

    @property
    def coef_sd_(self) -> FloatArray:
        """Posterior standard deviations of the coefficients, (1, d) or (C, d)."""
        return self._all("sd")

    @property
    def intercept_(self) -> FloatArray:
        """Posterior means of the intercepts, (1,) or (C,)."""
        return self._all("intercept")

    @property
    def intercept_sd_(self) -> FloatArray:
        """Posterior standard deviations of the intercepts, (1,) or (C,)."""
        return self._all("intercept_sd")

    def coef_interval(self, level: float = 0.95) -> FloatArray:
        """Central intervals of the coefficients: lower and upper on the last axis, (1, d, 2) or (C, d, 2)."""
        return interval(self.coef_, self.coef_sd_, level)

    @property
    def inclusion_(self) -> FloatArray:
        """Probability that each coefficient is not in its prior's spike, (d,) or (C, d)."""
        found = [EPLinear._inclusion(model) for model in self._networks]
        return found[0] if len(found) == 1 else np.stack(found)

    @property
    def prior_inclusion_(self) -> Any:
        """Prior probability of not being in the spike, as estimated or given; of every model."""
        found = [EPLinear._prior_inclusion(model) for model in self._networks]
        return found[0] if len(found) == 1 else np.array(found)
