"""From a model and data to solutions: which starts run, in which order, and how they are combined.

The start that works (``start="map"``): find the inputs that matter by a short ARD fit with the noise
held, fit a MAP network on them, turn it into sites of the linearised network, and let EP go on with the
noise freed last. Several of those, varied in seed, noise and prior scale, are stacked on their
leave-one-out densities.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cavity.ep.evidence import look_at_rows
from cavity.ep.map_start import linearised_state, map_network
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Record, Solution, Status, solve
from cavity.ep.stacking import drop_small, stacking_weights
from cavity.ep.starts import STARTS, check_fit, zero_state
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.priors import GaussianPrior
from cavity.model.spec import ModelSpec, WeightBlock
from cavity.types import FloatArray, Gaussian

WARM_UP_INPUTS = 20  # with fewer inputs the MAP fit takes them all
WARM_UP_SWEEPS = 35
WARM_UP_ROWS = 4000
PRUNED = -5.0  # inputs whose E φ ends below this in the warm-up are held at zero in the MAP fit
MAP_NOISE = (0.02, 0.005, 0.05, 0.001)  # noise variances of successive starts, standardised target
MAP_PRIOR_VAR = (0.5, 0.25, 1.0)  # prior variances of the weights of successive starts
BIAS_VAR = 4.0


@dataclass(frozen=True)
class FitOptions:
    """How a model is fitted; every field has a default that needs no tuning.

    Attributes
    ----------
    start : "map", or a name in `cavity.ep.starts.STARTS` ("zero", "incremental").
    n_starts : number of starts; several are stacked on their leave-one-out densities.
    step : fractions, dampings and block size; None chooses by the size of the data.
    max_iter, tol : sweeps of the last stage and the moment mismatch that ends it.
    time_limit : wall seconds for the whole fit, None for no limit.
    seed : of everything random.
    n_threads : threads over row blocks.
    n_jobs : processes over starts.
    """

    start: str = "map"
    n_starts: int = 1
    step: Step | None = None
    max_iter: int = 200
    tol: float = 1e-2
    time_limit: float | None = None
    seed: int = 0
    n_threads: int = 1
    n_jobs: int = 1


class Ensemble(NamedTuple):
    """Solutions and their stacking weights; one solution has weight one."""

    solutions: tuple[Solution, ...]
    weights: FloatArray


class Plan(NamedTuple):
    """What varies between starts."""

    seed: int
    noise_var: float
    prior_var: float


def default_step(data: TrainingData, spec: ModelSpec, fraction: float | None = None) -> Step:
    """Sequential for small problems, blocks for larger ones: the cost of refreshing q(w) decides.

    The diagonal form refreshes as a whole, so it sweeps in parallel, with the paper's stronger damping.
    Pieces without a compiled form sweep in blocks. The fraction is the likelihood's own unless given.
    """
    eta = spec.likelihood.default_fraction if fraction is None else fraction
    if spec.resolved_form(data.n_rows) == "diagonal":
        return Step(fraction=eta, block_size=None, damping=0.3)
    work = spec.n_hidden * spec.n_inputs**2
    if data.n_rows <= 1500 and work <= 30 * 40**2 and spec.compiled(eta):
        return Step(fraction=eta, block_size=1, damping=0.7)
    return Step(fraction=eta, block_size=max(data.n_rows // 16, 64), damping=0.5)


def relevant_inputs(spec: ModelSpec, data: TrainingData, seed: int, n_threads: int = 1) -> FloatArray:
    """(d,) booleans: inputs that survive a short ARD fit with the noise held at 0.3².

    Runs on at most 4000 rows, chosen by seed; the bias always survives.
    """
    K, d = spec.group_of.shape
    # Inputs of one scale cannot be switched off apart from each other: where the likelihood says less than a
    # Gaussian one, those held at zero would drag the scale of all weights down, and the network with it.
    alike = not spec.likelihood.location and bool(
        np.all(spec.group_of[:, : d - spec.bias] == spec.group_of[:, :1])
    )
    if d <= WARM_UP_INPUTS or alike:
        return np.ones(d, bool)
    if data.n_rows > WARM_UP_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(data.n_rows, WARM_UP_ROWS, replace=False))
        data = TrainingData(data.X[rows], data.y[rows], data.weight[rows], data.row_var[rows])
    small = spec.keep_units(np.arange(min(K, 10)))
    ard = replace(
        small,
        blocks=(WeightBlock(GaussianPrior(), np.arange(small.group_of.size)),),
        group_of=np.broadcast_to(np.arange(d), small.group_of.shape).copy(),
        scale_prior=Gaussian(np.full(d, 2.0 * np.log(0.01)), np.full(d, 2.5**2)),
    )
    step = replace(default_step(data, ard), infer_noise=False, weight_prior="hold", output_prior=False)
    stages = (
        Stage("inputs: fit", step, WARM_UP_SWEEPS // 3, 1e-2),
        Stage("inputs: prior", replace(step, weight_prior="converge", output_prior=True), 1, 0.0),
        Stage("inputs: ARD", replace(step, weight_prior="sweep", output_prior=True), WARM_UP_SWEEPS, 1e-2),
    )
    scale = solve(
        ard, data, zero_state(ard, data), Schedule(stages), n_threads=n_threads
    ).state.posterior.scale
    keep = np.asarray(scale.mean) > PRUNED
    if keep[: d - spec.bias].sum() == 0:
        keep[:] = True
    if spec.bias:
        keep[-1] = True
    return keep


def map_schedule(step: Step, max_iter: int, tol: float) -> Schedule:
    """After a MAP start: settle, then the priors, then the noise, then everything."""
    held = replace(step, infer_noise=False, weight_prior="hold")
    return Schedule(
        (
            Stage("settle", held, 6, 1e-2),
            Stage("priors", replace(held, weight_prior="sweep"), 12, 1e-2),
            Stage("noise alone", replace(step, weight_prior="hold", damping=0.0, damping_output=0.0), 1, 0.0),
            Stage("converge", step, max_iter, tol),
        )
    )


def run_map_start(
    spec: ModelSpec,
    data: TrainingData,
    plan: Plan,
    inputs: FloatArray,
    options: FitOptions,
    callback: Callable[[Record, EPState], Any] | None = None,
    time_limit: float | None = None,
) -> Solution:
    """One start: MAP network on the relevant inputs, linearised sites, EP."""
    rng = np.random.default_rng(plan.seed)
    weight_var = np.where(inputs, plan.prior_var, 0.0)
    if spec.bias:
        weight_var[-1] = BIAS_VAR
    noise_var = plan.noise_var if spec.noise.inferred else max(float(np.exp(spec.noise.mean)), 1e-6)
    network = map_network(spec, data, noise_var, weight_var, rng)
    state = linearised_state(spec, data, network, noise_var, weight_var)
    if not spec.noise.inferred:  # the MAP fit needs a positive variance, the model may hold zero
        held = Gaussian(spec.noise.mean, 0.0)
        state = state._replace(posterior=state.posterior._replace(noise=held))
    step = options.step if options.step is not None else default_step(data, spec)
    schedule = map_schedule(step, options.max_iter, options.tol)
    return solve(
        spec, data, state, schedule, n_threads=options.n_threads, time_limit=time_limit, callback=callback
    )


def fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Ensemble:
    """Run the starts and stack them; with a time limit, as many as fit into it (at least one).

    BLAS runs on one thread throughout: its sums, and with them the last digits of a MAP network, would
    otherwise depend on how many threads the process happens to have.
    """
    options = options if options is not None else FitOptions()
    check_fit(spec, data)
    with threadpool_limits(1):
        return _fit_ensemble(spec, data, options, callback)


def _fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions,
    callback: Callable[[Record, EPState], Any] | None,
) -> Ensemble:
    began = time.perf_counter()

    def left() -> float | None:
        return None if options.time_limit is None else options.time_limit - (time.perf_counter() - began)

    if options.start != "map":
        step = options.step if options.step is not None else default_step(data, spec)
        state, schedule = STARTS[options.start](
            spec, data, step, max_sweeps=options.max_iter, tol=options.tol
        )
        solution = solve(
            spec, data, state, schedule, n_threads=options.n_threads, time_limit=left(), callback=callback
        )
        return Ensemble((solution,), np.ones(1))
    inputs = relevant_inputs(spec, data, options.seed, options.n_threads)
    seeds = np.random.SeedSequence(options.seed).generate_state(options.n_starts)
    plans = [
        Plan(int(seeds[m]), MAP_NOISE[m % len(MAP_NOISE)], MAP_PRIOR_VAR[m % len(MAP_PRIOR_VAR)])
        for m in range(options.n_starts)
    ]
    solutions: list[Solution] = []
    if options.n_jobs != 1 and options.n_starts > 1:
        from joblib import Parallel, delayed

        solutions = Parallel(n_jobs=options.n_jobs)(
            delayed(run_map_start)(spec, data, plan, inputs, options, None, left()) for plan in plans
        )
    else:
        for plan in plans:
            remaining = left()
            if solutions and remaining is not None and remaining <= 0.0:
                break
            solutions.append(run_map_start(spec, data, plan, inputs, options, callback, remaining))
            if solutions[-1].status is Status.INTERRUPTED:
                break
    return stack(data, solutions)


def stack(data: TrainingData, solutions: list[Solution]) -> Ensemble:
    """Weigh solutions by their whole-site leave-one-out densities and drop those that add nothing."""
    if len(solutions) == 1:
        return Ensemble((solutions[0],), np.ones(1))
    whole = Step(fraction=1.0)
    loo = np.stack([look_at_rows(s.spec, data, s.state, whole).log_z for s in solutions], axis=1)
    weights = drop_small(stacking_weights(loo, data.weight))
    kept = np.flatnonzero(weights > 0.0)
    return Ensemble(tuple(solutions[m] for m in kept), weights[kept])
