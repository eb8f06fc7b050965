"""Fits on the inputs that matter, taken up by the model of all of them.

A sweep costs the square of the number of inputs. Where less than half of them are relevant, everything
runs on these, and only the fits that are left in the end meet the others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble, stack
from cavity.ep.map_start import PRUNED_VAR
from cavity.ep.options import FitOptions
from cavity.ep.runs import Told, run_all
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Solution, Status, solve
from cavity.ep.starts import state_from_sites, with_noise_of_sites
from cavity.ep.state import EPState
from cavity.ep.warm_up import default_step, with_units
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian, IntArray, Natural

HALF = 0.5
FEWEST_SWEEPS, MOST_SWEEPS = 1, 15  # with all inputs, of most fits and of the heaviest
FLAT_SWEEPS = 2  # the density has settled before
TIGHTER = 10.0 ** -np.arange(0, 9, 2)  # see `_added`
TOLD = 0.05  # what a weight of an added input tells of its scale, as a precision


def few_enough(spec: ModelSpec, inputs: FloatArray) -> bool:
    """Whether the fit should begin with ``inputs``, (d,) booleans, alone; a mask says itself what is used."""
    return bool(np.sum(inputs) < HALF * len(inputs)) and not spec.held.any()


def with_inputs(data: TrainingData, keep: IntArray) -> TrainingData:
    """The rows with only the inputs ``keep``."""
    return data._replace(X=np.ascontiguousarray(data.X[:, keep]))


def all_widened(
    spec: ModelSpec,
    data: TrainingData,
    found: Ensemble,
    keep: IntArray,
    options: FitOptions,
    callback: Told,
    clock: Countdown,
) -> Ensemble:
    """Fits of the inputs ``keep`` taken up by the model of all inputs, and stacked anew."""
    heaviest, count = int(np.argmax(found.weights)), len(found.solutions)

    def widen(m: int, told: Told) -> Solution:
        sweeps = min(MOST_SWEEPS if m == heaviest else FEWEST_SWEEPS, options.max_iter)
        return widened(spec, data, found.solutions[m], keep, sweeps, options, told, clock.left)

    done: list[Solution] = []
    if not any(s.status is Status.INTERRUPTED for s in found.solutions):
        # every fit must know all inputs, also where the time is up
        done = run_all(widen, count, options.n_jobs, callback, Countdown(None), (0, count))
    for solution in found.solutions[len(done) :]:
        done.append(widened(spec, data, solution, keep, 0, options))
    return stack(data, done)


def widened(
    spec: ModelSpec,
    data: TrainingData,
    found: Solution,
    keep: IntArray,
    max_sweeps: int,
    options: FitOptions,
    callback: Told = None,
    time_limit: float | None = None,
) -> Solution:
    """A solution for the inputs ``keep`` taken up by the model of all inputs, the others at zero so far.

    The sites of rows are on h and f, so they stay as they are; prior sites are added. ``spec`` is the model
    of all inputs that the solution's own, with as many of its units, was narrowed from.
    """
    whole = with_units(spec, found.spec.n_hidden)
    wide = replace(
        found.spec, n_inputs=whole.n_inputs, blocks=whole.blocks, group_of=whole.group_of,
        noise=found.spec.noise.among(keep),
    )  # fmt: skip
    state = _added(wide, data, found, keep)
    if max_sweeps < 1:
        return found._replace(spec=wide, state=state)
    adapts = options.adapt_step or options.step is None
    step = suited(found.step, wide, data) if adapts else found.step
    stage = Stage(
        "all inputs", step, max_sweeps, options.tol,
        flat=options.flat, flat_sweeps=FLAT_SWEEPS, retreat=True,
    )  # fmt: skip
    more = solve(
        wide, data, state, Schedule((stage,)),
        n_threads=options.n_threads, time_limit=time_limit, callback=callback,
    )  # fmt: skip
    mismatch = more.mismatch if more.history else found.mismatch
    return more._replace(history=found.history + more.history, mismatch=mismatch)


def _added(spec: ModelSpec, data: TrainingData, found: Solution, keep: IntArray) -> EPState:
    """The state of a solution with inputs added whose weights are nearly zero.

    The nearer they are, the less they change: where sites of negative precision would make the posterior
    improper, they are held more tightly.
    """
    shape = spec.group_of.shape
    alone = ~np.isin(spec.group_of, spec.group_of[:, keep])  # scales that only added inputs have

    def wider(sites: Natural, tau: FloatArray, mean: float) -> Natural:
        out = Natural(tau, tau * mean)
        out.tau[:, keep], out.nu[:, keep] = sites.tau, sites.nu
        return out

    rows, priors = found.state.rows, found.state.priors
    held = Gaussian(float(found.state.posterior.noise.mean), 0.0)
    for var in PRUNED_VAR * TIGHTER:
        w = wider(priors.w, np.full(shape, 1.0 / var), 0.0)
        scale = wider(priors.scale, np.where(alone, TOLD, 0.0), float(np.log(var)))
        try:
            state = state_from_sites(spec, data, rows, priors._replace(w=w, scale=scale), held)
            break
        except ValueError:
            if var == PRUNED_VAR * TIGHTER[-1]:
                raise
    return with_noise_of_sites(spec, data, state)


def suited(step: Step, spec: ModelSpec, data: TrainingData) -> Step:
    """The step with the blocks and the damping that suit the inputs in use."""
    own = default_step(data, spec, step.fraction)
    return replace(step, block_size=own.block_size, damping=own.damping)
