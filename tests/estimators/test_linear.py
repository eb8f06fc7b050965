"""What EPLinearRegressor and EPLinearClassifier answer, in the user's units, with every prior."""

from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity import EPLinearClassifier, EPLinearRegressor
from cavity.model.priors import PRIORS, SpikeAndSlabPrior

TRUE = {2: 3.0, 7: -2.0, 11: 1.0}


@cache
def rows(n=50, d=80, seed=0):
    """Three of d inputs matter; noise sd 0.5; the columns have different means and units."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    f = sum(w * Z[:, j] for j, w in TRUE.items())
    return Z * np.linspace(0.1, 10.0, d) + np.linspace(-5.0, 5.0, d), 20.0 + f + 0.5 * rng.normal(size=n)


@cache
def classes(n=80, d=30, seed=0, count=2):
    """Two inputs of d decide, with noise; for three classes one against the other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if count == 2:
        return X, np.where(2.0 * X[:, 4] - X[:, 9] + 0.5 * rng.normal(size=n) > 0.0, "yes", "no")
    best = np.argmax(np.stack([X[:, 4], X[:, 9], np.full(n, 0.3)]) + 0.2 * rng.normal(size=(3, n)), axis=0)
    return X, np.array(["a", "b", "c"])[best]


@cache
def fitted(**params):
    """A fitted regressor; do not change it."""
    return EPLinearRegressor(**params).fit(*rows())


@cache
def classifier(count=2, **params):
    """A fitted classifier; do not change it."""
    return EPLinearClassifier(**params).fit(*classes(count=count))


def unit_coefficients(model, d=80):
    """Coefficients per standard deviation that the inputs were made with."""
    return model.coef_ * np.linspace(0.1, 10.0, d), model.coef_sd_ * np.linspace(0.1, 10.0, d)


def test_it_finds_the_inputs_and_their_coefficients():
    model = fitted()
    assert model.converged_ and set(np.flatnonzero(model.inclusion_ > 0.5)) == set(TRUE)
    mean, sd = unit_coefficients(model)
    for j, w in TRUE.items():
        assert abs(mean[j] - w) < 4.0 * sd[j] and sd[j] < 0.15
    others = np.setdiff1d(np.arange(80), list(TRUE))
    assert np.abs(mean[others]).max() < 0.2
    assert model.noise_sd_ == pytest.approx(0.5, rel=0.3)
    assert 0.01 < model.prior_inclusion_ < 0.1


@pytest.mark.parametrize("name", PRIORS)
def test_every_prior_with_more_inputs_than_rows(name):
    model = fitted(prior=name)
    assert model.converged_ and np.isfinite([model.loo_, model.log_evidence_]).all()
    mean, _ = unit_coefficients(model)
    if name != "gaussian":  # ridge cannot tell 80 inputs apart with 50 rows
        assert set(np.argsort(-np.abs(mean))[:3]) == set(TRUE)
    if name not in ("gaussian", "laplace"):
        assert model.score(*rows(500, seed=1)) > 0.9


@pytest.mark.parametrize("prior", ["spike-and-slab", "laplace", "horseshoe", "ard"])
@pytest.mark.parametrize("likelihood", ["student-t", "outliers"])
def test_robust_noise_with_more_inputs_than_rows(prior, likelihood):
    X, y = rows()
    y = y.copy()
    y[[5, 30]] += 40.0
    model = EPLinearRegressor(prior=prior, likelihood=likelihood).fit(X, y)
    assert set(model.outliers_) == {5, 30}
    mean, _ = unit_coefficients(model)
    assert set(np.argsort(-np.abs(mean))[:3]) == set(TRUE)


def test_predictions_are_the_linear_function():
    model, (X, _) = fitted(), rows()
    np.testing.assert_allclose(model.predict(X), model.intercept_ + X @ model.coef_, rtol=1e-9)
    at_zero, sd = model.predict(np.zeros((1, 80)), return_std=True)
    assert model.intercept_ == pytest.approx(at_zero[0], rel=1e-9)
    assert model.intercept_sd_ < sd[0]
    epistemic = model.predict_components(np.zeros((1, 80))).epistemic_var
    assert model.intercept_sd_ == pytest.approx(np.sqrt(epistemic[0]))


