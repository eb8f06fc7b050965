r"""Visiting data rows: cavities, moments of g and f, tilted moments, damped sites *(paper, Apps. A–E)*.

`visit_rows` dispatches to the compiled kernel where every piece has one and otherwise to
`visit_rows_numpy`, its plain twin, which takes any activation and likelihood. Both follow the same
equations in the same order; under narrow cavities the kernel takes fewer nodes. A test holds them equal to
1e-10.
"""

from __future__ import annotations

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.network_numpy import visit_rows_numpy
from cavity.ep.row_visit import HeldPosterior, RowVisit, dampings
from cavity.ep.schedule import Step
from cavity.ep.state import EPState, LogVariance, RowSites
from cavity.model.data import TrainingData
from cavity.model.likelihoods import KernelForm
from cavity.model.spec import ModelSpec
from cavity.numerics import kernel_rows
from cavity.numerics.compilation import announced
from cavity.types import FloatArray, Gaussian


def _c(a: FloatArray) -> FloatArray:
    return np.ascontiguousarray(a, dtype=np.float64)


def _run(
    spec: ModelSpec,
    form: KernelForm,
    rows: tuple[FloatArray, FloatArray],
    h: Gaussian,
    sites: RowSites,
    q: HeldPosterior,
    step: Step,
    active: FloatArray,
    visit_h: bool,
    in_turn: tuple[FloatArray, ...] | None = None,
) -> tuple[RowVisit, Gaussian, int]:
    """Call the kernel.

    ``in_turn`` holds row weights, design, mean and covariance of z, and features, mean and covariance of u
    (empty where the noise does not depend on the inputs); means and covariances are updated.
    """
    new = RowSites(*(np.empty_like(_c(a)) for a in sites))
    diag = np.zeros((len(sites.v_tau), 7))
    own = np.ndim(q.noise.mean) > 0
    row_noise = _c(np.stack(q.noise)) if own else np.zeros((2, 0))
    noise = np.array([0.0, 0.0, 1.0] if own else [q.noise.mean, q.noise.var, float(q.noise.var > 0.0)])
    none, flat = np.zeros((0, 0, 0)), np.zeros((0, 0))
    follow = in_turn if in_turn is not None else (np.zeros(0), none, flat, none, flat, np.zeros(0), flat)
    with announced(kernel_rows.visit_rows):
        shortened = kernel_rows.visit_rows(
            *(_c(a) for a in (*rows, *h, *sites, q.v_mean, q.v_cov)), noise, row_noise, float(step.fraction),
            dampings(spec, step), bool(visit_h), spec.kinds, spec.activation_scale, active,
            form.code, _c(form.mix), in_turn is not None, *follow, *new, diag,
        )  # fmt: skip
    visit = RowVisit(new, diag[:, 0], diag[:, 1], diag[:, 2:5], diag[:, 5], diag[:, 6])
    return visit, Gaussian(float(noise[0]), float(noise[1])), int(shortened)


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
    form = spec.kernel_form(step.fraction)
    if form is None:
        return visit_rows_numpy(spec, y, row_var, h, sites, posterior, step, active, visit_h)
    return _run(spec, form, (y, row_var), h, sites, posterior, step, active, visit_h)[0]


def visit_rows_in_turn(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step, active: FloatArray
) -> tuple[RowVisit, FloatArray, FloatArray, noises.LogNoise, int]:
    """Visit all rows one by one, q(w) following by rank-one updates *(paper, Alg. 1, line 5)*.

    Returns the visit, the means and covariances of z after it, q of the noise, and the shortened steps.
    """
    w, q = state.posterior.w, state.posterior
    form = spec.kernel_form(step.fraction)
    assert form is not None  # the sweep asks first
    mean = w.z_mean.copy()
    cov = np.matmul(w.factor, np.swapaxes(w.factor, 1, 2))
    none = np.zeros((0, 0))
    field = (none, np.zeros(0), none)
    if q.log_var is not None:
        field = (noises.features(spec, data.X), q.log_var.mean.copy(), q.log_var.cov.copy())
    visit, noise, shortened = _run(
        spec, form, (data.y, data.row_var), Gaussian(none, none), state.rows,
        HeldPosterior(q.v.mean, q.v.cov, q.noise), step, active, step.damping > 0.0,
        (_c(data.weight), _c(w.basis.design), mean, cov, *(_c(a) for a in field)),
    )  # fmt: skip
    return visit, mean, cov, noise if q.log_var is None else LogVariance(*field[1:]), shortened
