"""Leave-one-out predictions of the rows."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from tests.plots.models import fit, fitted, mixture, table

from cavity import EPRegressor
from cavity.model.likelihoods import GaussianLikelihood, StudentTLikelihood
from cavity.plots.reading import read
from cavity.report.facts import judge_left_out
from cavity.result.loo_rows import LooRows
from cavity.types import Gaussian

BOTH = (GaussianLikelihood(), GaussianLikelihood())


def robust():
    """Student-t noise, and fits of both kinds in one mixture."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = 50.0 + 20.0 * (np.tanh(2.0 * X[:, 0]) + 0.15 * rng.standard_t(2.0, 120))
    return EPRegressor(n_hidden=3, n_starts=2, max_iter=30, tol=0.5, verbose=0).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [fitted, mixture, robust])
def test_the_slope_of_the_distribution_is_the_leave_one_out_density(model):
    reading = read(model())
    rows, y = reading.leave_one_out(), reading.observed
    step = 1e-5 * np.std(y)
    slope = (rows.cdf(y + step) - rows.cdf(y - step)) / (2.0 * step)
    np.testing.assert_allclose(
        np.log(slope), reading.posterior.loo_log_density[reading.engine_rows], atol=1e-6
    )


def test_quantiles_invert_the_distribution_and_variances_are_those_of_the_pieces():
    rows = read(mixture()).leave_one_out()
    for level in (0.025, 0.3, 0.975):
        np.testing.assert_allclose(rows.cdf(rows.quantile(level)), level, atol=1e-10)
    # the mean and variance of the whole prediction, from its distribution on a grid of levels
    f = Gaussian(np.array([[-4.0, 6.0]]), np.array([[1.0, 0.5]]))
    noise = Gaussian(np.array([[0.2, -0.3]]), np.array([[0.1, 0.2]]))
    one = LooRows(f, noise, np.array([[0.0, 0.7]]), np.array([0.4, 0.6]), BOTH)
    levels = (np.arange(2000) + 0.5) / 2000
    values = np.array([one.quantile(level)[0] for level in levels])
    assert values.mean() == pytest.approx(one.predicted[0], rel=1e-3)
    assert values.var() == pytest.approx((one.epistemic_var + one.aleatoric_var)[0], rel=2e-3)
    np.testing.assert_allclose(one.epistemic_var, 0.4 * 1.0 + 0.6 * 0.5 + 0.4 * 0.6 * 10.0**2)


def test_each_component_has_its_own_likelihood():
    one = np.ones((1, 2))
    f, noise = Gaussian(0.0 * one, 1e-12 * one), Gaussian(0.0 * one, 0.0 * one)
    rows = LooRows(f, noise, 0.0 * one, np.array([0.25, 0.75]), (BOTH[0], StudentTLikelihood(df=4.0)))
    y = np.array([-2.5])
    np.testing.assert_allclose(rows.cdf(y), 0.25 * norm.cdf(-2.5) + 0.75 * student.cdf(-2.5, 4.0), rtol=1e-5)
    np.testing.assert_allclose(rows.aleatoric_var, 0.25 * 1.0 + 0.75 * 2.0, rtol=1e-6)
    np.testing.assert_allclose(rows.tail(-y), 2.0 * rows.cdf(y), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_coverage_under_wide_tails_is_right():
    """A scale taken for an sd would call one row in ten too far."""
    model = robust()
    assert isinstance(model.likelihood_, StudentTLikelihood)
    judged = judge_left_out(read(model))
    assert judged.coverage() > 0.9


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_counts_are_judged_as_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = rng.poisson(np.exp(1.0 + 0.8 * X[:, 0])).astype(float)
    model = EPRegressor(n_hidden=2, n_starts=1, max_iter=20, likelihood="poisson", verbose=0).fit(X, y)
    rows = read(model).leave_one_out()
    observed = read(model).observed
    assert np.corrcoef(rows.predicted, observed)[0, 1] > 0.7 and (rows.predicted > 0.0).all()
    p = np.exp(read(model).posterior.loo_log_density[read(model).engine_rows])
    np.testing.assert_allclose(rows.cdf(observed) - rows.cdf(observed - 1.0), p, rtol=1e-3, atol=1e-4)
    assert judge_left_out(read(model)).coverage() > 0.9
    q = rows.quantile(0.9)
    np.testing.assert_array_equal(q, np.round(q))


def test_tails_are_accurate_where_the_distribution_rounds_to_one():
    one = np.ones((1, 1))
    rows = LooRows(Gaussian(0.0 * one, one), Gaussian(0.0 * one, 0.0 * one), 0.0 * one, np.ones(1), BOTH[:1])
    far = np.array([20.0])
    np.testing.assert_allclose(rows.tail(far), 2.0 * norm.sf(20.0 / np.sqrt(2.0)), rtol=1e-10)
    np.testing.assert_allclose(rows.tail(-far), rows.tail(far), rtol=1e-12)


def test_rows_are_the_users_whatever_the_engine_did_with_them():
    X, y = table(30, 2, seed=8)
    X[12], y[12] = X[3], y[3]  # a copy, merged by the engine
    weight = np.ones(30)
    weight[[0, 20]] = 0.0  # left out of the fit
    weight[5] = 2.0
    model = fit(2, X, y, sample_weight=weight, max_iter=10)
    reading = read(model)
    np.testing.assert_array_equal(reading.rows, np.delete(np.arange(30), [0, 20]))
    np.testing.assert_allclose(reading.observed, y[reading.rows])
    np.testing.assert_allclose(reading.inputs, X[reading.rows])
    np.testing.assert_allclose(reading.weights, weight[reading.rows])
    assert np.average(model.loo_i_[reading.rows], weights=reading.weights) == pytest.approx(model.loo_)
