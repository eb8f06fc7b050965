"""Units begun anew: which, what they forget, and that a network is never exchanged for a worse one."""

import numpy as np
import pytest
from benchmarks.methods import ep_paper
from benchmarks.methods.units_anew import begun_anew, improved, usefulness

from cavity.ep.ensemble import mean_loo
from cavity.ep.latent import output_moments
from cavity.ep.schedule import Step, paper_schedule
from cavity.ep.solve import solve
from cavity.ep.starts import zero_state
from cavity.model.data import prepare
from cavity.model.spec import Noise, network
from cavity.types import Gaussian


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(120, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=120)
    data = prepare(X, y).data
    spec = network(2, 4, prior="ard", groups="input", noise=Noise(-4.0, 4.0), scale_prior=(0.0, 4.0))
    schedule = paper_schedule(
        Step(block_size=1, damping=0.8), warm_sweeps=5, max_sweeps=10, incremental=5, n_hidden=4, joint=2
    )
    found = solve(spec, data, zero_state(spec, data, output_var=0.05**2), schedule)
    return spec, data, found, schedule.stages[-1]


def test_usefulness_is_what_the_others_cannot_make_up_for(fitted):
    spec, _, found, _ = fitted
    q = found.state.posterior
    g = output_moments(spec, Gaussian(q.w.h_mean, q.w.h_var)).mean
    for k, value in enumerate(usefulness(spec, found.state)):
        rest = np.delete(g, k, axis=1)
        lost = q.v.mean[k] * (g[:, k] - rest @ np.linalg.lstsq(rest, g[:, k])[0])
        assert value == pytest.approx(np.mean(lost**2), rel=1e-3)


def test_units_begun_anew_forget_and_the_others_do_not(fitted):
    spec, data, found, _ = fitted
    before = found.state
    after = begun_anew(spec, data, before, np.array([1, 3]), np.random.default_rng(1))
    assert not after.rows.h[:, :, [1, 3]].any() and not after.rows.v_nu[:, [1, 3]].any()
    for old, new in ((before.priors.w, after.priors.w), (before.priors.scale, after.priors.scale)):
        np.testing.assert_array_equal(old.tau[[0, 2]], new.tau[[0, 2]])
    np.testing.assert_array_equal(before.rows.h[:, :, [0, 2]], after.rows.h[:, :, [0, 2]])
    np.testing.assert_allclose(after.posterior.w.mean[[0, 2]], before.posterior.w.mean[[0, 2]], rtol=1e-9)
    assert np.all(after.posterior.v.mean[[1, 3]] > 0.3)
    assert before.rows.h[:, :, [1, 3]].any()  # what was given is as it was


def test_a_network_is_kept_unless_another_is_better(fitted, monkeypatch):
    spec, data, found, joint = fitted
    density = mean_loo(data, found)
    assert improved(spec, data, found, joint, 0).state is found.state
    better = improved(spec, data, found, joint, 3)
    assert mean_loo(data, better) >= density
    assert len(better.history) > len(found.history)
    monkeypatch.setattr("benchmarks.methods.units_anew.begun_anew", lambda *a: None)
    assert improved(spec, data, found, joint, 3).state is found.state


def test_the_same_rows_give_the_same_network():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = np.tanh(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60)
    settings = dict(
        scale_prior=(0.0, 4.0), noise=(-4.0, 4.0), prior="ard", groups="input", n_hidden=3, start="anew",
        units_anew=3, warm_sweeps=3, max_sweeps=5, output_sd=0.05,
    )  # fmt: skip
    first, second = (ep_paper.fit(X, y, **settings) for _ in range(2))
    np.testing.assert_array_equal(first.mean(X), second.mean(X))
    assert np.mean((first.mean(X) - y) ** 2) < 0.5 * np.var(y)
