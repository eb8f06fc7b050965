"""What all estimators share: one fit over the engine, its fitted attributes, saving and resuming."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity.ep.ladder import FitOptions, default_step, fit_ensemble
from cavity.ep.schedule import Step
from cavity.ep.solve import Record
from cavity.estimators.inputs import new_table, row_vector
from cavity.model.data import Prepared, TrainingData, prepare
from cavity.model.likelihoods import GaussianLikelihood, Likelihood
from cavity.model.memory import check_memory
from cavity.model.spec import ModelSpec, Noise, network
from cavity.progress import Sweeps, both, progress_of, task_callback
from cavity.result import arviz
from cavity.result.codec import same
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import THRESHOLD, Relevance, input_blocks, relevance
from cavity.result.resume import resume
from cavity.result.store import ModelFileError, StoredModel, write_model
from cavity.types import FloatArray

try:  # scikit-learn 1.9 and newer, experimental there
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    CALLER = 4  # frames from a warning in _fit to the line that called fit, past scikit-learn's wrapper
except ImportError:
    CALLER = 3

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """The method itself."""
        return method


# Warn where a tilted moment is further than half a marginal sd from its marginal. Fits of ordinary tables end
# between 0.001 and 0.2, many of them short of the tolerance, and status_ says so; beyond 1 end fits of a few
# rows, of almost no weight, or that oscillate.
LARGE_MISMATCH = 0.5

FEWEST_UNITS, MOST_UNITS = 5, 30


class WeightSummary(NamedTuple):
    """Posterior means and standard deviations of weights."""

    mean: FloatArray
    sd: FloatArray


def hidden_units(n_rows: int) -> int:
    """Number of units that ``n_hidden="auto"`` stands for: n^0.4 distinct rows, between 5 and 30."""
    return int(np.clip(np.ceil(n_rows**0.4), FEWEST_UNITS, MOST_UNITS))


class EPEstimator(CallbackSupportMixin, BaseEstimator):
    """Shared by all estimators: a subclass adds its parameters, its noise and its predictions."""

    n_hidden: Any
    activation: Any
    prior: Any
    groups: Any
    prior_scale: Any
    form: str
    n_starts: int
    fraction: Any
    damping: Any
    block_size: Any
    max_iter: int
    tol: float
    warm_start: bool
    time_limit: float | None
    n_jobs: int | None
    random_state: Any
    verbose: Any

    posterior_: MixturePosterior

    # ── the model and how it is fitted ─────────────────────────────────────────────────────────────

    def _noise(self, prepared: Prepared) -> Noise:
        """Prior of the noise for standardised data."""
        return Noise()

    def _likelihoods(self) -> list[Likelihood]:
        """The likelihood, or several to choose from by leave-one-out."""
        return [GaussianLikelihood()]

    def _model(self, prepared: Prepared, n_hidden: int, likelihood: Likelihood) -> ModelSpec:
        """The network that the parameters describe."""
        prior, groups = self.prior, self.groups
        if isinstance(prior, str) and prior == "ard":
            prior, groups = "gaussian", "input" if groups is None else groups
        elif isinstance(prior, str) and prior not in ("laplace", "gaussian"):
            raise ValueError(
                f'prior={prior!r} is unknown: use "laplace", "ard", "gaussian" or a WeightPrior.'
            )
        scale = self.prior_scale
        held = float(scale) if isinstance(scale, Real) else None
        if held is not None and not held > 0.0:
            raise ValueError(f"prior_scale must be a positive sd or a pair (mean, variance), got {scale!r}.")
        more: dict[str, Any] = (
            {} if scale is None or held is not None else {"scale_prior": _pair(scale, "prior_scale")}
        )
        return network(
            len(prepared.scaling.x_mean),
            n_hidden,
            activation=self.activation,
            prior=prior,
            groups="common" if groups is None else groups,
            prior_var=None if held is None else held**2,
            noise=self._noise(prepared) if likelihood.has_scale else None,
            likelihood=likelihood,
            form=self.form,
            **more,
        )

    def _units(self, data: TrainingData) -> int:
        if isinstance(self.n_hidden, str):
            if self.n_hidden != "auto":
                raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
            return self._auto_units(data.n_rows)
        if not isinstance(self.n_hidden, Integral) or self.n_hidden < 1:
            raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
        return int(self.n_hidden)

    def _auto_units(self, n_rows: int) -> int:
        return hidden_units(n_rows)

    def _options(self, spec: ModelSpec, data: TrainingData) -> FitOptions:
        """How to fit, from the parameters; "auto" follows the size of the data."""
        for name, lowest in (("n_starts", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < lowest:
                raise ValueError(f"{name} must be an integer of at least {lowest}, got {value!r}.")
        for name in ("tol", "time_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value!r}.")
        auto = isinstance(self.fraction, str) and self.fraction == "auto"
        step: Step = default_step(data, spec, None if auto else float(self.fraction))
        if self.damping != "auto":
            step = replace(step, damping=float(self.damping))
        if self.block_size != "auto":
            step = replace(step, block_size=self.block_size)
        elif spec.resolved_form(data.n_rows) == "diagonal":
            step = replace(step, block_size=None)  # this form refreshes all rows whatever the block
        jobs = effective_n_jobs(self.n_jobs)
        return FitOptions(
            n_starts=int(self.n_starts),
            step=step,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            time_limit=self.time_limit,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_threads=jobs if self.n_starts == 1 else 1,
            n_jobs=jobs if self.n_starts > 1 else 1,
        )

    def _fit(self, X: FloatArray, y: FloatArray, sample_weight: Any = None, noise_var: Any = None) -> Self:
        """Standardise, fit, and set the fitted attributes."""
        weight, variances = (
            row_vector(sample_weight, len(y), "sample_weight"),
            row_vector(noise_var, len(y), "noise_var"),
        )
        tasks, end_tasks = task_callback(self)
        with progress_of(self.verbose, tasks is not None) as progress:
            fits = [
                self._fitted_with(likelihood, X, y, weight, variances, progress, tasks)
                for likelihood in self._likelihoods()
            ]
            self._install(*fits[int(np.argmax([posterior.mean_loo for posterior, _ in fits]))])
            prepared = self.posterior_.main.prepared
            self.loo_i_ = self.posterior_.loo_log_density[prepared.row_of]
            unused = np.flatnonzero(prepared.row_of < 0)
            if len(unused):
                var = None if variances is None else variances[unused]
                self.loo_i_[unused] = self.posterior_.log_density(X[unused], y[unused], var)
            end_tasks()
            progress.finish(self.status_)
        constant = [note for note in prepared.notes if note.startswith("y is constant")]
        for note in constant:
            warnings.warn(note, UserWarning, stacklevel=CALLER)
        mismatch = max(c.solution.mismatch for c in self.posterior_.components)
        if not (self.converged_ or constant or mismatch <= LARGE_MISMATCH):
            warnings.warn(
                f"{self.status_} The largest moment mismatch is {mismatch:.2g} marginal standard deviations.",
                ConvergenceWarning,
                stacklevel=CALLER,
            )
        return self

    def _fitted_with(
        self,
        likelihood: Likelihood,
        X: FloatArray,
        y: FloatArray,
        weight: FloatArray | None,
        variances: FloatArray | None,
        progress: Any,
        tasks: Any,
    ) -> tuple[MixturePosterior, ModelSpec]:
        """Posterior and model under one likelihood."""
        likelihood.check_target(y)
        if variances is not None and not likelihood.location:
            raise ValueError(f"{type(likelihood).__name__} has no noise variances: leave noise_var out.")
        names = getattr(self, "feature_names_in_", None)
        prepared = prepare(
            X, y, weight, variances, names=names, canonical=True, standardise_target=likelihood.location
        )
        going_on = self.warm_start and hasattr(self, "posterior_")
        keep_units = going_on and self.n_hidden == "auto"
        units = self._spec.n_hidden if keep_units else self._units(prepared.data)
        spec = self._model(prepared, units, likelihood.adapted(prepared.data.y, prepared.data.weight))
        options = self._options(spec, prepared.data)
        check_memory(
            prepared.data.n_rows, X.shape[1], units, spec.form, min(options.n_jobs, options.n_starts)
        )
        own = self.verbose if callable(self.verbose) else Sweeps(progress, options.n_starts, options.max_iter)
        callback = both(own, tasks)
        if options.n_jobs > 1:  # starts in other processes do not report their sweeps
            progress.at(0.0, f"{options.n_starts} starts in {options.n_jobs} processes")
        ensemble = None
        if going_on and same(spec, self._spec):
            ensemble = resume(self.posterior_, prepared, X, y, variances, options, callback)
        if ensemble is None:
            ensemble = fit_ensemble(spec, prepared.data, options, callback)
        return MixturePosterior.of(prepared, ensemble.solutions, ensemble.weights), spec

    def _install(self, posterior: MixturePosterior, spec: ModelSpec) -> None:
        """Set the fitted attributes that do not depend on rows of weight zero."""
        self.posterior_, self._spec = posterior, spec
        self.likelihood_ = spec.likelihood
        self._relevance: Relevance | None = None
        main = posterior.main.solution
        unfinished = [c for c in posterior.components if not c.solution.converged]
        self.converged_ = not unfinished
        self.status_ = main.status.value
        if main.converged and unfinished:
            count = len(posterior.components)
            self.status_ = f"{len(unfinished)} of {count} stacked fits did not converge; the heaviest did."
        self.n_iter_ = max(len(main.history), 1)
        self.loo_ = posterior.mean_loo

    # ── fitted attributes that are worked out when asked for ───────────────────────────────────────

    @property
    def log_evidence_(self) -> float:
        """log Z_EP of the training target, averaged over stacked fits."""
        check_is_fitted(self)
        return self.posterior_.log_evidence

    @property
    def history_(self) -> tuple[Record, ...]:
        """One record per sweep of the (heaviest) fit."""
        check_is_fitted(self)
        return self.posterior_.main.solution.history

    @property
    def notes_(self) -> tuple[str, ...]:
        """Sentences on what was found in the data: constant inputs, repeated columns."""
        check_is_fitted(self)
        return self.posterior_.main.prepared.notes

    @property
    def input_weights_(self) -> WeightSummary:
        """Mean and sd of the input weights, (K, d), for standardised inputs; of the heaviest fit."""
        check_is_fitted(self)
        w = self.posterior_.main.state.posterior.w
        return WeightSummary(w.mean[:, : self.n_features_in_], np.sqrt(w.var[:, : self.n_features_in_]))

    @property
    def output_weights_(self) -> WeightSummary:
        """Mean and sd of the output weights, (K + 1,), bias last, for a standardised target."""
        check_is_fitted(self)
        v = self.posterior_.main.state.posterior.v
        return WeightSummary(v.mean, np.sqrt(np.diag(v.cov)))

    @property
    def relevance_(self) -> Relevance:
        """Table of what each input (or block of inputs, where ``groups`` labels the inputs) does."""
        check_is_fitted(self)
        if self._relevance is None:
            self._relevance = self.relevance_table()
        return self._relevance

    def relevance_table(self, threshold: float = THRESHOLD) -> Relevance:
        """The table of ``relevance_`` with another threshold, in sds of y, for "relevant"."""
        check_is_fitted(self)
        return relevance(self.posterior_, input_blocks(self._names(), self.groups), threshold)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(n) for n in names]

    def _table(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return new_table(self, X)

    # ── elsewhere: files and ArviZ ─────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write the fitted estimator to one file; `cavity.load` reads it.

        The file is an npz archive with JSON, holds no code, and includes the standardised training rows, so
        that the fit can be resumed. ``extra`` is a dict of JSON values that comes back as ``extra_``.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if callable(params.get("verbose")):
            params["verbose"] = 0
        names = getattr(self, "feature_names_in_", None)
        fitted = {
            "n_features": int(self.n_features_in_),
            "feature_names": None if names is None else [str(n) for n in names],
            **self._fitted_state(),
        }
        extra = extra if extra is not None else getattr(self, "extra_", {})
        write_model(path, StoredModel(type(self).__name__, params, fitted, extra))

    def _fitted_state(self) -> dict[str, Any]:
        """What a model file keeps of the fit."""
        components = self.posterior_.components
        return {
            "model": self._spec,
            "prepared": components[0].prepared,
            "solutions": [c.solution for c in components],
            "weights": self.posterior_.weights,
            "loo_i": self.loo_i_,
        }

    def _restore_state(self, fitted: dict[str, Any]) -> None:
        """Take up what `_fitted_state` kept."""
        parts = (fitted["prepared"], fitted["solutions"], fitted["weights"])
        self._install(MixturePosterior.of(*parts), fitted["model"])
        self.loo_i_ = fitted["loo_i"]

    @classmethod
    def _restored(cls, stored: StoredModel, shown: str) -> Self:
        """The estimator that a model file describes."""
        try:
            model = cls(**stored.params)
            fitted = stored.fitted
            model.n_features_in_ = fitted["n_features"]
            if fitted["feature_names"] is not None:
                model.feature_names_in_ = np.asarray(fitted["feature_names"], dtype=object)
            model._restore_state(fitted)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{shown} does not describe a {cls.__name__} of this version ({type(error).__name__}: "
                f"{error}): use the version that wrote it, or fit again."
            ) from None
        model.extra_ = stored.extra
        return model

    def to_arviz(self, n_draws: int = 1000, n_chains: int = 4, random_state: Any = 0) -> Any:
        """Draws from q, pointwise log likelihood and data as ArviZ keeps them.

        An ``InferenceData`` with ArviZ 0.x, a ``DataTree`` with 1.x. ``n_draws`` is per chain; the draws are
        independent, chains are only a habit of the format.
        """
        check_is_fitted(self)
        seed = check_random_state(random_state).randint(2**31 - 1)
        return arviz.to_arviz(self.posterior_, self._names(), n_draws, n_chains, seed)

    def to_arviz_loo(self) -> Any:
        """The leave-one-out densities as ``az.loo`` returns them: ``az.compare`` takes a dict of these.

        Prefer them to ``az.loo(model.to_arviz())``: q factorises over units, so its draws spread more than
        the posterior's would, and importance sampling punishes that at influential rows.
        """
        check_is_fitted(self)
        return arviz.elpd_loo(self.posterior_)


def _pair(value: Any, name: str) -> tuple[float, float]:
    """A (mean, variance) pair."""
    try:
        mean, var = (float(v) for v in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair (mean, variance) or a number, got {value!r}.") from None
    if not (np.isfinite(mean) and np.isfinite(var) and var >= 0.0):
        raise ValueError(f"{name} must be (mean, variance >= 0) and finite, got {value!r}.")
    return mean, var
