"""A log noise variance that depends on the inputs: its posterior, and what its special case comes to."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.ep.test_twin import assert_same

from cavity.ep import noise as noises
from cavity.ep.evidence import log_evidence
from cavity.ep.network import visit_rows, visit_rows_in_turn
from cavity.ep.network_numpy import visit_rows_numpy
from cavity.ep.posterior import refresh_noise
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import solve
from cavity.ep.starts import FAR_NOISE, state_from_sites, with_noise, with_noise_of_sites, zero_state
from cavity.ep.state import LogVariance, RowSites
from cavity.ep.sweep import active_mask, held
from cavity.model.data import TrainingData, prepare
from cavity.model.likelihoods import StudentTLikelihood
from cavity.model.spec import Noise, Output, network
from cavity.result.loo import leave_one_out
from cavity.types import Gaussian

PLAIN = Noise(-2.0, 2.0)
VARYING = replace(PLAIN, slope_var=0.7)


@cache
def rows(n=40):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    sd = 0.2 * np.exp(0.6 * X[:, 1])
    return prepare(X, np.tanh(X[:, 0]) + sd * rng.normal(size=n)).data


def spec_of(noise=VARYING, **more):
    return network(2, 3, activation=("erf", "erf", "linear"), noise=noise, scale_prior=(0.0, 1.0), **more)


def swept(spec, data, step, sweeps, tol=0.0):
    state = with_noise(spec, data, zero_state(spec, data), -1.5)
    warm = replace(step, weight_prior="hold", output_prior=False)
    stages = (Stage("warm", warm, 10, 1e-2), Stage("on", step, sweeps, tol))
    return solve(spec, data, state, Schedule(stages))


def straight():
    """One weight, and noise of log variance θ + bx."""
    rng = np.random.default_rng(3)
    x = np.linspace(-1.8, 1.8, 60)
    y = 0.8 * x + np.exp(0.5 * (-1.5 + 1.1 * x)) * rng.normal(size=len(x))
    spec = network(
        1, 1, activation="linear", prior="gaussian", prior_var=1.0, bias=False,
        output=Output(fixed=np.array([1.0, 0.0])), noise=Noise(-2.0, 2.0, 1.0),
    )  # fmt: skip
    return spec, TrainingData(x[:, None], y, np.ones(len(x)), np.zeros(len(x)))


# ── against a grid ──────────────────────────────────────────────────────────────────────────────


def test_posterior_and_evidence_against_a_dense_grid():
    """y = wx + noise of log variance θ + bx: three unknowns, all of them on a grid.

    EP keeps q(w)q(u) apart and Gaussian; on these rows its means are within 0.1 sd and sds within 6 %.
    """
    spec, data = straight()
    x, y = data.X[:, 0], data.y
    step = Step(fraction=1.0, weight_prior="sweep")
    solution = swept(spec, data, step, 300, 1e-8)
    assert solution.converged
    q = solution.state.posterior

    w, theta, b = (np.linspace(*span) for span in ((0.4, 1.2, 81), (-3.2, 0.2, 91), (-0.3, 2.5, 91)))
    s = theta[:, None, None] + b[:, None] * x  # (θ, b, n)
    square = (y - w[:, None] * x) ** 2  # (w, n)
    log_p = -0.5 * (
        np.einsum("wn,tbn->wtb", square, np.exp(-s)) + s.sum(axis=-1) + len(x) * np.log(2 * np.pi)
    )
    for axis, (grid, mean, var) in enumerate(((w, 0.0, 1.0), (theta, -2.0, 2.0), (b, 0.0, 1.0))):
        shape = [1, 1, 1]
        shape[axis] = -1
        log_p = log_p - 0.5 * ((grid - mean) ** 2 / var + np.log(2 * np.pi * var)).reshape(shape)
    top = log_p.max()
    p = np.exp(log_p - top)
    evidence = top + np.log(p.sum() * np.prod([grid[1] - grid[0] for grid in (w, theta, b)]))
    p /= p.sum()
    found = [
        (float(q.w.mean[0, 0]), float(q.w.var[0, 0])),
        *zip(q.log_var.mean, np.diag(q.log_var.cov), strict=True),
    ]
    for axis, (grid, (mean, var)) in enumerate(zip((w, theta, b), found, strict=True)):
        marginal = p.sum(axis=tuple(a for a in range(3) if a != axis))
        exact = marginal @ grid
        sd = np.sqrt(marginal @ (grid - exact) ** 2)
        assert abs(mean - exact) < 0.1 * sd
        assert np.sqrt(var) == pytest.approx(sd, rel=0.06)
    covariance = np.einsum("tb,t,b", p.sum(axis=0), theta - found[1][0], b - found[2][0])
    sds = np.sqrt(found[1][1] * found[2][1])
    assert q.log_var.cov[0, 1] / sds == pytest.approx(covariance / sds, abs=0.05)
    assert log_evidence(spec, data, solution.state, step) == pytest.approx(evidence, abs=0.05)


# ── one level is the special case ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block_size", [1, 8, None])
def test_slopes_of_no_width_leave_one_level(block_size):
    data, step = rows(), Step(block_size=block_size)
    one, many = (swept(spec_of(noise), data, step, 12) for noise in (PLAIN, replace(PLAIN, slope_var=1e-14)))
    a, b = one.state.posterior, many.state.posterior
    assert a.log_var is None and b.log_var is not None
    assert b.noise.mean == pytest.approx(a.noise.mean, rel=1e-7)
    assert b.noise.var == pytest.approx(a.noise.var, rel=1e-7)
    assert np.abs(b.log_var.mean[1:]).max() < 1e-10
    assert np.allclose(b.w.mean, a.w.mean, rtol=1e-5, atol=1e-7)
    evidence = [log_evidence(s.spec, data, s.state, step) for s in (one, many)]
    assert evidence[1] == pytest.approx(evidence[0], rel=1e-7)


# ── kernel and twin ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("likelihood", [None, StudentTLikelihood()], ids=["gaussian", "student-t"])
def test_twins_agree_on_rows_of_their_own_noise(likelihood):
    data, spec = rows(), spec_of(likelihood=likelihood)
    step = Step(fraction=0.8 if likelihood is None else 1.0)
    state = swept(spec, data, step, 5).state
    q, phi = state.posterior, noises.features(spec, data.X)
    seen = held(q, phi)
    assert np.ptp(seen.noise.mean) > 0.5
    given = (spec, data.y, data.row_var, Gaussian(q.w.h_mean, q.w.h_var), state.rows, seen, step)
    active = active_mask(3, None)
    compiled, plain = visit_rows(*given, active), visit_rows_numpy(*given, active, True)
    assert_same(compiled, plain, 1e-10 if likelihood is None else 1e-8)


def test_rank_one_updates_end_where_the_sites_say():
    data, spec = rows(), spec_of()
    step = Step(block_size=1)
    state = swept(spec, data, step, 3).state
    visit, _, _, noise, _ = visit_rows_in_turn(spec, data, state, step, active_mask(3, None))
    again = noises.refreshed(spec, data, visit.sites.noise)
    assert not np.allclose(state.posterior.log_var.mean, again.mean, rtol=1e-6)
    assert np.allclose(noise.mean, again.mean, rtol=1e-10, atol=1e-12)
    assert np.allclose(noise.cov, again.cov, rtol=1e-10, atol=1e-12)


def test_fixed_point_does_not_depend_on_how_rows_are_visited():
    spec, data = straight()
    step = Step(fraction=0.9)
    found = [swept(spec, data, replace(step, block_size=size), 400, 1e-9) for size in (1, 16, None)]
    assert all(solution.converged for solution in found)
    first, *others = [solution.state.posterior.log_var for solution in found]
    for other in others:
        assert np.allclose(other.mean, first.mean, atol=1e-7)
        assert np.allclose(other.cov, first.cov, atol=1e-7)


# ── leave-one-out ───────────────────────────────────────────────────────────────────────────────


def test_leave_one_out_takes_the_row_from_the_noise_too():
    data, spec = rows(), spec_of()
    state = swept(spec, data, Step(), 20).state
    loo = leave_one_out(spec, data, state)
    for i in (0, 7, 31):
        rest = state.rows.noise.copy()
        rest[:, i] = 0.0
        q = noises.refreshed(spec, data, rest)
        here = noises.of_rows(q, noises.features(spec, data.X[[i]]))
        assert loo.noise.mean[i] == pytest.approx(here.mean[0], rel=1e-8)
        assert loo.noise.var[i] == pytest.approx(here.var[0], rel=1e-8)


# ── steps ───────────────────────────────────────────────────────────────────────────────────────


def test_a_leap_is_cut_for_the_farthest_row():
    phi = np.column_stack([np.ones(500), np.linspace(-4.0, 4.0, 500)])
    wide = LogVariance(np.array([-9.0, 0.0]), np.diag([4.0, 1.0]))
    proposed = np.stack([np.full(500, 1e-4), 0.5 * np.sign(phi[:, 1])])
    q, sites, cut = noises.applied(wide, phi, np.ones(500), np.zeros((2, 500)), proposed)
    moved = np.abs(phi @ (q.mean - wide.mean)).max()
    assert 0.4 * noises.LEAP < moved <= noises.LEAP
    assert cut > 0 and np.allclose(sites, proposed / 2.0**cut)


def test_improper_changes_are_cut():
    phi = np.column_stack([np.ones(20), np.linspace(-1.0, 1.0, 20)])
    q = LogVariance(np.zeros(2), np.eye(2))
    new, _, cut = noises.applied(
        q, phi, np.ones(20), np.zeros((2, 20)), np.stack([-np.ones(20), np.zeros(20)])
    )
    assert cut > 0 and np.all(np.linalg.eigvalsh(new.cov) > 0.0)


def test_inputs_far_out_count_as_four_sds():
    spec = spec_of()
    phi = noises.features(spec, np.array([[50.0, -1.0, 1.0], [0.0, -9.0, 1.0]]))
    assert np.array_equal(phi, [[1.0, 4.0, -1.0], [1.0, 0.0, -4.0]])
    assert noises.features(spec_of(PLAIN), np.ones((5, 3))).shape == (5, 0)


def test_start_has_no_slopes_yet():
    data, spec = rows(), spec_of()
    q = with_noise(spec, data, zero_state(spec, data), -3.0).posterior
    assert q.noise == q.log_var.level
    assert q.noise.mean == pytest.approx(-3.0, abs=0.1)
    assert np.abs(q.log_var.mean[1:]).max() < 0.1


def test_held_noise_is_one_level_and_freed_noise_is_not():
    data, spec = rows(), spec_of()
    state = zero_state(spec, data)
    assert state.posterior.log_var is None
    still = noises.for_step(spec, data, state, Step(infer_noise=False))
    assert isinstance(still, Gaussian) and still.var == 0.0
    free = noises.for_step(spec, data, state, Step())
    assert np.allclose(free.mean, noises.prior(spec).mean)
    assert np.allclose(free.cov, np.diag(noises.prior(spec).var))


def test_sites_of_fewer_inputs_make_a_noise_of_all():
    data, spec = rows(), spec_of()
    state = swept(spec, data, Step(), 5).state
    other = replace(spec, noise=PLAIN)
    narrow = refresh_noise(other, data.weight, state.rows.noise)
    wide = state_from_sites(spec, data, RowSites(*state.rows), state.priors, narrow)
    assert np.allclose(wide.posterior.log_var.mean, state.posterior.log_var.mean)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("noise", "more", "said"),
    [
        (Noise(-2.0, 0.0, 1.0), {}, "cannot be held"),
        (Noise(-2.0, 1.0, -1.0), {}, "not negative"),
        (Noise(-2.0, 1.0, np.nan), {}, "finite"),
        (VARYING, {"form": "diagonal"}, "very many inputs"),
    ],
)
def test_refused_before_the_first_sweep(noise, more, said):
    with pytest.raises(ValueError, match=said):
        network(2, 2, noise=noise, **more)


def test_slopes_that_sites_make_out_of_nothing_are_not_believed():
    """Where negative precisions leave little of the prior, small locations make enormous slopes."""
    data = rows()
    spec = spec_of()
    state = with_noise(spec, data, zero_state(spec, data), -2.0)
    plain = with_noise_of_sites(spec, data, state)
    x = data.X[:, 0]
    # precisions that say nothing of the level and take away half of what the prior says of the slope
    bow = x**2 - np.mean(x**2)
    tau = -0.5 / noises.prior(spec).var[1] * bow / np.sum(bow**2)
    sites = np.stack([tau, 0.5 * x])
    q = noises.refreshed(spec, data, sites)
    phi = noises.features(spec, data.X)
    assert q is not None and noises.farthest(q, phi, -2.0) > FAR_NOISE
    found = with_noise_of_sites(spec, data, state._replace(rows=state.rows._replace(noise=sites)))
    assert noises.farthest(noises.of(found.posterior), phi, -2.0) < 0.5
    assert noises.farthest(noises.of(plain.posterior), phi, -2.0) < 0.5
