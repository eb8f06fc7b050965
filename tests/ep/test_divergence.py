"""Fits that would run away: noise that leaps, and sweeps that leave the region EP can follow."""

import numpy as np
import pytest

from cavity import EPRegressor
from cavity.ep.noise import LEAP, applied
from cavity.ep.schedule import Stage, Step
from cavity.ep.solve import FALL, MOST_FALLS, _StageRunner
from cavity.ep.starts import with_noise, zero_state
from cavity.ep.sweep import SweepInfo
from cavity.ep.warm_up import relevant_inputs
from cavity.model.data import prepare
from cavity.model.spec import network
from cavity.types import Gaussian


def info(log_z, mismatch=1.0):
    return SweepInfo(mismatch, 0.0, 0.0, 0.0, 0.0, log_z, 0.0, 0, 0, 0)


def test_a_fall_goes_back_to_the_best_state_with_half_the_step():
    runner = _StageRunner(Stage("converge", Step(damping=0.4), 50, 1e-9, retreat=True))
    assert runner.observe(info(1.0), "a", "b") == "b"
    assert runner.observe(info(2.0), "b", "c") == "c"
    assert runner.observe(info(2.0 - 0.9 * FALL), "c", "d") == "d"  # a dip is no fall
    assert runner.step.damping == 0.4
    assert runner.observe(info(2.0 - 1.1 * FALL), "d", "e") == "b"
    assert runner.step.damping == pytest.approx(0.2)
    assert runner.observe(info(np.nan), "b", "f") == "b"


def test_a_stage_that_begins_far_off_goes_on():
    runner = _StageRunner(Stage("fit", Step(damping=0.4), 50, 1e-9))
    runner.observe(info(1.0), "a", "b")
    assert runner.observe(info(-9.0), "b", "c") == "c" and runner.step.damping == 0.4


def test_inputs_among_noise_are_found():
    """They act together: none of the first two says anything alone."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 40))
    y = np.sin(6.0 * X[:, 0]) * np.cos(5.0 * X[:, 1]) + 2.0 * X[:, 2] ** 2 + 0.02 * rng.normal(size=1500)
    found = relevant_inputs(network(40, 20), prepare(X, y).data, 0)
    assert found[:3].all() and found.sum() < 12


def test_falls_are_counted_and_the_stage_ends():
    runner = _StageRunner(Stage("converge", Step(), MOST_FALLS + 5, 1e-9, retreat=True))
    runner.observe(info(0.0), "good", "bad")
    for _ in range(MOST_FALLS):
        assert runner.observe(info(-3.0 * FALL), "bad", "worse") == "good"
    assert runner.observe(info(-3.0 * FALL), "bad", "worse") == "worse"
    for _ in range(3):
        runner.observe(info(-3.0 * FALL), "bad", "worse")
    assert runner.finished and runner.sweeps == MOST_FALLS + 5


def test_rows_of_almost_no_residual_do_not_let_the_noise_leap():
    """Under a wide q(θ) each of 5000 rows asks for half a unit less, and none says where to stop."""
    rng = np.random.default_rng(0)
    data = prepare(rng.normal(size=(5000, 2)), rng.normal(size=5000)).data
    proposed = np.stack([np.full(5000, 1e-4), np.full(5000, -0.5)])
    wide = Gaussian(-9.0, 4.0)
    noise, sites, cut = applied(wide, np.zeros((5000, 0)), data.weight, np.zeros((2, 5000)), proposed)
    assert 0.5 * LEAP < abs(noise.mean - wide.mean) <= LEAP
    assert cut > 0 and np.abs(sites[1]).max() < 0.5


def test_noise_is_as_sure_as_its_residuals():
    rng = np.random.default_rng(0)
    data = prepare(rng.normal(size=(200, 2)), rng.normal(size=200)).data
    spec = network(2, 3)
    state = with_noise(spec, data, zero_state(spec, data), -3.0)
    assert state.posterior.noise.mean == pytest.approx(-3.0, abs=0.05)
    assert state.posterior.noise.var == pytest.approx(2.0 / 200, rel=0.01)
    assert np.ptp(state.rows.noise, axis=1).max() == 0.0


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_steps_without_noise_stay_finite():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, size=(2500, 3))
    y = np.round(4.0 * X[:, 0]) + np.round(3.0 * X[:, 1])
    model = EPRegressor(n_hidden=8, n_starts=1, max_iter=8).fit(X, y)
    density = model.log_density(X[:200], y[:200])
    assert (
        np.isfinite(density).all()
        and np.isfinite([r.mismatch for r in model.posterior_.main.solution.history]).all()
    )
    assert model.loo_ > np.log(1.0 / np.std(y)) - 1.42


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_state_without_a_density_is_not_safe(bad):
    runner = _StageRunner(Stage("converge", Step(damping=0.4), 50, 1e-9, retreat=True))
    assert runner.observe(info(bad), "broken", "next") == "next"  # nothing to go back to
    assert runner.observe(info(-1.0), "good", "better") == "better"
    assert runner.observe(info(bad), "better", "broken again") == "good"
    assert runner.step.damping == pytest.approx(0.2)
