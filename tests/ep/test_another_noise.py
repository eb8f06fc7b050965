"""Fits that go on under another likelihood, and stacks that hold both."""

import numpy as np
import pytest

from cavity import EPRegressor, load
from cavity.ep.another_noise import under
from cavity.ep.ensemble import joined, mean_loo, stack
from cavity.ep.ladder import fit_ensemble
from cavity.ep.options import FitOptions
from cavity.model.data import prepare
from cavity.model.likelihoods import GaussianLikelihood, StudentTLikelihood
from cavity.model.spec import network

QUICK = {"n_hidden": 3, "n_starts": 2, "max_iter": 35, "verbose": 0}
pytestmark = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


def rows(df=None, n=150, seed=0):
    """A step and a line with Student-t noise, or Gaussian."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    noise = rng.normal(size=n) if df is None else rng.standard_t(df, n)
    return X, np.tanh(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.15 * noise


@pytest.fixture(scope="module")
def heavy():
    return EPRegressor(**QUICK).fit(*rows(2.0))


def test_wider_tails_are_found_and_predict_better(heavy):
    X, y = rows(2.0, 3000, seed=9)
    gaussian = EPRegressor(**QUICK, likelihood="gaussian").fit(*rows(2.0))
    assert isinstance(heavy.likelihood_, StudentTLikelihood)
    assert isinstance(gaussian.likelihood_, GaussianLikelihood)
    assert heavy.loo_ > gaussian.loo_ + 0.05
    assert heavy.log_density(X, y).mean() > gaussian.log_density(X, y).mean() + 0.05


def test_gaussian_noise_stays_gaussian():
    auto, given = (EPRegressor(**QUICK, likelihood=name).fit(*rows()) for name in ("auto", "gaussian"))
    assert {type(c.spec.likelihood) for c in auto.posterior_.components} == {GaussianLikelihood}
    np.testing.assert_array_equal(auto.predict(rows()[0]), given.predict(rows()[0]))


@pytest.mark.parametrize("params", [{"n_starts": 1}, {"noise": 0.2}, {"fraction": 0.9}], ids=str)
def test_where_the_choice_is_not_open_it_is_gaussian(params):
    X, y = rows(2.0, 60)
    model = EPRegressor(**{**QUICK, "max_iter": 5, **params}).fit(X, y)
    assert {type(c.spec.likelihood) for c in model.posterior_.components} == {GaussianLikelihood}


def test_quantiles_density_and_draws_of_both_kinds_agree(heavy):
    data = heavy.posterior_.main.prepared
    gaussian = EPRegressor(**QUICK, likelihood="gaussian").fit(*rows(2.0)).posterior_.main.solution
    both = [gaussian, heavy.posterior_.main.solution]
    ensemble = joined([stack(data.data, [s]) for s in both], data.data)
    assert len(ensemble.solutions) == len(ensemble.weights) <= 2
    x = rows()[0][:1]
    q = heavy.predict_quantiles(x, [0.05, 0.9])[0]
    grid = np.linspace(*q, 2001)
    density = heavy.predict_density(np.repeat(x, len(grid), axis=0), grid)
    assert np.trapezoid(density, grid) == pytest.approx(0.85, abs=1e-3)


def test_a_solution_goes_on_from_where_it_stands():
    X, y = rows(2.0)
    data = prepare(X, y).data
    start = fit_ensemble(network(2, 3), data, FitOptions(max_iter=20)).solutions[0]
    robust = under(StudentTLikelihood(), data, start, 20, 0.05)
    assert robust.spec.likelihood == StudentTLikelihood() and start.spec.likelihood == GaussianLikelihood()
    assert robust.history[: len(start.history)] == start.history
    assert robust.step.fraction == StudentTLikelihood.default_fraction
    assert mean_loo(data, robust) > mean_loo(data, start)
    assert robust.state.posterior.noise.mean < start.state.posterior.noise.mean  # a scale, not an sd


def test_stack_weighs_each_likelihood_as_one():
    X, y = rows(2.0)
    data = prepare(X, y).data
    start = fit_ensemble(network(2, 3), data, FitOptions(max_iter=20)).solutions[0]
    robust = under(StudentTLikelihood(), data, start, 10, 0.05)
    mixed = stack(data, [start, robust])
    apart = joined([stack(data, [start]), stack(data, [robust])], data)
    np.testing.assert_array_equal(mixed.weights, apart.weights)


def test_saved_resumed_and_repeated(heavy, tmp_path):
    X, y = rows(2.0)
    heavy.save(tmp_path / "m.cavity")
    again = load(tmp_path / "m.cavity")
    np.testing.assert_array_equal(again.predict(X), heavy.predict(X))
    assert again.likelihood_ == heavy.likelihood_
    np.testing.assert_array_equal(EPRegressor(**QUICK).fit(X, y).predict(X), heavy.predict(X))
    warm = EPRegressor(**QUICK, warm_start=True).fit(X, y)
    warm.fit(X, y)
    assert isinstance(warm.likelihood_, StudentTLikelihood)
    assert warm.loo_ > heavy.loo_ - 0.02


def test_a_time_limit_leaves_a_usable_fit():
    X, y = rows(2.0)
    model = EPRegressor(**QUICK, time_limit=1e-3).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
