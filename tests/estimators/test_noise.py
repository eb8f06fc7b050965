"""Noise that depends on the inputs, as a user meets it."""

import warnings

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.exceptions import ConvergenceWarning

from cavity import EPLinearRegressor, EPRegressor, load
from cavity.result.draws import draw, log_noise_vars

SLOPES = np.array([1.2, 0.0, -0.8])  # of the log variance, for inputs of unit sd
QUICK = {"n_hidden": 3, "n_starts": 1, "verbose": 0}


def scattered(n=300, slopes=SLOPES, seed=6):
    """Rows, target and the true log noise variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    log_var = -2.0 + X @ slopes
    return X, X[:, 0] + 0.5 * X[:, 1] + np.exp(0.5 * log_var) * rng.normal(size=n), log_var


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = scattered()
    return EPRegressor(noise="linear", **QUICK).fit(X, y)


def test_slopes_are_found_within_their_intervals(fitted):
    X, _, _ = scattered()
    found = fitted.noise_slopes_
    true = SLOPES * X.std(axis=0)
    assert np.all(np.abs(found.mean - true) < 3.0 * found.sd)
    assert np.all(found.sd < 0.15)  # √(2/n) = 0.08 for a known function


def test_new_rows_have_their_own_noise(fitted):
    X, y, log_var = scattered(2000, seed=1)
    parts = fitted.predict_components(X)
    inside = np.abs(X).max(axis=1) < 3.0
    assert np.abs(np.log(parts.aleatoric_var) - log_var)[inside].max() < 0.8
    assert np.allclose(parts.var, parts.epistemic_var + parts.aleatoric_var)
    low, high = fitted.predict_interval(X, 0.9).T
    covered = (low < y) & (y < high)
    for rows in (log_var < -2.0, log_var > -2.0):  # calm rows and noisy ones alike
        assert np.mean(covered[rows]) == pytest.approx(0.9, abs=0.04)


def test_density_integrates_to_one_and_quantiles_invert_the_distribution(fitted):
    X, _, _ = scattered(4, seed=2)
    for row in X:
        mean, sd = (float(part[0]) for part in fitted.predict(row[None], return_std=True))
        y = np.linspace(mean - 12.0 * sd, mean + 12.0 * sd, 4001)
        density = fitted.predict_density(np.repeat(row[None], len(y), axis=0), y)
        assert trapezoid(density, y) == pytest.approx(1.0, abs=1e-6)
        level = trapezoid(np.where(y <= fitted.predict_quantiles(row[None], 0.8)[0], density, 0.0), y)
        assert level == pytest.approx(0.8, abs=5e-3)


def test_draws_scatter_as_the_prediction_says(fitted):
    X, _, _ = scattered(6, seed=3)
    y = fitted.sample_y(X, 4000)
    assert np.allclose(y.std(axis=1), fitted.predict(X, return_std=True)[1], rtol=0.08)
    component = fitted.posterior_.main
    drawn = draw(component, 20_000, np.random.default_rng(0))
    design = component.prepared.scaling.inputs(X)
    rows = component._noise(design)
    log_vars = log_noise_vars(component.spec, drawn, design)
    assert np.allclose(log_vars.mean(axis=0), rows.mean, atol=0.02)
    assert np.allclose(log_vars.std(axis=0), np.sqrt(rows.var), rtol=0.05)


def test_it_predicts_far_better_than_one_level(fitted):
    X, y, _ = scattered(2000, seed=1)
    one = EPRegressor(likelihood="gaussian", **QUICK).fit(*scattered()[:2])
    gain = fitted.log_density(X, y).mean() - one.log_density(X, y).mean()
    # the mean of log σ_i lies Var s/4 = 0.52 below the log of their root mean square: the gain if f is known
    assert 0.35 < gain < 0.6
    assert fitted.loo_ - one.loo_ > 0.35
    assert fitted.log_evidence_ > one.log_evidence_ + 50.0


def test_leave_one_out_is_what_new_rows_get(fitted):
    X, y, _ = scattered(2000, seed=1)
    assert fitted.loo_ == pytest.approx(fitted.log_density(X, y).mean(), abs=0.12)
    assert len(fitted.loo_i_) == 300


def test_saved_and_read_again(fitted, tmp_path):
    X, y, _ = scattered(20, seed=4)
    fitted.save(tmp_path / "model.cavity")
    again = load(tmp_path / "model.cavity")
    assert again.noise == "linear"
    assert np.array_equal(again.log_density(X, y), fitted.log_density(X, y))
    assert np.array_equal(again.noise_slopes_.sd, fitted.noise_slopes_.sd)


def test_goes_on_where_it_was(fitted):
    X, y, _ = scattered()
    model = EPRegressor(noise="linear", warm_start=True, **QUICK).fit(X, y)
    before = model.noise_slopes_.mean
    model.fit(X[:290], y[:290])
    assert np.allclose(model.noise_slopes_.mean, before, atol=0.2)


def test_noise_sd_is_the_average_over_the_rows(fitted):
    _, _, log_var = scattered()
    assert fitted.noise_sd_ == pytest.approx(np.exp(0.5 * log_var).mean(), rel=0.15)


def test_copies_are_weights():
    X, y, _ = scattered(60)
    weights = np.random.default_rng(0).integers(1, 3, 60)
    model = EPRegressor(noise="linear", max_iter=10, prior="gaussian", **QUICK)
    weighted = model.fit(X, y, sample_weight=weights).noise_slopes_.mean
    copied = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).noise_slopes_.mean
    assert np.allclose(weighted, copied, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["student-t", "outliers"])
def test_with_robust_noise(likelihood):
    X, y, _ = scattered(200)
    y[::20] += 8.0
    model = EPRegressor(noise="linear", likelihood=likelihood, **QUICK).fit(X, y)
    assert model.posterior_.main.spec.noise.varies
    assert np.all(np.abs(model.noise_slopes_.mean - SLOPES) < 0.6)


def test_linear_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 1] + np.exp(0.5 * (-2.0 + X @ SLOPES)) * rng.normal(size=200)
    model = EPLinearRegressor(prior="laplace", noise="linear").fit(X, y)
    plain = EPLinearRegressor(prior="laplace").fit(X, y)
    found = model.noise_slopes_
    assert np.all(np.abs(found.mean - SLOPES * X.std(axis=0)) < 3.0 * found.sd)
    assert model.coef_sd_[1] < 0.8 * plain.coef_sd_[1]  # calm rows count for more
    assert abs(model.coef_[1] - 1.0) < 3.0 * model.coef_sd_[1]


def test_slopes_are_there_even_where_no_time_is_left():
    X, y, _ = scattered(100)
    model = EPRegressor(3, n_starts=2, noise="linear", time_limit=1e-6, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.posterior_.main.spec.noise.varies
    assert np.isfinite(model.loo_)


# ── the choice by leave-one-out ─────────────────────────────────────────────────────────────────


def test_auto_takes_it_where_it_predicts_better():
    X, y, _ = scattered(150)
    model = EPRegressor(3, noise="auto", n_starts=2, likelihood="gaussian").fit(X, y)
    parts = model.posterior_
    share = sum(w for w, c in zip(parts.weights, parts.components, strict=True) if c.spec.noise.varies)
    assert share > 0.9
    assert model.noise_slopes_.mean[0] > 0.5


def test_auto_loses_nothing_where_the_noise_is_the_same_everywhere():
    X, y, _ = scattered(150, slopes=np.zeros(3))
    fresh = scattered(2000, slopes=np.zeros(3), seed=1)[:2]
    one, auto = (
        EPRegressor(3, noise=noise, n_starts=2, likelihood="gaussian").fit(X, y) for noise in (None, "auto")
    )
    assert auto.loo_ > one.loo_ - 0.005
    assert auto.log_density(*fresh).mean() > one.log_density(*fresh).mean() - 0.02


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


def test_refused_with_a_reason():
    X, y, _ = scattered(30)
    with pytest.raises(ValueError, match="has no noise level"):
        EPRegressor(noise="linear", likelihood="poisson").fit(X, np.arange(30.0))
    with pytest.raises(ValueError, match="more rows than inputs"):
        EPRegressor(noise="linear").fit(np.random.default_rng(0).normal(size=(30, 30)), y)
    with pytest.raises(ValueError, match='"auto" or "linear"'):
        EPRegressor(noise="quadratic").fit(X, y)
    with pytest.raises(ValueError, match='"linear", '):
        EPLinearRegressor(noise="auto").fit(X, y)
    with pytest.raises(ValueError, match="very many inputs"):
        EPRegressor(noise="linear", form="diagonal").fit(X, y)


def test_one_level_has_no_slopes():
    X, y, _ = scattered(30)
    with pytest.raises(AttributeError, match="does not depend on the inputs"):
        _ = EPRegressor(2, n_starts=1, max_iter=2, tol=10.0).fit(X, y).noise_slopes_


def steep(n=400, seed=3):
    """A step of the first input, which is known up to errors of 0.15: noise where the function is steep."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    f = np.tanh(3.0 * X[:, 0])
    slope = 3.0 * (1.0 - f**2)
    sd = np.hypot(0.05, 0.15 * slope)
    return X, f + sd * rng.normal(size=n), sd


