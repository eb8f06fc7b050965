"""What must not matter does not: units of measurement, row order, names of units and columns, signs."""

import numpy as np
import pytest
from tests.invariants.problems import moment_gap, network_fit, network_problem, network_step, run, warm_state

from cavity.ep.evidence import log_evidence
from cavity.ep.latent import latent_moments
from cavity.ep.schedule import Step
from cavity.ep.starts import state_from_sites, zero_start, zero_state
from cavity.ep.state import initial_prior_sites, zero_row_sites
from cavity.model.data import prepare
from cavity.model.spec import Noise, Output, network
from cavity.result.loo import leave_one_out
from cavity.result.predict import log_density, target_moments
from cavity.types import Natural

# The transformed run does the same arithmetic on numbers that differ by rounding (sums in another order, a
# division by another scale). Forty damped sweeps from the zero start amplify 1e-15 by less than 1e4 here.
ROUNDING = 1e-9
SWEEPS = 40
STEP = Step(damping_output=0.3, damping_weight=0.5, block_size=None)
FREE = Noise(-3.0, 1.0)


def raw_problem(n=50, d=3, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, y


def spec_of(d=3, K=2, **options):
    defaults = {"prior": "gaussian", "groups": "input", "scale_prior": (0.0, 1.0), "noise": FREE}
    return network(d, K, **{**defaults, **options})


def fit(spec, data, state=None, step=STEP, sweeps=SWEEPS):
    state = state if state is not None else zero_state(spec, data)
    return run(spec, data, state, step, sweeps, 0.0)


def close(a, b, scale=1.0):
    np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING * scale)


# ── units of measurement ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("x_scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("y_scale", [1e-6, 1e6])
def test_rescaling(x_scale, y_scale):
    X, y = raw_problem()
    new = np.random.default_rng(1).standard_normal((7, 3))
    y_new = np.linspace(-1.0, 1.0, 7)
    columns = np.array([x_scale, 1.0, 1.0 / x_scale])
    results = []
    for factor, unit in ((np.ones(3), 1.0), (columns, y_scale)):
        p = prepare(X * factor, y * unit + 3.0 * unit, noise_var=np.full(len(y), 0.01 * unit**2))
        spec = spec_of()
        solution = fit(spec, p.data)
        q, back = solution.state.posterior, p.scaling
        f = latent_moments(spec, q, back.inputs(new * factor))
        target = target_moments(f, q.noise, 0.01 / back.y_scale**2 * unit**2)
        density = log_density(back.target(y_new * unit), f, q.noise) - np.log(back.y_scale)
        loo = leave_one_out(spec, p.data, solution.state).log_density - np.log(back.y_scale)
        mean = back.y_mean + back.y_scale * target.mean
        sd = back.y_scale * np.sqrt(target.var)
        results.append((mean / unit, sd / unit, density + np.log(unit), loo + np.log(unit), q.w.mean))
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_shifting_inputs():
    """An offset of 1e4 sds costs four digits of the standardised inputs and no more."""
    X, y = raw_problem()
    spec = spec_of()
    a = fit(spec, prepare(X, y).data)
    b = fit(spec, prepare(X + 1e4, y - 1e4).data)
    assert moment_gap(a.state, b.state) < 1e4 * ROUNDING


# ── orders ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["full", "dual", "diagonal"])
def test_row_order(form):
    X, y = raw_problem()
    order = np.random.default_rng(2).permutation(len(y))
    spec = spec_of(form=form)
    a, b = (fit(spec, prepare(X[i], y[i]).data) for i in (np.arange(len(y)), order))
    p, q = a.state, b.state
    close(p.posterior.w.mean, q.posterior.w.mean)
    close(p.posterior.v.cov, q.posterior.v.cov)
    close(p.rows.h[:, order], q.rows.h, np.abs(p.rows.h).max())
    close(p.posterior.noise, q.posterior.noise)
    assert log_evidence(spec, prepare(X, y).data, p, STEP) == pytest.approx(
        log_evidence(spec, prepare(X[order], y[order]).data, q, STEP), abs=ROUNDING * len(y)
    )


@pytest.mark.parametrize("block_size", [1, 16])
def test_row_order_of_sequential_sweeps(block_size):
    """Visiting rows in another order takes another path to the same fixed point."""
    name = "laplace"
    spec, data = network_problem(name)
    order = np.random.default_rng(3).permutation(data.n_rows)
    shuffled = type(data)(*(np.ascontiguousarray(a[order]) for a in data))
    start = warm_state(name)
    rows = start.rows
    moved = rows._replace(
        h=np.ascontiguousarray(rows.h[:, order]),
        v_dir=rows.v_dir[order],
        v_tau=rows.v_tau[order],
        v_nu=rows.v_nu[order],
        noise=np.ascontiguousarray(rows.noise[:, order]),
    )
    state = state_from_sites(spec, shuffled, moved, start.priors, start.posterior.noise)
    solution = run(spec, shuffled, state, network_step(name, block_size=block_size), 2000, 1e-9)
    assert solution.converged
    # both fits stop 2e-8 from the fixed point (test_fixed_point.py)
    assert moment_gap(network_fit(name).state, solution.state) < 1e-6


