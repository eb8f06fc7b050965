"""Small problems and dense oracles shared by the engine's tests; nothing here is a test."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Solution, solve
from cavity.ep.starts import zero_start
from cavity.ep.state import EPState
from cavity.model.data import TrainingData, prepare
from cavity.model.spec import ModelSpec, Noise, Output, network
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import FloatArray, Gaussian

LINEAR_NOISE = 0.09
LINEAR_PRIOR = 0.7
LOG_NOISE = float(np.log(LINEAR_NOISE))


def run(spec, data, state, step, sweeps=500, tol=1e-10, patience=10_000, **options) -> Solution:
    """One stage until its tolerance; the damping is never cut unless asked for."""
    return solve(spec, data, state, Schedule((Stage("test", step, sweeps, tol, patience),)), **options)


# ── the linear model, where everything is known ─────────────────────────────────────────────────


def linear_spec(d, *, prior="gaussian", form="auto", log_noise=LOG_NOISE, **options) -> ModelSpec:
    """One linear unit with output weights (1, 0): y = wᵀx + noise; the prior scale is held unless given."""
    if "scale_prior" not in options:
        options.setdefault("prior_var", LINEAR_PRIOR)
    return network(
        d,
        1,
        activation="linear",
        prior=prior,
        bias=False,
        output=Output(fixed=np.array([1.0, 0.0])),
        noise=Noise(float(log_noise), 0.0),
        form=form,
        **options,
    )


def linear_data(n, d, seed=0, *, row_var=False, weights=False) -> TrainingData:
    """Gaussian inputs, a linear target, and on request known row variances and integer weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] - 0.5 * X[:, min(1, d - 1)] + 0.3 * rng.standard_normal(n)
    known = rng.uniform(0.02, 0.3, n) if row_var else None
    weight = rng.integers(1, 4, n).astype(float) if weights else None
    return prepare(X, y, weight, known, bias=False, standardise=False).data


class LinearTruth(NamedTuple):
    """Closed form of the linear model."""

    mean: FloatArray
    cov: FloatArray
    log_evidence: float
    loo: FloatArray


def linear_truth(data: TrainingData, noise=LINEAR_NOISE, prior_var=LINEAR_PRIOR) -> LinearTruth:
    """Posterior, evidence and leave-one-copy-out densities, every row repeated as often as it counts."""
    rows = np.repeat(np.arange(data.n_rows), data.weight.astype(int))
    X, y, var = data.X[rows], data.y[rows], noise + data.row_var[rows]
    cov = np.linalg.inv(np.eye(X.shape[1]) / prior_var + (X.T / var) @ X)
    mean = cov @ (X.T @ (y / var))
    marginal = prior_var * X @ X.T + np.diag(var)
    evidence = _log_normal_vector(y, marginal)
    loo = np.empty(data.n_rows)
    for i in range(data.n_rows):
        out = int(np.flatnonzero(rows == i)[0])
        rest = np.arange(len(rows)) != out
        K = marginal[np.ix_(rest, rest)]
        cross = prior_var * X[rest] @ X[out]
        m = cross @ np.linalg.solve(K, y[rest])
        v = marginal[out, out] - cross @ np.linalg.solve(K, cross)
        loo[i] = -0.5 * ((y[out] - m) ** 2 / v + np.log(2.0 * np.pi * v))
    return LinearTruth(mean, cov, evidence, loo)


def _log_normal_vector(y, cov) -> float:
    return float(-0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2.0 * np.pi * cov)[1]))


# ── networks ────────────────────────────────────────────────────────────────────────────────────


