"""Rows set aside before a robust fit begins, and what is learnt from them."""

import numpy as np
import pytest

from cavity import EPRegressor
from cavity.ep.doubt import MOST, doubt
from cavity.model.data import prepare, weighted_median
from cavity.model.likelihoods import GaussianLikelihood, OutlierLikelihood, StudentTLikelihood
from cavity.model.likelihoods.outliers import MOST_RATIO
from cavity.model.spec import network

FAR_ROWS = np.arange(20)


def table(gross=True, n=200, seed=0):
    """Sums of bent functions with noise of sd 0.2, the first 20 rows far off."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    if gross:
        y[FAR_ROWS] += rng.choice([-1.0, 1.0], len(FAR_ROWS)) * rng.uniform(5.0, 40.0, len(FAR_ROWS))
    return X, y


@pytest.mark.parametrize("likelihood", [StudentTLikelihood(), OutlierLikelihood()])
def test_gross_outliers_are_doubted_and_hardly_pull(likelihood):
    prepared = prepare(*table())
    found = doubt(network(4, 20, likelihood=likelihood), prepared.data, 0)
    assert found.row_var[FAR_ROWS].all()
    assert np.count_nonzero(found.row_var) <= 30
    # with these variances the far rows pull less than ordinary noise of one sd would
    noise = np.median(np.abs(np.delete(found.residual, FAR_ROWS)))
    assert (np.abs(found.residual / found.row_var.clip(1e-9))[FAR_ROWS] < 1.5 / noise).all()


def test_clean_rows_are_not_doubted():
    found = doubt(network(4, 20, likelihood=StudentTLikelihood()), prepare(*table(gross=False)).data, 0)
    assert not found.row_var.any()


def test_outliers_that_hardly_widen_the_target_stay_in():
    X, y = table(gross=False)
    y[FAR_ROWS[:5]] += 2.0
    found = doubt(network(4, 20, likelihood=StudentTLikelihood()), prepare(X, y).data, 0)
    assert (found.residual[FAR_ROWS[:5]] > 0.5).all() and not found.row_var.any()


def test_where_half_of_the_rows_would_be_outliers_none_is():
    rng = np.random.default_rng(1)
    X, y = table(gross=False)
    y[: len(y) // 2] += rng.choice([-1.0, 1.0], len(y) // 2) * rng.uniform(20.0, 40.0, len(y) // 2)
    spec, data = network(4, 20, likelihood=StudentTLikelihood()), prepare(X, y).data
    found = doubt(spec, data, 0)
    assert np.mean(found.row_var > 0.0) <= MOST


def test_target_in_units_of_the_trusted_rows():
    X, y = table()
    prepared = prepare(X, y, noise_var=np.full(len(y), 0.01))
    trusted = np.arange(len(y)) >= len(FAR_ROWS)
    after = prepared.with_target_of(trusted, y)
    assert after.data.y[trusted].mean() == pytest.approx(0.0, abs=1e-9)
    assert after.data.y[trusted].std() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(after.scaling.y_mean + after.scaling.y_scale * after.data.y, y, atol=1e-7)
    np.testing.assert_allclose(after.data.row_var * after.scaling.y_scale**2, 0.01)
    assert prepared.with_target_of(np.zeros(len(y), bool), y) is prepared


def test_share_and_width_of_outliers_are_learnt():
    rng = np.random.default_rng(2)
    residual = 0.3 * rng.normal(size=2000)
    residual[:300] *= 40.0
    found = OutlierLikelihood().learnt(residual, np.ones(2000))
    assert found.share == pytest.approx(0.15, abs=0.02)
    assert found.ratio == pytest.approx(40.0, rel=0.1)
    doubled = OutlierLikelihood().learnt(np.tile(residual, 2), np.ones(4000))
    weighted = OutlierLikelihood().learnt(residual, np.full(2000, 2.0))
    assert (weighted.share, weighted.ratio) == pytest.approx((doubled.share, doubled.ratio))


@pytest.mark.parametrize("seed", range(4))
def test_a_row_of_weight_w_teaches_as_much_as_w_copies(seed):
    residual = np.random.default_rng(seed).standard_t(1.5, size=9)
    copies = np.where(np.abs(residual) > 1.0, 6, 1)
    weighted = OutlierLikelihood().learnt(residual, copies.astype(float))
    repeated = OutlierLikelihood().learnt(np.repeat(residual, copies), np.ones(copies.sum()))
    assert (weighted.share, weighted.ratio) == pytest.approx((repeated.share, repeated.ratio), rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_the_median_counts_copies(count):
    rng = np.random.default_rng(count)
    values, copies = rng.normal(size=count), rng.integers(1, 4, count)
    expected = np.median(np.repeat(values, copies))
    assert weighted_median(values, copies.astype(float)) == pytest.approx(expected, abs=1e-15)
    assert weighted_median(values, 0.1 * np.ones(count)) == pytest.approx(np.median(values), abs=1e-15)


def test_where_most_rows_are_exact_the_width_stays_finite():
    residual = np.append(np.zeros(30), np.ones(5))
    found = OutlierLikelihood().learnt(residual, np.ones(35))
    assert found.ratio <= MOST_RATIO
    assert found.share == pytest.approx(6.0 / 55.0)


def test_what_is_given_is_not_learnt():
    residual = np.random.default_rng(3).standard_t(2.0, 500)
    assert OutlierLikelihood(0.1, 30.0).learnt(residual, np.ones(500)) == OutlierLikelihood(0.1, 30.0)
    assert OutlierLikelihood(share=0.1).learnt(residual, np.ones(500)).share == 0.1
    exact = OutlierLikelihood()
    assert exact.learnt(np.zeros(5), np.ones(5)) is exact


def test_without_outliers_the_guess_stays():
    found = OutlierLikelihood().learnt(np.random.default_rng(4).normal(size=500), np.ones(500))
    assert found.share < 0.03 and 3.0 <= found.ratio < 20.0


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_order_and_unit_of_rows_with_outliers_do_not_matter():
    X, y = table()
    order = np.random.default_rng(5).permutation(len(y))
    model = {"n_hidden": 4, "n_starts": 1, "max_iter": 8, "likelihood": "outliers"}
    one = EPRegressor(**model).fit(X, y)
    other = EPRegressor(**model).fit(X[order], 1000.0 * y[order])
    np.testing.assert_allclose(1000.0 * one.predict(X), other.predict(X), rtol=1e-6, atol=1e-3)
    assert one.likelihood_.share == pytest.approx(0.1, abs=0.03)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_the_default_tries_outliers_where_few_rows_make_the_spread():
    model = {"n_hidden": 4, "n_starts": 1, "max_iter": 8}
    gross = EPRegressor(**model).fit(*table())
    assert isinstance(gross.likelihood_, OutlierLikelihood)
    assert set(FAR_ROWS) <= set(gross.outliers_)
    X, y = table(gross=False)
    assert isinstance(EPRegressor(**model).fit(X, y).likelihood_, GaussianLikelihood)
    heavy = y + 0.1 * np.random.default_rng(6).standard_t(2.0, len(y))
    assert isinstance(EPRegressor(**model).fit(X, heavy).likelihood_, GaussianLikelihood)


@pytest.mark.filterwarnings("ignore:Far off")
@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likelihood", ["outliers", "auto"])
@pytest.mark.parametrize("off", [1e3, 1e8])
def test_rows_however_far_off_leave_the_others_as_they_were(likelihood, off):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    f = np.sin(1.5 * X[:, 0]) + X[:, 1]
    y = f + 0.2 * rng.normal(size=60)
    y[:10] += off
    model = EPRegressor(n_hidden=6, n_starts=1, max_iter=12, likelihood=likelihood).fit(X, y)
    np.testing.assert_array_equal(model.outliers_, np.arange(10))
    assert np.sqrt(np.mean((model.predict(X) - f)[10:] ** 2)) < 0.2
    assert model.noise_sd_ == pytest.approx(0.2, abs=0.1)


def test_rows_in_doubt_are_judged_by_the_others():
    X, y = table()
    data = prepare(X, y).data
    trusted = np.ones(len(y), bool)
    trusted[np.append(FAR_ROWS, 50)] = False
    found = doubt(network(4, 20, likelihood=OutlierLikelihood()), data, 0, trusted)
    assert found.row_var[FAR_ROWS].all() and found.row_var[50] == 0.0


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_rows_far_beyond_the_others_are_named():
    X, y = table(gross=False, n=40)
    y[[3, 7]] += 1e14
    with pytest.warns(UserWarning, match="Far off: y in 2 row.*: 3, 7. Correct or drop"):
        model = EPRegressor(n_hidden=2, n_starts=1, max_iter=2).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert any("Far off" in note for note in model.notes_)
    assert not prepare(*table()).notes, "ordinary outliers are no news"
