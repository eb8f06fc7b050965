"""The relevance table against definitions written out, and on a problem whose answer is known."""

import numpy as np
import pytest
from scipy.stats import norm
from tests.estimators.problems import fitted, rows

from cavity import EPClassifier, EPRegressor
from cavity.model.spec import network
from cavity.result.draws import draw, functions
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import _mixture_quantile, input_blocks, is_straight, mean_changes, relevance

unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
FORMS = [
    {},
    {"n": 20, "d": 30, "max_iter": 2, "n_hidden": 2},
    {"n": 20, "form": "diagonal", "max_iter": 2, "n_hidden": 2},
]


@unconverged
@pytest.mark.parametrize("case", FORMS, ids=["full", "dual", "diagonal"])
def test_mean_changes_are_differences_of_predictions(case):
    posterior = fitted(**case).posterior_.main
    prepared = posterior.prepared
    scaling, X = prepared.scaling, prepared.data.X
    raw = X[:, :-1] * scaling.x_scale + scaling.x_mean
    blocks = [np.array([0]), np.array([1, 2])]
    changes = mean_changes(posterior, X, blocks)
    for block, change in zip(blocks, changes, strict=True):
        put = raw.copy()
        put[:, block] = scaling.x_mean[block]
        expected = (posterior.latent(raw).mean - posterior.latent(put).mean) / scaling.y_scale
        np.testing.assert_allclose(change, expected, atol=1e-9)


@unconverged
@pytest.mark.parametrize("case", FORMS, ids=["full", "dual", "diagonal"])
def test_draws_have_the_moments_of_f(case):
    posterior = fitted(**case).posterior_.main
    X = np.vstack([posterior.prepared.data.X[:4], 2.0 * posterior.prepared.data.X[4:6]])
    scaling = posterior.prepared.scaling
    draws = draw(posterior, 4000, np.random.default_rng(0))
    f = functions(posterior.spec, draws, X)
    latent = posterior.latent(X[:, :-1] * scaling.x_scale + scaling.x_mean)
    if case.get("d") != 30:  # rows outside the data need the bias column to stay one
        X[:, -1] = 1.0
        f = functions(posterior.spec, draws, X)
    sd = np.sqrt(latent.var) / scaling.y_scale
    rows_kept = slice(0, 4) if case.get("d") == 30 else slice(None)
    error = (f.mean(axis=0) - (latent.mean - scaling.y_mean) / scaling.y_scale) / sd
    assert np.abs(error[rows_kept]).max() < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(f.std(axis=0)[rows_kept], sd[rows_kept], rtol=0.07)
    w = draws.w.reshape(4000, -1)
    np.testing.assert_allclose(w.std(axis=0), np.sqrt(posterior.state.posterior.w.var).ravel(), rtol=0.08)


def test_only_the_first_input_matters():
    table = fitted(prior="ard").relevance_
    assert table.name == ("x0", "x1", "x2")
    assert table.probability[0] == 1.0 and table.probability[1:].max() < 0.1
    assert table.mean_effect[0] > 10.0 * table.mean_effect[1:].max()
    assert table.effect[0] > 4.0 * table.effect[1:].max()
    assert table.scale_mean[0] > table.scale_mean[1:].max() + 2.0
    assert (table.scale_lower < table.scale_mean).all() and (table.scale_mean < table.scale_upper).all()
    assert (table.effect_lower <= table.effect_upper).all()
    # in units of y, about the sd of 2 tanh(1.5 x) with x standard normal
    assert table.effect[0] == pytest.approx(1.4, abs=0.2)
    assert table.effect_lower[0] < table.effect[0] < table.effect_upper[0]


CASES = [
    {"prior": "ard"}, {}, {"prior": "gaussian"}, {"n": 20, "d": 30, "max_iter": 2, "n_hidden": 2},
    {"n": 20, "form": "diagonal", "max_iter": 2, "n_hidden": 2},
]  # fmt: skip


@unconverged
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_effect_lies_in_its_interval_and_agrees_with_its_probability(case):
    model = fitted(**case)
    for table in (model.relevance_, relevance(model.posterior_, [("all", [0, 1, 2]), ("two", [1, 2])])):
        assert (table.effect_lower <= table.effect).all() and (table.effect <= table.effect_upper).all()
        sd = model.posterior_.main.prepared.scaling.y_scale
        decided = np.abs(table.probability - 0.5) > 0.01
        above = table.effect > table.threshold * sd
        np.testing.assert_array_equal(above[decided], table.probability[decided] > 0.5)
    assert (table.mean_effect <= table.effect_upper).all()


def test_scales_are_the_posteriors():
    model = fitted(prior="ard")
    q = model.posterior_.main.scales
    np.testing.assert_allclose(model.relevance_.scale_mean, q.mean[:3])
    np.testing.assert_allclose(model.relevance_.scale_sd, np.sqrt(q.var[:3]))
    np.testing.assert_allclose(
        model.relevance_.scale_lower, q.mean[:3] - 1.959964 * np.sqrt(q.var[:3]), atol=1e-5
    )
    shared = fitted(groups="common").relevance_
    assert len(set(shared.scale_mean)) == 1


