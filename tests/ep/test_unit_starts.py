"""Every start with every activation learns; where a unit is even in its input, so does the zero start."""

from functools import cache

import numpy as np
import pytest
from tests.invariants.problems import wavy_data

from cavity.ep.ensemble import mean_loo
from cavity.ep.ladder import fit_ensemble
from cavity.ep.options import FitOptions
from cavity.ep.starts import zero_state
from cavity.model.activations import ACTIVATIONS
from cavity.model.data import prepare
from cavity.model.spec import Noise, network

BENT = wavy_data(60, 2)
CONSTANT = -0.5 * np.log(2.0 * np.pi) - 0.5  # log density of a standardised target under N(0, 1)


@cache
def fit(activation, start, n_hidden=2):
    spec = network(
        2, n_hidden, activation=activation, noise=Noise(-3.0, 1.0), scale_prior=(0.0, 1.0), groups="input"
    )
    return spec, fit_ensemble(spec, BENT, FitOptions(start=start, max_iter=20, tol=0.05)).solutions[0]


@pytest.mark.parametrize("start", ["zero", "incremental", "map"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, "linear+erf"])
def test_every_start_learns(activation, start):
    """A tanh and a slope, noise sd 0.2 of 1: half a nat better than no inputs is the linear part alone."""
    _, solution = fit(activation, start)
    assert mean_loo(BENT, solution) > CONSTANT + 0.5
    assert np.isfinite(solution.mismatch)


@pytest.mark.parametrize("bias", [True, False])
def test_even_units_leave_the_zero_start(bias):
    """Weights of zero mean under an even g and a symmetric posterior would stay at zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    data = prepare(X, np.cos(1.5 * X[:, 0]) + 0.1 * rng.normal(size=60), bias=bias).data
    spec = network(1, 1, activation="cosine", noise=Noise(-4.0, 1.0), bias=bias, scale_prior=(0.0, 1.0))
    assert np.any(zero_state(spec, data).posterior.w.mean != 0.0)
    solution = fit_ensemble(spec, data, FitOptions(start="zero", max_iter=30)).solutions[0]
    assert mean_loo(data, solution) > CONSTANT + 1.0
    assert abs(solution.state.posterior.w.mean[0, 0]) > 0.5


def test_signs_let_rectifiers_bend_both_ways():
    """A concave target: units that can only be added would have to leave it linear."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, size=(60, 1))
    data = prepare(X, -np.abs(X[:, 0]) + 0.1 * rng.normal(size=60)).data
    spec = network(1, 4, activation="relu", noise=Noise(-4.0, 1.0), scale_prior=(0.0, 1.0))
    assert spec.activation_scale.tolist() == [0.5, -0.5, 0.5, -0.5]
    solution = fit_ensemble(spec, data, FitOptions(start="map", max_iter=20)).solutions[0]
    assert mean_loo(data, solution) > CONSTANT + 1.0
