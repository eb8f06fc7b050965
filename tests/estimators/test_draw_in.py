"""Half of the starts on inputs drawn in, as a user meets them."""

import pickle

import numpy as np
import pandas as pd
import pytest

from cavity import EPRegressor, load
from cavity.ep import members
from cavity.ep.latent import latent_moments
from cavity.estimators.base import starts
from cavity.estimators.regressor import MORE_STARTS
from cavity.result.draws import draw, functions

pytestmark = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
QUICK = {"n_hidden": 4, "n_starts": 4, "max_iter": 30, "noise": None, "verbose": 0}


def long_rows(n=120, seed=0):
    """The target follows the logarithms of two inputs with long tails; the third does nothing."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    X = np.column_stack([np.exp(1.2 * Z[:, 0]), 100.0 - np.exp(0.9 * Z[:, 1]), Z[:, 2]])
    return X, np.tanh(Z[:, 0]) + 0.5 * Z[:, 1] + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y = long_rows()
    return EPRegressor(**QUICK).fit(X, y)


def seen_drawn_in(model):
    return np.array([c.solution.drawn is not None for c in model.posterior_.components])


def test_both_halves_are_stacked_and_a_note_says_so(fitted):
    drawn = seen_drawn_in(fitted)
    assert drawn.any()
    share = fitted.posterior_.weights[drawn].sum()
    (note,) = [n for n in fitted.notes_ if n.startswith("Long tails")]
    assert "column 0" in note and "column 1" in note and "column 2" not in note and f"{share:.0%}" in note


def test_the_note_names_columns():
    X, y = long_rows(40)
    table = pd.DataFrame(X, columns=["income", "savings", "age"])
    notes = EPRegressor(**QUICK | {"max_iter": 3}).fit(table, y).notes_
    (note,) = [n for n in notes if n.startswith("Long tails")]
    assert "income" in note and "savings" in note and "age" not in note


def test_components_see_new_rows_as_they_saw_the_training_rows(fitted):
    X, _ = long_rows(30, seed=1)
    design = fitted.posterior_.main.prepared.scaling.inputs(X)
    s = fitted.posterior_.main.prepared.scaling
    for component, drawn in zip(fitted.posterior_.components, seen_drawn_in(fitted), strict=True):
        seen = component.solution.drawn(design) if drawn else design
        f = latent_moments(component.spec, component.state.posterior, seen)
        np.testing.assert_allclose(component.latent(X).mean, s.y_mean + s.y_scale * f.mean, rtol=1e-12)
    means = np.stack([c.latent(X).mean for c in fitted.posterior_.components])
    np.testing.assert_allclose(fitted.predict(X), fitted.posterior_.weights @ means, rtol=1e-12)


def test_leave_one_out_is_that_of_rows_seen_so(fitted):
    """The running density of the last sweep is that of a fraction of a site, so it is near, not equal."""
    for component in fitted.posterior_.components:
        assert component.loo.mean == pytest.approx(component.loo.log_density.mean())
        scale = np.log(component.prepared.scaling.y_scale)
        assert component.loo.mean == pytest.approx(component.solution.history[-1].loo - scale, abs=0.1)


def test_draws_agree_with_the_predictions(fitted):
    X, _ = long_rows(20, seed=2)
    s = fitted.posterior_.main.prepared.scaling
    for component in fitted.posterior_.components:
        f = functions(component.spec, draw(component, 4000, np.random.default_rng(0)), component.design(X))
        latent = component.latent(X)
        away = s.y_mean + s.y_scale * f.mean(axis=0) - latent.mean
        assert np.all(np.abs(away) < 5.0 * np.sqrt(latent.var / 4000))
    mean, sd = fitted.predict(X, return_std=True)
    drawn = fitted.sample_y(X, 4000)
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 5.0 * sd / np.sqrt(4000))


def test_relevance_is_that_of_the_function(fitted):
    """The first two inputs have the effects that the truth has, the third has next to none."""
    table, (X, _) = fitted.relevance_, long_rows()
    truth = [np.std(np.tanh(np.log(X[:, 0]) / 1.2)), 0.5 * np.std(np.log(100.0 - X[:, 1]) / 0.9)]
    np.testing.assert_allclose(table.effect[:2], truth, rtol=0.15)
    assert table.effect[2] < 0.1 and table.probability[2] < 0.5 < table.probability[:2].min()


def test_files_and_pickles_bring_it_back(fitted, tmp_path):
    X, y = long_rows(30, seed=3)
    fitted.save(tmp_path / "m.cavity")
    for again in (load(tmp_path / "m.cavity"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        np.testing.assert_array_equal(again.log_density(X, y), fitted.log_density(X, y))
        assert again.notes_ == fitted.notes_
        np.testing.assert_array_equal(seen_drawn_in(again), seen_drawn_in(fitted))


def test_more_rows_go_on_from_it():
    X, y = long_rows(160)
    model = EPRegressor(**QUICK, warm_start=True).fit(X[:120], y[:120])
    before = seen_drawn_in(model)
    assert before.any()
    model.fit(X, y)
    after = seen_drawn_in(model)
    assert after.any() and len(after) <= len(before)
    new, truth = long_rows(200, seed=4)
    assert np.mean((model.predict(new) - truth) ** 2) < 0.15 * np.var(truth)


def test_units_of_the_inputs_do_not_matter():
    X, y = long_rows(60)
    new, _ = long_rows(20, seed=5)
    factor, shift = np.array([1e4, -3.0, 1e-3]), np.array([0.0, 50.0, 2.0])
    one = EPRegressor(**QUICK).fit(X, y).predict(new)
    other = EPRegressor(**QUICK).fit(X * factor + shift, y).predict(new * factor + shift)
    np.testing.assert_allclose(other, one, rtol=0.02, atol=0.02)


def test_weights_are_copies():
    X, y = long_rows(50)
    weight = np.random.default_rng(0).integers(1, 3, 50)
    weighted = EPRegressor(**QUICK).fit(X, y, sample_weight=weight)
    copied = EPRegressor(**QUICK).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert seen_drawn_in(weighted).any()
    np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))


@pytest.mark.parametrize(
    "params",
    [{"draw_in": False}, {"n_starts": 3}, {"n_starts": 1}, {"mask": ~np.eye(4, 3, dtype=bool)}],
    ids=lambda p: next(iter(p)),
)
def test_where_nothing_is_drawn_in(params):
    X, y = long_rows(60)
    model = EPRegressor(**QUICK | {"max_iter": 5} | params).fit(X, y)
    assert not seen_drawn_in(model).any()
    assert not any(note.startswith("Long tails") for note in model.notes_)


def test_without_long_tails_nothing_changes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    quick = QUICK | {"max_iter": 5}
    np.testing.assert_array_equal(
        EPRegressor(**quick).fit(X, y).predict(X), EPRegressor(**quick, draw_in=False).fit(X, y).predict(X)
    )


def test_auto_is_for_few_rows_and_true_for_any(monkeypatch):
    monkeypatch.setattr("cavity.estimators.regressor.MOST_DRAWN_ROWS", 50)
    X, y = long_rows(60)
    quick = QUICK | {"max_iter": 5}
    assert not seen_drawn_in(EPRegressor(**quick).fit(X, y)).any()
    assert seen_drawn_in(EPRegressor(**quick, draw_in=True).fit(X, y)).any()


def test_auto_makes_more_starts_where_inputs_are_drawn_in(monkeypatch):
    counted = []

    def fit_ensemble(spec, data, options, callback=None, *, plain=members.fit_ensemble):
        counted.append(options.n_starts)
        return plain(spec, data, options, callback)

    monkeypatch.setattr(members, "fit_ensemble", fit_ensemble)
    X, y = long_rows(60)
    EPRegressor(n_hidden=2, max_iter=2, noise=None, verbose=0, likelihood="gaussian").fit(X, y)
    assert sum(counted) == starts(60, 3) + MORE_STARTS and counted[0] == counted[1]
    counted.clear()
    EPRegressor(n_hidden=2, max_iter=2, noise=None, verbose=0, likelihood="gaussian", n_starts=5).fit(X, y)
    assert counted == [3, 2]


@pytest.mark.parametrize("wrong", ["yes", 1, None, "Auto"])
def test_what_draw_in_may_be(wrong):
    X, y = long_rows(30)
    with pytest.raises(ValueError, match='draw_in must be "auto", True or False'):
        EPRegressor(draw_in=wrong).fit(X, y)


def test_a_time_limit_leaves_the_first_half(monkeypatch):
    X, y = long_rows(60)
    model = EPRegressor(**QUICK, time_limit=1e-6).fit(X, y)
    assert not seen_drawn_in(model).any()
    assert np.all(np.isfinite(model.predict(X)))


def test_it_pays_where_tails_are_long():
    X, y = long_rows(80)
    new, truth = long_rows(1000, seed=6)
    params = QUICK | {"likelihood": "gaussian", "n_hidden": 6}
    with_it = EPRegressor(**params).fit(X, y)
    without = EPRegressor(**params, draw_in=False).fit(X, y)
    gain = with_it.log_density(new, truth) - without.log_density(new, truth)
    assert gain.mean() > 0.05  # 0.12; 0.14 for rows of seed 10
    assert np.mean((with_it.predict(new) - truth) ** 2) < np.mean((without.predict(new) - truth) ** 2)
