"""What convergence means: tilted moments are marginals, however the fixed point was reached."""

import numpy as np
import pytest
from tests.invariants.problems import (
    arrays,
    moment_gap,
    network_fit,
    network_problem,
    network_step,
    run,
    warm_state,
    wavy_data,
)

from cavity.ep.network_numpy import visit_rows_numpy
from cavity.ep.prior_sites import visit_output_priors, visit_weight_priors
from cavity.ep.schedule import Step
from cavity.ep.solve import Status, solve
from cavity.ep.starts import zero_start, zero_state
from cavity.ep.sweep import active_mask, held, sweep
from cavity.model.activations import Erf
from cavity.model.spec import Noise, network
from cavity.types import Gaussian

NAMES = ["ard", "laplace"]
# Fits stop at a mismatch of 1e-9 while contracting by about 5 % a sweep: 2e-8 from the fixed point.
AGREES = 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_converged(name):
    solution = network_fit(name)
    assert solution.status is Status.CONVERGED
    assert solution.mismatch <= 1e-9
    assert len(solution.history) > 50, (
        "the start was already at the fixed point: the tests below show nothing"
    )
    assert moment_gap(solution.state, warm_state(name)) > 1e-2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block_size", [None, 16, 1])
def test_sweep_sees_no_mismatch(name, block_size):
    spec, data = network_problem(name)
    _, info = sweep(spec, data, network_fit(name).state, network_step(name, block_size=block_size))
    assert info.mismatch < AGREES
    assert (info.skipped, info.shortened) == (0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_plain_twin_sees_no_mismatch(name):
    spec, data = network_problem(name)
    solution = network_fit(name)
    state, q = solution.state, solution.state.posterior
    still = network_step(name, damping=0.0, damping_output=0.0, damping_noise=0.0)
    h = Gaussian(q.w.h_mean, q.w.h_var)
    active = active_mask(spec.n_hidden, None)
    visit = visit_rows_numpy(spec, data.y, data.row_var, h, state.rows, held(q), still, active, True)
    assert visit.mismatch.max() < AGREES
    assert visit_weight_priors(spec, state, still.fraction_weight).mismatch < AGREES
    assert visit_output_priors(spec, q.v, state.priors.v, still.fraction_output).mismatch < AGREES


@pytest.mark.parametrize("name", NAMES)
def test_rows_from_first_principles(name):
    """Cavities by matrix inverses and tilted moments on dense grids, sharing no code with the engine."""
    spec, data = network_problem(name)
    solution = network_fit(name)
    rows, q = solution.state.rows, solution.state.posterior
    eta, g = solution.step.fraction, Erf()
    unit = np.linspace(-10.0, 10.0, 1001)
    for i in range(0, data.n_rows, 7):
        precision = np.linalg.inv(q.v.cov) - eta * rows.v_tau[i] * np.outer(rows.v_dir[i], rows.v_dir[i])
        v_cov = np.linalg.inv(precision)
        v_mean = v_cov @ (np.linalg.solve(q.v.cov, q.v.mean) - eta * rows.v_nu[i])
        h_var = 1.0 / (1.0 / q.w.h_var[i] - eta * rows.h[0, i])
        h_mean = h_var * (q.w.h_mean[i] / q.w.h_var[i] - eta * rows.h[1, i])
        out = spec.activation_scale * g(h_mean + np.sqrt(h_var) * unit[:, None])
        bell = np.exp(-0.5 * unit**2) / np.sum(np.exp(-0.5 * unit**2))
        g_mean = np.append(bell @ out, 1.0)
        g_var = np.append(bell @ (out - bell @ out) ** 2, 0.0)
        f_mean = v_mean @ g_mean
        f_var = g_mean @ v_cov @ g_mean + g_var @ (np.diag(v_cov) + v_mean**2)

        if q.noise.var > 0.0:
            t_var = 1.0 / (1.0 / q.noise.var - eta * rows.noise[0, i])
            t_mean = t_var * (q.noise.mean / q.noise.var - eta * rows.noise[1, i])
            theta = t_mean + np.sqrt(t_var) * unit
        else:
            theta, t_var, t_mean = np.array([q.noise.mean]), 1.0, q.noise.mean
        total = f_var + np.exp(theta) / eta
        log_p = -0.5 * ((theta - t_mean) ** 2 / t_var + (data.y[i] - f_mean) ** 2 / total + np.log(total))
        log_p += 0.5 * (1.0 - eta) * theta
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        theta_hat = p @ theta
        if q.noise.var > 0.0:
            assert abs(theta_hat - q.noise.mean) < AGREES * np.sqrt(q.noise.var)
            assert p @ (theta - theta_hat) ** 2 == pytest.approx(q.noise.var, rel=AGREES)

        # output weights: the whole covariance, not only along m_g
        slope = (data.y[i] - f_mean) / total
        push = v_cov @ g_mean
        tilted = v_mean + push * (p @ slope)
        curvature = p @ (-1.0 / total) + p @ (slope - p @ slope) ** 2
        np.testing.assert_allclose(tilted, q.v.mean, atol=AGREES)
        np.testing.assert_allclose(v_cov + np.outer(push, push) * curvature, q.v.cov, atol=AGREES)

        noise = np.exp(theta_hat) / eta
        for k in range(spec.n_hidden):
            h = h_mean[k] + np.sqrt(h_var[k]) * unit
            d = spec.activation_scale[k] * g(h) - g_mean[k]
            others = f_var - g_var[k] * (v_cov[k, k] + v_mean[k] ** 2)
            var = others + 2.0 * d * (v_cov @ g_mean)[k] + d**2 * v_cov[k, k] + noise
            log_p = -0.5 * (unit**2 + (data.y[i] - f_mean - v_mean[k] * d) ** 2 / var + np.log(var))
            w = np.exp(log_p - log_p.max())
            w /= w.sum()
            assert abs(w @ h - q.w.h_mean[i, k]) < AGREES * np.sqrt(q.w.h_var[i, k])
            assert w @ (h - w @ h) ** 2 == pytest.approx(q.w.h_var[i, k], rel=AGREES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block_size", [1, 16])
def test_blocks_reach_the_same_fixed_point(name, block_size):
    solution = network_fit(name, block_size)
    assert solution.converged
    assert moment_gap(network_fit(name).state, solution.state) < AGREES


def test_blocks_of_64_rows_reach_the_fixed_point_of_all_rows():
    """80 rows: one whole block and a remainder, against the parallel and the sequential scheme."""
    spec, _ = network_problem("ard")
    data = wavy_data(80, 3)
    state, schedule = zero_start(spec, data, Step(damping_output=0.3, damping_weight=0.5), max_sweeps=15)
    start = solve(spec, data, state, schedule).state
    fits = [run(spec, data, start, network_step("ard", block_size=b), 3000, 3e-9) for b in (None, 64, 1)]
    assert all(fit.converged for fit in fits)
    assert moment_gap(fits[0].state, start) > 1e-3
    for fit in fits[1:]:
        assert moment_gap(fits[0].state, fit.state) < AGREES


@pytest.mark.parametrize(
    ("name", "changes"),
    [("ard", {"damping": 0.2, "damping_output": 0.4}), ("laplace", {"weight_prior": "converge"})],
)
def test_dampings_do_not_move_the_fixed_point(name, changes):
    spec, data = network_problem(name)
    solution = run(spec, data, warm_state(name), network_step(name, **changes), 2000, 1e-9)
    assert solution.converged
    assert moment_gap(network_fit(name).state, solution.state) < AGREES


@pytest.mark.parametrize("block_size", [None, 3000])
def test_threads_change_nothing(block_size):
    """More rows than one row block holds, so that two threads really share the work."""
    data = wavy_data(5000, 3, seed=1)
    spec = network(3, 2, noise=Noise(-3.0, 1.0))
    step = Step(block_size=block_size)
    one = run(spec, data, zero_state(spec, data), step, 3)
    two = run(spec, data, zero_state(spec, data), step, 3, n_threads=2)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(one.state), arrays(two.state), strict=True))
    strip = [(r.mismatch, r.loo, r.log_noise_var) for r in one.history]
    assert strip == [(r.mismatch, r.loo, r.log_noise_var) for r in two.history]


