"""What EPRegressor answers, and that the answers agree with each other."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.estimators.problems import fitted, rows

from cavity import EPRegressor
from cavity.estimators.base import hidden_units
from cavity.model.priors import LaplacePrior

unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


def test_predictions_agree_with_each_other():
    model, (X, y) = fitted(), rows()
    mean, sd = model.predict(X, return_std=True)
    parts = model.predict_components(X)
    np.testing.assert_array_equal(mean, model.predict(X))
    np.testing.assert_allclose(parts.var, sd**2)
    np.testing.assert_allclose(parts.epistemic_var + parts.aleatoric_var, parts.var)
    assert (parts.epistemic_var > 0).all() and (parts.aleatoric_var > 0).all()
    np.testing.assert_array_equal(np.exp(model.log_density(X, y)), model.predict_density(X, y))
    assert model.score(X, y) > 0.9


def test_quantiles_and_intervals():
    model, (X, y) = fitted(), rows()
    q = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert q.shape == (len(y), 3)
    assert (np.diff(q, axis=1) > 0).all()
    np.testing.assert_array_equal(model.predict_quantiles(X, 0.1), q[:, 0])
    interval = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(interval, q[:, [0, 2]])
    inside = np.mean((y > interval[:, 0]) & (y < interval[:, 1]))
    assert 0.7 < inside < 0.95
    # the density integrates to the level between the quantiles
    grid = np.linspace(*interval[0], 401)
    density = model.predict_density(np.repeat(X[:1], len(grid), axis=0), grid)
    assert np.trapezoid(density, grid) == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize("n_starts", [1, 3])
def test_draws_have_the_predicted_moments(n_starts):
    model, (X, _) = fitted(n_starts=n_starts), rows()
    new = X[:5]
    draws = model.sample_y(new, 4000, random_state=1)
    mean, sd = model.predict(new, return_std=True)
    assert draws.shape == (5, 4000)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4.0 * sd.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), sd, rtol=0.06)
    np.testing.assert_array_equal(draws, model.sample_y(new, 4000, random_state=1))
    assert not np.array_equal(draws, model.sample_y(new, 4000, random_state=2))


def test_units_come_back():
    X, y = rows()
    model = EPRegressor(n_hidden=3, max_iter=40).fit(X * [1e3, 1.0, 1e-3] + 7.0, 100.0 * y - 50.0)
    expected = fitted()
    shifted = X * [1e3, 1.0, 1e-3] + 7.0
    # the fits differ by rounding, which the optimiser of the start and unfinished sweeps enlarge
    np.testing.assert_allclose(model.predict(shifted), 100.0 * expected.predict(X) - 50.0, rtol=1e-4)
    assert model.noise_sd_ == pytest.approx(100.0 * expected.noise_sd_, rel=1e-3)
    assert model.loo_ == pytest.approx(expected.loo_ - np.log(100.0), abs=1e-3)
    assert model.log_evidence_ == pytest.approx(expected.log_evidence_ - 60 * np.log(100.0), abs=0.1)


def test_fitted_attributes():
    model, (_, y) = fitted(), rows()
    assert model.loo_i_.shape == y.shape
    assert model.loo_ == pytest.approx(model.loo_i_.mean())
    assert np.isfinite(model.log_evidence_)
    assert 0.15 < model.noise_sd_ < 0.3
    assert model.input_weights_.mean.shape == model.input_weights_.sd.shape == (3, 3)
    assert model.output_weights_.mean.shape == (4,)
    assert (model.output_weights_.sd > 0).all()
    assert model.n_iter_ == len(model.history_)
    assert model.status_.endswith(".") and "max_sweeps" not in model.status_
    assert model.converged_ == model.posterior_.main.solution.converged
    assert model.n_features_in_ == 3
    assert model.notes_ == ()


def test_known_noise_of_rows():
    X, y = rows()
    model = EPRegressor(n_hidden=3, noise=0.0).fit(X, y, noise_var=0.04)
    expected = EPRegressor(n_hidden=3, noise=0.2).fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=0.02)
    assert expected.noise_sd_ == pytest.approx(0.2)
    sd = model.predict(X, return_std=True, noise_var=0.04)[1]
    np.testing.assert_allclose(sd, expected.predict(X, return_std=True)[1], rtol=0.05)


@unconverged
@pytest.mark.parametrize(
    ("params", "n_groups", "family"),
    [
        ({}, 1, "LaplacePrior"),
        ({"prior": "ard"}, 3, "GaussianPrior"),
        ({"prior": "gaussian"}, 1, "GaussianPrior"),
        ({"prior": "laplace", "groups": "input"}, 3, "LaplacePrior"),
        ({"prior": "ard", "groups": ["a", "b", "b"]}, 2, "GaussianPrior"),
        ({"prior": LaplacePrior(), "groups": "unit"}, 2, "LaplacePrior"),
    ],
)
def test_priors_and_groups(params, n_groups, family):
    X, y = rows(30)
    spec = EPRegressor(n_hidden=2, max_iter=3, **params).fit(X, y).posterior_.main.spec
    assert spec.scale_inferred.sum() == n_groups
    assert type(spec.blocks[0].prior).__name__ == family


@unconverged
def test_hyperpriors_reach_the_model():
    X, y = rows(30)
    quick = {"n_hidden": 2, "max_iter": 3}
    spec = EPRegressor(prior_scale=(-1.0, 0.5), noise=(-3.0, 0.25), **quick).fit(X, y).posterior_.main.spec
    assert (spec.scale_prior.mean[0], spec.scale_prior.var[0]) == (-1.0, 0.5)
    assert (spec.noise.mean, spec.noise.var) == (-3.0, 0.25)
    spec = EPRegressor(prior_scale=0.5, noise=np.float32(0.25), **quick).fit(X, y).posterior_.main.spec
    assert spec.scale_prior.mean[0] == pytest.approx(2 * np.log(0.5)) and spec.scale_prior.var[0] == 0.0
    assert spec.noise.mean == pytest.approx(2 * np.log(0.25 / y.std()), abs=1e-6) and spec.noise.var == 0.0


def test_number_of_units_follows_the_rows():
    counts = [hidden_units(n) for n in (2, 50, 200, 1000, 10**4, 10**6)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (5, 30)


def test_stacked_starts_answer_like_one():
    model, (X, y) = fitted(n_starts=3), rows()
    assert model.posterior_.weights.sum() == pytest.approx(1.0)
    assert model.predict_interval(X).shape == (len(y), 2)
    assert np.isfinite([model.loo_, model.log_evidence_, model.noise_sd_]).all()


def test_several_threads_change_nothing():
    X, y = rows()
    model = EPRegressor(n_hidden=3, max_iter=40, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), fitted().predict(X))


@unconverged
def test_warm_start_goes_on_where_the_last_fit_stopped():
    X, y = rows()
    model = EPRegressor(n_hidden=3, max_iter=3, warm_start=True).fit(X, y)
    once = model.posterior_.main.state
    swept_on = EPRegressor(n_hidden=3, max_iter=4).fit(X, y).posterior_.main.state
    model.set_params(max_iter=1).fit(X, y)
    assert [r.stage for r in model.history_] == ["resume"]
    np.testing.assert_allclose(model.posterior_.main.state.rows.h, swept_on.rows.h, rtol=1e-9)
    assert not np.array_equal(once.rows.h, swept_on.rows.h)
    model.set_params(prior="ard").fit(X, y)  # another model starts afresh
    assert "resume" not in {r.stage for r in model.history_}


def test_warm_start_takes_new_rows_along():
    X, y = rows(80)
    model = EPRegressor(n_hidden=3, max_iter=40, warm_start=True).fit(X[:70], y[:70])
    before = model.predict(X[70:])
    model.fit(X, y)
    assert {r.stage for r in model.history_} == {"resume"}
    assert model.loo_i_.shape == (80,)
    fresh = EPRegressor(n_hidden=3, max_iter=40).fit(X, y)
    assert model.loo_ == pytest.approx(fresh.loo_, abs=0.1)
    assert not np.array_equal(before, model.predict(X[70:]))


@unconverged
def test_warm_start_on_other_rows_starts_afresh():
    X, y = rows()
    model = EPRegressor(n_hidden=2, max_iter=3, warm_start=True).fit(X, y)
    model.fit(X + 0.5, y)
    assert "resume" not in {r.stage for r in model.history_}


@unconverged
def test_time_limit_keeps_what_there_is():
    X, y = rows()
    model = EPRegressor(time_limit=1e-9).fit(X, y)
    assert "time limit" in model.status_
    assert np.isfinite(model.predict(X)).all()


def test_a_large_mismatch_warns_with_the_status():
    X, y = rows(10)
    with pytest.warns(ConvergenceWarning, match="Not converged.*mismatch") as seen:
        model = EPRegressor(time_limit=1e-9).fit(X, y)
    assert not model.converged_
    assert seen[0].filename == __file__, "it names the line that called fit"


@unconverged
def test_progress_is_quiet_unless_asked_for(capsys):
    X, y = rows(20)
    quick = {"n_hidden": 1, "max_iter": 3}
    EPRegressor(**quick).fit(X, y)
    assert capsys.readouterr() == ("", "")
    EPRegressor(**quick, verbose=1).fit(X, y)
    out, stages = capsys.readouterr()
    assert out == "" and "LOO" in stages
    model = EPRegressor(**quick, verbose=2).fit(X, y)
    sweeps = capsys.readouterr().err.splitlines()
    assert len(sweeps) == model.n_iter_ + 1  # and how it ended
    assert sweeps[-1].endswith(model.status_)


@unconverged
def test_a_function_may_follow_the_sweeps_and_stop_them():
    X, y = rows(20)
    seen = []

    def follow(record, state):
        seen.append(record.sweep)
        return len(seen) == 3

    model = EPRegressor(n_hidden=1, verbose=follow).fit(X, y)
    assert len(seen) == model.n_iter_ == 3


def test_nothing_to_explain():
    X, _ = rows(20)
    with pytest.warns(UserWarning, match="y is constant"):
        model = EPRegressor(n_hidden=1, max_iter=5).fit(X, np.full(20, 3.5))
    np.testing.assert_allclose(model.predict(X), 3.5, atol=1e-3)
    assert model.notes_[0].startswith("y is constant")
