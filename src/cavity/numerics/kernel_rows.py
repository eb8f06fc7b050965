r"""Compiled visits of data rows: cavity → moments → tilted → damped site, fused.

`visit_rows` visits a block of rows with the posterior held still (parallel and block sweeps, and,
with ``eta = 1`` and no updates, the leave-one-out pass), or one by one, carrying the posterior of the
weights along by rank-one updates (the paper's sequential scheme). The plain NumPy twin is
`cavity.ep.network.visit_rows_numpy`.

Layout: rows n, units K, outputs J = K + 1 with the output bias last. Arrays only, one signature.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cavity.numerics.kernel_activations import bounds, h_tilted_by
from cavity.numerics.kernel_grids import MAX_NODES
from cavity.numerics.kernel_hermite import narrow_tilted, narrow_tilted_by, rule_for
from cavity.numerics.kernel_likelihoods import GAUSSIAN, PROBIT, likelihood_at, scale_tilted
from cavity.numerics.kernel_noise import log_power, noise_tilted
from cavity.numerics.kernel_output import IMPROPER, damp_output_site
from cavity.numerics.kernel_tilted import h_tilted
from cavity.numerics.kernel_units import _JIT, unit_moments


@njit(**_JIT)
def _keep_share(removed):
    """Share of a site to remove: 1, or where that is improper, what halves the precision."""
    return 1.0 if 1.0 - removed > IMPROPER else 0.5 / removed


@njit(**_JIT)
def _log_partition_change(prec, location, tau, nu):
    """Ψ(cavity) - Ψ(q) of a scalar Gaussian when (tau, nu) is taken out of (prec, location)."""
    rest = prec - tau
    return 0.5 * ((location - nu) ** 2 / rest - location * location / prec - math.log(rest / prec))


@njit(**_JIT)
def _visit(
    i, y, row_var, m, v, sites_h, dir_v, tau_v, nu_v, site_noise, mu, cov, noise,
    eta, damping, visit_h, kind, scale, active, like, mix,
    new_h, new_dir_v, new_tau_v, new_nu_v, new_noise, diag, cav, vec, work,
):  # fmt: skip
    """Visit row i; m, v are the marginals of its activations.

    noise = (mean, var, inferred?), damping = (δ_h, δ_v, δ_θ); diag[i] receives
    log Ẑ, ΣΨ(cavity) - Ψ(q), mismatch of h, of v, of θ, number of skipped sites, quadrature nodes.
    like and mix name the likelihood (`cavity.numerics.kernel_likelihoods`).
    """
    units = m.shape[0]
    outputs = units + 1
    mc, vc, mg, vg = cav[0], cav[1], cav[2], cav[3]
    a, b, sm, mu_c = vec[0], vec[1], vec[2], vec[3]
    skipped = 0.0
    psi = 0.0

    # Cavity of the output weights (paper, eq. cavity_v, signed precision).
    quad = 0.0
    for j in range(outputs):
        sa = 0.0
        sb = 0.0
        for o in range(outputs):
            sa += cov[j, o] * dir_v[i, o]
            sb += cov[j, o] * nu_v[i, o]
        a[j] = sa
        b[j] = sb
        quad += dir_v[i, j] * sa
    share_v = _keep_share(eta * tau_v[i] * quad)
    skip_v = share_v < 1.0
    eta_v = eta * share_v
    gain_v = eta_v * tau_v[i] / (1.0 - eta_v * tau_v[i] * quad)
    dir_mu = 0.0
    nu_mu = 0.0
    a_nu = 0.0
    nu_b = 0.0
    for j in range(outputs):
        dir_mu += dir_v[i, j] * mu[j]
        nu_mu += nu_v[i, j] * mu[j]
        a_nu += a[j] * nu_v[i, j]
        nu_b += nu_v[i, j] * b[j]
    pull = gain_v * (dir_mu - eta_v * a_nu)
    for j in range(outputs):
        mu_c[j] = mu[j] - eta_v * b[j] + pull * a[j]
    psi += 0.5 * (eta_v * (eta_v * nu_b - 2.0 * nu_mu) + pull * (dir_mu - eta_v * a_nu))
    psi -= 0.5 * math.log(1.0 - eta_v * tau_v[i] * quad)

    # Cavities of the activations (eq. cavity_w) and the moments of g (App. B).
    for k in range(units):
        tau, nu = sites_h[0, i, k], sites_h[1, i, k]
        eta_h = eta * _keep_share(eta * tau * v[k])
        prec = 1.0 / v[k]
        location = m[k] * prec
        vc[k] = 1.0 / (prec - eta_h * tau)
        mc[k] = vc[k] * (location - eta_h * nu)
        psi += _log_partition_change(prec, location, eta_h * tau, eta_h * nu)
        mean, var = unit_moments(kind[k], mc[k], vc[k], work)
        mg[k] = scale[k] * mean
        vg[k] = scale[k] * scale[k] * var
    mg[units] = 1.0
    vg[units] = 0.0

    # Moments of f under the cavity (eq. qf_fact).
    a_mg = 0.0
    for j in range(outputs):
        s = 0.0
        for o in range(outputs):
            s += cov[j, o] * mg[o]
        sm[j] = s
        a_mg += a[j] * mg[j]
    f_mean = 0.0
    quad_g = 0.0
    mean_q = 0.0
    quad_q = 0.0
    for j in range(outputs):
        mean_q += mg[j] * mu[j]
        quad_q += mg[j] * sm[j]
        sm[j] += gain_v * a[j] * a_mg
        f_mean += mu_c[j] * mg[j]
        quad_g += mg[j] * sm[j]
    f_var = quad_g
    for k in range(units):
        f_var += vg[k] * (cov[k, k] + gain_v * a[k] * a[k] + mu_c[k] * mu_c[k])
    resid = (0.0 if like == PROBIT else y[i]) - f_mean

    # Tilted noise level (eq. qtheta_tilted) or the known one.
    if noise[2] > 0.0:
        tau, nu = site_noise[0, i], site_noise[1, i]
        prec = 1.0 / noise[1]
        share = _keep_share(eta * tau * noise[1])
        eta_n = eta * share
        var_c = 1.0 / (prec - eta_n * tau)
        mean_c = var_c * (noise[0] * prec - eta_n * nu)
        psi += _log_partition_change(prec, noise[0] * prec, eta_n * tau, eta_n * nu)
        if like == GAUSSIAN:
            log_z, theta, theta_var, inverse, inverse_var = noise_tilted(
                mean_c, var_c, f_var, resid, row_var[i], eta, work
            )
            slope, curvature = inverse * resid, inverse - resid * resid * inverse_var
        else:
            log_z, theta, theta_var, slope, second = scale_tilted(
                mean_c, var_c, f_var, resid, row_var[i], eta, mix, work
            )
            curvature = -second
        sigma2 = math.exp(theta) + row_var[i]
        diag[i, 4] = max(abs(theta - noise[0]) / math.sqrt(noise[1]), abs(theta_var / noise[1] - 1.0))
        if share < 1.0:
            skipped += 1.0
            new_noise[0, i], new_noise[1, i] = tau, nu
        else:
            new_noise[0, i] = tau + damping[2] * ((1.0 / theta_var - 1.0 / var_c) / eta - tau)
            new_noise[1, i] = nu + damping[2] * ((theta / theta_var - mean_c / var_c) / eta - nu)
    else:
        sigma2 = math.exp(noise[0]) + row_var[i]
        if like == GAUSSIAN:
            t = f_var + sigma2 / eta
            slope, curvature = resid / t, 1.0 / t
            log_z = -0.5 * (math.log(t) + resid * slope - (1.0 - eta) * math.log(sigma2)) + log_power(eta)
        else:
            log_z, slope, second = likelihood_at(like, y[i], resid, f_var, sigma2, eta, mix)
            curvature = -second
        new_noise[0, i], new_noise[1, i] = site_noise[0, i], site_noise[1, i]
        diag[i, 4] = 0.0

    # Output-weight site (eqs. sites_tauv, sites_nuv) and its damping (eqs. siteupdate_tauv, siteupdate_nuv).
    slack = 1.0 - curvature * quad_g
    diag[i, 3] = 0.0
    if quad_q > 0.0:
        tilted_mean = f_mean + quad_g * slope
        tilted_var = quad_g * slack
        diag[i, 3] = max(abs(tilted_mean - mean_q) / math.sqrt(quad_q), abs(tilted_var / quad_q - 1.0))
    moved = False
    if damping[1] > 0.0 and not skip_v and slack > IMPROPER:
        site_tau = curvature / (eta * slack)
        site_nu = (curvature * f_mean + slope) / (eta * slack)
        moved = damp_output_site(
            i, eta, damping[1], site_tau, site_nu, dir_v, tau_v, nu_v, mg, a, sm, mu_c,
            quad, quad_g, a_mg, gain_v, new_dir_v, new_tau_v, new_nu_v,
        )  # fmt: skip
    if not moved:
        for j in range(outputs):
            new_dir_v[i, j] = dir_v[i, j]
            new_nu_v[i, j] = nu_v[i, j]
        new_tau_v[i] = tau_v[i]
        if damping[1] > 0.0:
            skipped += 1.0

    # Activations (eqs. qf_cond, qh_tilted, qh_tilted2) and their sites (eq. sites_w).
    diag[i, 2] = 0.0
    diag[i, 6] = 0.0
    noise_var = sigma2 / eta
    peak = misfit = 0.0
    if visit_h and like != GAUSSIAN:
        _, peak, misfit, _ = bounds(like, y[i], resid, f_var, 0.0, sigma2, mix)
    for k in range(units):
        tau, nu = sites_h[0, i, k], sites_h[1, i, k]
        new_h[0, i, k], new_h[1, i, k] = tau, nu
        if not (visit_h and active[k]):
            continue
        s = cov[k, k] + gain_v * a[k] * a[k]
        v0 = f_var - vg[k] * (s + mu_c[k] * mu_c[k])
        if like == GAUSSIAN:
            t0 = max(v0 + noise_var, noise_var * (1.0 + 1e-12))
            least = max(noise_var, t0 - sm[k] * sm[k] / s) if s > 0.0 else t0
            rule = rule_for(
                mc[k], vc[k], kind[k], scale[k], mu_c[k], s, 1.0 / least, 0.5 * resid * resid / t0
            )
            if rule >= 0:
                mean, var, nodes = narrow_tilted(
                    rule, mc[k], vc[k], kind[k], scale[k], mg[k], mu_c[k], s, sm[k], t0, resid, noise_var,
                    work,
                )  # fmt: skip
            else:
                mean, var, nodes = h_tilted(
                    mc[k], vc[k], kind[k], scale[k], mg[k], mu_c[k], s, sm[k], t0, resid, noise_var, work
                )
        else:
            rule = -1
            if 2.0 * v0 > f_var:  # else what holds at the mean of f does not hold for this unit
                rule = rule_for(mc[k], vc[k], kind[k], scale[k], mu_c[k], s, peak, misfit)
            if rule >= 0:
                mean, var, nodes = narrow_tilted_by(
                    rule, mc[k], vc[k], kind[k], scale[k], mg[k], mu_c[k], s, sm[k], v0, resid,
                    like, y[i], sigma2, mix, work,
                )  # fmt: skip
            else:
                mean, var, nodes = h_tilted_by(
                    mc[k], vc[k], kind[k], scale[k], mg[k], mu_c[k], s, sm[k], max(v0, 0.0), resid,
                    like, y[i], sigma2, mix, work,
                )  # fmt: skip
        diag[i, 6] += nodes
        if eta * tau * v[k] >= 1.0 - IMPROPER or not (var > 0.0 and abs(mean) < math.inf):
            skipped += 1.0
            continue
        diag[i, 2] = max(diag[i, 2], abs(mean - m[k]) / math.sqrt(v[k]), abs(var / v[k] - 1.0))
        new_h[0, i, k] = tau + damping[0] * ((1.0 / var - 1.0 / vc[k]) / eta - tau)
        new_h[1, i, k] = nu + damping[0] * ((mean / var - mc[k] / vc[k]) / eta - nu)
    diag[i, 0] = log_z
    diag[i, 1] = psi
    diag[i, 5] = skipped


@njit(**_JIT)
def visit_rows(
    y, row_var, h_mean, h_var, sites_h, dir_v, tau_v, nu_v, site_noise, mu, cov, noise, row_noise,
    eta, damping, visit_h, kind, scale, active, like, mix, in_turn, weight, design, w_mean, w_cov,
    phi, u_mean, u_cov, new_h, new_dir_v, new_tau_v, new_nu_v, new_noise, diag,
):  # fmt: skip
    """Visit all rows, with the posterior held still or, ``in_turn``, one by one.

    Held still, h_mean and h_var are the marginals of the activations. In turn, w_mean, w_cov and noise
    follow each visit (paper, Alg. 1, line 5) and the marginals come from them; design is (1, n, r), shared
    by all units, or (K, n, r). Where the log noise variance of row i is phi_iᵀu, its marginals stand in
    row_noise (2, n), or in turn u_mean and u_cov follow; these are empty where θ is one for all.
    A change that would make a covariance improper is halved until it does not; returns how many were. One
    function for both: each further entry would be compiled anew, whole.
    """
    units, rank = sites_h.shape[2], w_mean.shape[1]
    cav = np.empty((4, units + 1))
    vec = np.empty((4, units + 1))
    work = np.empty((4, MAX_NODES))
    m = np.empty(units)
    v = np.empty(units)
    image = np.empty((units, rank))
    slopes = u_mean.shape[0]
    u_image = np.empty(slopes)
    shortened = 0
    for i in range(y.shape[0]):
        for k in range(units):
            if not in_turn:
                m[k], v[k] = h_mean[i, k], h_var[i, k]
                continue
            x = design[k % design.shape[0], i]
            mean = 0.0
            var = 0.0
            for j in range(rank):
                s = 0.0
                for o in range(rank):
                    s += w_cov[k, j, o] * x[o]
                image[k, j] = s
                var += s * x[j]
                mean += x[j] * w_mean[k, j]
            m[k] = mean
            v[k] = var
        if row_noise.shape[1] > 0:
            noise[0], noise[1] = row_noise[0, i], row_noise[1, i]
        if slopes > 0:
            mean = 0.0
            var = 0.0
            for j in range(slopes):
                s = 0.0
                for o in range(slopes):
                    s += u_cov[j, o] * phi[i, o]
                u_image[j] = s
                var += s * phi[i, j]
                mean += phi[i, j] * u_mean[j]
            noise[0], noise[1] = mean, var
        _visit(
            i, y, row_var, m, v, sites_h, dir_v, tau_v, nu_v, site_noise, mu, cov, noise,
            eta, damping, visit_h, kind, scale, active, like, mix,
            new_h, new_dir_v, new_tau_v, new_nu_v, new_noise, diag, cav, vec, work,
        )  # fmt: skip
        if not in_turn:
            continue
        for k in range(units):
            d_tau = weight[i] * (new_h[0, i, k] - sites_h[0, i, k])
            d_nu = weight[i] * (new_h[1, i, k] - sites_h[1, i, k])
            if d_tau == 0.0 and d_nu == 0.0:
                continue
            while 1.0 + d_tau * v[k] <= 1e-3 or (new_h[0, i, k] * v[k] * eta) >= (1.0 + d_tau * v[k]) * (
                1.0 - IMPROPER
            ):
                d_tau *= 0.5
                d_nu *= 0.5
                new_h[0, i, k] = 0.5 * (new_h[0, i, k] + sites_h[0, i, k])
                new_h[1, i, k] = 0.5 * (new_h[1, i, k] + sites_h[1, i, k])
                shortened += 1
                if abs(d_tau) * v[k] < 1e-12:
                    break
            step = d_tau / (1.0 + d_tau * v[k])
            shift = (d_nu - d_tau * m[k]) / (1.0 + d_tau * v[k])
            for j in range(rank):
                w_mean[k, j] += shift * image[k, j]
                s = step * image[k, j]
                for o in range(rank):
                    w_cov[k, j, o] -= s * image[k, o]
        if noise[2] > 0.0:
            prec = 1.0 / noise[1]
            d_tau = weight[i] * (new_noise[0, i] - site_noise[0, i])
            d_nu = weight[i] * (new_noise[1, i] - site_noise[1, i])
            while prec + d_tau <= 1e-3 * prec:
                d_tau *= 0.5
                d_nu *= 0.5
                new_noise[0, i] = 0.5 * (new_noise[0, i] + site_noise[0, i])
                new_noise[1, i] = 0.5 * (new_noise[1, i] + site_noise[1, i])
                shortened += 1
            step = d_tau * prec / (prec + d_tau)
            shift = (d_nu - d_tau * noise[0]) * prec / (prec + d_tau)
            for j in range(slopes):
                u_mean[j] += shift * u_image[j]
                s = step * u_image[j]
                for o in range(slopes):
                    u_cov[j, o] -= s * u_image[o]
            noise[0] = (noise[0] * prec + d_nu) / (prec + d_tau)
            noise[1] = 1.0 / (prec + d_tau)
    return shortened