def test_quantiles_of_mixtures():
    p, mean, sd = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    at = _mixture_quantile(p, mean, sd, 0.2)
    assert p @ norm.cdf(at, mean, sd) == pytest.approx(0.2)
    assert _mixture_quantile(np.ones(1), np.array([4.0]), np.zeros(1), 0.3) == pytest.approx(4.0)


def test_threshold_and_blocks():
    model = fitted()
    low, high = model.relevance_table(0.01), model.relevance_table(0.6)
    assert (low.probability >= high.probability).all()
    assert high.threshold == 0.6 and "0.6 sd(y)" in repr(high)
    together = relevance(model.posterior_, [("all", [0, 1, 2]), ("noise", [1, 2])])
    assert together.effect[0] > together.effect[1]
    with pytest.raises(ValueError, match="threshold must not be negative"):
        model.relevance_table(-1.0)


def test_labels_make_blocks():
    assert input_blocks(["a", "b"], "input") == [("a", [0]), ("b", [1])]
    assert input_blocks(["a", "b", "c"], ["one", "two", "one"]) == [("one", [0, 2]), ("two", [1])]
    assert input_blocks(["a", "b", "c"], [7, 8, 7]) == [("group 7", [0, 2]), ("b", [1])]
    assert input_blocks(["a", "b"], np.zeros((4, 2))) == [("a", [0]), ("b", [1])]
    table = fitted(prior="ard", groups=("a", "b", "b")).relevance_
    assert table.name == ("a", "b") and table.probability[0] == 1.0


def test_mixtures_average():
    a, b = fitted().posterior_.main, fitted(prior="gaussian").posterior_.main
    blocks = input_blocks(["x0", "x1", "x2"])
    alone = [relevance(MixturePosterior([c], np.ones(1)), blocks) for c in (a, b)]
    mixed = relevance(MixturePosterior([a, b], np.array([0.25, 0.75])), blocks)
    np.testing.assert_allclose(mixed.scale_mean, 0.25 * alone[0].scale_mean + 0.75 * alone[1].scale_mean)
    assert (mixed.mean_effect <= 0.25 * alone[0].mean_effect + 0.75 * alone[1].mean_effect + 1e-12).all()
    assert ((mixed.probability >= 0.0) & (mixed.probability <= 1.0)).all()


@unconverged
def test_scales_of_units_are_averaged():
    X, y = rows(30)
    model = EPRegressor(n_hidden=2, groups="unit", max_iter=3, n_starts=1).fit(X, y)
    q = model.posterior_.main.scales
    np.testing.assert_allclose(model.relevance_.scale_mean, q.mean[:2].mean())


def test_tables_are_readable():
    table = fitted(prior="ard").relevance_
    shown = repr(table)
    assert "x0" in shown and "P(relevant)" in shown and "log prior variance" in shown
    assert len(table) == 3
    ranked = table.sorted()
    assert (np.diff(ranked.effect) <= 0).all() and ranked.name[0] == "x0"
    frame = pytest.importorskip("pandas") and table.to_pandas()
    assert list(frame["name"]) == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(frame["effect"], table.effect)


def test_a_table_without_pandas_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas.. needs pandas: pip install"):
        fitted().relevance_.to_pandas()


def test_slopes_are_a_short_cut_only(monkeypatch):
    """Straight fits of several kinds, some of which see few of the inputs, through both ways."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 50))
    model = EPClassifier(random_state=0).fit(X, X[:, 3] - X[:, 8] > 0.0)
    blocks = [("both", [3, 8]), *((f"x{j}", [j]) for j in range(50))]
    assert all(is_straight(c.spec) for c in model.posterior_.components)
    assert len({int(c.spec.held.sum()) for c in model.posterior_.components}) > 1
    short = relevance(model.posterior_, blocks)
    monkeypatch.setattr("cavity.result.relevance.is_straight", lambda spec: False)
    long = relevance(model.posterior_, blocks)
    for name, column in long.to_dict().items():
        if name != "name":
            np.testing.assert_allclose(getattr(short, name), column, rtol=1e-9, atol=1e-12)


def test_scales_of_inputs_that_share_them_are_their_own():
    """Asked for together or one by one: what is worked out once belongs to inputs that the same fits see."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 50))
    posterior = EPClassifier(random_state=0).fit(X, X[:, 3] - X[:, 8] > 0.0).posterior_
    blocks = [(f"x{j}", [j]) for j in range(50)]
    whole = relevance(posterior, blocks)
    few = next(c.spec for c in posterior.components if c.spec.held.any())
    for j in (int(np.argmax(few.held[0])), int(np.argmin(few.held[0]))):  # not seen by all, and seen by all
        alone = relevance(posterior, [blocks[j]])
        for name in ("scale_mean", "scale_sd", "scale_lower", "scale_upper"):
            assert getattr(whole, name)[j] == getattr(alone, name)[0]
    assert len(set(whole.scale_mean)) == 2


def test_bent_units_have_no_slopes():
    bent = network(2, 2, activation="linear+erf")
    assert not is_straight(bent) and is_straight(network(2, 2, activation="linear"))
    assert not is_straight(network(2, 2, activation="linear", interactions=[(0, 1)]))
