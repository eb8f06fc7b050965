"""One pure sweep: (spec, data, state, step) → (state, info), lines 1–8 of Algorithm 1."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cavity.ep import noise as noises
from cavity.ep import posterior as post
from cavity.ep.network import visit_rows, visit_rows_in_turn
from cavity.ep.posterior import RowMap
from cavity.ep.prior_sites import update_output_priors, update_weight_priors
from cavity.ep.row_visit import HeldPosterior, RowVisit
from cavity.ep.schedule import Step
from cavity.ep.state import EPState, OutputPosterior, Posterior, RowSites, WeightPosterior
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.numerics.kernel_output import IMPROPER
from cavity.types import FloatArray, Gaussian, IntArray, Natural

CONVERGE_ITERATIONS = 200  # inner iterations of "converge"; the paper saw 10–40
LEAST_BLOCK = 64  # rows in a block where going row by row has failed


class SweepInfo(NamedTuple):
    """Diagnostics of one sweep; the next one never reads them.

    ``mismatch`` is the largest distance of a tilted moment from its marginal: means in marginal
    standard deviations, variances relative. ``log_z`` is the mean of log Ẑ_i over the rows as
    visited, the paper's running estimate of the leave-one-out density.
    """

    mismatch: float
    mismatch_h: float
    mismatch_v: float
    mismatch_noise: float
    mismatch_prior: float
    log_z: float
    log_noise_var: float
    skipped: int
    shortened: int
    nodes: int


def active_mask(n_hidden: int, active_units: int | None) -> FloatArray:
    """Which units a step updates."""
    return np.arange(n_hidden) < (n_hidden if active_units is None else active_units)


def sweep(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step, row_map: RowMap = map
) -> tuple[EPState, SweepInfo]:
    """One pass over prior sites, likelihood sites and output sites; a pure function of its arguments.

    A proposal that would make a covariance improper is halved for its unit and block, one that
    would make a cavity improper for its row; both are counted in ``info.shortened``.
    """
    shortened = 0
    skipped = 0
    mismatch_prior = 0.0
    if step.weight_prior != "hold":
        iterations = CONVERGE_ITERATIONS if step.weight_prior == "converge" else 1
        whole = step.block_size is None or data.n_rows <= max(step.block_size, LEAST_BLOCK)
        run = update_weight_priors(
            spec, data, state, step.fraction_weight, step.damping_weight, iterations, row_map=row_map,
            with_h=whole,
        )  # fmt: skip
        state, mismatch_prior = run.state, run.mismatch
        skipped, shortened = run.skipped, run.shortened
    noise = noises.for_step(spec, data, state, step)
    state = state._replace(posterior=noises.installed(state.posterior, noise))
    if (
        step.block_size == 1
        and spec.compiled(step.fraction)
        and spec.resolved_form(data.n_rows) != "diagonal"
    ):
        rows, w, noise, visit, cut = _in_turn(spec, data, state, step)
        if not _finite(visit):  # rank-one updates of a barely proper unit: refresh after blocks instead
            blocks = replace(step, block_size=min(LEAST_BLOCK, data.n_rows))
            rows, w, noise, visit, cut = _in_blocks(spec, data, state, blocks, row_map)
            cut += 1
    else:
        rows, w, noise, visit, cut = _in_blocks(spec, data, state, step, row_map)
    shortened += cut
    v, v_sites, rows, gap, cut = _refresh_output(spec, data, state, rows, step, row_map)
    mismatch_prior = max(mismatch_prior, gap)
    shortened += cut
    posterior = noises.installed(state.posterior._replace(w=w, v=v), noise)
    new = EPState(rows, state.priors._replace(v=v_sites), posterior)
    h, out, noise_gap = (float(g) for g in visit.mismatch.max(axis=0))
    if spec.output.fixed is not None or step.damping_output == 0.0:
        out = 0.0
    if not step.infer_noise:
        noise_gap = 0.0
    info = SweepInfo(
        mismatch=float(np.max([h, out, noise_gap, mismatch_prior])),  # max() would drop a NaN
        mismatch_h=h,
        mismatch_v=out,
        mismatch_noise=noise_gap,
        mismatch_prior=mismatch_prior,
        log_z=float(np.average(visit.log_z, weights=data.weight)),
        log_noise_var=float(posterior.noise.mean),
        skipped=skipped + int(visit.skipped.sum()),
        shortened=shortened,
        nodes=int(visit.nodes.sum()),
    )
    return new, info


def _finite(visit: RowVisit) -> bool:
    """True where a visit left only finite sites and diagnostics."""
    return all(bool(np.all(np.isfinite(a))) for a in (*visit.sites, visit.log_z, visit.mismatch))


def held(posterior: Posterior, phi: FloatArray | None = None) -> HeldPosterior:
    """What a visit of rows needs of the posterior; ``phi`` holds their `cavity.ep.noise.features`, if any."""
    q = noises.of(posterior)
    noise = posterior.noise if phi is None else noises.of_rows(q, phi)
    return HeldPosterior(posterior.v.mean, posterior.v.cov, noise)


# ── likelihood sites in blocks ──────────────────────────────────────────────────────────────────


def _in_blocks(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step, row_map: RowMap
) -> tuple[RowSites, WeightPosterior, noises.LogNoise, RowVisit, int]:
    """Blocks of rows: propose all sites of a block, then refresh q(w) and q(θ); one block is parallel EP."""
    n = data.n_rows
    size = n if step.block_size is None else step.block_size
    rows, w, noise = state.rows, state.posterior.w, noises.of(state.posterior)
    phi = noises.features(spec, data.X)
    visits: list[RowVisit] = []
    shortened = 0
    for block in post.row_blocks(n, size):
        part = RowSites(
            rows.h[:, block], rows.v_dir[block], rows.v_tau[block], rows.v_nu[block], rows.noise[:, block]
        )
        whole = block.stop - block.start == n
        h = Gaussian(w.h_mean[block], w.h_var[block]) if whole else _block_marginals(spec, data, w, block)
        level = noises.of_rows(noise, phi[block])
        posterior = HeldPosterior(state.posterior.v.mean, state.posterior.v.cov, level)
        visit = _visit_chunks(spec, data, block, part, h, posterior, step, row_map)
        visits.append(visit)
        w, h_sites, cut = _apply_weights(spec, data, rows, w, block, visit.sites.h, step, row_map)
        noise, noise_sites, cut_noise = noises.applied(
            noise, phi[block], data.weight[block], rows.noise[:, block], visit.sites.noise
        )
        shortened += cut + cut_noise
        rows = _write(rows, block, visit.sites._replace(h=h_sites, noise=noise_sites), whole)
    if size < n:  # incremental sums drift by rounding: build them anew once a sweep
        fresh = post.refresh_weights(spec, data, rows, state.priors.w, row_map, state.posterior.w.basis)
        w = fresh if fresh is not None else w
    if noises.level(noise).var > 0.0:
        fresh_noise = noises.refreshed(spec, data, rows.noise)
        noise = fresh_noise if fresh_noise is not None else noise
    return rows, w, noise, RowVisit.concatenate(visits), shortened


def _visit_chunks(
    spec: ModelSpec,
    data: TrainingData,
    block: slice,
    part: RowSites,
    h: Gaussian,
    posterior: HeldPosterior,
    step: Step,
    row_map: RowMap,
) -> RowVisit:
    """Map `visit_rows` over chunks of the block."""
    active = active_mask(spec.n_hidden, step.active_units)
    y, row_var = data.y[block], data.row_var[block]

    def chunk(c: slice) -> RowVisit:
        sites = RowSites(part.h[:, c], part.v_dir[c], part.v_tau[c], part.v_nu[c], part.noise[:, c])
        return visit_rows(
            spec, y[c], row_var[c], Gaussian(h.mean[c], h.var[c]), sites, posterior.of_rows(c), step, active
        )

    return RowVisit.concatenate(list(row_map(chunk, post.row_blocks(len(y)))))


def _block_marginals(spec: ModelSpec, data: TrainingData, w: WeightPosterior, block: slice) -> Gaussian:
    """Marginals of h for the rows of a block under the current q(w)."""
    if spec.resolved_form(data.n_rows) == "diagonal":
        return Gaussian(w.h_mean[block], w.h_var[block])
    basis = w.basis._replace(design=w.basis.design[:, block])
    return Gaussian(*post.marginals(basis, w.z_mean, w.factor, np.arange(spec.n_hidden)))


def _write(rows: RowSites, block: slice, new: RowSites, whole: bool) -> RowSites:
    """Row sites with one block replaced; the originals are never touched."""
    if whole:
        return new
    out = RowSites(*(a.copy() for a in rows))
    out.h[:, block], out.noise[:, block] = new.h, new.noise
    out.v_dir[block], out.v_tau[block], out.v_nu[block] = new.v_dir, new.v_tau, new.v_nu
    return out


def _apply_weights(
    spec: ModelSpec,
    data: TrainingData,
    rows: RowSites,
    w: WeightPosterior,
    block: slice,
    proposed: FloatArray,
    step: Step,
    row_map: RowMap,
) -> tuple[WeightPosterior, FloatArray, int]:
    """Install proposed h sites of a block unit by unit, shortening what would be improper."""
    old = rows.h[:, block]
    if np.array_equal(proposed, old):
        return w, old, 0
    if spec.resolved_form(data.n_rows) == "diagonal":
        return _apply_diagonal(data, rows, w, block, proposed)
    K = spec.n_hidden
    whole = block.stop - block.start == data.n_rows
    basis, weight = w.basis, data.weight[block]
    local = basis if whole else basis._replace(design=basis.design[:, block])
    sites = proposed.copy()
    lik_tau, lik_nu = w.lik_tau.copy(), w.lik_nu.copy()
    z_mean, factor, partition = w.z_mean.copy(), w.factor.copy(), w.log_partition.copy()
    h_mean, h_var = w.h_mean.copy(), w.h_var.copy()
    todo: IntArray = np.arange(K)
    share = np.ones(K)
    shortened = 0
    for attempt in range(14):
        if whole:
            new_tau, new_nu = post.gather(local, weight, sites[0][:, todo], sites[1][:, todo], todo, row_map)
        else:
            d_tau, d_nu = post.gather(
                local, weight, (sites[0] - old[0])[:, todo], (sites[1] - old[1])[:, todo], todo, row_map
            )
            new_tau, new_nu = w.lik_tau[todo] + d_tau, w.lik_nu[todo] + d_nu
        solved, bad = [], []
        for u, k in enumerate(todo):
            s = post.solve_unit(basis.prior_tau[k], basis.prior_nu[k], new_tau[u], new_nu[u])
            if s is None:
                bad.append(k)
                share[k] = 0.5 * share[k] if attempt < 12 else 0.0
                sites[:, :, k] = old[:, :, k] + share[k] * (proposed[:, :, k] - old[:, :, k])
                shortened += 1
            else:
                solved.append(k)
                lik_tau[k], lik_nu[k] = new_tau[u], new_nu[u]
                z_mean[k], factor[k], partition[k] = s
        if solved:
            done: IntArray = np.array(solved)
            mean, var = post.marginals(local, z_mean[done], factor[done], done, row_map)
            h_mean[block, done], h_var[block, done] = mean, var
            # rows whose new cavity would be improper go half way back, twice at most
            wrong = step.fraction * sites[0][:, done] * var >= 1.0 - IMPROPER
            if attempt < 2 and wrong.any():
                for u, k in enumerate(done):
                    if wrong[:, u].any():
                        i = wrong[:, u]
                        sites[:, i, k] = 0.5 * (sites[:, i, k] + old[:, i, k])
                        shortened += int(i.sum())
                        bad.append(k)
        todo = np.array(sorted(bad), dtype=np.int64)
        if not len(todo):
            break
    if basis.rest_partition is not None:
        partition = partition + basis.rest_partition
    mean, var = post.weight_moments(basis, z_mean, factor)
    return (
        WeightPosterior(mean, var, partition, h_mean, h_var, basis, z_mean, factor, lik_tau, lik_nu),
        sites,
        shortened,
    )


def _apply_diagonal(
    data: TrainingData, rows: RowSites, w: WeightPosterior, block: slice, proposed: FloatArray
) -> tuple[WeightPosterior, FloatArray, int]:
    """The fully factorised form refreshes as a whole."""
    prior = w.basis
    share = 1.0
    for cut in range(13):
        h = rows.h.copy()
        h[:, block] += share * (proposed - rows.h[:, block])
        fresh = post.refresh_diagonal(data, rows._replace(h=h), Natural(prior.prior_tau, prior.prior_nu))
        if fresh is not None:
            return fresh, h[:, block], cut
        share *= 0.5
    return w, rows.h[:, block], 13


# ── the sequential scheme ───────────────────────────────────────────────────────────────────────


def _in_turn(
    spec: ModelSpec, data: TrainingData, state: EPState, step: Step
) -> tuple[RowSites, WeightPosterior, noises.LogNoise, RowVisit, int]:
    """Row by row with rank-one updates, then one refresh so that rounding cannot pile up."""
    active = active_mask(spec.n_hidden, step.active_units)
    visit, _, _, noise, shortened = visit_rows_in_turn(spec, data, state, step, active)
    rows = visit.sites
    w = post.refresh_weights(spec, data, rows, state.priors.w, basis=state.posterior.w.basis)
    if w is None:  # only where rounding spoilt a barely proper unit: keep the last good state
        w = state.posterior.w
        h = post.marginals(w.basis, w.z_mean, w.factor, np.arange(spec.n_hidden))
        w = w._replace(h_mean=h[0], h_var=h[1])
        return state.rows, w, noises.of(state.posterior), visit, shortened + 1
    if spec.noise.varies and noises.level(noise).var > 0.0:
        fresh = noises.refreshed(spec, data, rows.noise)
        noise = noise if fresh is None else fresh
    return rows, w, noise, visit, shortened


# ── q(v) ────────────────────────────────────────────────────────────────────────────────────────


def _refresh_output(
    spec: ModelSpec, data: TrainingData, state: EPState, rows: RowSites, step: Step, row_map: RowMap
) -> tuple[OutputPosterior, Natural, RowSites, float, int]:
    """q(v) in parallel from all output sites (line 7), then its prior sites (line 8)."""
    v_sites, old = state.priors.v, state.posterior.v
    if spec.output.fixed is not None:
        return old, v_sites, rows, 0.0, 0
    shortened = 0
    gap = 0.0
    q = old
    if step.damping_output > 0.0:
        fresh = post.assemble_output(spec, *post.gather_output(data.weight, rows, row_map), v_sites)
        if fresh is None:  # give the rows with negative precision their old sites back, then all rows
            for keep in (rows.v_tau >= 0.0, np.zeros(len(rows.v_tau), bool)):
                back = RowSites(
                    rows.h,
                    np.where(keep[:, None], rows.v_dir, state.rows.v_dir),
                    np.where(keep, rows.v_tau, state.rows.v_tau),
                    np.where(keep[:, None], rows.v_nu, state.rows.v_nu),
                    rows.noise,
                )
                shortened += int((~keep).sum())
                fresh = post.assemble_output(spec, *post.gather_output(data.weight, back, row_map), v_sites)
                if fresh is not None:
                    rows = back
                    break
        if fresh is None:
            return old, v_sites, state.rows._replace(h=rows.h, noise=rows.noise), np.inf, shortened
        q = fresh
    if step.output_prior:
        q, v_sites, gap, cut = update_output_priors(
            spec, q, v_sites, step.fraction_output, step.damping_output_prior
        )
        shortened += cut
    return q, v_sites, rows, gap, shortened
