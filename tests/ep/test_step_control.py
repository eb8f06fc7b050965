"""Hard data and short steps: covariances stay positive, everything is finite, every refusal is counted."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from sklearn.datasets import load_diabetes
from tests.invariants.problems import (
    LINEAR_PRIOR,
    linear_data,
    linear_spec,
    linear_truth,
    network_fit,
    network_problem,
    network_step,
    run,
    warm_state,
    wavy_data,
)

from cavity.ep.evidence import log_evidence
from cavity.ep.hyper import free_values, maximise_evidence
from cavity.ep.latent import latent_moments
from cavity.ep.map_start import linearised_state, map_network
from cavity.ep.prior_sites import update_weight_priors
from cavity.ep.prune import keep_units, prune, unit_effects
from cavity.ep.schedule import Schedule, Stage, Step, paper_schedule
from cavity.ep.solve import DAMPING_CUT, DAMPING_FLOOR, Status, solve
from cavity.ep.starts import STARTS, incremental_start, state_from_sites, zero_start, zero_state
from cavity.ep.state import initial_prior_sites, zero_row_sites
from cavity.ep.sweep import sweep
from cavity.model.data import prepare
from cavity.model.spec import Noise, network
from cavity.result.loo import leave_one_out
from cavity.types import Gaussian, Natural

# ── hard data ───────────────────────────────────────────────────────────────────────────────────

HARD = ["outlier", "copied columns", "more columns than rows", "tiny noise", "constant target"]


def hard_problem(name, prior):
    rng = np.random.default_rng(0)
    n, d = (20, 60) if name == "more columns than rows" else (50, 3)
    X = rng.standard_normal((n, d))
    y = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.standard_normal(n)
    noise, standardise = Noise(), True
    if name == "outlier":
        y[7] += 50.0 * y.std()
        standardise = False
    elif name == "copied columns":
        X = np.hstack([X, X, X[:, :1]])
    elif name == "tiny noise":
        noise = Noise(-14.0, 0.1)
    elif name == "constant target":
        y[:] = 1.0
    data = prepare(X, y, standardise=standardise).data
    groups = "input" if prior == "gaussian" else "common"
    return network(X.shape[1], 3, prior=prior, groups=groups, noise=noise), data


@cache
def hard_fit(name, prior, block_size, start="zero"):
    spec, data = hard_problem(name, prior)
    state, schedule = STARTS[start](spec, data, Step(block_size=block_size), warm_sweeps=5, max_sweeps=12)
    return spec, data, solve(spec, data, state, schedule)


def assert_sound(spec, solution):
    q = solution.state.posterior
    assert np.all(q.w.var > 0.0) and np.all(q.w.h_var > 0.0)
    assert np.all(np.isfinite(q.w.mean)) and np.all(np.isfinite(q.v.mean))
    assert np.linalg.eigvalsh(q.v.cov).min() > 0.0
    assert q.noise.var > 0.0
    assert np.all(q.scale.var[spec.scale_inferred] > 0.0)
    for record in solution.history:
        assert np.all(np.isfinite([record.loo, record.mismatch, record.log_noise_var])), record
        assert record.skipped >= 0 and record.shortened >= 0


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
@pytest.mark.parametrize("block_size", [None, 16, 1])
def test_hard_data(name, prior, block_size):
    spec, data, solution = hard_fit(name, prior, block_size)
    assert_sound(spec, solution)
    loo = leave_one_out(spec, data, solution.state)
    assert np.all(np.isfinite(loo.log_density)) and np.all(loo.f.var > 0.0)
    assert np.isfinite(log_evidence(spec, data, solution.state, solution.step))


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("prior", ["student-t", "spike-and-slab", "horseshoe", "regularized-horseshoe"])
def test_hard_data_with_priors_that_are_not_log_concave(name, prior):
    spec, data, solution = hard_fit(name, prior, 1)
    assert_sound(spec, solution)
    assert np.isfinite(log_evidence(spec, data, solution.state, solution.step))


def test_negative_prior_sites_do_not_add_up():
    """Correlated inputs under a spike and slab: no prior step doubles a variance while sites are negative."""
    X, y = load_diabetes(return_X_y=True)
    data = prepare(X[:200], y[:200]).data
    spec = network(10, 6, prior="spike-and-slab", noise=Noise(float(np.log(0.02)), 0.0))
    step = Step(block_size=1, damping=0.7, infer_noise=False, weight_prior="hold")
    start = map_network(spec, data, 0.02, np.full(11, 0.5), np.random.default_rng(0))
    state = linearised_state(spec, data, start, 0.02, np.full(11, 0.5))
    cut = 0
    for _ in range(5):
        run_ = update_weight_priors(spec, data, state, 0.9, 0.6, 1)
        old, new = state.posterior.w.var, run_.state.posterior.w.var
        negative = np.any(run_.state.priors.w.tau < 0.0, axis=1)
        assert np.all(new[negative] <= 2.0 * old[negative])
        cut += run_.shortened
        state = run(spec, data, run_.state, step, 1).state
    assert cut > 0


def test_refusals_are_counted():
    """Hard data do make the step control work, and it says so."""
    for name in ("outlier", "copied columns", "tiny noise"):
        history = hard_fit(name, "gaussian", None)[2].history
        assert sum(r.skipped + r.shortened for r in history) > 0, name
    history = network_fit("laplace").history
    assert sum(r.skipped + r.shortened for r in history[50:]) == 0


@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
def test_copied_columns_stay_finite_in_the_sequential_scheme(prior):
    spec, _, solution = hard_fit("copied columns", prior, 1, "incremental")
    assert_sound(spec, solution)


# The hyperprior is N(2 log 0.01, 2.5²); eight of its sds are a weight variance of 5e4.
FAR_OUT = 8.0


@pytest.mark.parametrize("groups", ["common", "input"])
def test_copied_columns_do_not_run_away(groups):
    """Differences of copied columns meet no data: their weights and their scale must not chase each other."""
    spec, data = hard_problem("copied columns", "laplace")
    spec = network(spec.n_inputs - 1, 3, groups=groups, noise=Noise())
    state, schedule = incremental_start(spec, data, Step(block_size=1), warm_sweeps=5)
    warm = Schedule(tuple(s for s in schedule.stages if s.step.weight_prior == "hold"))
    state = solve(spec, data, state, warm).state
    run_ = update_weight_priors(spec, data, state, 0.9, 0.6, 60)
    q, prior = run_.state.posterior, spec.scale_prior
    on = spec.scale_inferred
    assert np.max(np.abs(q.scale.mean - prior.mean)[on] / np.sqrt(prior.var[on])) < FAR_OUT


def test_outlier_widens_the_noise_and_little_else():
    _, _, clean = hard_fit("copied columns", "laplace", 16)
    spec, data, solution = hard_fit("outlier", "laplace", 16)
    assert solution.state.posterior.noise.mean > clean.state.posterior.noise.mean
    loo = leave_one_out(spec, data, solution.state)
    assert np.argmin(loo.log_density) == 7


def test_improper_starts_are_refused():
    data = wavy_data(20, 2)
    spec = network(2, 2)
    priors = initial_prior_sites(spec)
    bad = priors._replace(w=Natural(-priors.w.tau, priors.w.nu))
    with pytest.raises(ValueError, match="improper posterior"):
        state_from_sites(spec, data, zero_row_sites(20, 2), bad)


def test_proposals_that_lose_definiteness_are_shortened():
    """Negative h sites pushed far: q(w) must stay proper, and the sweep count what it cut."""
    spec, data = network_problem("ard")
    state = network_fit("ard").state
    rows = state.rows._replace(h=state.rows.h.copy())
    rows.h[0] *= 0.02  # hardly any likelihood left: the next proposals are large steps
    start = state_from_sites(spec, data, rows, state.priors, state.posterior.noise)
    step = network_step("ard", damping=1.0, damping_output=1.0)
    solution = run(spec, data, start, step, 15, 0.0)
    assert np.all(solution.state.posterior.w.var > 0.0)
    assert all(np.isfinite(r.mismatch) for r in solution.history)


# ── how a fit ends ──────────────────────────────────────────────────────────────────────────────


NEVER = -1.0  # a tolerance that no mismatch reaches


def stalled(sweeps):
    """The linear model is at its fixed point after two sweeps: from there only rounding moves."""
    data = linear_data(15, 2)
    spec = linear_spec(2)
    step = Step(fraction=1.0, damping=0.9, infer_noise=False, output_prior=False)
    start = run(spec, data, zero_state(spec, data), step, 60, 1e-15).state
    return run(spec, data, start, step, sweeps, NEVER, patience=2)


def test_every_status_is_reached():
    spec, data = network_problem("ard")
    step, warm = network_step("ard"), warm_state("ard")
    reached = {
        network_fit("ard").status,
        run(spec, data, warm, step, 3, NEVER).status,
        stalled(20).status,
        run(spec, data, warm, step, 10_000, NEVER, time_limit=0.05).status,
        run(spec, data, warm, step, 3, NEVER, callback=lambda record, state: True).status,
        solve(spec, data, warm, Schedule((Stage("flat", step, 50, NEVER, flat=1.0),))).status,
    }
    assert reached == set(Status)


def test_a_stage_ends_where_the_density_is_flat():
    spec, data = network_problem("ard")
    flat = solve(
        spec, data, warm_state("ard"), Schedule((Stage("flat", network_step("ard"), 200, NEVER, flat=1e-4),))
    )
    density = [r.loo for r in flat.history]
    moved = [max(density[i - 5 : i + 1]) - min(density[i - 5 : i + 1]) for i in range(5, len(density))]
    assert flat.status is Status.SETTLED and not flat.converged
    assert moved[-1] < 1e-4 and min(moved[:-1], default=1.0) >= 1e-4


def test_statuses_are_sentences():
    assert all(status.value.endswith(".") and " " in status.value for status in Status)
    assert network_fit("ard").converged


def test_only_the_last_stage_decides():
    spec, data = network_problem("ard")
    stages = (Stage("one", network_step("ard"), 2, 1e9), Stage("two", network_step("ard"), 2, 0.0))
    solution = solve(spec, data, warm_state("ard"), Schedule(stages))
    assert [(r.stage, r.sweep) for r in solution.history] == [("one", 1), ("two", 1), ("two", 2)]
    assert solution.status is Status.MAX_SWEEPS


def test_stalling_cuts_the_damping_down_to_its_floor():
    solution = stalled(60)
    dampings = np.array([r.damping for r in solution.history])
    assert dampings[0] == 0.9
    ratios = dampings[1:] / dampings[:-1]
    cut = np.isclose(ratios, DAMPING_CUT) | np.isclose(dampings[1:], DAMPING_FLOOR)
    assert np.all(cut | (ratios == 1.0))
    assert dampings[-1] == DAMPING_FLOOR
    assert solution.status is Status.OSCILLATING


def test_damping_of_zero_stays_zero():
    """What is held must not start to move because something else stalls."""
    spec, data = network_problem("ard")
    step = network_step("ard", damping_output=0.0, output_prior=False)
    before = warm_state("ard")
    solution = run(spec, data, before, step, 12, 0.0, patience=1)
    assert solution.step.damping_output == 0.0
    assert np.array_equal(solution.state.posterior.v.mean, before.posterior.v.mean)


def test_time_limit():
    spec, data = network_problem("ard")
    none = run(spec, data, warm_state("ard"), network_step("ard"), 5, 0.0, time_limit=0.0)
    assert none.status is Status.TIME_LIMIT
    assert none.history == () and none.state is warm_state("ard") and none.mismatch == np.inf
    some = run(spec, data, warm_state("ard"), network_step("ard"), 10**6, 0.0, time_limit=0.2)
    assert some.status is Status.TIME_LIMIT and len(some.history) > 0
    whole = run(spec, data, warm_state("ard"), network_step("ard"), len(some.history), 0.0)
    assert np.array_equal(whole.state.posterior.w.mean, some.state.posterior.w.mean)


def test_tracked_evidence_is_the_evidence():
    spec, data = network_problem("laplace")
    step = network_step("laplace")
    solution = run(spec, data, warm_state("laplace"), step, 4, 0.0, track_evidence=True)
    values = [r.log_evidence for r in solution.history]
    assert np.all(np.isfinite(values))
    assert values[-1] == log_evidence(spec, data, solution.state, step)
    plain = run(spec, data, warm_state("laplace"), step, 2, 0.0)
    assert plain.history[0].log_evidence == solution.history[0].log_evidence  # each tenth unless asked for
    assert all(r.log_evidence == plain.history[0].log_evidence for r in plain.history)


def test_callback_sees_every_sweep():
    spec, data = network_problem("ard")
    seen = []
    solution = run(
        spec, data, warm_state("ard"), network_step("ard"), 3, 0.0, callback=lambda r, s: seen.append((r, s))
    )
    assert [r for r, _ in seen] == list(solution.history)
    assert seen[-1][1] is solution.state
    seconds = [r.seconds for r in solution.history]
    assert seconds == sorted(seconds) and seconds[0] > 0.0


def test_weights_count_in_the_running_score():
    """history.loo is the mean over copies, not over distinct rows."""
    data = linear_data(15, 2, weights=True)
    spec = linear_spec(2)
    step = Step(damping=1.0, infer_noise=False, output_prior=False, fraction=1.0)
    solution = run(spec, data, zero_state(spec, data), step)
    truth = linear_truth(data).loo
    assert solution.history[-1].loo == pytest.approx(np.average(truth, weights=data.weight), abs=1e-8)


# ── stages ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", list(STARTS))
def test_starts_run_through_their_stages(start):
    data = wavy_data(40, 2)
    spec = network(2, 3)
    state, schedule = STARTS[start](spec, data, max_sweeps=3, warm_sweeps=3)
    solution = solve(spec, data, state, schedule)
    assert list(dict.fromkeys(r.stage for r in solution.history)) == [s.name for s in schedule.stages]
    held = [r.log_noise_var for r in solution.history if r.stage == "fit, priors held"]
    assert held == [pytest.approx(np.log(0.09))] * len(held)


def test_incremental_start_wakes_units_one_by_one():
    data = wavy_data(30, 2)
    spec = network(2, 3)
    state, schedule = incremental_start(spec, data, sweeps_per_unit=2)
    for units in (1, 2, 3):
        state = solve(spec, data, state, Schedule((schedule.stages[units - 1],))).state
        awake = np.abs(state.rows.h).sum(axis=(0, 1)) > 0.0
        assert awake.tolist() == [k < units for k in range(3)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fraction": 0.0}, "fraction"),
        ({"fraction_weight": 1.5}, "fraction_weight"),
        ({"damping": -0.1}, "damping"),
        ({"block_size": 0}, "block_size"),
        ({"weight_prior": "always"}, "weight_prior"),
    ],
)
def test_steps_are_checked(changes, words):
    with pytest.raises(ValueError, match=words):
        Step(**changes)


def test_schedules_are_checked():
    with pytest.raises(ValueError, match="scheme"):
        paper_schedule(scheme=3)
    with pytest.raises(ValueError, match="n_hidden"):
        paper_schedule(incremental=5)
    assert paper_schedule(scheme=1).stages[-1].step.weight_prior == "hold"


# ── pruning ─────────────────────────────────────────────────────────────────────────────────────


@cache
def spare_units():
    """Four units where two do; the zero start leaves the others without effect."""
    data = wavy_data(60, 2, seed=3)
    spec = network(2, 4, prior="gaussian", groups="input", scale_prior=(0.0, 1.0), noise=Noise(-3.0, 1.0))
    state, schedule = zero_start(spec, data, Step(damping_output=0.3), max_sweeps=120)
    return spec, data, solve(spec, data, state, schedule)


def test_pruning_keeps_predictions_and_goes_on():
    spec, data, solution = spare_units()
    effects = unit_effects(spec, data, solution.state)
    small, state, keep = prune(spec, data, solution.state)
    assert 0 < len(keep) < spec.n_hidden and small.n_hidden == len(keep)
    assert np.all(effects[keep] >= 0.01)
    assert np.array_equal(small.activation_scale, spec.activation_scale[keep])
    f, g = (
        latent_moments(spec, solution.state.posterior, data.X),
        latent_moments(small, state.posterior, data.X),
    )
    # each dropped unit adds less than a hundredth of the target's sd in root mean square
    assert np.sqrt(np.mean((f.mean - g.mean) ** 2)) < 0.01 * (spec.n_hidden - len(keep))
    before = leave_one_out(spec, data, solution.state).mean
    assert leave_one_out(small, data, state).mean > before - 0.05
    after = run(small, data, state, solution.step, 30, 1e-4)
    assert leave_one_out(small, data, after.state).mean > before - 0.05
    assert after.history[-1].mismatch < 0.1


def test_pruning_keeps_at_least_one_unit():
    spec, data, solution = spare_units()
    effects = unit_effects(spec, data, solution.state)
    small, _, keep = prune(spec, data, solution.state, threshold=1e9)
    assert small.n_hidden == 1 and keep.tolist() == [int(np.argmax(effects))]
    same, state, keep = prune(spec, data, solution.state, threshold=0.0)
    assert same is spec and state is solution.state and len(keep) == spec.n_hidden


def test_keeping_all_units_changes_nothing():
    spec, data, solution = spare_units()
    same, state = keep_units(spec, data, solution.state, np.arange(4))
    np.testing.assert_allclose(state.posterior.w.mean, solution.state.posterior.w.mean, rtol=1e-9, atol=1e-12)
    assert same.n_groups == spec.n_groups


# ── type-II maximum likelihood ──────────────────────────────────────────────────────────────────

# L-BFGS stops when log Z gains less than 1e-9 of itself: at a curvature of order n/2 that is 1e-4 in θ.
OPTIMUM = 1e-3


def linear_solution(data, log_noise):
    spec = linear_spec(data.X.shape[1], log_noise=log_noise)
    step = Step(fraction=0.8, damping=0.9, infer_noise=False, output_prior=False)
    return run(spec, data, zero_state(spec, data), step, 300, 1e-9)


@pytest.mark.parametrize("start", [-1.0, -4.0])
def test_type_two_finds_the_noise_of_the_linear_model(start):
    data = linear_data(40, 3, seed=4)
    solution = linear_solution(data, start)
    climbed = maximise_evidence(data, solution)
    best = minimize_scalar(
        lambda t: -linear_truth(data, noise=np.exp(t)).log_evidence, bounds=(-6.0, 2.0), method="bounded",
        options={"xatol": 1e-8},
    )  # fmt: skip
    before = log_evidence(solution.spec, data, solution.state, solution.step)
    assert climbed.log_evidence > before + 1.0
    assert climbed.log_evidence == pytest.approx(-best.fun, abs=1e-6)
    assert climbed.solution.spec.noise.mean == pytest.approx(best.x, abs=OPTIMUM)
    assert climbed.solution.state.posterior.noise.mean == climbed.solution.spec.noise.mean
    values = [value for _, value in climbed.path]
    assert max(values) == pytest.approx(climbed.log_evidence, abs=1e-6)


def test_type_two_finds_noise_and_prior_together():
    data = linear_data(40, 3, seed=4)
    names = ("log_noise_var", "log_prior_var")
    climbed = maximise_evidence(data, linear_solution(data, -1.0), names)
    best = minimize(
        lambda t: -linear_truth(data, np.exp(t[0]), np.exp(t[1])).log_evidence,
        [-1.0, np.log(LINEAR_PRIOR)],
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12},
    )
    np.testing.assert_allclose(free_values(climbed.solution.spec, names), best.x, atol=10.0 * OPTIMUM)
    assert climbed.log_evidence == pytest.approx(-best.fun, abs=1e-6)


def test_type_two_map_is_pulled_by_its_prior():
    data = linear_data(40, 3, seed=4)
    prior = Gaussian(np.array([-1.0]), np.array([0.01]))
    climbed = maximise_evidence(data, linear_solution(data, -1.0), prior=prior)
    best = minimize_scalar(
        lambda t: -linear_truth(data, noise=np.exp(t)).log_evidence + 0.5 * (t + 1.0) ** 2 / 0.01,
        bounds=(-6.0, 2.0), method="bounded", options={"xatol": 1e-8},
    )  # fmt: skip
    assert climbed.solution.spec.noise.mean == pytest.approx(best.x, abs=OPTIMUM)


def test_type_two_refuses_what_ep_infers():
    data = linear_data(20, 2)
    solution = linear_solution(data, -2.0)
    for name, words in [("log_output_var", "held"), ("colour", "unknown")]:
        with pytest.raises(ValueError, match=words):
            maximise_evidence(data, solution, (name,))
    inferred = replace(solution.spec, noise=Noise(-2.0, 1.0))
    with pytest.raises(ValueError, match="inferred by EP"):
        free_values(inferred, ("log_noise_var",))
    scales = linear_spec(2, scale_prior=(-1.0, 1.0))
    with pytest.raises(ValueError, match="inferred by EP"):
        free_values(scales, ("log_prior_var",))


@pytest.mark.parametrize(("block_size", "spoilt"), [(1, False), (1, True), (30, False), (None, False)])
def test_marginals_of_h_are_those_of_the_weights_after_a_sweep(block_size, spoilt, monkeypatch):
    """Whoever works them out last; ``spoilt``: rounding leaves a sweep with the weights it began with."""
    spec = network(3, 2, prior="laplace", noise=Noise(-3.0, 1.0), scale_prior=(0.0, 1.0))
    data = wavy_data(100, 3)
    state, schedule = zero_start(spec, data, Step(damping_output=0.3, block_size=block_size), max_sweeps=3)
    state = solve(spec, data, state, schedule).state
    if spoilt:
        monkeypatch.setattr("cavity.ep.sweep.post.refresh_weights", lambda *a, **k: None)
    after, _ = sweep(spec, data, state, schedule.stages[-1].step)
    w = after.posterior.w
    assert not np.allclose(w.mean, state.posterior.w.mean, rtol=1e-6)  # the prior sites at least have moved
    var = np.stack([np.sum((data.X @ factor) ** 2, axis=1) for factor in w.factor], axis=1)
    np.testing.assert_allclose(w.h_mean, data.X @ w.mean.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(w.h_var, var, rtol=1e-9)
