"""Type-II MAP for held hyperparameters: climb log Z_EP + log prior, EP going on from the last sites.

*(paper, App. G, last paragraph.)* Free are θ, each φ_l, log σ_v0² and log σ_v00² as far as the model
holds them; what EP infers itself is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from cavity.ep.evidence import evidence_gradient, log_evidence
from cavity.ep.schedule import Schedule, Stage
from cavity.ep.solve import Solution, solve
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian

HYPERPARAMETERS = ("log_noise_var", "log_prior_var", "log_output_var", "log_bias_var")


class TypeTwo(NamedTuple):
    """The climbed solution, its log evidence and the path of (values, log Z_EP)."""

    solution: Solution
    log_evidence: float
    path: tuple[tuple[FloatArray, float], ...]


def free_values(spec: ModelSpec, names: Sequence[str]) -> FloatArray:
    """The chosen held hyperparameters as one vector; a `ValueError` where EP infers or lacks one."""
    parts: list[FloatArray] = []
    for name in names:
        if name == "log_noise_var":
            if spec.noise.inferred:
                raise ValueError(
                    "log_noise_var is inferred by EP: hold it (Noise(value, 0.0)) to optimise it."
                )
            parts.append(np.array([spec.noise.mean]))
        elif name == "log_prior_var":
            if spec.scale_inferred.all():
                raise ValueError("every prior scale is inferred by EP: give prior_var to optimise them.")
            parts.append(np.asarray(spec.scale_prior.mean)[~spec.scale_inferred])
        elif name in ("log_output_var", "log_bias_var"):
            if spec.output.fixed is not None:
                raise ValueError(f"{name} has no meaning: the output weights are held.")
            value = spec.output.scale_var if name == "log_output_var" else spec.output.bias_var
            parts.append(np.array([np.log(value)]))
        else:
            raise ValueError(f"{name!r} is unknown: use some of {HYPERPARAMETERS}.")
    return np.concatenate(parts)


def with_values(
    spec: ModelSpec, state: EPState, names: Sequence[str], values: FloatArray
) -> tuple[ModelSpec, EPState]:
    """Model and state at new values of the held hyperparameters, all sites kept."""
    q, at = state.posterior, 0
    for name in names:
        if name == "log_noise_var":
            spec = replace(spec, noise=replace(spec.noise, mean=float(values[at])))
            q = q._replace(noise=Gaussian(float(values[at]), 0.0))
            at += 1
        elif name == "log_prior_var":
            held = ~spec.scale_inferred
            mean = np.asarray(spec.scale_prior.mean).copy()
            mean[held] = values[at : at + held.sum()]
            spec = replace(spec, scale_prior=Gaussian(mean, spec.scale_prior.var))
            q = q._replace(scale=Gaussian(np.where(held, mean, q.scale.mean), q.scale.var))
            at += int(held.sum())
        elif name == "log_output_var":
            spec = replace(spec, output=replace(spec.output, scale_var=float(np.exp(values[at]))))
            at += 1
        else:
            var = float(np.exp(values[at]))
            spec = replace(spec, output=replace(spec.output, bias_var=var))
            tau = state.priors.v.tau.copy()
            tau[-1] = 1.0 / var
            state = state._replace(priors=state.priors._replace(v=state.priors.v._replace(tau=tau)))
            at += 1
    return spec, state._replace(posterior=q)


def gradient_vector(
    spec: ModelSpec, data: TrainingData, solution: Solution, names: Sequence[str]
) -> FloatArray:
    """∂ log Z_EP in the chosen hyperparameters at a solution."""
    g = evidence_gradient(spec, data, solution.state, solution.step)
    parts = {
        "log_noise_var": g.log_noise_var,
        "log_prior_var": g.log_prior_var[~spec.scale_inferred],
        "log_output_var": g.log_output_var,
        "log_bias_var": g.log_bias_var,
    }
    return np.concatenate([np.atleast_1d(np.asarray(parts[n], float)) for n in names])


def maximise_evidence(
    data: TrainingData,
    solution: Solution,
    names: Sequence[str] = ("log_noise_var",),
    prior: Gaussian | None = None,
    *,
    stage: Stage | None = None,
    max_steps: int = 30,
    bound: float = 4.0,
) -> TypeTwo:
    """Climb from a converged solution by L-BFGS, re-converging EP at every trial point.

    Parameters
    ----------
    prior : Gaussian, optional
        Gaussian prior of the hyperparameter vector (type-II MAP); none is type-II maximum likelihood.
    stage : Stage, optional
        How EP converges at a trial point; the solution's last step by default.
    bound : float
        No value leaves its start by more than this (they are log variances).
    """
    spec = solution.spec
    start = free_values(spec, names)
    stage = stage if stage is not None else Stage("type II", solution.step, 300, 1e-6)
    best: list[Solution] = [solution]
    path: list[tuple[FloatArray, float]] = []

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        trial_spec, state = with_values(best[0].spec, best[0].state, names, values)
        trial = solve(trial_spec, data, state, Schedule((stage,)))
        value = log_evidence(trial_spec, data, trial.state, trial.step)
        grad = gradient_vector(trial_spec, data, trial, names)
        path.append((values.copy(), value))
        if prior is not None:
            value += float(np.sum(-0.5 * (values - prior.mean) ** 2 / prior.var))
            grad = grad - (values - prior.mean) / prior.var
        best[0] = trial
        return -value, -grad

    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(start - bound, start + bound, strict=True)),
        options={"maxiter": max_steps, "ftol": 1e-9},
    )
    final_spec, state = with_values(best[0].spec, best[0].state, names, result.x)
    final = solve(final_spec, data, state, Schedule((stage,)))
    return TypeTwo(final, log_evidence(final_spec, data, final.state, final.step), tuple(path))
