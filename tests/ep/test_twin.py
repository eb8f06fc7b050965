"""The compiled row kernel and its plain twin agree; other activations run on the twin."""

import pickle
from functools import cache

import numpy as np
import pytest
from scipy.special import erf
from tests.invariants.problems import moment_gap, run, wavy_data

from cavity.ep.network import visit_rows
from cavity.ep.network_numpy import visit_rows_numpy
from cavity.ep.schedule import Schedule, Step
from cavity.ep.solve import solve
from cavity.ep.starts import zero_start, zero_state
from cavity.ep.sweep import active_mask, held
from cavity.model.activations import Custom
from cavity.model.data import prepare
from cavity.model.likelihoods import GaussianLikelihood, ProbitLikelihood, StudentTLikelihood
from cavity.model.spec import Noise, network
from cavity.result.loo import leave_one_out
from cavity.types import Gaussian

# Same nodes where a grid has at most 64 of them; longer ones the kernel alone trims, which both rules resolve
# to 2e-11 (measured, h sites being worst).
SAME = 1e-10
N_ROWS, N_UNITS = 30, 3


def spec_of(noise, activation=("erf", "erf", "linear")):
    return network(2, N_UNITS, activation=activation, noise=noise, scale_prior=(0.0, 1.0))


@cache
def stages(inferred, known):
    """States after each stage of the paper's schedule, the untouched start first."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 2))
    y = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.standard_normal(N_ROWS)
    data = prepare(X, y, noise_var=rng.uniform(0.01, 0.1, N_ROWS) if known else None).data
    spec = spec_of(Noise(-3.0, 1.0) if inferred else Noise(float(np.log(0.05)), 0.0))
    state, schedule = zero_start(spec, data, warm_sweeps=5, max_sweeps=15)
    states = {"zero": state}
    for stage in schedule.stages:
        state = solve(spec, data, state, Schedule((stage,))).state
        states[stage.name] = state
    return spec, data, states


def both(spec, data, state, step, active):
    q = state.posterior
    arguments = (
        spec, data.y, data.row_var, Gaussian(q.w.h_mean, q.w.h_var), state.rows, held(q), step, active
    )  # fmt: skip
    return visit_rows(*arguments), visit_rows_numpy(*arguments, True)


def assert_same(compiled, plain, tol=SAME):
    def gap(a, b):
        return float(np.max(np.abs(a - b) / (1.0 + np.abs(b))))

    def output_precision(sites):  # a direction has no sign
        return sites.v_tau[:, None, None] * sites.v_dir[:, :, None] * sites.v_dir[:, None, :]

    assert gap(compiled.sites.h, plain.sites.h) < tol
    assert gap(output_precision(compiled.sites), output_precision(plain.sites)) < tol
    assert gap(compiled.sites.v_nu, plain.sites.v_nu) < tol
    assert gap(compiled.sites.noise, plain.sites.noise) < tol
    assert gap(compiled.log_z, plain.log_z) < tol
    assert gap(compiled.partition, plain.partition) < tol
    assert gap(compiled.mismatch, plain.mismatch) < tol
    assert np.array_equal(compiled.skipped, plain.skipped)


@pytest.mark.parametrize("inferred", [False, True], ids=["noise held", "noise inferred"])
@pytest.mark.parametrize("known", [False, True], ids=["no row_var", "row_var"])
@pytest.mark.parametrize("stage", ["zero", "fit, priors held", "noise alone", "converge"])
@pytest.mark.parametrize("fraction", [1.0, 0.7])
def test_twins_agree(inferred, known, stage, fraction):
    spec, data, states = stages(inferred, known)
    compiled, plain = both(spec, data, states[stage], Step(fraction=fraction), active_mask(N_UNITS, None))
    assert not np.array_equal(compiled.sites.h, states[stage].rows.h)
    assert_same(compiled, plain)


@pytest.mark.parametrize(
    ("likelihood", "fraction"),
    [(GaussianLikelihood(), 0.95), (StudentTLikelihood(accuracy=1e-2), 0.7), (ProbitLikelihood(), 1.0)],
    ids=["gaussian", "student-t", "probit"],
)
def test_twins_agree_where_rows_say_little_of_a_unit(likelihood, fraction):
    """Narrow cavities, for which the kernel has rules of few nodes."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 2))
    f = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    extra = {"noise": Noise(-2.0, 1.0)}
    y = f + 0.3 * rng.standard_normal(3000)
    if likelihood.sign:
        y, extra = np.where(y > 0.0, 1.0, -1.0), {}
    data = prepare(X, y, standardise=not likelihood.sign).data
    spec = network(2, N_UNITS, scale_prior=(0.0, 1.0), likelihood=likelihood, **extra)
    step = Step(fraction=fraction, block_size=1)
    state, schedule = zero_start(spec, data, step, warm_sweeps=5, max_sweeps=10)
    state = solve(spec, data, state, schedule).state
    compiled, plain = both(spec, data, state, step, active_mask(N_UNITS, None))
    assert np.median(compiled.nodes) <= 24 * N_UNITS  # 30 to 40 a unit on the grid of the twin
    assert_same(compiled, plain, 1e-8)