def test_unit_order():
    X, y = raw_problem()
    data = prepare(X, y).data
    spec = spec_of(K=3, activation=["erf", "erf", "linear"])
    order = np.array([2, 0, 1])
    permuted = spec.keep_units(order)
    priors = initial_prior_sites(spec)
    outputs = np.append(order, 3)
    swapped = priors._replace(
        w=Natural(priors.w.tau[order], priors.w.nu[order]),
        v=Natural(priors.v.tau[outputs], priors.v.nu[outputs]),
    )
    rows = zero_row_sites(data.n_rows, 3)
    a = fit(spec, data, state_from_sites(spec, data, rows, priors)).state.posterior
    b = fit(permuted, data, state_from_sites(permuted, data, rows, swapped)).state.posterior
    assert np.ptp(a.v.mean[:3]) > 0.1, "units that do not differ would hide a wrong order"
    close(a.w.mean[order], b.w.mean)
    close(a.w.var[order], b.w.var)
    close(a.v.mean[outputs], b.v.mean)
    close(a.v.cov[np.ix_(outputs, outputs)], b.v.cov)
    close(a.scale, b.scale)


@pytest.mark.parametrize("groups", ["input", "common"])
@pytest.mark.parametrize("form", ["full", "dual"])
def test_column_order(groups, form):
    X, y = raw_problem()
    order = np.array([2, 0, 1])
    spec = spec_of(groups=groups, form=form)
    a = fit(spec, prepare(X, y).data).state.posterior
    b = fit(spec, prepare(X[:, order], y).data).state.posterior
    with_bias = np.append(order, 3)
    close(a.w.mean[:, with_bias], b.w.mean)
    close(a.w.var[:, with_bias], b.w.var)
    close(a.v.mean, b.v.mean)
    if groups == "input":
        close(np.asarray(a.scale)[:, with_bias], np.asarray(b.scale))


# ── signs ───────────────────────────────────────────────────────────────────────────────────────


def test_input_sign():
    X, y = raw_problem()
    sign = np.array([1.0, -1.0, 1.0])
    spec = spec_of()
    a, b = (fit(spec, prepare(X * s, y).data).state.posterior for s in (np.ones(3), sign))
    close(a.w.mean * np.append(sign, 1.0), b.w.mean)
    close(a.w.var, b.w.var)
    close(a.scale, b.scale)


@pytest.mark.parametrize("block_size", [None, 16, 1])
def test_target_sign(block_size):
    """y → -y turns every w_k and v_0 round and leaves v_k >= 0: the activations are odd."""
    X, y = raw_problem()
    spec = spec_of(K=3, activation=["erf", "erf", "linear"])
    results = []
    for s in (1.0, -1.0):
        data = prepare(X, s * y).data
        state, schedule = zero_start(spec, data, Step(block_size=block_size), warm_sweeps=4, max_sweeps=10)
        results.append(run_schedule(spec, data, state, schedule))
    a, b = results
    flip = np.append(np.ones(3), -1.0)
    close(a.w.mean, -b.w.mean)
    close(a.v.mean, flip * b.v.mean)
    close(a.v.cov, np.outer(flip, flip) * b.v.cov)
    close(a.noise, b.noise)


def run_schedule(spec, data, state, schedule):
    for stage in schedule.stages:
        state = run(spec, data, state, stage.step, stage.max_sweeps, 0.0).state
    return state.posterior


@pytest.mark.parametrize("activation", ["erf", "linear"])
def test_unit_sign_where_the_output_weight_is_held(activation):
    """(w_k, v_k) → (-w_k, -v_k) is the same function; only a held v_k may be negative."""
    X, y = raw_problem()
    data = prepare(X, y).data
    posteriors = []
    for sign in (1.0, -1.0):
        output = Output(fixed=np.array([1.2, sign * 0.7, 0.1]))
        spec = spec_of(activation=activation, output=output)
        posteriors.append(fit(spec, data).state.posterior)
    a, b = posteriors
    assert np.abs(a.w.mean[1]).max() > 0.1
    close(a.w.mean, np.array([[1.0], [-1.0]]) * b.w.mean)
    close(a.w.var, b.w.var)
    close(a.noise, b.noise)
