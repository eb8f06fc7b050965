"""From a model and data to solutions: which starts run, in which order, and how they are combined.

The start that works (``start="map"``): find the inputs that matter by a short ARD fit with the noise
held, fit a MAP network on them and stop it early, turn it into sites of the linearised network at the
noise its residuals show, and let EP go on with the noise freed last. With several starts the first are a
race between ways to regularise the MAP fit, the others repeat the better half with new seeds; all are
stacked on their leave-one-out densities, and those that carry weight go on to convergence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cavity.ep.calm import calmed
from cavity.ep.evidence import look_at_rows
from cavity.ep.map_start import linearised_state, map_network, residual_var
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Record, Solution, Status, solve
from cavity.ep.stacking import distinct, drop_small, stacking_weights
from cavity.ep.starts import STARTS, check_fit, zero_state
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.priors import GaussianPrior
from cavity.model.spec import ModelSpec, WeightBlock
from cavity.types import FloatArray, Gaussian

Told = Callable[[Record, EPState], Any] | None  # called after each sweep

WARM_UP_INPUTS = 20  # with fewer inputs the MAP fit takes them all
WARM_UP_UNITS, WARM_UP_ROWS = 15, 5000
WARM_UP_SWEEPS = (25, 35)  # before and with the ARD prior
PRUNED = -5.0  # inputs whose E φ ends below this in the warm-up are held at zero in the MAP fit
# Noise variance, prior variance and L-BFGS iterations of MAP fits, standardised target. Where the noise is
# 1e-4 the priors only whisper and stopping early does the work, on a narrowed network; where it is large
# the priors do it, on all units.
VARIANTS = ((1e-4, 1.0, 1000), (0.02, 0.1, 1500), (1e-4, 1.0, 400), (0.05, 0.1, 1500))
WHISPER = 1e-3
# The same where the likelihood has no scale to infer (classes, counts), is robust, or its scale is held.
FIRM_VARIANTS = ((0.02, 0.1, 1500), (0.02, 0.5, 400), (0.02, 0.02, 1500), (0.02, 0.5, 1500))
NOISE_RANGE = (1e-6, 0.5)  # of the residual variance EP begins with, standardised target
BIAS_VAR = 4.0
WEIGHTS_PER_ROW, FEWEST_UNITS = 0.6, 5
ENOUGH_UNITS, LOW_NOISE = 50, 0.03  # see `narrowed`
FIRST_SWEEPS = 25  # of every start, before stacking decides which go on


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
    adapt_width : use fewer of the model's units where few rows must feed many relevant inputs.
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
    adapt_width: bool = False
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
    map_iter: int


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

    Runs on at most 5000 rows, chosen by seed; the bias always survives.
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
    small = spec.keep_units(np.arange(min(K, WARM_UP_UNITS)))
    ard = replace(
        small,
        blocks=(WeightBlock(GaussianPrior(), np.arange(small.group_of.size)),),
        group_of=np.broadcast_to(np.arange(d), small.group_of.shape).copy(),
        scale_prior=Gaussian(np.full(d, 2.0 * np.log(0.01)), np.full(d, 2.5**2)),
    )
    step = replace(default_step(data, ard), infer_noise=False, weight_prior="hold", output_prior=False)
    stages = (
        Stage("inputs: fit", step, WARM_UP_SWEEPS[0], 1e-2),
        Stage("inputs: prior", replace(step, weight_prior="converge", output_prior=True), 1, 0.0),
        Stage("inputs: ARD", replace(step, weight_prior="sweep", output_prior=True), WARM_UP_SWEEPS[1], 1e-2),
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


def narrowed(spec: ModelSpec, data: TrainingData, inputs: FloatArray, seed: int) -> ModelSpec:
    """The model with as many units as the data can feed.

    The free input weights are at most 0.6 of the rows: beyond, a MAP network interpolates them, its
    residuals say nothing of the noise, and EP ends in a much worse place. And more than 50 units are used
    only where that many leave little noise, so that the fit is limited by its units and not by the data.
    """
    fed = WEIGHTS_PER_ROW * data.n_rows / inputs.sum()
    units = int(np.clip(fed, min(FEWEST_UNITS, spec.n_hidden), spec.n_hidden))
    if units > ENOUGH_UNITS and spec.noise.inferred:
        fewer = _with_units(spec, ENOUGH_UNITS)
        rng = np.random.default_rng(seed)
        noise_var, prior_var, _ = VARIANTS[0]
        network = map_network(fewer, data, noise_var, _map_prior(fewer, inputs, prior_var), rng)
        units = units if residual_var(fewer, data, network) < LOW_NOISE else ENOUGH_UNITS
    return _with_units(spec, units)


def _map_prior(spec: ModelSpec, inputs: FloatArray, prior_var: float) -> FloatArray:
    """Prior variances of the MAP fit: zero holds an input at zero."""
    weight_var = np.where(inputs, prior_var, 0.0)
    if spec.bias:
        weight_var[-1] = BIAS_VAR
    return weight_var


def _with_units(spec: ModelSpec, units: int) -> ModelSpec:
    """The first so many units of a model; the scale of a unit follows 1/√K."""
    if units >= spec.n_hidden or spec.output.fixed is not None:
        return spec
    fewer = spec.keep_units(np.arange(units))
    return replace(fewer, activation_scale=fewer.activation_scale * np.sqrt(spec.n_hidden / units))


def map_schedule(step: Step, max_iter: int, tol: float) -> Schedule:
    """After a MAP start: settle, then the priors, then the noise, then everything."""
    held = replace(step, infer_noise=False, weight_prior="hold")
    return Schedule(
        (
            Stage("settle", held, 3, 1e-2),
            Stage("priors", replace(held, weight_prior="sweep"), 3, 1e-2),
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
    max_sweeps: int | None = None,
    callback: Told = None,
    time_limit: float | None = None,
) -> Solution:
    """One start: MAP network on the relevant inputs, linearised sites, EP."""
    rng = np.random.default_rng(plan.seed)
    weight_var = _map_prior(spec, inputs, plan.prior_var)
    held_var = max(float(np.exp(spec.noise.mean)), 1e-6)
    map_var = plan.noise_var if spec.noise.inferred else held_var
    network = map_network(spec, data, map_var, weight_var, rng, max_iter=plan.map_iter)
    noise_var = residual_var(spec, data, network) if spec.noise.inferred else held_var
    state = linearised_state(spec, data, network, float(np.clip(noise_var, *NOISE_RANGE)), weight_var)
    if not spec.noise.inferred:  # the MAP fit needs a positive variance, the model may hold zero
        held = Gaussian(spec.noise.mean, 0.0)
        state = state._replace(posterior=state.posterior._replace(noise=held))
    step = options.step if options.step is not None else default_step(data, spec)
    max_sweeps = options.max_iter if max_sweeps is None else max_sweeps
    schedule = map_schedule(step, max_sweeps, options.tol)
    return solve(
        spec, data, state, schedule, n_threads=options.n_threads, time_limit=time_limit, callback=callback
    )


def fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions | None = None,
    callback: Told = None,
) -> Ensemble:
    """Run the starts and stack them; with a time limit, as many as fit into it (at least one).

    BLAS runs on one thread throughout: its sums, and with them the last digits of a MAP network, would
    otherwise depend on how many threads the process happens to have.
    """
    options = options if options is not None else FitOptions()
    check_fit(spec, data)
    began = time.perf_counter()
    with threadpool_limits(1):
        ensemble = _fit_ensemble(spec, data, options, callback)
        solutions = []
        for solution in ensemble.solutions:
            limit = None if options.time_limit is None else options.time_limit - (time.perf_counter() - began)
            told = (options.n_threads, limit, callback)
            solutions.append(calmed(data, solution, options.max_iter, options.tol, *told))
        if all(a is b for a, b in zip(solutions, ensemble.solutions, strict=True)):
            return ensemble
        return stack(data, solutions)


def _fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions,
    callback: Told,
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
    narrow = narrowed(spec, data, inputs, options.seed) if options.adapt_width else spec
    wide = _with_units(spec, max(narrow.n_hidden, ENOUGH_UNITS)) if options.adapt_width else spec
    seeds = np.random.SeedSequence(options.seed).generate_state(options.n_starts)
    alone = options.n_starts == 1
    first = options.max_iter if alone else min(FIRST_SWEEPS, options.max_iter)
    solutions: list[Solution] = []
    firm = spec.likelihood.firm_start or not spec.noise.inferred
    variants = list(FIRM_VARIANTS if firm else VARIANTS)[: (options.n_starts + 1) // 2]
    while len(solutions) < options.n_starts:
        more = min(len(variants), options.n_starts - len(solutions))
        plans = [Plan(int(seeds[len(solutions) + m]), *variants[m]) for m in range(more)]

        def begin(m: int, told: Told, plans: list[Plan] = plans) -> Solution:
            model = narrow if plans[m].noise_var < WHISPER else wide
            return run_map_start(model, data, plans[m], inputs, options, first, told, left())

        done = _run_all(begin, more, options.n_jobs, callback, left, (len(solutions), options.n_starts))
        solutions += done
        if len(done) < more or any(s.status is Status.INTERRUPTED for s in done):
            break
        if len(solutions) == more:  # the first round was a race: the better half of the variants go on
            order = np.argsort([-mean_loo(data, s) for s in solutions], kind="stable")
            variants = [variants[m] for m in order[: (more + 1) // 2]]
    ensemble = stack(data, solutions)
    stopped = any(s.status is Status.INTERRUPTED for s in solutions)
    if alone or options.max_iter <= first or stopped:
        return ensemble

    def go_on(m: int, told: Told) -> Solution:
        return continued(data, ensemble.solutions[m], options, options.max_iter - first, told, left())

    count = len(ensemble.solutions)
    solutions = _run_all(go_on, count, options.n_jobs, callback, left, (0, count))
    return stack(data, [*solutions, *ensemble.solutions[len(solutions) :]])


def _run_all(
    run: Callable[[int, Told], Solution],
    count: int,
    n_jobs: int,
    callback: Told,
    left: Callable[[], float | None],
    part: tuple[int, int],
) -> list[Solution]:
    """Solutions 0 … count - 1, in processes or one by one; fewer where the time is up, but one at least.

    ``part`` is how many starts went before, of how many.
    """
    if n_jobs != 1 and count > 1:
        from joblib import Parallel, delayed

        return list(Parallel(n_jobs=n_jobs)(delayed(run)(m, None) for m in range(count)))
    solutions: list[Solution] = []
    for m in range(count):
        remaining = left()
        if part[0] + m > 0 and remaining is not None and remaining <= 0.0:
            break
        solutions.append(run(m, _numbered(callback, part[0] + m + 1, part[1])))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    return solutions


def _numbered(callback: Told, start: int, count: int) -> Told:
    """The callback, told which start of how many a sweep belongs to."""
    if callback is None or count == 1:
        return callback
    return lambda record, state: callback(record._replace(part=(start, count)), state)


def continued(
    data: TrainingData,
    solution: Solution,
    options: FitOptions,
    max_sweeps: int,
    callback: Told = None,
    time_limit: float | None = None,
) -> Solution:
    """More sweeps from where a solution stands, its history before theirs."""
    if solution.converged:
        return solution
    schedule = Schedule((Stage("polish", solution.step, max_sweeps, options.tol),))
    more = solve(
        solution.spec, data, solution.state, schedule,
        n_threads=options.n_threads, time_limit=time_limit, callback=callback,
    )  # fmt: skip
    return more._replace(history=solution.history + more.history) if more.history else solution


def _loo(data: TrainingData, solution: Solution) -> FloatArray:
    """Whole-site leave-one-out log densities of the rows."""
    return look_at_rows(solution.spec, data, solution.state, Step(fraction=1.0)).log_z


def mean_loo(data: TrainingData, solution: Solution) -> float:
    """Mean leave-one-out log density, copies counted."""
    return float(np.average(_loo(data, solution), weights=data.weight))


def stack(data: TrainingData, solutions: list[Solution]) -> Ensemble:
    """Weigh solutions by their whole-site leave-one-out densities; drop near-copies and what adds nothing."""
    if len(solutions) == 1:
        return Ensemble((solutions[0],), np.ones(1))
    loo = np.stack([_loo(data, s) for s in solutions], axis=1)
    kept = distinct(loo, np.argsort([s.mismatch for s in solutions]))
    weights = drop_small(stacking_weights(loo[:, kept], data.weight))
    return Ensemble(
        tuple(solutions[m] for m, w in zip(kept, weights, strict=True) if w > 0.0), weights[weights > 0.0]
    )
