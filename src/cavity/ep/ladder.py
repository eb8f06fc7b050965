"""From a model and data to solutions: which starts run, in which order, and how they are combined.

The start that works (``start="map"``): find the inputs that matter by rough MAP fits with much noise
held, fit a MAP network on them and stop it early, turn it into sites of the linearised network at the
noise its residuals show, and let EP go on from there, the noise first, the priors last. With several
starts the first are a race between ways to regularise the MAP fit, the others repeat the better half with
new seeds; all are stacked on their leave-one-out densities, and those that carry weight go on to
convergence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.ep.another_noise import under, varying
from cavity.ep.calm import calmed
from cavity.ep.countdown import Countdown
from cavity.ep.doubt import doubt
from cavity.ep.ensemble import CARRYING, Ensemble, mean_loo, stack
from cavity.ep.few_inputs import all_widened, few_enough, suited, with_inputs
from cavity.ep.linear import fit_linear
from cavity.ep.options import FitOptions
from cavity.ep.race import race
from cavity.ep.runs import Told, numbered, run_all
from cavity.ep.schedule import Schedule, Stage
from cavity.ep.solve import Solution, Status, solve
from cavity.ep.starts import STARTS, check_fit
from cavity.ep.warm_up import default_step, relevant_inputs
from cavity.model.data import TrainingData
from cavity.model.likelihoods import GaussianLikelihood
from cavity.model.spec import ModelSpec, Noise
from cavity.numerics.threads import one_thread
from cavity.types import FloatArray

VARYING_SWEEPS = 15  # of fits that carry weight, under noise that may depend on the inputs
FEW_SWEEPS = 6  # of fits under another noise that follow the heaviest, which tells whether it is better
FEW_INPUTS = 50  # up to which noise that depends on them is tried; with more that costs as much as the fit
SETTLING_SWEEPS = 40  # more of the heaviest of several fits, where it has not settled
SWEEPS_BETWEEN = 2  # joint steps, after a zero start
FIRST_SWEEPS = 25  # of every start, before stacking decides which go on


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
    clock = Countdown(options.time_limit)
    with one_thread():
        ensemble = _fit_ensemble(spec, data, options, callback)
        main = int(np.argmax(ensemble.weights))
        heaviest = settled = ensemble.solutions[main]
        if options.n_starts > 1 and heaviest.status is Status.MAX_SWEEPS:
            most = min(SETTLING_SWEEPS, options.max_iter - FIRST_SWEEPS)
            settled = continued(data, heaviest, options, most, callback, clock.left)
        settled = calmed(
            data, settled, options.max_iter, options.tol, options.n_threads, clock.left, callback
        )
        if settled is heaviest:
            return ensemble
        return stack(data, [settled if m == main else s for m, s in enumerate(ensemble.solutions)])


def _fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions,
    callback: Told,
) -> Ensemble:
    if options.start != "map":
        return _fit_once(spec, data, options, callback)
    clock = Countdown(options.time_limit)
    plain, softer = spec, data
    if spec.likelihood.robust:  # begin under Gaussian noise, wide for rows in doubt
        plain = replace(spec, likelihood=GaussianLikelihood())
        softer = data._replace(row_var=data.row_var + doubt(spec, data, options.seed).row_var)
    inputs = relevant_inputs(plain, softer, options.seed)
    if not few_enough(spec, inputs):
        return _fit_inputs(spec, data, softer, inputs, replace(options, time_limit=clock.left), callback)
    keep = np.flatnonzero(inputs)
    few, rows = spec.keep_inputs(keep), with_inputs(data, keep)
    step = suited(options.step, few, rows) if options.step and options.adapt_step else options.step
    begin = replace(options, step=step, time_limit=clock.left)
    found = _fit_inputs(few, rows, with_inputs(softer, keep), inputs[keep], begin, callback)
    return all_widened(spec, data, found, keep, options, callback, clock)


def _fit_once(spec: ModelSpec, data: TrainingData, options: FitOptions, callback: Told) -> Ensemble:
    """One fit from one of the simple starts."""
    step = options.step if options.step is not None else default_step(data, spec)
    if options.start == "linear":
        found = fit_linear(
            spec, data, step, adapt_prior=options.adapt_prior, max_iter=options.max_iter, tol=options.tol,
            flat=options.flat, time_limit=options.time_limit, n_threads=options.n_threads, callback=callback,
        )  # fmt: skip
        return Ensemble((found,), np.ones(1))
    state, schedule = STARTS[options.start](
        spec, data, step, max_sweeps=options.max_iter, tol=options.tol, joint=SWEEPS_BETWEEN
    )
    solution = solve(
        spec, data, state, schedule,
        n_threads=options.n_threads, time_limit=options.time_limit, callback=callback,
    )  # fmt: skip
    return Ensemble((solution,), np.ones(1))


def _fit_inputs(
    spec: ModelSpec,
    data: TrainingData,
    softer: TrainingData,
    inputs: FloatArray,
    options: FitOptions,
    callback: Told,
) -> Ensemble:
    """All starts of a model whose relevant ``inputs`` are known.

    ``softer`` are the rows with noise of their own for those that a robust likelihood doubts.
    """
    clock = Countdown(options.time_limit)
    if spec.n_inputs - spec.bias > FEW_INPUTS:
        options = replace(options, varying=None)
    if spec.noise.varies:
        level = replace(spec, noise=spec.noise.level_only)
        begun = _fit_inputs(level, data, softer, inputs, options, callback)
        return _varied(begun, spec.noise, data, options, callback, clock, must=True)
    if spec.likelihood.robust:
        return _fit_robust(spec, data, softer, inputs, options, callback)
    alone = options.n_starts == 1
    first = options.max_iter if alone else min(FIRST_SWEEPS, options.max_iter)
    solutions = race(spec, data, inputs, options, first, callback, clock)
    ensemble = stack(data, solutions)
    stopped = any(s.status is Status.INTERRUPTED for s in solutions)
    if alone or options.max_iter <= first or stopped:
        return ensemble

    shares = ensemble.weights * len(ensemble.weights)
    ranked = [int(m) for m in np.argsort(-shares, kind="stable")]
    carry = [m for m in ranked if shares[m] >= CARRYING]
    most = options.max_iter - first
    heaviest, another = ensemble.solutions[ranked[0]], None

    def take_up(m: int, told: Told, noise: Noise | None = None) -> Solution:
        assert options.alternative is not None
        sweeps = most if m == ranked[0] else min(most, FEW_SWEEPS)
        return under(
            options.alternative, data, ensemble.solutions[m], sweeps,
            options.tol, options.flat, noise=noise, n_threads=options.n_threads, time_limit=clock.left,
            callback=told,
        )  # fmt: skip

    if options.alternative is not None and not clock.over:
        another = take_up(ranked[0], numbered(callback, 1, len(ranked)))
        if mean_loo(data, another) <= mean_loo(data, heaviest):
            another = None
    if another is not None:
        better, noise, tails = [another], None, True
        if options.varying is not None and not clock.over:
            told = numbered(callback, 1, len(ranked))
            varied = _taken_up_by(options.varying, another, VARYING_SWEEPS, data, options, clock, told)
            if mean_loo(data, varied) > mean_loo(data, another):
                # wide tails may have stood for noise that varies, and nothing more
                plain = _taken_up_by(options.varying, heaviest, VARYING_SWEEPS, data, options, clock, told)
                better, noise = [another, varied, plain], options.varying
                tails = mean_loo(data, varied) > mean_loo(data, plain)

        def follow(m: int, told: Told) -> Solution:
            if tails or noise is None:
                return take_up(m, told, noise)
            sweeps = VARYING_SWEEPS if m in carry else FEW_SWEEPS
            return _taken_up_by(noise, ensemble.solutions[m], sweeps, data, options, clock, told)

        after = [m for m in carry if m != ranked[0]]
        others = run_all(
            lambda m, told: follow(after[m], told), len(after), options.n_jobs, callback, clock,
            (1, len(after) + 1),
        )  # fmt: skip
        return stack(data, [*ensemble.solutions, *better, *others])
    longer = run_all(
        lambda m, told: continued(data, ensemble.solutions[carry[m]], options, most, told, clock.left),
        len(carry), options.n_jobs, callback, clock, (0, len(carry)),
    )  # fmt: skip
    final = dict(enumerate(ensemble.solutions)) | dict(zip(carry, longer, strict=False))
    return _perhaps_varied(stack(data, list(final.values())), data, options, callback, clock)


def _fit_robust(
    spec: ModelSpec,
    data: TrainingData,
    softer: TrainingData,
    inputs: FloatArray,
    options: FitOptions,
    callback: Told,
) -> Ensemble:
    """Starts under Gaussian noise, wide for rows in doubt, taken up by the robust likelihood."""
    clock = Countdown(options.time_limit)
    plain = replace(spec, likelihood=GaussianLikelihood())
    step = options.step if options.step is not None else default_step(data, spec)
    first = min(FIRST_SWEEPS, options.max_iter)
    own = replace(step, fraction=GaussianLikelihood.default_fraction)
    begin = replace(options, step=own, max_iter=first, time_limit=clock.left, varying=None)
    begun = _fit_inputs(plain, softer, softer, inputs, begin, callback)
    ranked = np.argsort(-begun.weights, kind="stable")
    carry = begun.weights * len(begun.weights) >= CARRYING

    def take_up(m: int, told: Told) -> Solution:
        sweeps = max(options.max_iter - first, FEW_SWEEPS) if carry[ranked[m]] else FEW_SWEEPS
        return under(
            spec.likelihood, data, begun.solutions[ranked[m]], sweeps, options.tol, options.flat,
            fraction=step.fraction, n_threads=options.n_threads, time_limit=clock.left, callback=told,
        )  # fmt: skip

    count = len(ranked)
    found = stack(data, run_all(take_up, count, options.n_jobs, callback, clock, (0, count)))
    return _perhaps_varied(found, data, options, callback, clock)


def _perhaps_varied(
    begun: Ensemble, data: TrainingData, options: FitOptions, callback: Told, clock: Countdown
) -> Ensemble:
    """The fits, and where the heaviest of them gains by it, beside them under noise that varies."""
    return (
        begun if options.varying is None else _varied(begun, options.varying, data, options, callback, clock)
    )


def _varied(
    begun: Ensemble,
    noise: Noise,
    data: TrainingData,
    options: FitOptions,
    callback: Told,
    clock: Countdown,
    must: bool = False,
) -> Ensemble:
    """Fits taken up by noise that depends on the inputs; unless they ``must``, where the heaviest gains.

    Begun with such noise, fits of Boston took for noise what others found to be a part of the function.
    """
    if (clock.over and not must) or any(s.status is Status.INTERRUPTED for s in begun.solutions):
        return begun
    ranked = np.argsort(-begun.weights, kind="stable")
    carry = begun.weights * len(begun.weights) >= CARRYING
    count = len(ranked)
    most = max(options.max_iter - FIRST_SWEEPS, FEW_SWEEPS)
    most = most if must else min(most, VARYING_SWEEPS)

    def take_up(m: int, told: Told) -> Solution:
        sweeps = most if carry[ranked[m]] else FEW_SWEEPS
        return _taken_up_by(noise, begun.solutions[ranked[m]], sweeps, data, options, clock, told)

    heaviest = take_up(0, numbered(callback, 1, count))
    if not must and mean_loo(data, heaviest) <= mean_loo(data, begun.solutions[ranked[0]]):
        return begun
    others = run_all(
        lambda m, told: take_up(m + 1, told), count - 1, options.n_jobs, callback, clock, (1, count)
    )
    return stack(data, [*(() if must else begun.solutions), heaviest, *others])


def _taken_up_by(
    noise: Noise,
    solution: Solution,
    sweeps: int,
    data: TrainingData,
    options: FitOptions,
    clock: Countdown,
    told: Told,
) -> Solution:
    """`varying` with these options and what is left of the time."""
    return varying(
        noise, data, solution, sweeps, options.tol, options.flat,
        n_threads=options.n_threads, time_limit=clock.left, callback=told,
    )  # fmt: skip


def continued(
    data: TrainingData,
    solution: Solution,
    options: FitOptions,
    max_sweeps: int,
    callback: Told = None,
    time_limit: float | None = None,
) -> Solution:
    """More sweeps from where a solution stands, its history before theirs."""
    if solution.converged or solution.status is Status.SETTLED:
        return solution
    schedule = Schedule(
        (Stage("polish", solution.step, max_sweeps, options.tol, flat=options.flat, retreat=True),)
    )
    more = solve(
        solution.spec, data, solution.state, schedule,
        n_threads=options.n_threads, time_limit=time_limit, callback=callback,
    )  # fmt: skip
    return more._replace(history=solution.history + more.history) if more.history else solution
