r"""The plain NumPy twin of the row kernel, for any activation and likelihood *(paper, Apps. A–E)*.

Read this to follow the equations; the compiled kernel does the same arithmetic on the same nodes.
Everything a likelihood has to answer is ``log_z`` with two derivatives (`cavity.model.likelihoods`):
with g = -∂ and curvature from E[∂] and E[∂²] + Var[∂] over the tilted θ, the moments of v below are
eqs. mq_tilted_v2 and Sq_tilted_v2 for the Gaussian likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.ep.row_tilted import Conditional, tilted_activation, tilted_noise
from cavity.ep.row_visit import HeldPosterior, RowVisit, dampings
from cavity.ep.schedule import Step
from cavity.ep.state import RowSites
from cavity.model.spec import ModelSpec
from cavity.numerics.kernel_rows import IMPROPER
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
    mean, var = np.ones((n, K + 1)), np.zeros((n, K + 1))
    for k, activation in enumerate(spec.activations):
        g = activation.moments(Gaussian(h.mean[:, k], h.var[:, k]))
        mean[:, k] = spec.activation_scale[k] * g.mean
        var[:, k] = spec.activation_scale[k] ** 2 * g.var
    return Gaussian(mean, var)


def function_moments(g: Gaussian, v_mean: FloatArray, v_diag: FloatArray, quad: FloatArray) -> Gaussian:
    """m_f = μᵀm_g and V_f = m_gᵀΣm_g + V_gᵀ(diag Σ + μ∘μ) *(paper, eq. qf_fact)*; quad = m_gᵀΣm_g."""
    mean = np.einsum("nj,nj->n", v_mean, g.mean)
    return Gaussian(mean, quad + np.einsum("nj,nj->n", g.var, v_diag + v_mean**2))


def damp_output_site(
    old: tuple[FloatArray, float, FloatArray],
    direction: FloatArray,
    tau: float,
    nu: float,
    mean: FloatArray,
    cov: FloatArray,
    fraction: float,
    damping: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Damped output site kept rank one *(paper, eqs. siteupdate_tauv, siteupdate_nuv, signed)*.

    T = (1-δ)τ_old αα ᵀ + δ τ gg ᵀ becomes λeeᵀ, its eigenpair of largest |λ|; the location becomes
    ν = b + (λeeᵀ - T)μ with μ the mean of cavity × full site, so the mean stays exact. None where the
    damped site would be improper.
    """
    alpha, tau_old, nu_old = old
    T = (1.0 - damping) * tau_old * np.outer(alpha, alpha) + damping * tau * np.outer(direction, direction)
    b = (1.0 - damping) * nu_old + damping * nu * direction
    system = np.eye(len(mean)) + fraction * cov @ T
    if not np.linalg.det(system) > IMPROPER:
        return None
    target = np.linalg.solve(system, mean + fraction * cov @ b)
    values, vectors = np.linalg.eigh(T)
    lead = int(np.argmax(np.abs(values)))
    lam, e = float(values[lead]), vectors[:, lead]
    return e, lam, b + lam * e * float(e @ target) - T @ target


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
    v_diag = np.diag(q.v_cov) + cav.v_gain[:, None] * cav.v_image**2
    f = function_moments(g, cav.v_mean, v_diag, quad)
    partition = cav.partition

    if q.noise.var > 0.0:
        tau, nu = sites.noise
        share = _share(eta * tau * q.noise.var)
        prec = 1.0 / q.noise.var
        var_c = 1.0 / (prec - eta * share * tau)
        cavity = Gaussian(var_c * (q.noise.mean * prec - eta * share * nu), var_c)
        partition = partition + _partition_change(
            np.full(n, prec), np.full(n, q.noise.mean * prec), eta * share * tau, eta * share * nu
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
        for i in range(n):
            damped = None
            if cav.v_proper[i] and slack[i] > IMPROPER:
                cov = q.v_cov + cav.v_gain[i] * np.outer(cav.v_image[i], cav.v_image[i])
                damped = damp_output_site(
                    (sites.v_dir[i], sites.v_tau[i], sites.v_nu[i]),
                    g.mean[i],
                    curvature[i] / (eta * slack[i]),
                    (curvature[i] * f.mean[i] + slope[i]) / (eta * slack[i]),
                    cav.v_mean[i],
                    cov,
                    eta,
                    delta_v,
                )
            if damped is None:
                skipped[i] += 1
            else:
                new.v_dir[i], new.v_tau[i], new.v_nu[i] = damped

    for k in np.flatnonzero(active) if visit_h else ():
        s = v_diag[:, k]
        t0 = np.maximum(f.var - g.var[:, k] * (s + cav.v_mean[:, k] ** 2), 0.0)
        for i in range(n):
            given = Conditional(f.mean[i], cav.v_mean[i, k], g.mean[i, k], t0[i], image[i, k], s[i])
            tilted = tilted_activation(
                spec, spec.activations[k], spec.activation_scale[k],
                Gaussian(cav.h.mean[i, k], cav.h.var[i, k]), given, y[i], row_var[i], theta[i], eta,
            )  # fmt: skip
            ok = cav.h_proper[i, k] and tilted.var > 0.0 and np.isfinite(tilted.mean)
            if not ok:
                skipped[i] += 1
                continue
            gap = abs(tilted.mean - h.mean[i, k]) / np.sqrt(h.var[i, k])
            mismatch[i, 0] = max(mismatch[i, 0], gap, abs(tilted.var / h.var[i, k] - 1.0))
            tau, nu = sites.h[0, i, k], sites.h[1, i, k]
            vc, mc = cav.h.var[i, k], cav.h.mean[i, k]
            new.h[0, i, k] += delta_h * ((1.0 / tilted.var - 1.0 / vc) / eta - tau)
            new.h[1, i, k] += delta_h * ((tilted.mean / tilted.var - mc / vc) / eta - nu)
    return RowVisit(new, log_z, partition, mismatch, skipped, np.zeros(n))