def test_noise_follows_the_slope_of_the_function():
    X, y, _ = steep()
    new, y_new, sd_new = steep(1000, seed=4)
    fits = [
        EPRegressor(noise=name, n_hidden=4, n_starts=1, verbose=0).fit(X, y) for name in ("linear", "varying")
    ]
    linear, varying = (fit.log_density(new, y_new).mean() for fit in fits)
    assert varying > linear + 0.2
    found = np.sqrt(fits[1].predict_components(new).aleatoric_var)
    assert np.corrcoef(np.log(found), np.log(sd_new))[0, 1] > 0.9
    slopes = fits[1].noise_function_slopes_
    assert slopes.mean.shape == (3,) and slopes.mean[2] > 3.0 * slopes.sd[2]
    with pytest.raises(AttributeError, match="varying"):
        _ = fits[0].noise_function_slopes_


def test_noise_by_the_function_is_saved_and_does_not_depend_on_units(tmp_path):
    X, y, _ = steep(150)
    fit = EPRegressor(noise="varying", **QUICK).fit(X, y)
    fit.save(tmp_path / "fit.cavity")
    np.testing.assert_array_equal(load(tmp_path / "fit.cavity").log_density(X, y), fit.log_density(X, y))
    other = EPRegressor(noise="varying", **QUICK).fit(X * [100.0, 0.01] + 7.0, 1e3 * y - 5.0)
    moved = other.log_density(X * [100.0, 0.01] + 7.0, 1e3 * y - 5.0) + np.log(1e3)
    np.testing.assert_allclose(moved, fit.log_density(X, y), atol=1e-4)
    sampled = fit.sample_y(X[:20], 4000)  # draws know the noise of their rows too
    parts = fit.predict_components(X[:20])
    np.testing.assert_allclose(sampled.var(axis=1), parts.var, rtol=0.2)


@pytest.mark.parametrize(
    ("structure", "word"), [({"interactions": [(0, 1)]}, "interactions"), ({"mask": "additive"}, "a mask")]
)
def test_noise_by_the_function_is_refused_where_there_is_no_simple_one(structure, word):
    X, y, _ = steep(80)
    with pytest.raises(ValueError, match=f'found without {word}: give noise="linear"'):
        EPRegressor(noise="varying", **structure, **QUICK).fit(X, y)
    fit = EPRegressor(noise="linear", **structure, **QUICK).fit(X, y)
    assert fit.noise_slopes_.mean.shape == (2,)
    with pytest.raises(AttributeError, match="does not depend on the function"):
        _ = fit.noise_function_slopes_
