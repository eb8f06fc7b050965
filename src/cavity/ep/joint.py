r"""A joint step: the means of all weights moved together, where sweeps crawl.

A sweep moves the weights of each unit, and those of the output, as is right while all others stand still.
Units that share a function, or cancel each other's, then learn it from each other's leavings, ever more
slowly. In the network linearised at the means of q, f ≈ E f + Jδ, all are in one least-squares problem,

.. math:: \bigl(J^T\Lambda J + P_0 + \mu\,\mathrm{blockdiag}(\Sigma^{-1})\bigr)\,\delta
          = J^T d - P_0 m + \nu_0,

with m the means of q and Σ its covariances, d and Λ slope and curvature of the log likelihood at E f, and
P_0 and ν_0 the prior sites. Conjugate gradients with blockdiag(Σ) as preconditioner form no matrix of all
weights.

The sites then move so that the means of q change by exactly δ and its covariances stay. The right side is
zero where q's mean is best as a point, which is near a fixed point but not at it: tilted moments see the
spread of q too. So a step is taken only if the density of the rows, each left out, rises; otherwise a more
cautious one, of larger μ, is tried, and sweeps have the last word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.evidence import look_at_rows
from cavity.ep.latent import output_moments
from cavity.ep.map_objective import through_output
from cavity.ep.posterior import RowMap, row_blocks
from cavity.ep.schedule import Step
from cavity.ep.starts import state_from_sites
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian

CAUTION = 1.0  # μ of the first step of a fit
BOLDER, MORE_CAUTIOUS, BOLDEST, TRIES = 1.0 / 3.0, 5.0, 1e-4, 3
HOPELESS = 1e3  # caution beyond which a step would move nothing worth its time
SOLVED, MOST_ITERATIONS = 1e-2, 100  # of conjugate gradients: relative residual in the metric of q
LARGEST_FALL = 0.8  # share of itself that an output weight may lose, so that none changes its sign
NOTHING = 1e-10  # share of the largest eigenvalue below which a direction of the inputs is not there


class Joint(NamedTuple):
    """The state after a joint step, or the one before where none helped, and how cautious the next is."""

    state: EPState
    caution: float


def joint_step(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step, caution: float, row_map: RowMap = map
) -> Joint:
    """Move the means of all weights together, if that makes the rows, each left out, more probable."""
    if caution > HOPELESS or not possible(spec, state):
        return Joint(state, caution)
    before = _density(spec, data, state, step, row_map)
    if not np.isfinite(before):
        return Joint(state, caution)
    pull, apply = _linearised(spec, data, state, row_map)
    precondition = _preconditioner(state)
    for _ in range(TRIES):
        change = _solve(partial(apply, caution), precondition, pull)
        moved = with_means_moved(spec, data, state, *_shortened(spec, state, change))
        if moved is not None and _density(spec, data, moved, step, row_map) > before:
            return Joint(moved, max(BOLDER * caution, BOLDEST))
        caution *= MORE_CAUTIOUS
    return Joint(state, caution)


def possible(spec: ModelSpec, state: EPState) -> bool:
    """Whether q keeps whole covariances of the input weights, and output weights are free."""
    w = state.posterior.w
    return w.basis.inputs is None and w.factor.shape[1] == w.mean.shape[1] and spec.output.fixed is None


def _split(state: EPState, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Input weights (K, d) and output weights (J,) of a vector of all."""
    shape = state.posterior.w.mean.shape
    size = shape[0] * shape[1]
    return z[:size].reshape(shape), z[size:]


def _joined(w: FloatArray, v: FloatArray) -> FloatArray:
    return np.concatenate([w.ravel(), v])


def _density(spec: ModelSpec, data: TrainingData, state: EPState, step: Step, row_map: RowMap) -> float:
    """Mean log Ẑ_i of the rows."""
    return float(
        np.average(look_at_rows(spec, data, state, step, row_map=row_map).log_z, weights=data.weight)
    )


def _slopes(spec: ModelSpec, h: Gaussian) -> FloatArray:
    """E g'(h), (n, K), scaled: the change of E g(h) with the mean of h."""
    width = 1e-3 * np.sqrt(1.0 + h.var)
    above, below = (output_moments(spec, Gaussian(h.mean + s * width, h.var)).mean for s in (1.0, -1.0))
    return (above - below)[:, : spec.n_hidden] / (2.0 * width)


