r"""The plain NumPy twin of the row kernel, for any activation and likelihood *(paper, Apps. A–E)*.

Read this to follow the equations; the compiled kernel does the same arithmetic, on fewer nodes where it can.
Everything a likelihood has to answer is ``log_z`` with two derivatives (`cavity.model.likelihoods`):
with g = -∂ and curvature from E[∂] and E[∂²] + Var[∂] over the tilted θ, the moments of v below are
eqs. mq_tilted_v2 and Sq_tilted_v2 for the Gaussian likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.ep.output_sites import OutputCavity, OutputSite, damp_output_sites
from cavity.ep.products import Entries, given_units, product_moments, shared_variance
from cavity.ep.row_tilted import Conditional, tilted_activations, tilted_noise
from cavity.ep.row_visit import HeldPosterior, RowVisit, dampings
from cavity.ep.schedule import Step
from cavity.ep.state import RowSites
from cavity.model.spec import ModelSpec
from cavity.numerics.kernel_output import IMPROPER
from cavity.types import FloatArray, Gaussian


class Cavities(NamedTuple):
    """Cavities of all visited rows *(eqs. cavity_w, cavity_v)* and ΣΨ(cavity) - Ψ(q) of them."""

    h: Gaussian  # (n, K)
    v_mean: FloatArray  # (n, J)
    v_gain: FloatArray  # (n,): Σ₋ = Σ + gain·aaᵀ
    v_image: FloatArray  # (n, J): a = Σα
    v_quad: FloatArray  # (n,): αᵀΣα
    v_proper: FloatArray  # (n,) bool
    h_proper: FloatArray  # (n, K) bool
    partition: FloatArray  # (n,)


def _share(removed: FloatArray) -> FloatArray:
    """Share of a site to remove: all of it, or where improper what halves the precision."""
    ok = 1.0 - removed > IMPROPER
    return np.where(ok, 1.0, 0.5 / np.where(ok, 1.0, removed))


def _partition_change(prec: FloatArray, location: FloatArray, tau: FloatArray, nu: FloatArray) -> FloatArray:
    """Ψ(cavity) - Ψ(q) of scalar Gaussians."""
    rest = prec - tau
    return 0.5 * ((location - nu) ** 2 / rest - location**2 / prec - np.log(rest / prec))


def cavities(h: Gaussian, sites: RowSites, q: HeldPosterior, fraction: float) -> Cavities:
    """Cavities of h and v *(paper, eqs. EP_cavity, cavity_w, cavity_v)*."""
    tau, nu = sites.h
    share = _share(fraction * tau * h.var)
    prec, location = 1.0 / h.var, h.mean / h.var
    var = 1.0 / (prec - fraction * share * tau)
    partition = _partition_change(prec, location, fraction * share * tau, fraction * share * nu).sum(axis=1)
    h_cav = Gaussian(var * (location - fraction * share * nu), var)

    image = sites.v_dir @ q.v_cov
    quad = np.einsum("nj,nj->n", sites.v_dir, image)
    share_v = _share(fraction * sites.v_tau * quad)
    eta = fraction * share_v
    gain = eta * sites.v_tau / (1.0 - eta * sites.v_tau * quad)
    nu_image = sites.v_nu @ q.v_cov
    pull = gain * (sites.v_dir @ q.v_mean - eta * np.einsum("nj,nj->n", image, sites.v_nu))
    mean = q.v_mean - eta[:, None] * nu_image + pull[:, None] * image
    quadratic = eta * (eta * np.einsum("nj,nj->n", sites.v_nu, nu_image) - 2.0 * sites.v_nu @ q.v_mean)
    quadratic += pull * (sites.v_dir @ q.v_mean - eta * np.einsum("nj,nj->n", image, sites.v_nu))
    partition = partition + 0.5 * quadratic - 0.5 * np.log(1.0 - eta * sites.v_tau * quad)
    return Cavities(h_cav, mean, gain, image, quad, share_v >= 1.0, share >= 1.0, partition)


def unit_moments(spec: ModelSpec, h: Gaussian) -> Gaussian:
    """Means and variances of the scaled unit outputs, (n, J), the constant unit of the bias last."""
    n, K = h.mean.shape
    mean, var = np.empty((n, K)), np.empty((n, K))
    for k, activation in enumerate(spec.activations):
        g = activation.moments(Gaussian(h.mean[:, k], h.var[:, k]))
        mean[:, k] = spec.activation_scale[k] * g.mean
        var[:, k] = spec.activation_scale[k] ** 2 * g.var
    return seen_by_output(spec, Gaussian(mean, var))


def seen_by_output(spec: ModelSpec, g: Gaussian) -> Gaussian:
    """Moments of all that the output layer sees, (n, J), from those of the units, (n, K)."""
    mean, var = product_moments(spec, g)
    one = np.ones((len(mean), 1))
    return Gaussian(np.concatenate([mean, one], axis=1), np.concatenate([var, 0.0 * one], axis=1))


def function_moments(
    spec: ModelSpec, g: Gaussian, v_mean: FloatArray, cov: Entries, quad: FloatArray
) -> Gaussian:
    """m_f = μᵀm_g and V_f = m_gᵀΣm_g + V_gᵀ(diag Σ + μ∘μ) *(paper, eq. qf_fact)*; quad = m_gᵀΣm_g.

    ``cov`` gives entries of Σ; products of units add covariances of theirs (`cavity.ep.products`).
    """
    mean = np.einsum("nj,nj->n", v_mean, g.mean)
    v_diag = np.stack([np.broadcast_to(cov(j, j), len(mean)) for j in range(v_mean.shape[1])], axis=1)
    var = quad + np.einsum("nj,nj->n", g.var, v_diag + v_mean**2)
    return Gaussian(
        mean, var + shared_variance(spec, g, lambda j, i: cov(j, i) + v_mean[:, j] * v_mean[:, i])
    )


def cavity_entries(v_cov: FloatArray, cav: Cavities) -> Entries:
    """Entries of Σ₋ = Σ + gain·aaᵀ, each (n,)."""
    return lambda j, i: v_cov[j, i] + cav.v_gain * cav.v_image[:, j] * cav.v_image[:, i]


def visit_rows_numpy(
    spec: ModelSpec,
    y: FloatArray,
    row_var: FloatArray,
    h: Gaussian,
    sites: RowSites,
    q: HeldPosterior,
    step: Step,
    active: FloatArray,
    visit_h: bool,
) -> RowVisit:
    """Visit rows with the posterior held still; see `cavity.ep.network.visit_rows`."""
    n, K = h.mean.shape
    eta = step.fraction
    delta_h, delta_v, delta_noise = dampings(spec, step)
    new = RowSites(*(a.copy() for a in sites))
    skipped = np.zeros(n)
    mismatch = np.zeros((n, 3))
    cav = cavities(h, sites, q, eta)
    g = unit_moments(spec, cav.h)
    image_q = g.mean @ q.v_cov
    a_g = np.einsum("nj,nj->n", cav.v_image, g.mean)
    image = image_q + (cav.v_gain * a_g)[:, None] * cav.v_image
    quad = np.einsum("nj,nj->n", g.mean, image)
    cov = cavity_entries(q.v_cov, cav)
    f = function_moments(spec, g, cav.v_mean, cov, quad)
    partition = cav.partition

    if np.all(q.noise.var > 0.0):
        tau, nu = sites.noise
        share = _share(eta * tau * q.noise.var)
        prec = 1.0 / q.noise.var
        var_c = 1.0 / (prec - eta * share * tau)
        cavity = Gaussian(var_c * (q.noise.mean * prec - eta * share * nu), var_c)
        partition = partition + _partition_change(
            prec + np.zeros(n), q.noise.mean * prec + np.zeros(n), eta * share * tau, eta * share * nu
        )
        t = tilted_noise(spec, y, row_var, f, cavity, eta)
        proper = share >= 1.0
        gap = np.abs(t.theta.mean - q.noise.mean) / np.sqrt(q.noise.var)
        mismatch[:, 2] = np.maximum(gap, np.abs(t.theta.var / q.noise.var - 1.0))
        move = np.where(proper, delta_noise, 0.0)
        new.noise[0] += move * ((1.0 / t.theta.var - 1.0 / var_c) / eta - tau)
        new.noise[1] += move * ((t.theta.mean / t.theta.var - cavity.mean / var_c) / eta - nu)
        skipped += ~proper
        log_z, theta = t.log_z, t.theta.mean
        slope, curvature = t.slope, -t.curvature
    else:
        theta = np.full(n, float(q.noise.mean))
        z = spec.likelihood.log_z(y, f, theta, row_var, eta)
        log_z, slope, curvature = z.value, z.d1, -z.d2

    slack = 1.0 - curvature * quad
    quad_q = np.einsum("nj,nj->n", g.mean, image_q)
    on = quad_q > 0.0
    safe = np.where(on, quad_q, 1.0)
    gap = np.abs(f.mean + quad * slope - g.mean @ q.v_mean) / np.sqrt(safe)
    mismatch[:, 1] = np.where(on, np.maximum(gap, np.abs(quad * slack / safe - 1.0)), 0.0)
    if delta_v > 0.0:
        moved = cav.v_proper & (slack > IMPROPER)
        safe = np.where(moved, slack, 1.0)
        proposed = OutputSite(
            g.mean, curvature / (eta * safe), g.mean * ((curvature * f.mean + slope) / (eta * safe))[:, None]
        )
        old = OutputSite(sites.v_dir, sites.v_tau, sites.v_nu)
        cavity_v = OutputCavity(cav.v_mean, q.v_cov, cav.v_gain, cav.v_image)
        damped, proper = damp_output_sites(old, proposed, cavity_v, eta, delta_v)
        moved &= proper
        skipped += ~moved
        for new_part, part in zip((new.v_dir, new.v_tau, new.v_nu), damped, strict=True):
            new_part[moved] = part[moved]

    units = given_units(spec, g, cav.v_mean, image, cov)
    for k in np.flatnonzero(active) if visit_h else ():
        mu, c, s = (part[:, k] for part in units)
        t0 = np.maximum(f.var - g.var[:, k] * (s + mu**2), 0.0)
        given = Conditional(f.mean, mu, g.mean[:, k], t0, c, s)
        mc, vc = cav.h.mean[:, k], cav.h.var[:, k]
        tilted = tilted_activations(spec, int(k), Gaussian(mc, vc), given, y, row_var, theta, eta)
        ok = cav.h_proper[:, k] & (tilted.var > 0.0) & np.isfinite(tilted.mean)
        skipped += ~ok
        mean, var = np.where(ok, tilted.mean, 0.0), np.where(ok, tilted.var, 1.0)
        gap = np.abs(mean - h.mean[:, k]) / np.sqrt(h.var[:, k])
        gap = np.maximum(gap, np.abs(var / h.var[:, k] - 1.0))
        mismatch[:, 0] = np.where(ok, np.maximum(mismatch[:, 0], gap), mismatch[:, 0])
        tau, nu = sites.h[0, :, k], sites.h[1, :, k]
        move = np.where(ok, delta_h, 0.0)
        new.h[0, :, k] += move * ((1.0 / var - 1.0 / vc) / eta - tau)
        new.h[1, :, k] += move * ((mean / var - mc / vc) / eta - nu)
    return RowVisit(new, log_z, partition, mismatch, skipped, np.zeros(n))
