"""The finite network as the paper fits it: zero start, K units, its priors, sequential sweeps, one network.

Or from the other starts that it speaks of.

Dampings and fractions are the paper's (Section 3.3.1), the defaults of `cavity.ep.schedule.Step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble
from cavity.ep.few_inputs import all_widened, with_inputs
from cavity.ep.ladder import fit_ensemble
from cavity.ep.map_start import map_network
from cavity.ep.options import FitOptions
from cavity.ep.race import Plan, run_map_start
from cavity.ep.schedule import Schedule, Stage, Step, paper_schedule
from cavity.ep.solve import Solution, solve
from cavity.ep.starts import zero_state
from cavity.ep.warm_up import map_prior, relevant_inputs
from cavity.model.data import TrainingData, prepare
from cavity.model.spec import ModelSpec, Noise, network
from cavity.numerics.threads import one_thread
from cavity.result.posterior import FittedPosterior

# Fraction and dampings within the ranges of Section 3.3.1, output weights apart: all units stay in use.
BOLD = {"fraction": 0.5, "damping": 0.8, "damping_output": 0.6}
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
    incremental: int | None = None,
    priors_first: int | None = None,
    scheme: int = 2,
    standardise: bool = True,
    block_size: int | None = 1,
    warm_sweeps: int = 20,
    max_sweeps: int = 100,
    tol: float = 0.02,
) -> PaperNetwork:
    """Fixed Gaussian priors of variance ``weight_var`` first, then the prior with its inferred scales.

    ``bias_prior``: the variance of the input biases, "group" for a scale of their own or "shared" for that of
    all weights. ``incremental`` starts with one unit and adds one every so many sweeps; ``start`` may also be
    "map", where no sweeps with fixed priors come first: the first start of `EPRegressor`, or with
    ``map_iter`` the best of several, of firmer noise and so many iterations (`from_map`). ``priors_first``
    sweeps with the noise held bring in the input prior before all else, with steps as `BOLD` says. ``scheme``
    is that of the input prior: 1 converges once and is held, 2 goes on. A fit ends where no moment is off by
    more than ``tol`` of its standard deviation.
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
    if start == "map":
        options = FitOptions(max_iter=max_sweeps, tol=tol)
        found = FittedPosterior(prepared, from_map(spec, prepared.data, options, map_iter))
        return PaperNetwork(found, found)
    if priors_first is None:
        stages = paper_schedule(
            Step(block_size=block_size),
            warm_sweeps=warm_sweeps,
            incremental=incremental,
            n_hidden=n_hidden,
            scheme=scheme,
            max_sweeps=max_sweeps,
            tol=tol,
        ).stages
    else:
        stages = priors_before_noise(block_size, warm_sweeps, priors_first, max_sweeps, tol)
    cut = next(i for i, stage in enumerate(stages) if stage.name == "input prior")
    state = zero_state(spec, prepared.data, weight_var=weight_var)
    fixed = solve(spec, prepared.data, state, Schedule(stages[:cut]))
    final = solve(spec, prepared.data, fixed.state, Schedule(stages[cut:]))
    final = final._replace(history=fixed.history + final.history)
    return PaperNetwork(FittedPosterior(prepared, final), FittedPosterior(prepared, fixed))


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
        if len(keep) == spec.n_inputs:
            return begun
        found = Ensemble((begun,), np.ones(1))
        return all_widened(spec, data, found, keep, options, None, Countdown(None)).solutions[0]


def priors_before_noise(
    block_size: int | None, warm_sweeps: int, priors_first: int, max_sweeps: int, tol: float
) -> tuple[Stage, ...]:
    """Stages in another order than the paper's: the noise stays held until the input prior has pruned."""
    held = Step(block_size=block_size, infer_noise=False, weight_prior="hold", output_prior=False, **BOLD)
    pruning = replace(held, weight_prior="sweep")
    both = replace(pruning, output_prior=True)
    noise_only = replace(both, weight_prior="hold", infer_noise=True, damping=0.0, damping_output=0.0)
    first = replace(held, fraction=Step.fraction)
    return (
        Stage("fit, priors held", first, warm_sweeps, 1e-3),
        Stage("input prior", pruning, priors_first, 1e-3),
        Stage("output prior", both, warm_sweeps, 1e-3),
        Stage("noise alone", noise_only, 1, 0.0),
        Stage("converge", replace(both, infer_noise=True), max_sweeps, tol),
    )


def warm_up() -> None:
    """Load the compiled kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    fit(X, X[:, 0], scale_prior=(0.0, 1.0), noise=(-2.0, 1.0), n_hidden=2, warm_sweeps=1, max_sweeps=1)
