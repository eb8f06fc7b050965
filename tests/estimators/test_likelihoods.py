"""Regression with noise that is not Gaussian: outliers, counts, and choosing between likelihoods."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import poisson

import cavity
from cavity import EPRegressor
from cavity.estimators.base import starts
from cavity.model.activations import Custom
from cavity.model.likelihoods import LIKELIHOODS, OutlierLikelihood, PoissonLikelihood, StudentTLikelihood

unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
N = 120


@cache
def rows(kind="outliers", n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    if kind == "counts":
        return X, rng.poisson(np.exp(1.5 + f)).astype(float)
    y = 5.0 + 2.0 * f + 0.2 * rng.normal(size=n)
    if kind == "outliers":
        y[: n // 10] += rng.choice([-1.0, 1.0], n // 10) * rng.uniform(5.0, 30.0, n // 10)
    return X, y


@cache
def fitted(likelihood="gaussian", kind="outliers", **params):
    """A fitted regressor; do not change it."""
    return EPRegressor(
        **{"n_hidden": 4, "n_starts": 1, "max_iter": 60, "likelihood": likelihood, **params}
    ).fit(*rows(kind))


def error(model):
    X, y = rows("clean", 2000, seed=5)
    return np.mean((model.predict(X) - y) ** 2)


MATCHED = OutlierLikelihood(share=0.1, ratio=80.0)  # what `rows` draws


@pytest.mark.parametrize("likelihood", ["student-t", "outliers", MATCHED])
def test_gross_outliers_cost_little(likelihood):
    """A tenth of the rows is off by 25 to 150 noise sds."""
    clean = error(fitted("gaussian", "clean", n_starts=4))
    robust = fitted(likelihood, n_starts=4)
    assert error(robust) < 1.1 * clean
    assert error(fitted("gaussian")) > 3.0 * clean
    assert 0.15 < robust.noise_sd_ < 0.4


@pytest.mark.parametrize("likelihood", ["student-t", "outliers"])
def test_outliers_are_found(likelihood):
    model = fitted(likelihood, n_starts=4)
    p = model.outlier_probability_
    assert p.shape == (N,) and ((p >= 0.0) & (p <= 1.0)).all()
    # row 118 is four noise sds off by chance: who knows the true share and width doubts it too
    by_chance = {118} if likelihood in ("outliers", MATCHED) else set()
    assert set(model.outliers_) == set(range(N // 10)) | by_chance
    assert not fitted("gaussian").outlier_probability_.any()


@pytest.mark.parametrize("likelihood", ["student-t", "outliers"])
def test_ordinary_rows_are_not_called_outliers(likelihood):
    """Unless noise put them more than three sds from where the other rows say they are."""
    model = fitted(likelihood, "clean", n_starts=4)
    gaussian = fitted("gaussian", "clean", n_starts=4).posterior_.main
    y, loo = rows("clean")[1], gaussian.loo
    row_of = gaussian.prepared.row_of
    z = (y - loo.f.mean[row_of]) / np.sqrt(loo.f.var[row_of] + gaussian.noise_sd**2)
    assert set(model.outliers_) <= set(np.flatnonzero(np.abs(z) > 3.0))


@pytest.mark.parametrize("likelihood", ["student-t", "outliers", StudentTLikelihood(df=2.0)])
def test_density_quantiles_and_draws_agree(likelihood):
    model, (X, _) = fitted(likelihood), rows()
    x = X[:1]
    q = model.predict_quantiles(x, [0.05, 0.5, 0.9])[0]
    assert (np.diff(q) > 0.0).all()
    grid = np.linspace(q[0], q[2], 4001)
    density = model.predict_density(np.repeat(x, len(grid), axis=0), grid)
    assert np.trapezoid(density, grid) == pytest.approx(0.85, abs=1e-4)
    # drawn weights make f a little different from the Gaussian that the density assumes
    draws = model.sample_y(x, 20_000, random_state=1)[0]
    np.testing.assert_allclose([np.mean(draws <= at) for at in q], [0.05, 0.5, 0.9], atol=0.03)
    mean, sd = model.predict(x, return_std=True)
    parts = model.predict_components(x)
    assert mean[0] == pytest.approx(q[1], abs=0.05)
    if isinstance(likelihood, StudentTLikelihood):  # two degrees of freedom have no variance, and say so
        assert np.isinf(sd).all() and np.isfinite(parts.epistemic_var).all()
    else:
        np.testing.assert_allclose(parts.epistemic_var + parts.aleatoric_var, sd**2)
        assert (parts.aleatoric_var > 0.9 * model.noise_sd_**2).all()


def test_best_of_a_list_by_leave_one_out():
    options = ("gaussian", "student-t", StudentTLikelihood(df=2.0))
    model = fitted(options)
    single = {option: fitted(option).loo_ for option in options}
    assert model.loo_ == max(single.values())
    assert model.likelihood_ != LIKELIHOODS["gaussian"]()
    # 120 rows say little about which tails; what is chosen costs next to nothing
    assert fitted(options, "clean").loo_ >= fitted("gaussian", "clean").loo_


def test_units_come_back():
    X, y = rows()
    model = EPRegressor(n_hidden=4, n_starts=1, max_iter=60, likelihood="student-t").fit(X, 100.0 * y - 50.0)
    expected = fitted("student-t")
    np.testing.assert_allclose(model.predict(X), 100.0 * expected.predict(X) - 50.0, rtol=1e-3)
    assert model.noise_sd_ == pytest.approx(100.0 * expected.noise_sd_, rel=1e-2)
    assert model.loo_ == pytest.approx(expected.loo_ - np.log(100.0), abs=1e-2)
    np.testing.assert_allclose(model.outlier_probability_, expected.outlier_probability_, atol=1e-2)


# ── counts ──────────────────────────────────────────────────────────────────────────────────────


def test_counts():
    model, (X, y) = fitted("poisson", "counts"), rows("counts")
    new, counts = rows("counts", 1000, seed=5)
    f = np.tanh(1.5 * new[:, 0]) + 0.4 * new[:, 1]
    truth = poisson.logpmf(counts, np.exp(1.5 + f)).mean()
    found = model.log_density(new, counts)
    constant = poisson.logpmf(counts, y.mean()).mean()
    assert constant + 1.0 < found.mean() < truth + 0.05
    assert truth - found.mean() < 0.15
    assert model.likelihood_.offset == pytest.approx(np.log(y.mean()))
    assert np.isnan(model.noise_sd_)
    total = np.exp([model.log_density(X[:2], np.full(2, float(k))) for k in range(200)]).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_quantiles_of_counts_are_counts():
    model, (X, _) = fitted("poisson", "counts"), rows("counts")
    q = model.predict_quantiles(X[:5], [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(q, np.round(q))
    p = np.exp([model.log_density(X[:5], np.full(5, float(k))) for k in range(300)])
    cdf = np.cumsum(p, axis=0)
    for j, level in enumerate((0.1, 0.5, 0.9)):
        np.testing.assert_array_equal(q[:, j], np.argmax(cdf >= level, axis=0))
    draws = model.sample_y(X[:5], 4000)
    np.testing.assert_array_equal(draws, np.round(draws))
    mean, sd = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(draws.mean(axis=1), mean, rtol=0.1)
    np.testing.assert_allclose(p.T @ np.arange(300.0), mean, rtol=1e-4)
    parts = model.predict_components(X[:5])
    np.testing.assert_allclose(parts.aleatoric_var, mean, rtol=1e-9)  # Var[y | f] = E[y | f]
    np.testing.assert_allclose(parts.var, sd**2)


def test_large_counts_need_no_scaling():
    X, _ = rows("counts")
    rate = np.exp(8.0 + np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1])
    y = np.random.default_rng(1).poisson(rate).astype(float)
    model = EPRegressor(n_hidden=4, n_starts=1, max_iter=30, likelihood="poisson").fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) / rate - 1.0) ** 2)) < 0.02  # √(1/3000) is 0.018


# ── everything with everything ──────────────────────────────────────────────────────────────────


def soft(h):
    """Top level, so that the model pickles."""
    return np.log1p(np.exp(-np.abs(h))) + np.maximum(h, 0.0)


@pytest.mark.parametrize("activation", ["erf", "linear", ("erf", "linear"), Custom(soft)], ids=str)
@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "probit"])
def test_every_likelihood_with_every_activation(likelihood, activation):
    """Warnings are errors: also that of a fit far from converged."""
    X, y = rows("counts" if LIKELIHOODS[likelihood].discrete else "outliers", 40)
    model = EPRegressor(
        n_hidden=2, n_starts=1, max_iter=25, likelihood=likelihood, activation=activation
    ).fit(X, y)
    assert np.isfinite(model.predict(X)).all() and np.isfinite([model.loo_, model.log_evidence_]).all()


@pytest.mark.parametrize("likelihood", ["student-t", "outliers", "poisson"])
def test_weights_are_copies(likelihood):
    X, y = rows("counts" if likelihood == "poisson" else "outliers", 40)
    count = np.random.default_rng(3).integers(1, 4, 40)
    quick = {"n_hidden": 2, "n_starts": 1, "max_iter": 10, "likelihood": likelihood, "tol": 0.1}
    weighted = EPRegressor(**quick).fit(X, y, count)
    copies = EPRegressor(**quick).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.predict(X), copies.predict(X))
    np.testing.assert_array_equal(np.repeat(weighted.loo_i_, count), copies.loo_i_)


@pytest.mark.parametrize(
    "likelihood", ["student-t", OutlierLikelihood(share=0.1), "poisson"], ids=["t", "outliers", "poisson"]
)
def test_saved_and_loaded(likelihood, tmp_path):
    kind = "counts" if likelihood == "poisson" else "outliers"
    model, (X, _) = fitted(likelihood, kind), rows(kind)
    model.save(tmp_path / "model.cavity")
    again = cavity.load(tmp_path / "model.cavity")
    assert again.likelihood_ == model.likelihood_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.outlier_probability_, model.outlier_probability_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"likelihood": "cauchy"}, "'cauchy' is unknown"),
        ({"likelihood": "probit"}, "use EPClassifier"),
        ({"likelihood": []}, "empty list"),
        ({"likelihood": ["gaussian", "poisson"]}, "cannot be compared"),
        ({"likelihood": "poisson", "noise": 0.1}, "leave it out"),
        ({"likelihood": PoissonLikelihood()}, r"counts .* in row 0"),
    ],
)
def test_refused_before_the_first_sweep(params, message):
    X, y = rows("clean", 20)
    with pytest.raises(ValueError, match=message):
        EPRegressor(**params).fit(X, y + 0.123)


def test_known_variances_are_refused_for_counts():
    X, y = rows("counts", 20)
    with pytest.raises(ValueError, match="no noise variances"):
        EPRegressor(likelihood="poisson").fit(X, y, noise_var=0.1)


@unconverged
def test_models_without_compiled_pieces_make_two_starts():
    """Their sweeps take many times as long."""
    X, y = rows("counts", 30)
    seen = set()
    model = EPRegressor(likelihood="poisson", n_hidden=2, max_iter=2, verbose=lambda r, s: seen.add(r.part))
    model.fit(X, y)
    assert seen == {(1, 2), (2, 2)}
    assert starts(30, 3) == 8
