"""The finite network as the paper fits it: zero start, K units, its priors, sequential sweeps, one network.

Or from the other starts that it speaks of.

Dampings and fractions are the paper's (Section 3.3.1), the defaults of `cavity.ep.schedule.Step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from benchmarks.methods.units_anew import improved

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble
from cavity.ep.few_inputs import all_widened, with_inputs
from cavity.ep.ladder import fit_ensemble
from cavity.ep.map_start import map_network
from cavity.ep.noise import installed
from cavity.ep.options import FitOptions
from cavity.ep.race import Plan, run_map_start
from cavity.ep.schedule import Schedule, Step, paper_schedule
from cavity.ep.solve import Solution, solve
from cavity.ep.starts import zero_state
from cavity.ep.state import EPState
from cavity.ep.warm_up import WARM_UP_INPUTS, map_prior, relevant_inputs
from cavity.model.data import TrainingData, prepare
from cavity.model.spec import ModelSpec, Noise, network
from cavity.numerics.threads import one_thread
from cavity.result.posterior import FittedPosterior
from cavity.types import Gaussian

# A zero start that goes on (`with_units_anew`): the log noise variance that is held while inputs are pruned,
# and the log prior variance below which one counts as such; sweeps until another unit joins; sweeps with
# joint steps between, and dampings; tries with units begun anew.
PRUNING_NOISE, PRUNED = 2.0 * float(np.log(0.5)), -5.0
ANOTHER_UNIT, SETTLING_SWEEPS, JOINT_SWEEPS = 10, 20, 120
QUICKER, QUICKER_OUTPUT = 0.8, 0.6
UNITS_ANEW = 50
FIRM = (0.01, 1.0)  # noise and prior variance of a MAP network that is fitted until it settles,
TRIES = 6  # and from how many random weights, each with its share of the iterations, before the best goes on


class PaperNetwork:
    """A fitted network; ``before`` is the one with fixed Gaussian priors, where that was asked for."""

    def __init__(self, posterior: FittedPosterior, before: FittedPosterior) -> None:
        self.posterior, self.before = posterior, before

    def latent(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f = self.posterior.latent(X)
        return f.mean, np.sqrt(f.var)

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self.posterior.latent(X).mean

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.posterior.log_density(X, y)

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        return self.posterior.quantiles(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level])

    def facts(self) -> dict[str, Any]:
        solution = self.posterior.solution
        return {
            "noise_sd": self.posterior.noise_sd,
            "loo": self.posterior.loo.mean,
            "n_iter": len(solution.history),
            "mismatch": solution.mismatch,
            "status": solution.status.value,
        }


def fit(
    X: np.ndarray,
    y: np.ndarray,
    *,
    scale_prior: Sequence[float],
    noise: Sequence[float],
    prior: str = "laplace",
    groups: str = "common",
    activation: str = "erf",
    n_hidden: int = 10,
    weight_var: float = 0.5,
    bias_prior: str | float = 4.0,
    start: str = "zero",
    map_iter: int | None = None,
    units_anew: int = UNITS_ANEW,
    incremental: int | None = None,
    output_sd: float = 0.2,
    scheme: int = 2,
    standardise: bool = True,
    block_size: int | None = 1,
    warm_sweeps: int = 20,
    max_sweeps: int = 100,
    tol: float = 0.02,
) -> PaperNetwork:
    """Fixed Gaussian priors of variance ``weight_var`` first, then the prior with its inferred scales.

    ``bias_prior``: the variance of the input biases, "group" for a scale of their own or "shared" for that of
    all weights; ``output_sd``: how firmly the output weights are held at first. ``incremental`` starts with
    one unit and adds one every so many sweeps; ``start`` may also be "anew", one that adds units, takes joint
    steps and begins some units anew, ``units_anew`` times (`with_units_anew`), or "map", where no sweeps with
    fixed priors come first: the first one of `EPRegressor`, or with ``map_iter`` the best of several, of
    firmer noise and so many iterations (`from_map`). ``scheme`` is that of the input prior: 1 converges once
    and is held, 2 goes on. A fit ends where no moment is off by more than ``tol`` of its standard deviation.
    """
    prepared = prepare(X, y, standardise=standardise)
    spec = network(
        X.shape[1],
        n_hidden,
        activation=activation,
        prior=prior,
        groups=groups,
        scale_prior=(float(scale_prior[0]), float(scale_prior[1])),
        noise=Noise(*noise),
        bias_prior=bias_prior,
    )
    options = FitOptions(max_iter=max_sweeps, tol=tol)
    begin = partial(zero_state, weight_var=weight_var, output_var=output_sd**2)
    schedule = partial(paper_schedule, warm_sweeps=warm_sweeps, max_sweeps=max_sweeps, tol=tol)
    if start != "zero":
        if start == "map":
            chosen = from_map(spec, prepared.data, options, map_iter)
        else:
            chosen = with_units_anew(
                spec,
                prepared.data,
                options,
                begin,
                partial(schedule, step=Step(block_size=block_size, damping=QUICKER)),
                units_anew,
            )
        found = FittedPosterior(prepared, chosen)
        return PaperNetwork(found, found)
    stages = schedule(
        Step(block_size=block_size), incremental=incremental, n_hidden=n_hidden, scheme=scheme
    ).stages
    cut = next(i for i, stage in enumerate(stages) if stage.name == "input prior")
    fixed = solve(spec, prepared.data, begin(spec, prepared.data), Schedule(stages[:cut]))
    final = solve(spec, prepared.data, fixed.state, Schedule(stages[cut:]))
    final = final._replace(history=fixed.history + final.history)
    return PaperNetwork(FittedPosterior(prepared, final), FittedPosterior(prepared, fixed))


def with_units_anew(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions,
    begin: Callable[..., EPState],
    schedule: Callable[..., Schedule],
    tries: int,
) -> Solution:
    """A zero start of the inputs that matter, unit by unit, with joint steps and units begun anew in the end.

    Which inputs matter is what a zero start says whose input priors come in first, with much noise held. All
    inputs are taken up in the end.
    """
    with one_thread():
        keep = np.arange(spec.n_inputs)
        if spec.n_inputs > WARM_UP_INPUTS:
            keep = unpruned(spec, data, begin(spec, data), schedule())
        few, rows = spec.keep_inputs(keep), with_inputs(data, keep)

        *stages, last = schedule(joint=2, incremental=ANOTHER_UNIT, n_hidden=few.n_hidden).stages
        quicker = replace(last.step, damping_output=QUICKER_OUTPUT)
        settling = replace(last, max_sweeps=min(last.max_sweeps, SETTLING_SWEEPS), joint=0)
        joint = replace(last, name="joint", step=quicker, max_sweeps=min(last.max_sweeps, JOINT_SWEEPS))
        found = solve(few, rows, begin(few, rows), Schedule((*stages, settling, joint)))
        found = improved(few, rows, found, joint, tries)
    return on_all_inputs(spec, data, found, keep, options)


def unpruned(spec: ModelSpec, data: TrainingData, state: EPState, schedule: Schedule) -> np.ndarray:
    """Inputs, and the bias, whose scale stays when the input priors come in, much noise held."""
    state = state._replace(posterior=installed(state.posterior, Gaussian(PRUNING_NOISE, 0.0)))
    first = schedule.stages[0]
    pruning = replace(first, name="input prior", step=replace(first.step, weight_prior="sweep"))
    q = solve(spec, data, state, Schedule((first, pruning))).state.posterior
    scale = q.scale.mean[spec.group_of[0]]
    return np.flatnonzero((scale > PRUNED) | (np.arange(spec.n_inputs) >= spec.n_inputs - spec.bias))


def on_all_inputs(
    spec: ModelSpec, data: TrainingData, found: Solution, keep: np.ndarray, options: FitOptions
) -> Solution:
    """A solution for the inputs ``keep`` taken up by the model of all inputs."""
    if len(keep) == spec.n_inputs:
        return found
    alone = Ensemble((found,), np.ones(1))
    return all_widened(spec, data, alone, keep, options, None, Countdown(None)).solutions[0]


def from_map(spec: ModelSpec, data: TrainingData, options: FitOptions, map_iter: int | None) -> Solution:
    """EP from the best of some MAP networks of the inputs that matter, all inputs taken up in the end.

    The best by their objective: what `EPRegressor` would stack, the paper's single network has to choose.
    """
    if map_iter is None:
        return fit_ensemble(spec, data, options).solutions[0]
    with one_thread():
        keep = np.flatnonzero(relevant_inputs(spec, data, options.seed))
        few, rows = spec.keep_inputs(keep), with_inputs(data, keep)
        noise_var, prior_var = FIRM
        weight_var = map_prior(few, np.ones(len(keep), bool), prior_var, data.n_rows)

        def objective(seed: int) -> float:
            rng = np.random.default_rng(seed)
            return map_network(
                few, rows, noise_var, weight_var, rng, max_iter=-(-map_iter // TRIES)
            ).objective

        plan = Plan(min(range(TRIES), key=objective), noise_var, prior_var, map_iter)
        begun = run_map_start(few, rows, plan, np.ones(len(keep), bool), options)
        return on_all_inputs(spec, data, begun, keep, options)


def warm_up() -> None:
    """Load the compiled kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    fit(X, X[:, 0], scale_prior=(0.0, 1.0), noise=(-2.0, 1.0), n_hidden=2, warm_sweeps=1, max_sweeps=1)