def wavy_data(n, d, seed=0, noise_sd=0.2, bias=True) -> TrainingData:
    """A smooth function of the first input, a slope in the second, nothing in the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, min(1, d - 1)] + noise_sd * rng.standard_normal(n)
    return prepare(X, y, bias=bias).data


@cache
def network_problem(name) -> tuple[ModelSpec, TrainingData]:
    """Two erf units, three inputs, 60 rows; all of them converge from the zero start."""
    held, free = Noise(float(np.log(0.1)), 0.0), Noise(-3.0, 1.0)
    options = {
        "ard": {"prior": "gaussian", "groups": "input", "noise": held},
        "laplace": {"prior": "laplace", "noise": free},
    }[name]
    return network(3, 2, scale_prior=(0.0, 1.0), **options), wavy_data(60, 3)


@cache
def warm_state(name) -> EPState:
    """After a few sweeps of the paper's schedule: units told apart, all inferred, far from converged."""
    spec, data = network_problem(name)
    state, schedule = zero_start(spec, data, Step(damping_output=0.3, damping_weight=0.5), max_sweeps=15)
    return solve(spec, data, state, schedule).state


def network_step(name, **changes) -> Step:
    """Dampings under which both problems contract steadily (by 4 to 6 % a sweep)."""
    step = Step(damping=0.4, damping_noise=0.4, damping_weight=0.4, infer_noise=name != "ard")
    return replace(step, **changes)


@cache
def network_fit(name, block_size=None) -> Solution:
    """The fixed point reached from `warm_state`, to a mismatch of 1e-9."""
    spec, data = network_problem(name)
    return run(spec, data, warm_state(name), network_step(name, block_size=block_size), 2000, 1e-9)


def arrays(state: EPState) -> list[FloatArray]:
    """All arrays of a state, in a fixed order."""
    found: list[FloatArray] = []

    def walk(part):
        if isinstance(part, tuple):
            for item in part:
                walk(item)
        elif part is not None:
            found.append(np.asarray(part))

    walk(state)
    return found


def moment_gap(a: EPState, b: EPState) -> float:
    """Largest distance of two posteriors: means in sds of the first, variances relative."""
    p, q = a.posterior, b.posterior
    pairs = [(Gaussian(p.w.mean, p.w.var), Gaussian(q.w.mean, q.w.var))]
    if np.any(p.v.cov):
        pairs.append((Gaussian(p.v.mean, np.diag(p.v.cov)), Gaussian(q.v.mean, np.diag(q.v.cov))))
    if p.noise.var > 0:
        pairs.append((p.noise, q.noise))
    on = np.asarray(p.scale.var) > 0
    if on.any():
        pairs.append(
            (Gaussian(p.scale.mean[on], p.scale.var[on]), Gaussian(q.scale.mean[on], q.scale.var[on]))
        )
    return max(
        float(np.max(np.maximum(np.abs(x.mean - z.mean) / np.sqrt(x.var), np.abs(z.var / x.var - 1.0))))
        for x, z in pairs
    )


# ── dense grids ─────────────────────────────────────────────────────────────────────────────────


class Axis(NamedTuple):
    """Nodes and weights of one integration variable."""

    nodes: FloatArray
    weights: FloatArray


def panels(edges, n) -> Axis:
    """Gauss–Legendre panels between edges; put an edge at every kink."""
    x, w = gauss_legendre(n)
    edges = np.asarray(edges, float)
    half = 0.5 * np.diff(edges)[:, None]
    return Axis(
        (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel(),
        np.broadcast_to(half * w, half.shape[:1] + (n,)).ravel(),
    )


class GridMoments(NamedTuple):
    """log ∫ and the marginal moments of every variable of a dense grid."""

    log_z: float
    mean: FloatArray
    var: FloatArray


def grid_moments(log_density: FloatArray, axes: list[Axis]) -> GridMoments:
    """Moments of exp(log_density) on the product grid of the axes."""
    top = float(log_density.max())
    mass = np.exp(log_density - top)
    for k, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[k] = -1
        mass = mass * axis.weights.reshape(shape)
    total = float(mass.sum())
    means, variances = [], []
    for k, axis in enumerate(axes):
        marginal = mass.sum(axis=tuple(j for j in range(len(axes)) if j != k)) / total
        mean = float(marginal @ axis.nodes)
        means.append(mean)
        variances.append(float(marginal @ (axis.nodes - mean) ** 2))
    return GridMoments(top + float(np.log(total)), np.array(means), np.array(variances))
