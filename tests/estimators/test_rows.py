"""Weights are copies, order is nothing: to the last bit."""

import numpy as np
import pytest
from tests.estimators.problems import rows

from cavity import EPRegressor, prepare


def repeated(n=25):
    X, y = rows(n)
    return X, y, np.random.default_rng(3).integers(1, 4, n), np.linspace(0.0, 0.1, n)


def test_copies_and_weights_and_any_order_give_the_same_data():
    X, y, count, var = repeated()
    weighted = prepare(X, y, count, var, canonical=True)
    index = np.random.default_rng(4).permutation(np.repeat(np.arange(len(y)), count))
    copies = prepare(X[index], y[index], None, var[index], canonical=True)
    for a, b in zip(weighted.data, copies.data, strict=True):
        np.testing.assert_array_equal(a, b)
    assert weighted.scaling.y_mean == copies.scaling.y_mean
    np.testing.assert_array_equal(weighted.scaling.x_scale, copies.scaling.x_scale)


def test_row_maps_lead_there_and_back():
    X, y, count, var = repeated()
    X, y, count, var = (np.concatenate([a, a[:7]]) for a in (X, y, count, var))
    weight = count.astype(float)
    weight[[2, 11]] = 0.0
    prepared = prepare(X, y, weight, var, canonical=True, standardise=False, bias=False)
    assert (np.flatnonzero(prepared.row_of < 0) == [2, 11]).all()
    used = prepared.row_of >= 0
    np.testing.assert_array_equal(prepared.data.X[prepared.row_of[used]], X[used])
    np.testing.assert_array_equal(prepared.data.X, X[prepared.rows])
    np.testing.assert_array_equal(prepared.data.y, y[prepared.rows])
    np.testing.assert_array_equal(
        prepared.data.weight, np.bincount(prepared.row_of[used], weights=weight[used])
    )
    assert prepared.data.n_rows == 24  # row 11 is gone; row 2 has a copy that still counts


def test_order_is_kept_unless_canonical_rows_are_asked_for():
    X, y = rows(20)
    prepared = prepare(X, y, np.arange(20.0), standardise=False, bias=False)
    np.testing.assert_array_equal(prepared.data.X, X[1:])
    np.testing.assert_array_equal(prepared.row_of, np.arange(-1, 19))


def test_negative_zero_is_zero():
    X, y = np.array([[0.0], [-0.0], [1.0]]), np.array([0.0, -0.0, 1.0])
    assert prepare(X, y, canonical=True).data.n_rows == 2


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_fits_are_the_same_to_the_last_bit_and_loo_follows_the_rows():
    X, y, count, var = repeated()
    index = np.random.default_rng(5).permutation(np.repeat(np.arange(len(y)), count))
    weighted = EPRegressor(n_hidden=2, max_iter=10).fit(X, y, count, var)
    copies = EPRegressor(n_hidden=2, max_iter=10).fit(X[index], y[index], noise_var=var[index])
    np.testing.assert_array_equal(weighted.predict(X), copies.predict(X))
    np.testing.assert_array_equal(weighted.loo_i_[index], copies.loo_i_)
    assert weighted.loo_ == copies.loo_
    assert weighted.loo_ == pytest.approx(np.average(weighted.loo_i_, weights=count))


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_rows_of_weight_zero_get_their_predictive_density():
    X, y = rows(30)
    weight = np.ones(30)
    weight[[4, 9]] = 0.0
    with_zeros = EPRegressor(n_hidden=2, max_iter=10).fit(X, y, weight, np.full(30, 0.01))
    kept = weight > 0
    without = EPRegressor(n_hidden=2, max_iter=10).fit(X[kept], y[kept], noise_var=np.full(28, 0.01))
    np.testing.assert_array_equal(with_zeros.loo_i_[kept], without.loo_i_)
    np.testing.assert_array_equal(with_zeros.loo_i_[~kept], without.log_density(X[~kept], y[~kept], 0.01))
    assert with_zeros.loo_ == without.loo_


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_one_number_is_a_weight_for_all_rows():
    X, y = rows(20)
    a = EPRegressor(n_hidden=1, max_iter=5).fit(X, y, sample_weight=2.0)
    b = EPRegressor(n_hidden=1, max_iter=5).fit(X, y, sample_weight=np.full(20, 2.0))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
