"""The temperature of linear models of more inputs than rows."""

import numpy as np
import pytest
from scipy.special import log_ndtr

import cavity
from cavity import EPClassifier, EPRegressor
from cavity.ep.ensemble import loo_densities, unseen_densities
from cavity.ep.inclusion import has_inclusion
from cavity.ep.temper import PULL, predictive_state, tempered, with_temperature
from cavity.estimators.wide import LARGE_HORSESHOE, wide_models
from cavity.result.loo import leave_one_out
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import input_inclusion

pytestmark = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def few_rows():
    """Forty rows, 300 inputs that all say a little of one thing: a wide ridge is right and hardly sure."""
    rng = np.random.default_rng(3)
    latent = rng.normal(size=60)
    X = latent[:, None] + 1.5 * rng.normal(size=(60, 300))
    y = (latent > 0.0).astype(int)
    return X[:40], y[:40], X[40:], y[40:]


@pytest.fixture(scope="module")
def model(few_rows):
    X, y, *_ = few_rows
    return EPClassifier(random_state=0).fit(X, y)


def test_classes_try_one_size_more():
    """Of horseshoes: where a fit knows how sure it may be, large ones are of use too."""
    kinds = [[m.kind for m in wide_models(300, classes)] for classes in (False, True)]
    assert kinds[1].count("horseshoe") == kinds[0].count("horseshoe") + 1
    sizes = [m.how["prior_var"] for m in wide_models(300, True) if m.kind == "horseshoe"]
    assert sizes == sorted(sizes) and sizes[-1] == pytest.approx(LARGE_HORSESHOE / 300)


def coldest(model):
    """The component whose temperature is farthest below one, with the data it was fitted to."""
    found = min(model.posterior_.components, key=lambda c: c.solution.temperature)
    return found.solution, found.prepared.data


def test_means_stay_and_variances_are_multiplied(model):
    solution, data = coldest(model)
    spec = solution.spec
    at = tempered(spec, data, solution.state, 0.3)
    q, before = at.posterior.w, solution.state.posterior.w
    np.testing.assert_allclose(q.mean, before.mean, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(q.var, 0.3 * before.var, rtol=1e-7)
    np.testing.assert_allclose(q.h_var, 0.3 * before.h_var, rtol=1e-7)
    loo, was = leave_one_out(spec, data, at).f, leave_one_out(spec, data, solution.state).f
    np.testing.assert_allclose(loo.mean, was.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(loo.var, 0.3 * was.var, rtol=1e-6)


def test_the_temperature_is_the_maximum_of_what_it_says(model):
    solution, data = coldest(model)
    assert solution.temperature < 0.5
    f = leave_one_out(solution.spec, data, solution.state).f

    def objective(t):
        return log_ndtr(data.y * f.mean / np.sqrt(1.0 + t * f.var)).sum() - 0.5 * PULL * np.log(t) ** 2

    best = objective(solution.temperature)
    assert best > max(objective(solution.temperature * factor) for factor in (0.9, 1.1))
    assert best > objective(1.0)
    # leave-one-out of the stack and of the fitted posterior see it
    expected = log_ndtr(data.y * f.mean / np.sqrt(1.0 + solution.temperature * f.var))
    np.testing.assert_allclose(loo_densities(data, solution), expected, atol=1e-6)


def test_predictions_rest_on_it_and_the_evidence_does_not(model, few_rows):
    _, _, X, y = few_rows
    solution, data = coldest(model)
    component = next(c for c in model.posterior_.components if c.solution is solution)
    plain = type(component)(component.prepared, solution._replace(temperature=1.0))
    assert component.log_evidence == plain.log_evidence
    f, before = component.latent(X), plain.latent(X)
    np.testing.assert_allclose(f.mean, before.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(f.var, solution.temperature * before.var, rtol=1e-6)
    unseen = data._replace(
        X=component.prepared.scaling.inputs(X), y=2.0 * y - 1.0, weight=np.ones(20), row_var=np.zeros(20)
    )
    density = unseen_densities(data, solution, unseen)
    np.testing.assert_allclose(density, component.log_density(X, 2.0 * y - 1.0), atol=1e-6)
    assert density.mean() > plain.log_density(X, 2.0 * y - 1.0).mean()


def test_inclusion_is_what_ep_found(few_rows):
    X, y, *_ = few_rows
    rng = np.random.default_rng(5)
    one = X[:, :1] + 0.2 * rng.normal(size=(40, 1))  # an input that says it all, among idle ones
    table = np.hstack([one, rng.normal(size=(40, 199))])
    fit = EPClassifier(random_state=0).fit(table, (one[:, 0] > np.median(one)).astype(int))
    slabs = [c for c in fit.posterior_.components if has_inclusion(c.spec)]
    assert slabs and slabs[0].solution.temperature != 1.0
    main, q = slabs[0], slabs[0].solution
    plain = MixturePosterior([type(main)(main.prepared, q._replace(temperature=1.0))], np.ones(1))
    tempered = MixturePosterior([main], np.ones(1))
    columns = np.arange(200)[:, None]
    np.testing.assert_array_equal(input_inclusion(tempered, columns), input_inclusion(plain, columns))


def test_it_is_saved_and_chosen_again_when_the_fit_goes_on(model, few_rows, tmp_path):
    X, y, X_new, _ = few_rows
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    np.testing.assert_array_equal(again.predict_proba(X_new), model.predict_proba(X_new))
    on = EPClassifier(random_state=0, warm_start=True).fit(X, y)
    before = coldest(on)[0].temperature
    on.fit(X, y)
    assert coldest(on)[0].temperature == pytest.approx(before, rel=0.2)


def test_numbers_and_networks_have_none(few_rows):
    X, y, *_ = few_rows
    numbers = EPRegressor(random_state=0).fit(X, X[:, 0])
    assert {c.solution.temperature for c in numbers.posterior_.components} == {1.0}
    network = EPClassifier(n_hidden=2, n_starts=1, prior="laplace", max_iter=5).fit(X[:, :5], y)
    main = network.posterior_.main
    assert with_temperature(main.prepared.data, main.solution) is main.solution
    assert predictive_state(main.prepared.data, main.solution) is main.solution.state
