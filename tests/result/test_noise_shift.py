"""One shift of the noise of all stacked fits."""

import numpy as np
import pytest

import cavity
from cavity import EPClassifier, EPRegressor
from cavity.result.mixture import STIFFNESS, MixturePosterior

pytestmark = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def stacked():
    """Several starts of a wavy function with little noise and few rows: fits that differ."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(80, 2))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=80)
    return X, y, EPRegressor(n_starts=4, n_hidden=6, max_iter=30).fit(X, y)


def without_shift(posterior):
    solutions = [c.solution for c in posterior.components]
    return MixturePosterior.of(posterior.main.prepared, solutions, posterior.weights)


def test_the_shift_is_the_maximum_of_what_it_says(stacked):
    X, y, model = stacked
    plain, shift = without_shift(model.posterior_), model.posterior_.noise_shift
    assert len(plain.components) > 1 and plain.noise_shift == 0.0 and abs(shift) > 0.02

    def objective(d):
        return plain._density_with(d) - 0.5 * (1.0 + STIFFNESS * len(y)) * d * d

    best = objective(shift)
    assert best >= max(objective(d) for d in (0.0, shift - 0.05, shift + 0.05))
    assert plain.calibrated().noise_shift == pytest.approx(shift, abs=1e-12)


def test_density_with_a_shift_is_that_of_the_shifted_mixture(stacked):
    X, y, model = stacked
    plain = without_shift(model.posterior_)
    np.testing.assert_allclose(plain._density_with(0.0), np.sum(plain.loo_log_density), rtol=1e-6)
    # the shift of a cavity is that of q(θ), but for the row's own share of it
    expected = plain._density_with(model.posterior_.noise_shift)
    np.testing.assert_allclose(np.sum(model.posterior_.loo_log_density), expected, rtol=0.02)
    assert model.loo_ > plain.mean_loo


def test_only_the_noise_is_shifted(stacked):
    X, y, model = stacked
    plain, shift = without_shift(model.posterior_), model.posterior_.noise_shift
    np.testing.assert_array_equal(model.predict(X), plain.predict(X).mean)
    assert model.posterior_.log_evidence == plain.log_evidence
    same = [c.spec.likelihood == plain.main.spec.likelihood for c in plain.components]
    assert any(same)
    assert model.noise_sd_ == pytest.approx(plain.noise_sd * np.exp(0.5 * shift), rel=1e-9)
    quantiles = [p.quantiles(X[:5], [0.05, 0.95]) for p in (model.posterior_, plain)]
    widths = [np.diff(q, axis=1) for q in quantiles]
    assert np.all((widths[0] < widths[1]) == (shift < 0.0))


def test_the_shift_is_saved_and_the_fit_goes_on_from_what_ep_found(stacked, tmp_path):
    X, y, model = stacked
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    assert again.posterior_.noise_shift == model.posterior_.noise_shift
    np.testing.assert_array_equal(again.log_density(X, y), model.log_density(X, y))
    on = EPRegressor(n_starts=4, n_hidden=6, max_iter=30, warm_start=True).fit(X, y)
    before = on.noise_sd_
    on.fit(X, y)  # a shift that were carried over would be taken twice
    assert on.noise_sd_ == pytest.approx(before, rel=0.1)


def test_one_fit_and_held_noise_stay_as_they_are(stacked):
    X, y, _ = stacked
    assert EPRegressor(n_starts=1, n_hidden=3, max_iter=5).fit(X, y).posterior_.noise_shift == 0.0
    held = EPRegressor(n_starts=2, n_hidden=3, max_iter=5, noise=0.2).fit(X, y)
    assert held.posterior_.noise_shift == 0.0 and held.noise_sd_ == pytest.approx(0.2)


@pytest.fixture(scope="module")
def classes():
    """A curved border and few rows: fits that differ in where they are sure."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] > 0.0, 1, 0)
    return X, y, EPClassifier(n_starts=4, max_iter=30).fit(X, y)


def test_classes_take_the_shift_that_makes_their_rows_most_probable(classes):
    X, y, model = classes
    plain, shift = without_shift(model.posterior_), model.posterior_.noise_shift
    assert len(plain.components) > 1 and shift < -0.1  # the classes do not overlap: too little was promised

    def objective(d):
        return plain._density_with(d) - 0.5 * d * d

    assert objective(shift) >= max(objective(d) for d in (0.0, shift - 0.05, shift + 0.05))
    # leave-one-out of the scaled sites is what the shift was chosen by
    shifted, density = np.sum(model.posterior_.loo_log_density), plain._density_with(shift)
    np.testing.assert_allclose(shifted, density, rtol=1e-9)


def test_less_noise_of_classes_is_a_larger_function(classes):
    X, y, model = classes
    plain, factor = without_shift(model.posterior_), np.exp(-0.5 * model.posterior_.noise_shift)
    for scaled, found in zip(model.posterior_.components, plain.components, strict=True):
        f, before = scaled.latent(X), found.latent(X)
        size = np.abs(f.mean).max()  # means near zero are differences of such
        np.testing.assert_allclose(f.mean, factor * before.mean, rtol=1e-12, atol=1e-13 * size)
        np.testing.assert_allclose(f.var, factor**2 * before.var, rtol=1e-9)
    p, q = model.predict_proba(X)[:, 1], np.exp(plain.log_density(X, np.ones(len(X))))
    sure = np.abs(q - 0.5) > 0.2
    assert np.all(np.abs(p - 0.5)[sure] > np.abs(q - 0.5)[sure])
    assert model.posterior_.log_evidence == plain.log_evidence


def test_the_shift_of_classes_is_saved(classes, tmp_path):
    X, y, model = classes
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_one_fit_of_classes_stays_as_it_is(classes):
    X, y, _ = classes
    one = EPClassifier(n_starts=1, prior="laplace", max_iter=5).fit(X, y)
    assert one.posterior_.noise_shift == 0.0
