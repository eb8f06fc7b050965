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

from cavity.ep.inclusion import has_inclusion, inclusion_probabilities
from cavity.ep.ladder import FEWEST_UNITS, Ensemble, FitOptions, default_step, fit_ensemble
from cavity.ep.schedule import Step
from cavity.ep.solve import Record
from cavity.estimators.inputs import new_table, row_vector, training_table
from cavity.model.data import Prepared, TrainingData, prepare
from cavity.model.likelihoods import Likelihood
from cavity.model.masks import input_sets, numbered
from cavity.model.memory import check_memory
from cavity.model.priors import default_groups
from cavity.model.spec import ModelSpec, Noise, network
from cavity.progress import Sweeps, both, progress_of, task_callback
from cavity.result import arviz
from cavity.result.codec import same
from cavity.result.mixture import MixturePosterior
from cavity.result.posterior import FittedPosterior
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

SOME_UNITS, MOST_UNITS = 25, 80
FEWEST_A_SET = 2  # units that see each set of inputs of a mask


class WeightSummary(NamedTuple):
    """Posterior means and standard deviations of weights."""

    mean: FloatArray
    sd: FloatArray


def hidden_units(n_rows: int) -> int:
    """Most units that ``n_hidden="auto"`` stands for: √n of the distinct rows, from 25 to 80, at most n/4.

    Starts that lean on few rows a weight use fewer (`cavity.ep.ladder.narrowed`).
    """
    units = np.clip(np.ceil(np.sqrt(n_rows)), SOME_UNITS, MOST_UNITS)
    return int(max(min(units, n_rows // 4), FEWEST_UNITS))


def starts(n_rows: int) -> int:
    """Starts that ``n_starts="auto"`` stands for: 8 up to 2000 distinct rows, 4 up to 20,000, then 2."""
    return 8 if n_rows <= 2000 else 4 if n_rows <= 20_000 else 2


class EPEstimator(CallbackSupportMixin, BaseEstimator):
    """Shared by all estimators: a subclass adds its parameters, its noise and its predictions."""

    n_hidden: Any
    activation: Any
    prior: Any
    groups: Any
    parents: Any
    prior_scale: Any
    mask: Any
    output_prior: Any
    form: str
    n_starts: Any
    fraction: float
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

    def _likelihood(self) -> Likelihood | None:
        """Likelihood, None for the Gaussian."""
        return None

    def _model(self, prepared: Prepared, n_hidden: int) -> ModelSpec:
        """The network that the parameters describe."""
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
            prior=self.prior,
            groups=default_groups(self.prior) if self.groups is None else self.groups,
            parents=self.parents,
            prior_var=None if held is None else held**2,
            mask=numbered(self.mask, getattr(self, "feature_names_in_", None)),
            output=self.output_prior,
            noise=self._noise(prepared),
            likelihood=self._likelihood(),
            form=self.form,
            **more,
        )

    def _units(self, data: TrainingData) -> int:
        if isinstance(self.n_hidden, str):
            if self.n_hidden != "auto":
                raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
            auto = hidden_units(data.n_rows)
            names = getattr(self, "feature_names_in_", None)
            sets = input_sets(numbered(self.mask, names), self.n_features_in_)
            return auto if sets is None else len(sets) * max(FEWEST_A_SET, -(-auto // len(sets)))
        if not isinstance(self.n_hidden, Integral) or self.n_hidden < 1:
            raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
        return int(self.n_hidden)

    def _options(self, spec: ModelSpec, data: TrainingData) -> FitOptions:
        """How to fit, from the parameters; "auto" follows the size of the data."""
        n_starts = starts(data.n_rows) if self.n_starts == "auto" else self.n_starts
        for name, lowest, value in (("n_starts", 1, n_starts), ("max_iter", 1, self.max_iter)):
            if not isinstance(value, Integral) or value < lowest:
                raise ValueError(f"{name} must be an integer of at least {lowest}, got {value!r}.")
        for name in ("tol", "time_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value!r}.")
        step: Step = replace(default_step(data, spec), fraction=float(self.fraction))
        if self.damping != "auto":
            step = replace(step, damping=float(self.damping))
        if self.block_size != "auto":
            step = replace(step, block_size=self.block_size)
        elif spec.resolved_form(data.n_rows) == "diagonal":
            step = replace(step, block_size=None)  # this form refreshes all rows whatever the block
        jobs = effective_n_jobs(self.n_jobs)
        return FitOptions(
            start="zero" if spec.held.any() else "map",  # the MAP network sees every input
            n_starts=int(n_starts),
            step=step,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            time_limit=self.time_limit,
            adapt_width=isinstance(self.n_hidden, str),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_threads=jobs if n_starts == 1 else 1,
            n_jobs=jobs if n_starts > 1 else 1,
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, noise_var: Any = None) -> Self:
        """Check, standardise, fit, and set the fitted attributes."""
        X, y = training_table(self, X, y)
        weight, variances = (
            row_vector(sample_weight, len(y), "sample_weight"),
            row_vector(noise_var, len(y), "noise_var"),
        )
        names = getattr(self, "feature_names_in_", None)
        prepared = prepare(X, y, weight, variances, names=names, canonical=True)
        going_on = self.warm_start and hasattr(self, "posterior_")
        keep_units = going_on and self.n_hidden == "auto"
        units = self._spec.n_hidden if keep_units else self._units(prepared.data)
        spec = self._model(prepared, units)
        options = self._options(spec, prepared.data)
        check_memory(
            prepared.data.n_rows, X.shape[1], units, spec.form, min(options.n_jobs, options.n_starts)
        )
        constant = [note for note in prepared.notes if note.startswith("y is constant")]
        for note in constant:
            warnings.warn(note, UserWarning, stacklevel=CALLER)
        tasks, end_tasks = task_callback(self)
        with progress_of(self.verbose, tasks is not None) as progress:
            own = self.verbose if callable(self.verbose) else Sweeps(progress, options.max_iter)
            callback = both(own, tasks)
            if options.n_jobs > 1:  # starts in other processes do not report their sweeps
                progress.at(0.0, f"{options.n_starts} starts in {options.n_jobs} processes")
            ensemble = None
            if going_on and same(spec, self._spec):
                ensemble = resume(self.posterior_, prepared, X, y, variances, options, callback)
            if ensemble is None:
                ensemble = fit_ensemble(spec, prepared.data, options, callback)
            self._install(prepared, ensemble, spec)
            loo = self.posterior_.loo_log_density
            self.loo_i_ = loo[prepared.row_of]
            unused = np.flatnonzero(prepared.row_of < 0)
            if len(unused):
                var = None if variances is None else variances[unused]
                self.loo_i_[unused] = self.posterior_.log_density(X[unused], y[unused], var)
            end_tasks()
            progress.finish(self.status_)
        mismatch = max(s.mismatch for s in ensemble.solutions)
        if not (self.converged_ or constant or mismatch <= LARGE_MISMATCH):
            warnings.warn(
                f"{self.status_} The largest moment mismatch is {mismatch:.2g} marginal standard deviations.",
                ConvergenceWarning,
                stacklevel=CALLER,
            )
        return self

    def _install(self, prepared: Prepared, ensemble: Ensemble, spec: ModelSpec) -> None:
        """Set the fitted attributes that do not depend on rows of weight zero."""
        self.posterior_ = MixturePosterior(
            [FittedPosterior(prepared, s) for s in ensemble.solutions], ensemble.weights
        )
        self._spec = spec
        self._relevance: Relevance | None = None
        main = self.posterior_.main.solution
        unfinished = [s for s in ensemble.solutions if not s.converged]
        self.converged_ = not unfinished
        self.status_ = main.status.value
        if main.converged and unfinished:
            count = len(ensemble.solutions)
            self.status_ = f"{len(unfinished)} of {count} stacked fits did not converge; the heaviest did."
        self.n_iter_ = max(len(main.history), 1)
        self.loo_ = float(np.average(self.posterior_.loo_log_density, weights=prepared.data.weight))

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
        main = self.posterior_.main
        w, free = main.state.posterior.w, ~main.spec.held[:, : self.n_features_in_]
        d = self.n_features_in_
        return WeightSummary(w.mean[:, :d] * free, np.sqrt(w.var[:, :d]) * free)

    @property
    def output_weights_(self) -> WeightSummary:
        """Mean and sd of the output weights, (K + 1,), bias last, for a standardised target."""
        check_is_fitted(self)
        v = self.posterior_.main.state.posterior.v
        return WeightSummary(v.mean, np.sqrt(np.diag(v.cov)))

    @property
    def inclusion_(self) -> FloatArray:
        """Probability that each input weight is not in its prior's spike, (K, d); of the heaviest fit.

        Only with a prior that has a spike ("spike-and-slab"). Weights of a unit that is not in use have the
        prior probability; `relevance_` joins the units that are into one probability per input.
        """
        check_is_fitted(self)
        main = self.posterior_.main
        if not has_inclusion(main.spec):
            raise AttributeError('inclusion_ needs a prior with a spike at zero: prior="spike-and-slab".')
        return inclusion_probabilities(main.spec, main.state)[:, : self.n_features_in_]

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
        components = self.posterior_.components
        fitted = {
            "n_features": int(self.n_features_in_),
            "feature_names": None if names is None else [str(n) for n in names],
            "model": self._spec,
            "prepared": components[0].prepared,
            "solutions": [c.solution for c in components],
            "weights": self.posterior_.weights,
            "loo_i": self.loo_i_,
        }
        extra = extra if extra is not None else getattr(self, "extra_", {})
        write_model(path, StoredModel(type(self).__name__, params, fitted, extra))

    @classmethod
    def _restored(cls, stored: StoredModel, shown: str) -> Self:
        """The estimator that a model file describes."""
        try:
            model = cls(**stored.params)
            fitted = stored.fitted
            model.n_features_in_ = fitted["n_features"]
            if fitted["feature_names"] is not None:
                model.feature_names_in_ = np.asarray(fitted["feature_names"], dtype=object)
            ensemble = Ensemble(tuple(fitted["solutions"]), fitted["weights"])
            model._install(fitted["prepared"], ensemble, fitted["model"])
            model.loo_i_ = fitted["loo_i"]
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
