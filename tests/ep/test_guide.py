"""What a held function says of itself: its value and slope, and the features made of them."""

from dataclasses import replace

import numpy as np
import pytest

from cavity.ep.guide import FLAT, guide_features, guided, value_and_slope
from cavity.ep.ladder import fit_ensemble
from cavity.ep.noise import features, prior
from cavity.ep.options import FitOptions
from cavity.model.data import prepare
from cavity.model.spec import Noise, network

NOISE = Noise(slope_var=1.0, guide_var=0.25)


@pytest.fixture(scope="module")
def found():
    """A network with units of two kinds, fitted for a few sweeps, and its guide."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    data = prepare(X, np.tanh(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60)).data
    spec = network(2, 3, activation=["linear", "erf", "tanh"])
    solution = fit_ensemble(spec, data, FitOptions(n_starts=1, max_iter=5)).solutions[0]
    return data, solution, guided(NOISE, solution.spec, data, solution.state).guide


def test_slope_is_the_derivative_of_the_value(found):
    data, _, guide = found
    X, step = data.X[:7], 1e-6
    _, square = value_and_slope(guide, X)
    gradient = np.empty((len(X), 2))
    for j in range(2):
        move = step * np.eye(3)[j]
        gradient[:, j] = (value_and_slope(guide, X + move)[0] - value_and_slope(guide, X - move)[0]) / (
            2 * step
        )
    np.testing.assert_allclose(square, np.sum(gradient**2, axis=1), rtol=1e-6)


def test_value_is_the_network_at_its_means(found):
    data, solution, guide = found
    q, spec = solution.state.posterior, solution.spec
    h = data.X @ q.w.mean.T
    by_hand = sum(q.v.mean[k] * spec.activation_scale[k] * a(h[:, k]) for k, a in enumerate(spec.activations))
    np.testing.assert_allclose(value_and_slope(guide, data.X)[0], by_hand + q.v.mean[-1], rtol=1e-10)


def test_features_are_standardised_over_the_rows(found):
    data, solution, guide = found
    t, curved, g = guide_features(guide, data.X).T
    for column in (t, g):
        assert np.mean(column) == pytest.approx(0.0, abs=1e-12) and np.std(column) == pytest.approx(1.0)
    np.testing.assert_allclose(curved, t**2 - 1.0)
    _, square = value_and_slope(guide, data.X)
    assert guide.floor == pytest.approx(FLAT * square.mean())


def test_features_and_prior_of_the_noise_have_room_for_them(found):
    data, solution, _ = found
    spec = solution.spec
    wide = replace(spec, noise=guided(NOISE, spec, data, solution.state))
    phi, p = features(wide, data.X), prior(wide)
    assert phi.shape == (60, 6) and p.mean.shape == p.var.shape == (6,)
    np.testing.assert_array_equal(p.var[1:], [1.0, 1.0, 0.25, 0.25, 0.25])
    assert np.abs(phi).max() <= 4.0


def test_columns_may_be_renumbered(found):
    data, _, guide = found
    wider = np.column_stack([data.X[:, 0], np.full(60, 9.0), data.X[:, 1:]])
    np.testing.assert_array_equal(
        guide_features(guide.among(np.array([0, 2, 3])), wider), guide_features(guide, data.X)
    )


def test_a_flat_function_says_nothing():
    data = prepare(np.arange(10.0)[:, None], np.arange(10.0)).data
    spec = network(1, 1, activation="linear")
    solution = fit_ensemble(spec, data, FitOptions(n_starts=1, max_iter=3)).solutions[0]
    noise = guided(NOISE, solution.spec, data, solution.state)
    assert np.all(guide_features(noise.guide, data.X)[:, 2] == 0.0)  # one slope everywhere
    assert guided(Noise(slope_var=1.0), solution.spec, data, solution.state).guide is None