def test_intervals_of_coefficients():
    model = fitted(prior="laplace")
    wide = model.coef_interval()
    assert wide.shape == (80, 2)
    np.testing.assert_allclose(wide.mean(axis=1), model.coef_, atol=1e-12)
    np.testing.assert_allclose(np.diff(wide)[:, 0], 2.0 * ndtri(0.975) * model.coef_sd_)
    assert np.all(np.diff(model.coef_interval(0.5)) < np.diff(wide))
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 95"):
        model.coef_interval(95)


def test_given_spike_and_slab_keeps_its_parameters():
    model = fitted(prior=SpikeAndSlabPrior(inclusion=0.04, spike=0.02))
    assert model.prior_inclusion_ == 0.04
    assert model.posterior_.main.spec.blocks[0].prior == SpikeAndSlabPrior(0.04, 0.02)
    assert set(np.flatnonzero(model.inclusion_ > 0.5)) == set(TRUE)


def test_groups_have_scales_of_their_own():
    labels = np.where(np.arange(80) < 20, "first", "rest")
    for prior in ("laplace", "spike-and-slab"):
        model = fitted(prior=prior, groups=tuple(labels))
        scale = model.posterior_.main.scales.mean
        assert scale[0] > scale[1]  # all true inputs are in the first group
        assert model.relevance_.name == ("first", "rest")


def test_held_scale_is_held():
    model = fitted(prior_scale=0.7)
    assert model.posterior_.main.scales.mean[0] == pytest.approx(2.0 * np.log(0.7))
    assert fitted(prior="laplace", prior_scale=0.7).posterior_.main.scales.var[0] == 0.0


def test_no_spike_no_inclusion():
    with pytest.raises(AttributeError, match="spike-and-slab"):
        fitted(prior="laplace").inclusion_  # noqa: B018
    with pytest.raises(AttributeError, match="spike-and-slab"):
        classifier(prior="laplace").inclusion_  # noqa: B018


def test_units_do_not_matter():
    """Other units of X and y, and another order of rows: coefficients follow, probabilities stay."""
    X, y = rows()
    order = np.random.default_rng(1).permutation(len(y))
    unit = 10.0 ** np.random.default_rng(2).integers(-6, 7, X.shape[1])
    moved = EPLinearRegressor().fit((X * unit)[order], 1e4 * y[order] - 7.0)
    np.testing.assert_allclose(moved.coef_ * unit * 1e-4, fitted().coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(moved.inclusion_, fitted().inclusion_, atol=1e-6)
    np.testing.assert_allclose(moved.loo_i_ + np.log(1e4), fitted().loo_i_[order], atol=1e-6)


def test_weights_are_copies_to_the_last_bit():
    X, y = rows(30, 40)
    count = np.random.default_rng(3).integers(0, 4, 30)
    weighted = EPLinearRegressor().fit(X, y, count)
    copies = EPLinearRegressor().fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    for name in ("coef_", "coef_sd_", "inclusion_", "log_evidence_"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(copies, name))
    X, y = classes()
    count = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = EPLinearClassifier().fit(X, y, count)
    copies = EPLinearClassifier().fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.predict_proba(X), copies.predict_proba(X))


def test_constant_and_copied_columns():
    X, y = rows()
    X = np.column_stack([X, np.full(len(y), 3.0), X[:, 7]])
    model = EPLinearRegressor().fit(X, y)
    assert model.coef_[80] == pytest.approx(0.0, abs=1e-12) and model.inclusion_[80] < 0.2
    np.testing.assert_allclose(model.coef_[81], model.coef_[7], rtol=1e-3)
    assert any("constant" in note for note in model.notes_) and any("repeats" in n for n in model.notes_)


