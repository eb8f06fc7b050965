"""What all estimators share: from parameters and a table to one fit over the engine."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from cavity.ep.countdown import Countdown
from cavity.ep.doubt import doubt
from cavity.ep.members import Member, fit_members
from cavity.ep.options import FitOptions
from cavity.ep.schedule import Step
from cavity.ep.warm_up import FEWEST_UNITS, default_step
from cavity.estimators.choice import LEFT_OUT, Choice, Fitted
from cavity.estimators.fitted import FittedModel
from cavity.estimators.inputs import row_vector
from cavity.estimators.wide import NOISE, STRAIGHT, linear_options, wide_models
from cavity.model.activations import described_units
from cavity.model.data import CONSTANT_TARGET, FAR_OFF, Prepared, TrainingData, prepare
from cavity.model.likelihoods import GaussianLikelihood, Likelihood
from cavity.model.masks import input_sets, numbered
from cavity.model.memory import check_memory
from cavity.model.priors import default_groups
from cavity.model.spec import ModelSpec, Noise, network
from cavity.progress import Sweeps, both, progress_of, task_callback
from cavity.result.codec import same
from cavity.result.mixture import MixturePosterior
from cavity.result.resume import resume
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

# A fit also ends where its leave-one-out density moves by less than this times tol in five sweeps.
FLAT = 0.08
SOME_UNITS, MOST_UNITS = 25, 80
LOOKS = 2  # at rows that may be outliers: the second in units of those that are none
FEWEST_A_SET = 2  # units that see each set of inputs of a mask


def hidden_units(n_rows: int) -> int:
    """Most units that ``n_hidden="auto"`` stands for: √n of the distinct rows, from 25 to 80, at most n/4.

    Starts that lean on few rows a weight use fewer (`cavity.ep.warm_up.narrowed`).
    """
    units = np.clip(np.ceil(np.sqrt(n_rows)), SOME_UNITS, MOST_UNITS)
    return int(max(min(units, n_rows // 4), FEWEST_UNITS))


def starts(n_rows: int, n_inputs: int, compiled: bool = True) -> int:
    """Starts that ``n_starts="auto"`` stands for.

    8 up to 2000 distinct rows and 50 inputs, 4 up to 20,000 rows, then 2; and 2 where a piece of the model
    has no compiled form, whose sweeps take many times as long.
    """
    if not compiled:
        return 2
    return 8 if n_rows <= 2000 and n_inputs <= 50 else 4 if n_rows <= 20_000 else 2


class EPEstimator(CallbackSupportMixin, FittedModel):
    """Shared by all estimators: a subclass adds its parameters, its noise and its predictions."""

    n_hidden: Any
    activation: Any
    prior: Any
    groups: Any
    parents: Any
    prior_scale: Any
    mask: Any
    output_prior: Any
    interactions: Any
    form: str
    n_starts: Any
    fraction: Any
    damping: Any
    block_size: Any
    max_iter: int
    tol: Any
    warm_start: bool
    time_limit: Any
    n_jobs: int | None
    random_state: Any
    verbose: Any

    def _noise(self, prepared: Prepared) -> Noise:
        """Prior of the noise for standardised data."""
        return Noise()

    def _likelihoods(self) -> list[Likelihood]:
        """The likelihood, or several to choose from by leave-one-out."""
        return [GaussianLikelihood()]

    def _also(self, posterior: MixturePosterior, spec: ModelSpec) -> list[Likelihood]:
        """Further likelihoods to choose from, once the first fit is known."""
        return []

    def _prior_family(self, n_inputs: int, prior: Any) -> tuple[Any, str, tuple[float, float] | None]:
        """Prior of the input weights, its groups and hyperprior where the parameters give none."""
        return prior, default_groups(prior), None

    def _model(self, prepared: Prepared, n_hidden: int, likelihood: Likelihood, **instead: Any) -> ModelSpec:
        """The network that the parameters describe, except for what is said instead."""
        d = len(prepared.scaling.x_mean)
        prior, groups, scale_prior = self._prior_family(d, instead.get("prior", self.prior))
        scale = self.prior_scale
        held = float(scale) if isinstance(scale, Real) else None
        if held is not None and not held > 0.0:
            raise ValueError(f"prior_scale must be a positive sd or a pair (mean, variance), got {scale!r}.")
        if scale is not None and held is None:
            scale_prior = _pair(scale, "prior_scale")
        described = {
            "activation": "erf" if self._mixed else self.activation,
            "prior": prior,
            "groups": groups if self.groups is None else self.groups,
            "scale_prior": scale_prior,
            "parents": self.parents,
            "prior_var": None if held is None else held**2,
            "mask": numbered(self.mask, getattr(self, "feature_names_in_", None)),
            "output": self.output_prior,
            "interactions": self.interactions,
            "noise": self._noise(prepared) if likelihood.has_scale else None,
            "likelihood": likelihood,
            "form": self.form,
        }
        return network(d, n_hidden, **{**described, **instead})

    def _members(self, spec: ModelSpec, prepared: Prepared, options: FitOptions) -> list[Member]:
        """Models to fit and stack, the one that the parameters describe first."""
        return [Member(spec, options)]

    def _straight(
        self, spec: ModelSpec, prepared: Prepared, priors: tuple[str, ...], options: FitOptions
    ) -> list[Member]:
        """Linear networks, one for each prior with a scale common to all inputs."""
        how: dict[str, Any] = {
            "activation": "linear",
            "output": STRAIGHT,
            "groups": "common",
            "parents": None,
            "interactions": None,
        }
        return [Member(self._model(prepared, 1, spec.likelihood, prior=p, **how), options) for p in priors]

    def _wide(self, spec: ModelSpec, prepared: Prepared, options: FitOptions) -> list[Member]:
        """Linear models for more inputs than rows; with a ``prior_scale``, those that can heed it."""
        if self.prior_scale is not None:
            return self._straight(spec, prepared, ("laplace", "gaussian"), replace(options, n_starts=1))
        free = spec.likelihood.has_scale and spec.noise == Noise()
        noise: dict[str, Any] = {"noise": NOISE} if free else {}
        diagonal = spec.resolved_form(prepared.data.n_rows) == "diagonal"
        return [
            Member(
                self._model(prepared, 1, spec.likelihood, **noise, **how),
                linear_options(options, adapts, diagonal),
                kind,
                tempered=True,
                inputs=inputs,
            )
            for how, kind, adapts, inputs in wide_models(self.n_features_in_, spec.likelihood.sign)
        ]

    @property
    def _mixed(self) -> bool:
        """True where ``activation`` leaves it to the starts which units are linear."""
        return isinstance(self.activation, str) and self.activation == "auto"

    def _units(self, data: TrainingData) -> int:
        if isinstance(self.n_hidden, str):
            if self.n_hidden != "auto":
                raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
            if self.interactions is not None:
                raise ValueError("interactions name hidden units by number: give n_hidden as a number too.")
            described = described_units(self.activation)
            if described is not None:
                return described
            auto = self._auto_units(data.n_rows)
            names = getattr(self, "feature_names_in_", None)
            sets = input_sets(numbered(self.mask, names), self.n_features_in_)
            return auto if sets is None else len(sets) * max(FEWEST_A_SET, -(-auto // len(sets)))
        if not isinstance(self.n_hidden, Integral) or self.n_hidden < 1:
            raise ValueError(f'n_hidden must be "auto" or a positive integer, got {self.n_hidden!r}.')
        return int(self.n_hidden)

    def _auto_units(self, n_rows: int) -> int:
        return hidden_units(n_rows)

    def _options(self, spec: ModelSpec, data: TrainingData) -> FitOptions:
        """How to fit, from the parameters; "auto" follows the size of the data."""
        fraction = _share(self.fraction, "fraction")
        n_starts = self.n_starts
        if n_starts == "auto":
            compiled = spec.compiled(spec.likelihood.default_fraction if fraction is None else fraction)
            n_starts = starts(data.n_rows, self.n_features_in_, compiled)
        for name, lowest, value in (("n_starts", 1, n_starts), ("max_iter", 1, self.max_iter)):
            if not isinstance(value, Integral) or value < lowest:
                raise ValueError(f"{name} must be an integer of at least {lowest}, got {value!r}.")
        if not (isinstance(self.tol, Real) and float(self.tol) > 0.0):
            raise ValueError(f"tol must be positive, got {self.tol!r}.")
        block = self.block_size
        if not (block is None or block == "auto" or isinstance(block, Integral)):
            raise ValueError(f'block_size must be "auto", None or a positive integer, got {block!r}.')
        step: Step = default_step(data, spec, fraction)
        damping = _share(self.damping, "damping")
        if damping is not None:
            step = replace(step, damping=damping)
        if self.block_size != "auto":
            step = replace(step, block_size=self.block_size)
        elif spec.resolved_form(data.n_rows) == "diagonal":
            step = replace(step, block_size=None)  # this form refreshes all rows whatever the block
        jobs = effective_n_jobs(self.n_jobs)
        return FitOptions(
            start="zero" if spec.held.any() else "map",  # the MAP network sees every input
            n_starts=int(n_starts),
            step=step,
            adapt_step=damping is None and self.block_size == "auto",
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            flat=FLAT * float(self.tol),
            time_limit=self.time_limit,
            mixed=self._mixed,
            adapt_width=isinstance(self.n_hidden, str) and described_units(self.activation) is None,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_threads=jobs if n_starts == 1 else 1,
            n_jobs=jobs if n_starts > 1 else 1,
        )

    def _clock(self) -> Countdown:
        """The time limit, beginning now."""
        limit = self.time_limit
        if limit is not None and not (isinstance(limit, Real) and float(limit) > 0.0):
            raise ValueError(f"time_limit must be positive, got {limit!r}.")
        return Countdown(None if limit is None else float(limit))

    def _fit(
        self,
        X: FloatArray,
        y: FloatArray,
        sample_weight: Any = None,
        noise_var: Any = None,
        clock: Countdown | None = None,
    ) -> Self:
        """Standardise, fit, and set the fitted attributes; ``clock`` if the time has begun before."""
        weight, variances = (
            row_vector(sample_weight, len(y), "sample_weight"),
            row_vector(noise_var, len(y), "noise_var"),
        )
        tasks, end_tasks = task_callback(self)
        with progress_of(self.verbose, tasks is not None) as progress:
            choice = Choice(
                lambda likelihood, own: self._fitted_with(
                    likelihood, X, y, weight, variances, progress, tasks, own
                ),
                self._clock() if clock is None else clock,
            )
            choice.consider(self._likelihoods())
            if not choice.interrupted:
                choice.consider(self._also(*choice.fits[0]))
            self._install(*choice.best())
            prepared = self.posterior_.main.prepared
            self.loo_i_ = self.posterior_.loo_log_density[prepared.row_of]
            unused = np.flatnonzero(prepared.row_of < 0)
            if len(unused):
                var = None if variances is None else variances[unused]
                self.loo_i_[unused] = self.posterior_.log_density(X[unused], y[unused], var)
            end_tasks()
            progress.finish(self.status_)
        constant = any(note.startswith(CONSTANT_TARGET) for note in prepared.notes)
        for note in prepared.notes:
            if note.startswith((CONSTANT_TARGET, FAR_OFF, LEFT_OUT)):
                warnings.warn(note, UserWarning, stacklevel=CALLER)
        mismatch = self.posterior_.mismatch
        if not constant and mismatch > LARGE_MISMATCH:
            warnings.warn(
                f"{self.status_} The largest moment mismatch is {mismatch:.2g} standard deviations.",
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
        clock: Countdown,
    ) -> Fitted:
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
        if likelihood.robust and options.start == "map":  # outliers must not set the scale of the target
            trusted = None
            for _ in range(LOOKS):
                found = doubt(spec, prepared.data, options.seed, trusted)
                trusted = found.row_var == 0.0
                prepared = prepared.with_target_of(trusted, y)
                spec = self._model(prepared, units, spec.likelihood)
                if trusted.all():
                    break
            spec = replace(spec, likelihood=spec.likelihood.learnt(found.residual, prepared.data.weight))
        check_memory(
            prepared.data.n_rows, X.shape[1], units, spec.form, min(options.n_jobs, options.n_starts)
        )
        own = self.verbose if callable(self.verbose) else Sweeps(progress, options.max_iter)
        callback = both(own, tasks)
        if options.n_jobs > 1:  # starts in other processes do not report their sweeps
            progress.at(0.0, f"{options.n_starts} starts in {options.n_jobs} processes")
        options = replace(options, time_limit=clock.left)
        ensemble = None
        if going_on and same(spec, self._spec):
            ensemble = resume(self.posterior_, prepared, X, y, variances, options, callback)
        if ensemble is None:
            ensemble = fit_members(self._members(spec, prepared, options), prepared.data, callback)
        stacked = MixturePosterior.of(
            prepared, ensemble.solutions, ensemble.weights, on_folds=ensemble.on_folds
        )
        posterior = stacked.calibrated()
        note = posterior.drawn_note(names)
        return (posterior.with_note(note) if note else posterior), spec


def _share(value: Any, name: str) -> float | None:
    """A number of (0, 1], None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if not isinstance(value, Real):
        raise ValueError(f'{name} must be "auto" or a number in (0, 1], got {value!r}.')
    return float(value)


def _pair(value: Any, name: str) -> tuple[float, float]:
    """A (mean, variance) pair."""
    try:
        mean, var = (float(v) for v in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair (mean, variance) or a number, got {value!r}.") from None
    if not (np.isfinite(mean) and np.isfinite(var) and var >= 0.0):
        raise ValueError(f"{name} must be (mean, variance >= 0) and finite, got {value!r}.")
    return mean, var