def _linearised(
    spec: ModelSpec, data: TrainingData, state: EPState, row_map: RowMap
) -> tuple[FloatArray, Callable[[float, FloatArray], FloatArray]]:
    """Right side of the equations, and (μ, z) → (JᵀΛJ + P₀ + μ blockdiag(Σ⁻¹)) z."""
    q, priors = state.posterior, state.priors
    h = Gaussian(q.w.h_mean, q.w.h_var)
    g = output_moments(spec, h).mean
    seen, along = through_output(spec, g[:, : spec.n_hidden], _slopes(spec, h), q.v.mean)
    level = noises.of_rows(noises.of(q), noises.features(spec, data.X)).mean
    fit = spec.likelihood.derivatives(data.y, g @ q.v.mean, level, data.row_var)
    slope, curvature = data.weight * fit.d1, data.weight * np.maximum(-fit.d2, 0.0)
    blocks = row_blocks(data.n_rows)

    def back(t: FloatArray, b: slice) -> FloatArray:
        return _joined((along[b] * t[:, None]).T @ data.X[b], seen[b].T @ t)

    def apply(caution: float, z: FloatArray) -> FloatArray:
        w, v = _split(state, z)

        def block(b: slice) -> FloatArray:
            f = np.einsum("nk,nk->n", data.X[b] @ w.T, along[b]) + seen[b] @ v
            return back(curvature[b] * f, b)

        own = _joined(priors.w.tau * w, priors.v.tau * v)
        metric = _joined(np.einsum("kij,kj->ki", q.w.lik_tau, w), q.v.lik_tau @ v) + own
        return sum(row_map(block, blocks)) + own + caution * metric

    told = sum(row_map(lambda b: back(slope[b], b), blocks))
    held = _joined(priors.w.tau * q.w.mean - priors.w.nu, priors.v.tau * q.v.mean - priors.v.nu)
    return told - held, apply


def _preconditioner(state: EPState) -> Callable[[FloatArray], FloatArray]:
    """Z → blockdiag(Σ) z."""
    q = state.posterior

    def apply(z: FloatArray) -> FloatArray:
        w, v = _split(state, z)
        return _joined(np.einsum("kij,klj,kl->ki", q.w.factor, q.w.factor, w, optimize=True), q.v.cov @ v)

    return apply


def _solve(
    apply: Callable[[FloatArray], FloatArray], precondition: Callable[[FloatArray], FloatArray], b: FloatArray
) -> FloatArray:
    """Preconditioned conjugate gradients from zero, until the residual is a hundredth of what it was."""
    x, r = np.zeros_like(b), b.copy()
    p = z = precondition(r)
    rz = first = float(r @ z)
    for _ in range(MOST_ITERATIONS):
        if not rz > SOLVED**2 * first:
            break
        Ap = apply(p)
        curvature = float(p @ Ap)
        if not curvature > 0.0:
            break
        x, r = x + rz / curvature * p, r - rz / curvature * Ap
        z = precondition(r)
        rz, previous = float(r @ z), rz
        p = z + rz / previous * p
    return x


def _shortened(spec: ModelSpec, state: EPState, change: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Changes of w and v, all as much shorter as keeps every output weight on its side of zero."""
    dw, dv = _split(state, change)
    v, fall = state.posterior.v.mean[: spec.n_hidden], dv[: spec.n_hidden]
    share = np.max(
        -fall * np.sign(v) / np.maximum(LARGEST_FALL * np.abs(v), np.finfo(float).tiny), initial=1.0
    )
    return dw / share, dv / share


def with_means_moved(
    spec: ModelSpec, data: TrainingData, state: EPState, dw: FloatArray, dv: FloatArray
) -> EPState | None:
    """The state whose sites make q with other means and the same covariances; None where rounding forbids it.

    Sites that follow h and f keep their own pull, but the prior pulls the weights back by P₀δ: Δν = Xa with
    XᵀWXa = P₀δ makes up for it, and likewise along the directions of the output sites.
    """
    rows, priors = state.rows, state.priors
    h, v_nu = rows.h.copy(), rows.v_nu
    h[1] += h[0] * (data.X @ dw.T) + data.X @ _least(data.X, data.weight, (priors.w.tau * dw).T)
    along = rows.v_tau * (rows.v_dir @ dv) + rows.v_dir @ _least(rows.v_dir, data.weight, priors.v.tau * dv)
    new = rows._replace(h=h, v_nu=v_nu + along[:, None] * rows.v_dir)
    try:
        return state_from_sites(spec, data, new, priors, noises.of(state.posterior))
    except ValueError:
        return None


def _least(X: FloatArray, weight: FloatArray, b: FloatArray) -> FloatArray:
    """The least a with XᵀWXa = b, in the directions that the rows have."""
    values, vectors = np.linalg.eigh((X * weight[:, None]).T @ X)
    there = values > NOTHING * values[-1]
    along = vectors[:, there]
    return along @ ((along.T @ b).T / values[there]).T