def test_twins_agree_on_inactive_units():
    spec, data, states = stages(True, False)
    state = states["converge"]
    compiled, plain = both(spec, data, state, Step(), active_mask(N_UNITS, 1))
    assert_same(compiled, plain)
    assert np.array_equal(compiled.sites.h[:, :, 1:], state.rows.h[:, :, 1:])


def test_twins_agree_on_improper_cavities():
    """Sites larger than the marginal precision: half of it is removed, and the row is counted."""
    spec, data, states = stages(True, False)
    state = states["converge"]
    rows = type(state.rows)(*(a.copy() for a in state.rows))
    rows.h[0, :3] = 1.5 / state.posterior.w.h_var[:3]
    quad = np.einsum("nj,jk,nk->n", rows.v_dir, state.posterior.v.cov, rows.v_dir)
    rows.v_tau[3:6] = 1.5 / quad[3:6]
    rows.noise[0, 6:9] = 1.5 / state.posterior.noise.var
    compiled, plain = both(spec, data, state._replace(rows=rows), Step(), active_mask(N_UNITS, None))
    assert compiled.skipped[:9].tolist() == [3.0] * 3 + [1.0] * 6
    assert not compiled.skipped[9:].any()
    assert_same(compiled, plain)
    assert np.array_equal(compiled.sites.h[:, :3], rows.h[:, :3])
    assert np.array_equal(compiled.sites.v_tau[3:6], rows.v_tau[3:6])
    assert np.array_equal(compiled.sites.noise[:, 6:9], rows.noise[:, 6:9])


def test_twins_agree_on_negative_output_precisions():
    """An outlier while θ is uncertain: â < 0, and the signed precision keeps it."""
    spec, data, states = stages(True, False)
    y = data.y.copy()
    y[0] += 8.0
    state = states["converge"]
    wide = state._replace(posterior=state.posterior._replace(noise=Gaussian(-3.0, 1.0)))
    compiled, plain = both(
        spec, data._replace(y=y), wide, Step(damping_output=1.0), active_mask(N_UNITS, None)
    )
    assert compiled.sites.v_tau[0] < 0.0
    # the far residual pulls θ by several sds: the kernel's spacing leaves 1e-9 there (test_kernels.py)
    assert_same(compiled, plain, 1e-8)


# ── activations of one's own ────────────────────────────────────────────────────────────────────


def unit_erf(h):
    """Top level, so that the model pickles."""
    return erf(h / np.sqrt(2.0))


# Custom(erf) takes moments of g by 128 Gauss–Hermite nodes instead of the closed form: exact to rounding
# up to a variance of 5, 2e-7 off at 10, where the widest cavities of the start lie. Measured: 1.2e-6.
QUADRATURE = 1e-5


def test_custom_erf_is_erf():
    data = wavy_data(30, 2, seed=4)
    results = []
    for activation in ("erf", Custom(unit_erf)):
        spec = spec_of(Noise(-3.0, 1.0), activation=activation)
        assert spec.compiled(0.95) == (activation == "erf")
        results.append(run(spec, data, zero_state(spec, data), Step(), 12, 0.0))
    assert moment_gap(results[0].state, results[1].state) < QUADRATURE


def test_custom_activation_learns():
    data = wavy_data(40, 2, seed=4)
    spec = spec_of(Noise(float(np.log(0.1)), 0.0), activation=Custom(np.tanh))
    state = zero_state(spec, data)
    solution = run(spec, data, state, Step(infer_noise=False), 15, 0.0)
    before, after = (leave_one_out(spec, data, s).log_density for s in (state, solution.state))
    assert np.all(np.isfinite(after))
    assert after.mean() > before.mean() + 1.0  # nats; the target is mostly one tanh
    again = pickle.loads(pickle.dumps(spec))
    assert again.activations[0](np.array([0.3])) == np.tanh(0.3)


def test_custom_activation_row_by_row():
    """block_size = 1 has no compiled rank-one path for it: blocks of one row do the same."""
    data = wavy_data(12, 2, seed=4)
    step = Step(infer_noise=False, block_size=1)
    results = []
    for activation in ("erf", Custom(unit_erf)):
        spec = spec_of(Noise(float(np.log(0.1)), 0.0), activation=activation)
        results.append(run(spec, data, zero_state(spec, data), step, 3, 0.0))
    assert moment_gap(results[0].state, results[1].state) < QUADRATURE
