"""Remove units the data do not use; the rest goes on from where it stands *(paper, Case 1, last lines)*."""

from __future__ import annotations

import numpy as np

from cavity.ep import posterior as post
from cavity.ep.network_numpy import unit_moments
from cavity.ep.state import EPState, Posterior, PriorSites, RowSites
from cavity.model.data import TrainingData
from cavity.model.interactions import kept_pairs
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian, IntArray, Natural

UNUSED = 0.01  # of the target's sd


def unit_effects(spec: ModelSpec, data: TrainingData, state: EPState) -> FloatArray:
    """What unit k adds to f, alone and in products: the sd over the rows of its mean, in sds of y."""
    w, v = state.posterior.w, state.posterior.v
    g = unit_moments(spec, Gaussian(w.h_mean, w.h_var)).mean
    effects = np.empty(spec.n_hidden)
    for k in range(spec.n_hidden):
        with_k = [k, *(spec.n_hidden + np.flatnonzero((spec.pairs == k).any(axis=1)))]
        added = g[:, with_k] @ v.mean[with_k]
        centred = added - np.average(added, weights=data.weight)
        effects[k] = np.sqrt(np.average(centred**2, weights=data.weight))
    return effects


def keep_units(
    spec: ModelSpec, data: TrainingData, state: EPState, keep: IntArray
) -> tuple[ModelSpec, EPState]:
    """Model and state with only the units ``keep``; the same pair where that would be improper."""
    keep = np.asarray(keep)
    products = spec.n_hidden + kept_pairs(spec.interactions, keep)[1]
    outputs = np.concatenate([keep, products, [spec.n_outputs - 1]])
    small = spec.keep_units(keep)
    r, p, q = state.rows, state.priors, state.posterior
    rows = RowSites(
        np.ascontiguousarray(r.h[:, :, keep]),
        np.ascontiguousarray(r.v_dir[:, outputs]),
        r.v_tau.copy(),
        np.ascontiguousarray(r.v_nu[:, outputs]),
        r.noise.copy(),
    )
    priors = PriorSites(
        Natural(p.w.tau[keep], p.w.nu[keep]),
        Natural(p.scale.tau[keep], p.scale.nu[keep]),
        Natural(p.v.tau[outputs], p.v.nu[outputs]),
    )
    w = post.refresh_weights(small, data, rows, priors.w)
    v = post.assemble_output(small, *post.gather_output(data.weight, rows), priors.v)
    scale = post.refresh_scales(small, priors)
    if w is None or v is None or scale is None:
        return spec, state
    return small, EPState(rows, priors, Posterior(w, v, q.noise, scale, q.log_var))


def prune(
    spec: ModelSpec, data: TrainingData, state: EPState, threshold: float = UNUSED
) -> tuple[ModelSpec, EPState, IntArray]:
    """Drop units whose effect is below ``threshold`` (at least one stays); sweep on afterwards."""
    effects = unit_effects(spec, data, state)
    keep = np.flatnonzero(effects >= threshold)
    if not len(keep):
        keep = np.array([int(np.argmax(effects))])
    if len(keep) == spec.n_hidden:
        return spec, state, keep
    small, new = keep_units(spec, data, state, keep)
    return small, new, keep if small is not spec else np.arange(spec.n_hidden)
