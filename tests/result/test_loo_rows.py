"""Leave-one-out predictions of the rows."""

import numpy as np
import pytest
from scipy.stats import norm
from tests.plots.models import fit, fitted, mixture, table

from cavity.plots.reading import read
from cavity.result.loo_rows import LooRows
from cavity.types import Gaussian


@pytest.mark.parametrize("model", [fitted, mixture])
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
    one = LooRows(f, noise, np.array([[0.0, 0.7]]), np.array([0.4, 0.6]))
    levels = (np.arange(2000) + 0.5) / 2000
    values = np.array([one.quantile(level)[0] for level in levels])
    assert values.mean() == pytest.approx(one.predicted[0], rel=1e-3)
    assert values.var() == pytest.approx((one.epistemic_var + one.aleatoric_var)[0], rel=2e-3)
    np.testing.assert_allclose(one.epistemic_var, 0.4 * 1.0 + 0.6 * 0.5 + 0.4 * 0.6 * 10.0**2)


def test_tails_are_accurate_where_the_distribution_rounds_to_one():
    one = np.ones((1, 1))
    rows = LooRows(Gaussian(0.0 * one, one), Gaussian(0.0 * one, 0.0 * one), 0.0 * one, np.ones(1))
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