def test_few_rows_and_one_input():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = EPLinearRegressor().fit(X, [1.0, 3.1, 4.9, 7.0])
    assert model.coef_[0] == pytest.approx(2.0, rel=0.1)
    assert np.isfinite(EPLinearRegressor().fit(X[:2], [0.0, 1.0]).predict(X)).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"prior": "horse"}, "prior='horse' is unknown: use one of .*'horseshoe'"),
        ({"parents": "common"}, "parents correlate inferred scales.*leave parents out"),
        ({"prior_scale": -1.0}, "prior_scale must be a positive sd"),
        ({"prior_scale": 0.0}, "prior_scale must be a positive sd"),
        ({"likelihood": "probit"}, "probit likelihood is for classes"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"groups": ["a", "b"]}, "groups"),
        ({"noise": -1.0}, "noise must be a standard deviation"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        EPLinearRegressor(**params).fit(*rows())


def test_bad_cells_are_located():
    X, y = rows()
    X = X.copy()
    X[4, 6] = np.nan
    for model in (EPLinearRegressor(), EPLinearClassifier()):
        with pytest.raises(ValueError, match="row 4, column 6"):
            model.fit(X, y > 20.0)


# ── classes ─────────────────────────────────────────────────────────────────────────────────────


def test_two_classes():
    model = classifier()
    assert model.converged_ and model.coef_.shape == model.coef_sd_.shape == (1, 30)
    assert model.intercept_.shape == (1,) and model.coef_interval().shape == (1, 30, 2)
    assert set(np.argsort(-model.inclusion_)[:2]) == {4, 9} and model.inclusion_.shape == (30,)
    new, labels = classes(500, seed=1)
    assert model.score(new, labels) > 0.85
    f = model.posterior_.latent(new)
    np.testing.assert_allclose(f.mean, new @ model.coef_[0] + model.intercept_[0], atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], ndtr(f.mean / np.sqrt(1.0 + f.var)), rtol=1e-6)


def test_three_classes():
    model, (X, _) = classifier(3), classes(count=3)
    assert model.coef_.shape == (3, 30) and model.intercept_.shape == (3,)
    assert model.inclusion_.shape == (3, 30) and model.prior_inclusion_.shape == (3,)
    assert model.inclusion_[0].argmax() == 4 and model.inclusion_[1].argmax() == 9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(*classes(500, seed=1, count=3)) > 0.8


@pytest.mark.parametrize("name", ["laplace", "horseshoe", "ard"])
def test_priors_of_the_classifier_with_more_inputs_than_rows(name):
    X, y = classes(40, 100)
    model = EPLinearClassifier(prior=name, tol=1e-2).fit(X, y)
    assert model.converged_ and np.abs(model.coef_[0]).argmax() == 4


def test_class_weights_are_weights():
    X, y = classes()
    by_class = EPLinearClassifier(class_weight={"yes": 3.0, "no": 1.0}).fit(X, y)
    by_row = EPLinearClassifier().fit(X, y, np.where(y == "yes", 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    assert by_class.predict_proba(X)[:, 1].mean() > classifier().predict_proba(X)[:, 1].mean()


# ── files ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, 2, 3])
def test_saved_and_loaded(count, tmp_path):
    model, (X, _) = (classifier(count), classes(count=count)) if count else (fitted(), rows())
    model.save(tmp_path / "model.cavity")
    again = cavity.load(tmp_path / "model.cavity")
    assert type(again) is type(model) and again.get_params() == model.get_params()
    for name in ("coef_", "coef_sd_", "intercept_", "inclusion_", "loo_i_", "log_evidence_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_callback_can_stop_while_the_prior_is_adapted():
    seen = []

    def stop(record, state):
        seen.append(record.stage)
        return record.stage == "adapt the prior"

    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = EPLinearRegressor(verbose=stop).fit(*rows())
    assert seen[-1] == "adapt the prior" and seen.count("adapt the prior") == 1
    assert model.status_.startswith("Interrupted") and model.n_iter_ == len(seen)
