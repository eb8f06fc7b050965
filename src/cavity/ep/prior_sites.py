"""EP on the prior sites: (w, φ) with hierarchical scales, and v *(paper, Sec. 3.2.1)*."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.ep.posterior import RowMap, assemble_output, change_weight_prior, refresh_scales
from cavity.ep.state import EPState, OutputPosterior, PriorSites
from cavity.ep.tilted import scaled_tilted_moments
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.numerics.linalg import scalar_log_partition
from cavity.types import FloatArray, Gaussian, Natural


class PriorVisit(NamedTuple):
    """Proposals for prior sites with what they were computed from."""

    value: Natural  # proposed sites of the weights
    scale: Natural  # proposed sites of φ
    log_z: FloatArray
    mismatch: float
    skipped: int


def _proposal(tilted: Gaussian, cavity: Natural, fraction: float) -> Natural:
    """Site that turns the cavity into the tilted moments: (V̂⁻¹ - V₋⁻¹)/η, and its location."""
    return Natural(
        (1.0 / tilted.var - cavity.tau) / fraction, (tilted.mean / tilted.var - cavity.nu) / fraction
    )


def _mismatch(tilted: Gaussian, q: Gaussian) -> FloatArray:
    return np.maximum(np.abs(tilted.mean - q.mean) / np.sqrt(q.var), np.abs(tilted.var / q.var - 1.0))


def _cavity(q: Gaussian, site: Natural, fraction: float) -> tuple[Natural, FloatArray]:
    """Natural cavity and where it is proper (the share left is above 1e-9 of the precision)."""
    tau = 1.0 / q.var - fraction * site.tau
    ok = tau * q.var > 1e-9
    return Natural(
        np.where(ok, tau, 1.0 / q.var), np.where(ok, q.mean / q.var - fraction * site.nu, q.mean / q.var)
    ), ok


def _prior_marginals(spec: ModelSpec, state: EPState) -> tuple[Gaussian, Gaussian]:
    """q of each weight and of its scale, (K·d,); held scales have a variance of one that nothing reads."""
    q, group = state.posterior, spec.group_of.ravel()
    inferred = spec.scale_inferred[group]
    phi = Gaussian(q.scale.mean[group], np.where(inferred, q.scale.var[group], 1.0))
    return Gaussian(q.w.mean.ravel(), q.w.var.ravel()), phi


def weight_prior_partitions(spec: ModelSpec, state: EPState, fraction: float) -> FloatArray:
    """Ψ(cavity) - Ψ(q) of each weight, (K·d,), with that of its scale where it is inferred."""
    marginals, sites = _prior_marginals(spec, state), (state.priors.w, state.priors.scale)
    change = []
    for q, site in zip(marginals, sites, strict=True):
        cavity, _ = _cavity(q, Natural(site.tau.ravel(), site.nu.ravel()), fraction)
        rest = scalar_log_partition(cavity.nu / cavity.tau, 1.0 / cavity.tau)
        change.append(rest - scalar_log_partition(q.mean, q.var))
    inferred = spec.scale_inferred[spec.group_of.ravel()]
    return np.where(spec.held.ravel(), 0.0, change[0] + np.where(inferred, change[1], 0.0))


def visit_weight_priors(spec: ModelSpec, state: EPState, fraction: float) -> PriorVisit:
    """Tilted moments of every (w_j, φ_l) and the proposed sites *(paper, eqs. cavity_pw … mm_pw)*.

    Weights held at zero by a mask are in no block: their exact sites stay.
    """
    shape = spec.group_of.shape
    w_site = Natural(state.priors.w.tau.ravel(), state.priors.w.nu.ravel())
    s_site = Natural(state.priors.scale.tau.ravel(), state.priors.scale.nu.ravel())
    group = spec.group_of.ravel()
    inferred = spec.scale_inferred[group]
    w, phi = _prior_marginals(spec, state)
    cav_w, ok = _cavity(w, w_site, fraction)
    cav_s, ok_s = _cavity(phi, s_site, fraction)
    # Negative φ sites of idle weights can leave a cavity wider than the hyperprior; one twice as wide
    # in variance makes the tilted density jump between "used" and "pruned" (w sites of 1e114 were seen).
    hyper_var = np.where(inferred, np.asarray(spec.scale_prior.var)[group], 1.0)
    ok_s = ok_s & (cav_s.tau * hyper_var >= 0.5)
    ok = ok & (ok_s | ~inferred)
    log_z = np.zeros(len(group))
    tilted_w = Gaussian(w.mean.copy(), w.var.copy())
    tilted_s = Gaussian(phi.mean.copy(), phi.var.copy())
    for block in spec.blocks:
        for with_scale in (True, False):
            j = block.entries[inferred[block.entries] == with_scale]
            if not len(j):
                continue
            value = Gaussian(cav_w.nu[j] / cav_w.tau[j], 1.0 / cav_w.tau[j])
            if with_scale:
                scale = Gaussian(cav_s.nu[j] / cav_s.tau[j], 1.0 / cav_s.tau[j])
                t = scaled_tilted_moments(block.prior, value, scale, fraction)
                log_z[j], tilted_w.mean[j], tilted_w.var[j] = t.log_z, t.value.mean, t.value.var
                tilted_s.mean[j], tilted_s.var[j] = t.scale.mean, t.scale.var
            else:
                m = block.prior.conditional_moments(value, phi.mean[j], fraction)
                log_z[j], tilted_w.mean[j], tilted_w.var[j] = m.log_z, m.mean, m.var
    ok = ok & np.isfinite(tilted_w.mean) & (tilted_w.var > 0.0) & (tilted_s.var > 0.0)
    new_w, new_s = _proposal(tilted_w, cav_w, fraction), _proposal(tilted_s, cav_s, fraction)
    keep = ~ok | spec.held.ravel()
    w_new = Natural(np.where(keep, w_site.tau, new_w.tau), np.where(keep, w_site.nu, new_w.nu))
    hold = keep | ~inferred
    s_new = Natural(np.where(hold, s_site.tau, new_s.tau), np.where(hold, s_site.nu, new_s.nu))
    gaps = np.where(ok, _mismatch(tilted_w, w), 0.0)
    gaps = np.maximum(gaps, np.where(ok & inferred, _mismatch(tilted_s, phi), 0.0))
    return PriorVisit(
        Natural(w_new.tau.reshape(shape), w_new.nu.reshape(shape)),
        Natural(s_new.tau.reshape(shape), s_new.nu.reshape(shape)),
        log_z,
        float(gaps.max()),
        int((~ok & ~spec.held.ravel()).sum()),
    )


def _between(old: Natural, new: Natural, share: float | FloatArray) -> Natural:
    """The one place of damping and of shortened steps for prior sites: (1 - δ)·old + δ·new."""
    return Natural(old.tau + share * (new.tau - old.tau), old.nu + share * (new.nu - old.nu))


def _scale_shares(
    spec: ModelSpec, state: EPState, proposed: Natural, damping: float
) -> tuple[FloatArray, int]:
    """Damping of each weight, (K, d), halved for groups whose q(φ) would leap; and how many were.

    Negative φ sites can nearly cancel the rest, and the mean, their ratio, then lands anywhere (e^27 was
    seen). A step may not widen q(φ) by more than 2 in sd, nor move it by more than 3 sd or 1, nor take it
    further out than 6 sd of its hyperprior: where data say nothing of a difference of weights (copied
    columns), φ and the weights' variance would chase each other without end.
    """
    share = np.full(spec.n_groups, damping)
    on = spec.scale_inferred
    if not on.any():
        return share[spec.group_of], 0
    flat, L = spec.group_of.ravel(), spec.n_groups
    d_tau = np.bincount(flat, (proposed.tau - state.priors.scale.tau).ravel(), L)
    d_nu = np.bincount(flat, (proposed.nu - state.priors.scale.nu).ravel(), L)
    q = state.posterior.scale
    var = np.where(on, q.var, 1.0)
    hyper_mean, hyper_sd = np.asarray(spec.scale_prior.mean), np.sqrt(np.asarray(spec.scale_prior.var))
    halved = np.zeros(L, bool)
    for _ in range(20):
        tau = 1.0 / var + share * d_tau
        mean = (q.mean / var + share * d_nu) / np.where(tau > 0.0, tau, 1.0)
        leap = on & ((tau * var < 0.25) | (np.abs(mean - q.mean) > np.maximum(3.0 * np.sqrt(var), 1.0)))
        out, was = np.abs(mean - hyper_mean), np.abs(q.mean - hyper_mean)
        leap |= on & (out > 6.0 * hyper_sd) & (out > was)
        if not leap.any():
            break
        share[leap] *= 0.5
        halved |= leap
    share[share < 1e-5 * damping] = 0.0
    return share[spec.group_of], int(halved.sum())


def _positive_shares(state: EPState, proposed: FloatArray, share: FloatArray) -> tuple[FloatArray, int]:
    """Shares that keep every prior site precision above a thousandth of the marginal one; how many were cut.

    The diagonal form needs positive prior precisions, the others only a positive definite total. A weight
    whose prior would rather have a negative one is determined by the data, and a thousandth of its precision
    changes nothing there.
    """
    old = state.priors.w.tau
    floor = 1e-3 / state.posterior.w.var
    wrong = old + share * (proposed - old) < floor
    room = np.maximum(old - floor, 0.0) / np.where(wrong, np.maximum(old - proposed, 1e-300), 1.0)
    return np.where(wrong, np.minimum(share, room), share), int(wrong.sum())


def _leaping_units(old: FloatArray, new: FloatArray, tau: FloatArray) -> FloatArray:
    """(K,) booleans: units with negative prior precisions in which the variance of a weight would double.

    A prior that is not log-concave, be it only because its scale is inferred, answers some cavities with a
    negative precision. Each is right for its weight alone; of correlated weights, updated at once, they add
    up to a nearly improper q(w_k) (weights of 1e5 were seen). Without negative sites nothing is shortened: a
    variance may grow because the prior has widened.
    """
    return np.any(new > 2.0 * old, axis=1) & np.any(tau < 0.0, axis=1)


def _all_exact(spec: ModelSpec, state: EPState) -> bool:
    """True where all priors are Gaussians of held scales and the sites are these: nothing there can move."""
    if not all(block.prior.exact for block in spec.blocks) or np.any(spec.scale_inferred[spec.group_of]):
        return False
    tau = np.exp(-state.posterior.scale.mean)[spec.group_of]
    w = state.priors.w
    same = np.isclose(w.tau, tau, rtol=1e-14, atol=0.0) & (w.nu == 0.0)
    return bool(np.all(same | spec.held))


class PriorRun(NamedTuple):
    """A run of inner iterations: the state, the first mismatch seen and the counts."""

    state: EPState
    mismatch: float
    skipped: int
    shortened: int


def update_weight_priors(
    spec: ModelSpec,
    data: TrainingData,
    state: EPState,
    fraction: float,
    damping: float,
    iterations: int,
    tol: float = 1e-6,
    row_map: RowMap = map,
    with_h: bool = True,
) -> PriorRun:
    """Inner iterations of EP on (w, φ) with the likelihood sites held (Algorithm 1, line 1).

    Without ``with_h`` the marginals of h are left stale, for a sweep that works them out as it goes.
    """
    first, skipped, shortened = 0.0, 0, 0
    if _all_exact(spec, state):  # a visit would give the same sites to rounding, for the price of a new q(w)
        return PriorRun(state, first, skipped, shortened)
    moved = False
    for iteration in range(iterations):
        visit = visit_weight_priors(spec, state, fraction)
        if iteration == 0:
            first, skipped = visit.mismatch, visit.skipped
        if visit.mismatch <= tol and iteration > 0:
            break
        share, cut = _scale_shares(spec, state, visit.scale, damping)
        shortened += cut
        if spec.resolved_form(data.n_rows) == "diagonal":
            share, cut = _positive_shares(state, visit.value.tau, share)
            shortened += cut
        for _ in range(12):
            w = _between(state.priors.w, visit.value, share)
            scale = _between(state.priors.scale, visit.scale, share)
            priors = PriorSites(w, scale, state.priors.v)
            q_scale = refresh_scales(spec, priors)
            fresh = with_h and iterations == 1
            q_w = change_weight_prior(spec, data, state.rows, state.posterior.w, w, fresh, row_map)
            if q_scale is not None and q_w is not None:
                leap = _leaping_units(state.posterior.w.var, q_w.var, w.tau)
                if leap.any():
                    share = np.where(leap[:, None], 0.5 * share, share)
                    shortened += int(leap.sum())
                    continue
                state = EPState(state.rows, priors, state.posterior._replace(w=q_w, scale=q_scale))
                moved = True
                break
            share = 0.5 * share
            shortened += 1
        else:
            break
    stale = moved and with_h and iterations > 1
    if stale and spec.resolved_form(data.n_rows) == "full":
        q_w = change_weight_prior(spec, data, state.rows, state.posterior.w, state.priors.w, True, row_map)
        if q_w is not None:
            state = EPState(state.rows, state.priors, state.posterior._replace(w=q_w))
    return PriorRun(state, first, skipped, shortened)


class OutputVisit(NamedTuple):
    """Proposals for the prior sites of v (bias excluded)."""

    site: Natural
    log_z: FloatArray
    partition: FloatArray
    mismatch: float
    skipped: int


class _OutputTilted(NamedTuple):
    """One look at the prior of v: marginals, cavities (moments), tilted moments, sites, which are sound."""

    marginal: Gaussian
    cavity: Gaussian
    log_z: FloatArray
    site: Natural
    ok: FloatArray
    mismatch: float


def _look_at_output(
    spec: ModelSpec, q: OutputPosterior, v: Natural, fraction: float, log_var: FloatArray
) -> _OutputTilted:
    K = spec.n_hidden
    marginal = Gaussian(q.mean[:K], q.cov.diagonal()[:K])
    site = Natural(v.tau[:K], v.nu[:K])
    natural, ok = _cavity(marginal, site, fraction)
    cavity = Gaussian(natural.nu / natural.tau, 1.0 / natural.tau)
    log_z, mean, var = spec.output.prior.conditional_moments(cavity, log_var, fraction)
    ok = ok & np.isfinite(mean) & (var > 0.0)
    tilted = Gaussian(mean, var)
    new = _proposal(tilted, natural, fraction)
    tau, nu = v.tau.copy(), v.nu.copy()  # the bias keeps its own
    tau[:K], nu[:K] = np.where(ok, new.tau, site.tau), np.where(ok, new.nu, site.nu)
    mismatch = float(np.where(ok, _mismatch(tilted, marginal), 0.0).max())
    return _OutputTilted(marginal, cavity, log_z, Natural(tau, nu), ok, mismatch)


def _output_log_var(spec: ModelSpec) -> FloatArray:
    return np.full(spec.n_hidden, np.log(spec.output.scale_var))


def visit_output_priors(spec: ModelSpec, q: OutputPosterior, v: Natural, fraction: float) -> OutputVisit:
    """Tilted moments of every v_k against the truncated prior *(paper, eqs. prv, tvk)*."""
    look = _look_at_output(spec, q, v, fraction, _output_log_var(spec))
    partition = scalar_log_partition(*look.cavity) - scalar_log_partition(*look.marginal)
    return OutputVisit(look.site, look.log_z, partition, look.mismatch, int((~look.ok).sum()))


def update_output_priors(
    spec: ModelSpec,
    q: OutputPosterior,
    v: Natural,
    fraction: float,
    damping: float,
    iterations: int = 60,
    tol: float = 1e-7,
) -> tuple[OutputPosterior, Natural, float, int]:
    """EP on the prior sites of v to convergence (Algorithm 1, line 8).

    Returns q(v), the sites, the mismatch before the first iteration, and the shortened steps.
    """
    shortened = 0
    first = 0.0
    log_var = _output_log_var(spec)
    for iteration in range(iterations):
        visit = _look_at_output(spec, q, v, fraction, log_var)
        first = visit.mismatch if iteration == 0 else first
        share = damping
        for _ in range(12):
            new_v = _between(v, visit.site, share)
            new_q = assemble_output(spec, q.lik_tau, q.lik_nu, new_v)
            if new_q is not None:
                q, v = new_q, new_v
                break
            share *= 0.5
            shortened += 1
        else:
            break
        if visit.mismatch <= tol:
            break
    return q, v, first, shortened
