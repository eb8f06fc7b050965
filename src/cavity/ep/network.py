r"""Visiting data rows: cavities, moments of g and f, tilted moments, damped sites *(paper, Apps. A–E)*.

`visit_rows` dispatches to the compiled kernel where every piece has one and otherwise to
`visit_rows_numpy`, its plain twin, which takes any activation and likelihood. Both do the same
arithmetic in the same order; a test holds them equal to 1e-12.
"""

from __future__ import annotations

import numpy as np

from cavity.ep.network_numpy import visit_rows_numpy
from cavity.ep.row_visit import HeldPosterior, RowVisit, dampings
from cavity.ep.schedule import Step
from cavity.ep.state import EPState, RowSites
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.numerics import kernel_rows
from cavity.numerics.compilation import announced
from cavity.types import FloatArray, Gaussian


def _c(a: FloatArray) -> FloatArray:
    return np.ascontiguousarray(a, dtype=np.float64)


def _blank(sites: RowSites) -> tuple[RowSites, FloatArray]:
    new = RowSites(*(np.empty_like(_c(a)) for a in sites))
    return new, np.zeros((sites.v_tau.shape[0], 7))


def _visit_of(new: RowSites, diag: FloatArray) -> RowVisit:
    return RowVisit(new, diag[:, 0], diag[:, 1], diag[:, 2:5], diag[:, 5], diag[:, 6])


def visit_rows(
    spec: ModelSpec,
    y: FloatArray,
    row_var: FloatArray,
    h: Gaussian,
    sites: RowSites,
    posterior: HeldPosterior,
    step: Step,
    active: FloatArray,
    visit_h: bool | None = None,
) -> RowVisit:
    """Visit rows with the posterior held still; h holds the marginals of their activations, (n, K).

    ``visit_h`` False leaves the activations out (enough for log Ẑ and leave-one-out densities); by
    default they are visited when the step moves them.
    """
    visit_h = step.damping > 0.0 if visit_h is None else visit_h
    if not spec.compiled:
        return visit_rows_numpy(spec, y, row_var, h, sites, posterior, step, active, visit_h)
    new, diag = _blank(sites)
    noise = np.array([posterior.noise.mean, posterior.noise.var, float(posterior.noise.var > 0.0)])
    with announced(kernel_rows.visit_rows):
        kernel_rows.visit_rows(
            _c(y), _c(row_var), _c(h.mean), _c(h.var), *(_c(a) for a in sites),
            _c(posterior.v_mean), _c(posterior.v_cov), noise, float(step.fraction), dampings(spec, step),
            bool(visit_h), spec.kinds, spec.activation_scale, active, *new, diag,
        )  # fmt: skip
    return _visit_of(new, diag)


def visit_rows_in_turn(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step, active: FloatArray
) -> tuple[RowVisit, FloatArray, FloatArray, Gaussian, int]:
    """Visit all rows one by one, q(w) following by rank-one updates *(paper, Alg. 1, line 5)*.

    Returns the visit, the means and covariances of z after it, q(θ), and the shortened steps.
    """
    w, q = state.posterior.w, state.posterior
    new, diag = _blank(state.rows)
    mean = w.z_mean.copy()
    cov = np.matmul(w.factor, np.swapaxes(w.factor, 1, 2))
    noise = np.array([q.noise.mean, q.noise.var, float(q.noise.var > 0.0)])
    with announced(kernel_rows.visit_rows_in_turn):
        shortened = kernel_rows.visit_rows_in_turn(
            _c(data.y), _c(data.row_var), _c(data.weight), _c(w.basis.design), *(_c(a) for a in state.rows),
            _c(q.v.mean), _c(q.v.cov), noise, float(step.fraction), dampings(spec, step),
            step.damping > 0.0, spec.kinds, spec.activation_scale, active, mean, cov, *new, diag,
        )  # fmt: skip
    return _visit_of(new, diag), mean, cov, Gaussian(float(noise[0]), float(noise[1])), int(shortened)
