"""Stacks of several kinds of models."""

import numpy as np
import pytest

import cavity
from cavity import EPClassifier, EPRegressor
from cavity.ep import members as engine
from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble, joined, mixture_loo, unseen_densities
from cavity.ep.ladder import fit_ensemble
from cavity.ep.members import FOLDS, Member, fit_members, refitted, screened
from cavity.ep.options import FitOptions
from cavity.estimators.wide import wide_models
from cavity.model.data import prepare
from cavity.model.likelihoods import ProbitLikelihood
from cavity.model.spec import Output, network

pytestmark = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
OPTIONS = FitOptions(max_iter=4, tol=0.05)


@pytest.fixture(scope="module")
def straight_rows():
    """Two classes with a straight border, and the model that is straight itself."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    data = prepare(X, y, canonical=True, standardise_target=False).data
    output = Output(fixed=np.array([1.0, 0.0]))
    linear = network(
        2, 1, activation="linear", prior="gaussian", output=output, likelihood=ProbitLikelihood()
    )
    return data, linear


def test_one_member_is_itself(straight_rows):
    data, linear = straight_rows
    found = fit_members([Member(linear, OPTIONS)], data)
    alone = fit_ensemble(linear, data, OPTIONS)
    assert len(found.solutions) == 1 and found.weights.tolist() == [1.0]
    np.testing.assert_array_equal(mixture_loo(found, data), mixture_loo(alone, data))


def test_a_kind_counts_once_however_many_starts(straight_rows):
    data, linear = straight_rows
    one = fit_ensemble(linear, data, OPTIONS).solutions[0]
    once, often = Ensemble((one,), np.ones(1)), Ensemble((one,) * 4, np.full(4, 0.25))
    found = joined([once, often], data)
    # both kinds predict the same, so that only the prior decides: half for each
    np.testing.assert_allclose(found.weights, [0.5, 0.125, 0.125, 0.125, 0.125], rtol=1e-6)


def test_a_useless_kind_gets_next_to_nothing(straight_rows):
    data, linear = straight_rows
    good = fit_ensemble(linear, data, OPTIONS)
    held = network(
        2, 1, activation="linear", prior="gaussian", prior_var=1e-6, output=linear.output,
        likelihood=ProbitLikelihood(),
    )  # fmt: skip
    bad = fit_ensemble(held, data, OPTIONS)
    gap = float(np.mean(mixture_loo(good, data) - mixture_loo(bad, data)))
    assert gap > 0.2
    found = joined([good, bad], data)
    assert found.weights[0] > 0.9


def test_time_is_for_all_members(straight_rows):
    data, linear = straight_rows
    limited = FitOptions(max_iter=4, tol=0.05, time_limit=1e-9)
    assert len(fit_members([Member(linear, limited)] * 3, data).solutions) == 1


def test_unseen_rows_are_predicted_as_by_the_posterior():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = EPRegressor(n_hidden=3, n_starts=1, max_iter=10).fit(X[:40], y[:40])
    main = model.posterior_.main
    scaling = main.prepared.scaling
    unseen = prepare(X[:40], y[:40]).data._replace(
        X=scaling.inputs(X[40:]), y=scaling.target(y[40:]), weight=np.ones(20), row_var=np.zeros(20)
    )
    density = unseen_densities(main.prepared.data, main.solution, unseen) - np.log(scaling.y_scale)
    np.testing.assert_allclose(density, model.log_density(X[40:], y[40:]), atol=1e-6)


def test_refitted_folds_leave_their_rows_out(straight_rows):
    data, linear = straight_rows
    found = refitted([Member(linear, OPTIONS)] * 2, data, Countdown(None))
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    order = np.argsort(data.y, kind="stable")
    out = order[::FOLDS]
    rest = np.setdiff1d(np.arange(data.n_rows), out)
    fitted, left = (type(data)(*(part[which] for part in data)) for which in (rest, np.sort(out)))
    again = fit_ensemble(linear, fitted, OPTIONS)
    expected = unseen_densities(fitted, again.solutions[0], left)
    np.testing.assert_allclose(found[np.sort(out), 0], expected, rtol=1e-12)
    assert refitted([Member(linear, OPTIONS)], data, Countdown(0.0)) is None


def test_kinds_are_weighed_by_their_folds(straight_rows, monkeypatch):
    """A kind that leave-one-out prefers, but folds do not, gets little; each kind counts by its best."""
    data, linear = straight_rows
    members = [Member(linear, OPTIONS, "a"), Member(linear, OPTIONS, "b"), Member(linear, OPTIONS, "b")]
    seen = []

    def told(best, rows, clock, callback=None):
        seen.append([m.kind for m in best])
        return np.column_stack([np.zeros(rows.n_rows), np.full(rows.n_rows, -3.0)])

    monkeypatch.setattr(engine, "refitted", told)
    found = fit_members(members, data)
    assert seen == [["a", "b"]]
    assert found.weights[0] > 0.95 and found.on_folds
    monkeypatch.setattr(engine, "refitted", lambda *a, **k: None)  # out of time: by leave-one-out
    found = fit_members(members, data)
    np.testing.assert_allclose(found.weights.sum(), 1.0)
    assert not found.on_folds


def test_the_pull_between_kinds_on_folds_is_worth_half_a_row(straight_rows, monkeypatch):
    """At the maximum of Σ w log(π + (1-π) r) + ½ log π + ½ log(1-π) the slopes of both parts cancel."""
    data, linear = straight_rows
    data = data._replace(weight=np.full(data.n_rows, 2.0))
    r = 0.9
    density = np.column_stack([np.zeros(data.n_rows), np.full(data.n_rows, np.log(r))])
    monkeypatch.setattr(engine, "refitted", lambda *a, **k: density)
    first, second = fit_members([Member(linear, OPTIONS, "a"), Member(linear, OPTIONS, "b")], data).weights
    pull = 0.5 / second - 0.5 / first
    assert 2.0 * data.n_rows * (1.0 - r) / (first + second * r) == pytest.approx(pull, rel=1e-6)


def wide(n=20, d=40):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    return X, X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=n)


def kinds(model):
    return {type(c.spec.activations[-1]).__name__ for c in model.posterior_.components}


def test_more_inputs_than_rows_are_fitted_by_straight_networks():
    X, y = wide()
    few = {"n_starts": 1, "max_iter": 3}
    assert kinds(EPClassifier(**few).fit(X, y > 0.0)) == {"Linear"}
    assert kinds(EPRegressor(**few).fit(X, y)) == {"Linear"}
    # what a user asks for is what a user gets
    assert kinds(EPClassifier(prior="gaussian", n_hidden=2, **few).fit(X, y > 0.0)) == {"Erf"}
    assert kinds(EPRegressor(n_hidden=2, **few).fit(X, y)) == {"Erf"}
    assert kinds(EPRegressor(activation="erf", prior="gaussian", **few).fit(X, y)) == {"Erf"}


def test_wide_fits_predict():
    X, y = wide(40, 60)
    model = EPRegressor(n_starts=2).fit(X[:30], y[:30])
    # the mean of 30 rows explains nothing; five of sixty inputs make most of y
    assert np.mean((model.predict(X[30:]) - y[30:]) ** 2) < 0.8 * np.var(y)


def test_two_of_many_inputs_are_found_by_the_spike_and_slab():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 60))
    model = EPRegressor().fit(X, X[:, 7] - X[:, 40] + 0.1 * rng.normal(size=30))
    assert type(model.posterior_.main.spec.blocks[0].prior).__name__ == "SpikeAndSlabPrior"
    assert set(model.inclusion_[0].argsort()[-2:]) == {7, 40}


def test_default_stack_holds_a_straight_border():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=80) > 0.0
    model = EPClassifier(n_starts=2, max_iter=5).fit(X, y)
    assert "Linear" in kinds(model)
    again = EPClassifier(n_starts=2, max_iter=5).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


def test_networks_are_weighed_on_folds_where_rows_are_few(monkeypatch, tmp_path):
    """Twenty rows for each input, the bias one of them, are enough for leave-one-out; below, waves join."""
    rng = np.random.default_rng(6)
    seen = []
    whole = engine.refitted

    def told(best, *rest, **more):
        seen.append([m.kind for m in best])
        return whole(best, *rest, **more)

    monkeypatch.setattr(engine, "refitted", told)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=80) > 0.0
    enough = EPClassifier(n_starts=2, max_iter=3).fit(X, y)
    assert seen == [] and "Cosine" not in kinds(enough)
    model = EPClassifier(n_starts=2, max_iter=3).fit(X[:79], y[:79])
    assert seen == [["smooth", "sparse", "waves", "straight"]]
    assert {"Erf", "Cosine", "Linear"} == kinds(model)
    assert all(c.solution.temperature == 1.0 for c in model.posterior_.components)
    # the posterior says so, and so does a file
    assert model.posterior_.on_folds and not enough.posterior_.on_folds
    model.save(tmp_path / "few.cavity")
    assert cavity.load(tmp_path / "few.cavity").posterior_.on_folds


def test_many_inputs_are_left_to_leave_one_out(monkeypatch):
    """Fits of these are too slow to be made again on folds."""
    monkeypatch.setattr("cavity.estimators.classifier.MOST_INPUTS", 2)
    X, y = np.random.default_rng(6).normal(size=(30, 3)), np.arange(30) % 2
    few, many = (EPClassifier(n_starts=2, max_iter=2).fit(X[:, :d], y) for d in (2, 3))
    assert few.posterior_.on_folds and not many.posterior_.on_folds and "Cosine" not in kinds(many)


def test_waves_do_not_take_the_place_of_a_named_activation():
    X, y = np.random.default_rng(6).normal(size=(30, 2)), np.arange(30) % 2
    model = EPClassifier(activation="tanh", n_starts=2, max_iter=3).fit(X, y)
    assert model.posterior_.on_folds and kinds(model) == {"Tanh", "Linear"}


def test_folds_of_several_starts_are_predicted_by_their_mixture(straight_rows, monkeypatch):
    data, linear = straight_rows
    monkeypatch.setattr(engine, "FOLD_STARTS", 2)
    bent = network(2, 2, prior="gaussian", likelihood=ProbitLikelihood())
    member = Member(bent, FitOptions(n_starts=2, max_iter=4, tol=0.05))
    density = refitted([member], data, Countdown(None))
    fold = np.empty(60, dtype=int)
    fold[np.argsort(data.y, kind="stable")] = np.arange(60) % FOLDS
    rest, out = (type(data)(*(part[which] for part in data)) for which in (fold != 0, fold == 0))
    again = fit_ensemble(bent, rest, member.options)
    assert len(again.solutions) == 2
    parts = np.stack([unseen_densities(rest, s, out) for s in again.solutions])
    expected = np.log(np.exp(parts).T @ again.weights)
    np.testing.assert_allclose(density[fold == 0, 0], expected, rtol=1e-10)


def test_screening_keeps_the_inputs_that_go_with_the_target():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 6)) * [1.0, 100.0, 1.0, 1.0, 1.0, 1.0]
    y = np.where(X[:, 4] - X[:, 2] > 0.0, 1.0, -1.0)
    data = prepare(X, y, standardise_target=False).data
    spec = network(6, 1, activation="linear", prior="gaussian", output=Output(fixed=np.array([1.0, 0.0])))
    assert np.flatnonzero(~screened(spec, data, 2).held[0]).tolist() == [2, 4, 6]  # and the bias
    # copies of rows count as often as there are of them: by these alone another input says everything
    other = np.where(X[:, 0] > 0.0, 1.0, -1.0) == y
    told = data._replace(weight=np.where(other, 1000.0, 1.0))
    assert np.flatnonzero(~screened(spec, told, 1).held[0]).tolist() == [0, 6]


def test_screened_inputs_are_chosen_anew_on_every_fold(straight_rows, monkeypatch):
    data, linear = straight_rows
    seen = []

    def told(spec, rows, count):
        seen.append((rows.n_rows, count))
        return spec

    monkeypatch.setattr(engine, "screened", told)
    fit_members([Member(linear, OPTIONS, "a"), Member(linear, OPTIONS, "b", inputs=1)], data)
    assert seen == [(60, 1)] + [(40, 1)] * FOLDS


def test_classes_of_many_inputs_try_ridges_of_few_of_them(tmp_path):
    assert not any(m.inputs for m in wide_models(300))
    assert {m.inputs for m in wide_models(300, classes=True)} == {None, 20}
    assert {m.inputs for m in wide_models(2000, classes=True)} == {None, 20, 200, 1000}
    rng = np.random.default_rng(9)
    X = rng.normal(size=(40, 60))
    y = X[:, 7] > 0.0
    model = EPClassifier(random_state=0).fit(X, y)
    used = [int((~c.spec.held[0]).sum()) for c in model.posterior_.components]
    assert 21 in used and np.argmax(model.relevance_.probability) == 7
    model.save(tmp_path / "few.cavity")
    np.testing.assert_array_equal(
        cavity.load(tmp_path / "few.cavity").predict_proba(X), model.predict_proba(X)
    )
