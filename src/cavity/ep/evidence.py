r"""log Z_EP at any state, and its gradients in fixed hyperparameters at a fixed point *(paper, App. G)*.

.. math:: \log Z_{EP} = \Psi(q) - \Psi(\text{exact Gaussian priors})
          + \sum_t \tfrac1{\eta_t}\bigl(\log \hat Z_t + \Psi(\text{cavity}_t) - \Psi(q)\bigr)

over the likelihood terms (w_i copies of row i) and the prior terms of w and v: eq. marg_likelih with
its signs corrected (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.network import visit_rows
from cavity.ep.posterior import RowMap, row_blocks, scale_field, scale_sums
from cavity.ep.prior_sites import visit_output_priors, visit_weight_priors, weight_prior_partitions
from cavity.ep.row_visit import RowVisit
from cavity.ep.schedule import Step
from cavity.ep.state import EPState, RowSites, exact_output_precisions
from cavity.ep.sweep import active_mask, held
from cavity.model.data import TrainingData
from cavity.model.spec import HELD_VAR, ModelSpec
from cavity.numerics.linalg import scalar_log_partition
from cavity.types import FloatArray, Gaussian


def look_at_rows(
    spec: ModelSpec,
    data: TrainingData,
    state: EPState,
    step: Step,
    visit_h: bool = False,
    row_map: RowMap = map,
) -> RowVisit:
    """Visit all rows without moving any site."""
    still = replace(step, damping=0.0, damping_output=0.0, damping_noise=0.0)
    w, rows = state.posterior.w, state.rows
    q = held(state.posterior, noises.features(spec, data.X))
    active = active_mask(spec.n_hidden, None)

    def block(b: slice) -> RowVisit:
        sites = RowSites(rows.h[:, b], rows.v_dir[b], rows.v_tau[b], rows.v_nu[b], rows.noise[:, b])
        h = Gaussian(w.h_mean[b], w.h_var[b])
        return visit_rows(spec, data.y[b], data.row_var[b], h, sites, q.of_rows(b), still, active, visit_h)

    return RowVisit.concatenate(list(row_map(block, row_blocks(data.n_rows))))


def log_evidence(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step | None = None, row_map: RowMap = map
) -> float:
    """log Z_EP of the state *(paper, eq. marg_likelih)*; θ and scales count as known while held."""
    step = step if step is not None else Step()
    q = state.posterior
    visit = look_at_rows(spec, data, state, step, row_map=row_map)
    total = float(q.w.log_partition.sum())
    total += float(data.weight @ (visit.log_z + visit.partition)) / step.fraction
    prior = visit_weight_priors(spec, state, step.fraction_weight).log_z
    prior = prior + weight_prior_partitions(spec, state, step.fraction_weight)
    total += float(np.sum(prior)) / step.fraction_weight
    total -= float(np.sum(spec.held)) * float(scalar_log_partition(np.float64(0.0), np.float64(HELD_VAR)))
    if spec.output.fixed is None:
        out = visit_output_priors(spec, q.v, state.priors.v, step.fraction_output)
        total += q.v.log_partition + float(np.sum(out.log_z + out.partition)) / step.fraction_output
        exact = exact_output_precisions(spec)[spec.n_hidden :]
        total -= float(np.sum(scalar_log_partition(np.zeros_like(exact), 1.0 / exact)))
    if q.log_var is not None:
        total += noises.partition_gain(spec, q.log_var)
    elif q.noise.var > 0.0:
        total += _inferred_part(q.noise, Gaussian(spec.noise.mean, spec.noise.var))
    zero = np.zeros(spec.n_groups)
    posterior, hyperprior = scale_field(spec, *scale_sums(spec, state.priors)), scale_field(spec, zero, zero)
    assert posterior is not None and hyperprior is not None
    return total + posterior.log_partition - hyperprior.log_partition


def _inferred_part(q: Gaussian, prior: Gaussian) -> float:
    """Ψ(q) - Ψ(prior) of one inferred log-scale."""
    return float(
        scalar_log_partition(np.float64(q.mean), np.float64(q.var))
        - scalar_log_partition(np.float64(prior.mean), np.float64(prior.var))
    )


class HyperGradient(NamedTuple):
    """∂ log Z_EP in θ (None while inferred), φ_l (0 where inferred), log σ_v0², log σ_v00² (None: held)."""

    log_noise_var: float | None
    log_prior_var: FloatArray
    log_output_var: float | None
    log_bias_var: float | None


def evidence_gradient(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step | None = None, row_map: RowMap = map
) -> HyperGradient:
    """Explicit derivatives of log Z_EP in the held hyperparameters, sites held too.

    They are the total derivatives at a fixed point as far as log Z_EP is stationary in the sites:
    exactly for prior sites and the linear model, nearly for the network (docs/theory.md states by
    how much). Derivatives of log Ẑ are fourth-order central differences, error ~1e-10.
    """
    step = step if step is not None else Step()
    q = state.posterior

    def rows(theta: float) -> float:
        moved = state._replace(posterior=q._replace(noise=Gaussian(theta, 0.0)))
        visit = look_at_rows(spec, data, moved, step, row_map=row_map)
        return float(data.weight @ visit.log_z) / step.fraction

    noise = None
    if not q.noise.var > 0.0 and np.isfinite(q.noise.mean):
        noise = _derivative(rows, float(q.noise.mean))

    means = np.asarray(spec.scale_prior.mean)

    def prior_terms(shift: float) -> FloatArray:
        moved = state._replace(posterior=q._replace(scale=Gaussian(q.scale.mean + shift, q.scale.var)))
        log_z = visit_weight_priors(spec, moved, step.fraction_weight).log_z / step.fraction_weight
        return np.bincount(spec.group_of.ravel(), log_z, spec.n_groups)

    scales = np.where(spec.scale_inferred, 0.0, _derivative(prior_terms, 0.0)) if len(means) else np.zeros(0)
    if spec.output.fixed is not None:
        return HyperGradient(noise, scales, None, None)

    K = spec.n_hidden

    def output_terms(log_var: float) -> float:
        moved = replace(spec, output=replace(spec.output, scale_var=float(np.exp(log_var))))
        visit = visit_output_priors(moved, q.v, state.priors.v, step.fraction_output)
        products = np.sum(q.v.mean[K:-1] ** 2 + np.diag(q.v.cov)[K:-1]) * np.exp(-log_var)
        exact = -0.5 * (len(spec.pairs) * log_var + float(products))
        return float(np.sum(visit.log_z)) / step.fraction_output + exact

    output = _derivative(output_terms, float(np.log(spec.output.scale_var)))
    # the bias prior is exact: E[∂ log N(v_0 | 0, σ²)/∂ log σ²] under q
    second = float(q.v.mean[-1] ** 2 + q.v.cov[-1, -1])
    return HyperGradient(noise, scales, output, -0.5 + 0.5 * second / spec.output.bias_var)


def _derivative(function: Callable[[float], Any], at: float, step: float = 2e-3) -> Any:
    """Fourth-order central difference; with step 2e-3 truncation ~1e-12, rounding ~1e-13·|f|/step."""
    return (
        8.0 * (function(at + step) - function(at - step))
        - (function(at + 2 * step) - function(at - 2 * step))
    ) / (12.0 * step)
