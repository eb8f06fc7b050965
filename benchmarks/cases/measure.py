"""Run one task: fit a case, and turn what the paper reads off its figures into numbers.

Truth and fresh rows are used for scores alone; fits see the training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.harness import Meter, Task
from benchmarks.methods import method

from cavity import datasets
from cavity.ep.latent import activation_marginals
from cavity.ep.network_numpy import unit_moments
from cavity.plots.style import Z95
from cavity.result.posterior import FittedPosterior

FRESH_ROWS, FRESH_SEED = 2000, 1000
ACTIVE = 0.05  # standard deviations of y that a unit in use moves f by, at least
Latent = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

MAKERS = {"case1": datasets.case1, "case2": datasets.case2, "case3": datasets.case3}


def run(task: Task) -> dict[str, Any]:
    """Measurements of one method on one seed; curves and weights of the figures are the detail."""
    make = MAKERS[task.set]
    data = make(n=task.params["n"], random_state=task.split)
    fresh = make(n=FRESH_ROWS, random_state=FRESH_SEED + task.split)
    module = method(task.params["module"])
    getattr(module, "warm_up", lambda: None)()
    with Meter() as fitting:
        model = module.fit(data.X, data.y, **task.params["settings"])
    latent = latent_of(model)
    row, detail = MEASURES[task.set](latent, data)
    row |= scores(latent, fresh) | {"lpd": np.mean(model.log_density(fresh.X, fresh.y))}
    row |= model.facts() | {"fit_cpu": fitting.cpu, "n_train": len(data.y)}
    posterior = network_of(model)
    if posterior is not None:
        more, weights = units(posterior)
        row, detail = row | more, detail | {"network": weights}
    if task.set == "case2" and hasattr(model, "before"):
        before = latent_of_posterior(model.before)
        start, curves = MEASURES[task.set](before, data)
        start |= scores(before, fresh)
        start["lpd"] = np.mean(model.before.log_density(fresh.X, fresh.y))
        row |= {f"gaussian_{name}": value for name, value in start.items()}
        detail["gaussian"] = curves
    return row | {"detail": detail | {"X": data.X, "y": data.y}}


def latent_of(model: Any) -> Latent:
    """Mean and sd of f for any of the methods."""
    return model.latent if hasattr(model, "latent") else latent_of_posterior(model.model.posterior_)


def latent_of_posterior(posterior: Any) -> Latent:
    def latent(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f = posterior.latent(X)
        return f.mean, np.sqrt(f.var)

    return latent


def network_of(model: Any) -> FittedPosterior | None:
    """The network of a method, the heaviest of several; None for a process."""
    if hasattr(model, "posterior"):
        return model.posterior
    return model.model.posterior_.main if hasattr(model, "model") else None


def scores(latent: Latent, fresh: datasets.Simulated) -> dict[str, Any]:
    """Squared error against the true function at fresh rows, and how sure of f the model is there."""
    mean, sd = latent(fresh.X)
    return {"mse_f": np.mean((mean - fresh.f(fresh.X)) ** 2), "mean_sd": np.mean(sd)}


def case1(latent: Latent, data: datasets.Simulated) -> tuple[dict[str, Any], dict[str, Any]]:
    """How much the mean changes along each input, and its steepest slope, on a grid of [-1.5, 1.5]²."""
    at = np.linspace(-1.5, 1.5, 61)
    grid = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1)
    mean, _ = latent(grid.reshape(-1, 2))
    mean = mean.reshape(61, 61)
    strength = [float(np.mean(np.std(mean, axis=axis))) for axis in (0, 1)]
    slope = np.hypot(*np.gradient(mean, at, at))
    row = {
        "strength1": strength[0],
        "strength2": strength[1],
        "weaker": min(strength) / max(strength),
        "pruned": int(np.argmin(strength)) + 1,
        "steepest": np.max(slope),
    }
    return row, {"at": at[::3], "mean": mean[::3, ::3]}


def case2(latent: Latent, data: datasets.Simulated) -> tuple[dict[str, Any], dict[str, Any]]:
    """Effect of each input with the others at zero: its size and error within the data, and the curves."""
    at = np.linspace(-5.0, 5.0, 61)
    inside = np.abs(at) <= np.pi
    curves, bands, sizes, errors = [], [], [], []
    for j, effect in enumerate(data.effects):
        X = np.zeros((len(at), len(data.effects)))
        X[:, j] = at
        mean, sd = latent(X)
        curves.append(mean)
        bands.append(sd)
        error = mean[inside] - effect(at[inside])
        sizes.append(float(np.std(mean[inside])))
        errors.append(float(np.std(error)))  # the level is no part of an effect
    row = {
        "effect_size": sizes,
        "effect_error": errors,
        "input1": sizes[0],
        "linear_error": np.mean(errors[1:5]),
        "nonlinear_error": np.mean(errors[5:]),
    }
    return row, {"at": at, "mean": curves, "sd": bands}


def case3(latent: Latent, data: datasets.Simulated) -> tuple[dict[str, Any], dict[str, Any]]:
    """Steepest slope at the jump, and how far the mean is from being monotone about it.

    f rises on [-π/2, π/2], so all that the mean's total variation has above its rise is fluctuation.
    """
    at = np.linspace(-np.pi, np.pi, 401)
    mean, sd = latent(at[:, None])
    about = np.abs(at) <= np.pi / 2
    steps = np.diff(mean[about])
    signs = np.sign(steps[np.abs(steps) > 1e-6])
    near = np.abs(at) <= 1.0
    truth = data.f(at[:, None])
    row = {
        "steepest": np.max(np.abs(np.gradient(mean, at)[np.abs(at) <= 0.5])),
        "excess": np.sum(np.abs(steps)) - np.abs(np.sum(steps)),
        "turns": int(np.sum(signs[1:] != signs[:-1])),
        "rmse_near": np.sqrt(np.mean((mean - truth)[near] ** 2)),
        "rmse_far": np.sqrt(np.mean((mean - truth)[~near] ** 2)),
    }
    return row, {"at": at[::2], "mean": mean[::2], "sd": sd[::2]}


MEASURES = {"case1": case1, "case2": case2, "case3": case3}


def units(posterior: FittedPosterior) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each hidden unit does over the training rows.

    ``share`` is the sd of v_k E g(h_k) in sds of y, ``straight`` the R² of its regression on the inputs,
    ``slopes`` the coefficients of that regression, ``clear`` whether v_k and some input weight have 95 %
    intervals without zero. A unit is active where its share is at least 0.05.
    """
    spec, q, data = posterior.spec, posterior.state.posterior, posterior.prepared.data
    g = unit_moments(spec, activation_marginals(spec, q.w, data.X)).mean[:, : spec.n_hidden]
    output = g * q.v.mean[: spec.n_hidden]
    design = data.X if spec.bias else np.column_stack([data.X, np.ones(len(data.X))])
    slopes, *_ = np.linalg.lstsq(design, output, rcond=None)
    spread = np.maximum(np.var(output, axis=0), np.finfo(float).tiny)
    straight = 1.0 - np.var(output - design @ slopes, axis=0) / spread
    share = np.sqrt(spread) / np.std(data.y)
    d = spec.n_inputs - spec.bias
    w_sd, v_sd = np.sqrt(q.w.var), np.sqrt(np.diag(q.v.cov))
    w_clear = np.abs(q.w.mean) > Z95 * w_sd
    clear = (np.abs(q.v.mean) > Z95 * v_sd)[: spec.n_hidden] & w_clear[:, :d].any(axis=1)
    row = {
        "n_active": int(np.sum(share >= ACTIVE)),
        "n_clear": int(np.sum(clear)),
        "share": share,
        "straight": straight,
        "slopes": np.abs(slopes[:d]).T,
        "clear_weights": w_clear[:, :d].sum(axis=0),
        "phi": q.scale.mean,
        "v": q.v.mean,
        "linear": [type(a).__name__.startswith("Linear") for a in spec.activations],
    }
    weights = {"w": q.w.mean, "w_sd": w_sd, "v": q.v.mean, "v_sd": v_sd}
    return row, weights | {"phi": q.scale.mean, "phi_sd": np.sqrt(q.scale.var)}