@pytest.mark.parametrize("block_size", [None, 16, 1])
def test_interrupt_and_resume(block_size):
    spec, data = network_problem("laplace")
    step = network_step("laplace", block_size=block_size)
    whole = run(spec, data, warm_state("laplace"), step, 12, 0.0)
    first = run(
        spec, data, warm_state("laplace"), step, 12, 0.0, callback=lambda record, state: record.sweep == 5
    )
    assert first.status is Status.INTERRUPTED
    assert len(first.history) == 5
    second = run(spec, data, first.state, step, 7, 0.0)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(whole.state), arrays(second.state), strict=True))


def test_keyboard_interrupt_keeps_the_last_sweep():
    spec, data = network_problem("ard")
    step = network_step("ard")
    seen = []

    def stop(record, state):
        seen.append(state)
        if record.sweep == 3:
            raise KeyboardInterrupt

    solution = run(spec, data, warm_state("ard"), step, 12, 0.0, callback=stop)
    assert solution.status is Status.INTERRUPTED
    assert solution.state is seen[-1]
    assert len(solution.history) == len(seen) == 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block_size", [None, 16, 1])
@pytest.mark.parametrize("weight_prior", ["hold", "sweep", "converge"])
def test_sweep_is_pure(name, block_size, weight_prior):
    spec, data = network_problem(name)
    state = warm_state(name)
    step = network_step(name, block_size=block_size, weight_prior=weight_prior)
    before = [a.copy() for a in [*arrays(state), *data]]
    new, _ = sweep(spec, data, state, step)
    again, _ = sweep(spec, data, state, step)
    assert all(np.array_equal(a, b) for a, b in zip(before, [*arrays(state), *data], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(arrays(new), arrays(again), strict=True))
    assert moment_gap(new, state) > 0.0
