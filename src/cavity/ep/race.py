"""Which MAP networks EP starts from: a race between ways to regularise them, the better ones repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import mean_loo
from cavity.ep.map_start import NOISE_RANGE, apparent_var, linearised_state, map_network, residual_var
from cavity.ep.options import FitOptions
from cavity.ep.runs import Told, run_all
from cavity.ep.schedule import map_schedule
from cavity.ep.solve import Solution, Status, solve
from cavity.ep.starts import with_noise
from cavity.ep.warm_up import ENOUGH_UNITS, default_step, map_prior, narrowed, with_units
from cavity.model.activations import Linear
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray

# Noise variance, prior variance and L-BFGS iterations of MAP fits, standardised target, whether the first
# unit is linear (where `FitOptions.mixed`), and the most units (where `FitOptions.adapt_width`). Where the
# noise is 1e-4 the priors only whisper and stopping early does the work, on a narrowed network; where it is
# large the priors do it, on all units or, best where the noise hides what more would fit, on a few.
VARIANTS = (
    (1e-4, 1.0, 1000, True, None), (0.02, 0.1, 1500, True, None),
    (0.05, 0.1, 1500, True, 10), (1e-4, 1.0, 400, False, None),
)  # fmt: skip
WHISPER = 1e-3
# The same where the likelihood has no scale to infer (classes, counts) or its scale is held: firm priors.
FIRM_VARIANTS = (
    (0.02, 0.1, 1500, True, None), (0.02, 0.5, 400, False, None),
    (0.02, 0.02, 1500, True, None), (0.02, 0.5, 1500, False, None),
)  # fmt: skip


class Plan(NamedTuple):
    """What varies between starts."""

    seed: int
    noise_var: float
    prior_var: float
    map_iter: int
    linear: bool = False
    most_units: int | None = None


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
    weight_var = map_prior(spec, inputs, plan.prior_var, data.n_rows)
    held_var = max(float(np.exp(spec.noise.mean)), 1e-6)
    map_var = plan.noise_var if spec.noise.inferred else held_var
    network = map_network(spec, data, map_var, weight_var, rng, max_iter=plan.map_iter)
    noise_var = residual_var(spec, data, network) if spec.noise.inferred else held_var
    noise_var = float(np.clip(noise_var, *NOISE_RANGE))
    state = linearised_state(spec, data, network, noise_var, weight_var)
    if spec.noise.inferred:
        log_noise = float(np.log(np.clip(apparent_var(spec, data, state), *NOISE_RANGE)))
    else:  # the MAP fit needs a positive variance, the model may hold zero
        log_noise = spec.noise.mean
    state = with_noise(spec, data, state, log_noise)
    step = options.step if options.step is not None else default_step(data, spec)
    max_sweeps = options.max_iter if max_sweeps is None else max_sweeps
    schedule = map_schedule(step, max_sweeps, options.tol, options.flat)
    return solve(
        spec, data, state, schedule, n_threads=options.n_threads, time_limit=time_limit, callback=callback
    )


def race(
    spec: ModelSpec,
    data: TrainingData,
    inputs: FloatArray,
    options: FitOptions,
    first: int,
    callback: Told,
    clock: Countdown,
) -> list[Solution]:
    """All starts after ``first`` sweeps: one of each variant, then the better half with new seeds."""
    narrow = narrowed(spec, data, inputs, options.seed) if options.adapt_width else spec
    wide = with_units(spec, max(narrow.n_hidden, ENOUGH_UNITS)) if options.adapt_width else spec
    seeds = np.random.SeedSequence(options.seed).generate_state(options.n_starts)
    solutions: list[Solution] = []
    variants = list(VARIANTS if spec.noise.inferred else FIRM_VARIANTS)[: (options.n_starts + 2) // 2]
    while len(solutions) < options.n_starts:
        more = min(len(variants), options.n_starts - len(solutions))
        plans = [Plan(int(seeds[len(solutions) + m]), *variants[m]) for m in range(more)]

        def begin(m: int, told: Told, plans: list[Plan] = plans) -> Solution:
            model = narrow if plans[m].noise_var < WHISPER else wide
            most = plans[m].most_units
            if options.adapt_width and most is not None:
                model = with_units(model, most)
            if options.mixed and plans[m].linear:
                model = replace(model, activations=(Linear(), *model.activations[1:]))
            return run_map_start(model, data, plans[m], inputs, options, first, told, clock.left)

        done = run_all(begin, more, options.n_jobs, callback, clock, (len(solutions), options.n_starts))
        solutions += done
        if len(done) < more or any(s.status is Status.INTERRUPTED for s in done):
            break
        if len(solutions) == more:  # all variants have run: the better half go on
            order = np.argsort([-mean_loo(data, s) for s in solutions], kind="stable")
            variants = [variants[m] for m in order[: (more + 1) // 2]]
    return solutions
