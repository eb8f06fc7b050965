r"""Posterior inclusion probabilities of weights whose prior has a spike at zero."""

from __future__ import annotations

import numpy as np

from cavity.ep.state import EPState
from cavity.ep.tilted import scaled_inclusion
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian, Natural


def has_inclusion(spec: ModelSpec) -> bool:
    """True where the prior of some input weights can say whether a weight is included."""
    return any(hasattr(block.prior, "inclusion_probability") for block in spec.blocks)


def inclusion_probabilities(spec: ModelSpec, state: EPState) -> FloatArray:
    """P(weight not in the spike | data), (K, d); NaN where the prior has no spike.

    As for leave-one-out densities, the cavity is q without the **whole** prior site, whatever fraction the
    sweeps used, and the prior enters with power one; φ is integrated over its cavity and the prior term.
    """
    q, sites = state.posterior, state.priors
    w = whole_site_cavity(Gaussian(q.w.mean.ravel(), q.w.var.ravel()), sites.w)
    group = spec.group_of.ravel()
    inferred = spec.scale_inferred[group]
    marginal = Gaussian(q.scale.mean[group], np.where(inferred, q.scale.var[group], 1.0))
    scale = whole_site_cavity(marginal, sites.scale)
    # a cavity of φ twice as wide as its hyperprior is one of the improper ones, as in the sweeps
    wide = inferred & (scale.var > 2.0 * np.asarray(spec.scale_prior.var)[group])
    scale = Gaussian(np.where(wide, marginal.mean, scale.mean), np.where(wide, marginal.var, scale.var))
    out = np.full(len(group), np.nan)
    for block in spec.blocks:
        if not hasattr(block.prior, "inclusion_probability"):
            continue
        for with_scale in (True, False):
            j = block.entries[inferred[block.entries] == with_scale]
            if not len(j):
                continue
            value = Gaussian(w.mean[j], w.var[j])
            if with_scale:
                out[j] = scaled_inclusion(block.prior, value, Gaussian(scale.mean[j], scale.var[j]))
            else:
                out[j] = block.prior.inclusion_probability(value, marginal.mean[j])
    return out.reshape(spec.group_of.shape)


def whole_site_cavity(q: Gaussian, site: Natural) -> Gaussian:
    """q without the site; where that is improper, without as much of it as leaves half of the precision."""
    tau, nu = site.tau.ravel(), site.nu.ravel()
    proper = (1.0 / q.var - tau) * q.var > 1e-9
    share = np.where(proper, 1.0, 0.5 / (q.var * np.where(proper, 1.0, tau)))
    left = 1.0 / q.var - share * tau
    return Gaussian((q.mean / q.var - share * nu) / left, 1.0 / left)
