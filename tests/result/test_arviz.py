"""The way to ArviZ, whichever of its two kinds is installed."""

import sys
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.estimators.problems import fitted, rows

from cavity import EPRegressor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ 0.23 announces its successor on import
    az = pytest.importorskip("arviz")


def test_groups_have_the_shapes_and_names_of_the_model():
    model, (X, y) = fitted(), rows()
    tree = model.to_arviz(n_draws=50, n_chains=2)
    weights = tree["posterior"]["input_weights"]
    assert weights.dims == ("chain", "draw", "unit", "weight")
    assert list(weights.coords["weight"].values) == ["x0", "x1", "x2", "bias"]
    assert tree["posterior"]["log_prior_var"].shape == (2, 50, 4)
    np.testing.assert_allclose(tree["observed_data"]["y"].values, y, atol=1e-7)
    np.testing.assert_allclose(tree["constant_data"]["X"].values, X, atol=1e-7)
    np.testing.assert_array_equal(tree["constant_data"]["loo_i"].values, model.loo_i_)
    attributes = tree.attrs if hasattr(tree, "attrs") else tree.posterior.attrs
    assert attributes["inference_library"] == "cavity"


def test_draws_are_of_the_posterior():
    model, (X, y) = fitted(), rows()
    tree = model.to_arviz(n_draws=1000, n_chains=4, random_state=3)
    q = model.posterior_.main.state.posterior
    drawn = tree["posterior"]["input_weights"].values.reshape(4000, 3, 4)
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(q.w.var), rtol=0.06)
    assert tree["posterior"]["log_noise_var"].values.mean() == pytest.approx(q.noise.mean, abs=0.05)
    # the mean likelihood over draws is the predictive density, up to f being Gaussian there
    log_likelihood = tree["log_likelihood"]["y"].values.reshape(4000, len(y))
    inside = logsumexp(log_likelihood, axis=0) - np.log(4000)
    np.testing.assert_allclose(inside, model.log_density(X, y), atol=0.1)
    again = model.to_arviz(n_draws=1000, n_chains=4, random_state=3)
    np.testing.assert_array_equal(
        again["posterior"]["output_weights"].values, tree["posterior"]["output_weights"].values
    )


def test_slopes_of_the_noise_are_drawn_too():
    X, y = rows()
    model = EPRegressor(2, n_starts=1, max_iter=5, tol=10.0, noise="linear").fit(X, y)
    tree = model.to_arviz(n_draws=1000, n_chains=4)
    slopes = tree["posterior"]["noise_slopes"]
    assert slopes.dims == ("chain", "draw", "input")
    drawn, found = slopes.values.reshape(4000, 3), model.noise_slopes_
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean, atol=5.0 * found.sd.max() / np.sqrt(4000))
    np.testing.assert_allclose(drawn.std(axis=0), found.sd, rtol=0.06)
    assert "noise_slopes" not in fitted().to_arviz(n_draws=5, n_chains=1)["posterior"]


def test_noise_that_follows_the_function():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.tanh(2.0 * X[:, 0]) * (1.0 + 0.3 * rng.normal(size=60))
    model = EPRegressor(noise="varying", n_hidden=2, n_starts=1, max_iter=10).fit(X, y)
    tree = model.to_arviz(n_draws=1000, n_chains=4)
    drawn, found = tree["posterior"]["noise_function_slopes"], model.noise_function_slopes_
    assert drawn.dims == ("chain", "draw", "feature") and tree["posterior"]["noise_slopes"].shape[-1] == 2
    values = drawn.values.reshape(4000, 3)
    np.testing.assert_allclose(values.mean(axis=0), found.mean, atol=0.1 * found.sd.max())
    np.testing.assert_allclose(values.std(axis=0), found.sd, rtol=0.1)


def test_rows_of_weight_zero_are_left_out_and_mixtures_are_drawn_from():
    X, y = rows(30)
    weight = np.ones(30)
    weight[[0, 5]] = 0.0
    model = EPRegressor(n_hidden=2, max_iter=30, n_starts=2).fit(X, y, weight)
    tree = model.to_arviz(n_draws=20, n_chains=1)
    assert list(tree["log_likelihood"]["y"].coords["row"].values) == np.flatnonzero(weight).tolist()
    with pytest.raises(ValueError, match="n_draws and n_chains must be at least 1"):
        model.to_arviz(n_draws=0)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_leave_one_out_goes_into_compare():
    good, poor = fitted(), fitted(n_hidden=1, activation="linear")
    ours = good.to_arviz_loo()
    elpd = ours.elpd_loo if hasattr(ours, "elpd_loo") else ours.elpd
    assert elpd == pytest.approx(good.loo_i_.sum())
    assert "loo" in str(ours)
    table = az.compare({"poor": poor.to_arviz_loo(), "good": ours})
    assert list(table.index) == ["good", "poor"]
    assert table["weight"].iloc[0] > 0.8


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_importance_sampling_of_the_draws_agrees_for_most_rows():
    # q factorises over units, so its draws spread where the posterior's would not: single rows differ
    model = fitted()
    psis = az.loo(model.to_arviz(), pointwise=True)
    theirs = psis.loo_i if hasattr(psis, "loo_i") else psis.elpd_i
    assert np.median(np.abs(theirs.values.ravel() - model.loo_i_)) < 0.15


def test_without_arviz_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    for export in (fitted().to_arviz, fitted().to_arviz_loo):
        with pytest.raises(ImportError, match=r'pip install "cavity\[arviz\]"'):
            export()
