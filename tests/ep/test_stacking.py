"""Stacking weights against what they maximise, and what is dropped."""

import numpy as np
import pytest
from scipy.optimize import minimize

from cavity.ep import ensemble
from cavity.ep.stacking import distinct, drop_small, stacking_weights, usable
from cavity.model.data import TrainingData


def densities(n=200, seed=0):
    """Leave-one-out log densities of three fits: good, good elsewhere, bad."""
    rng = np.random.default_rng(seed)
    base = rng.normal(-1.0, 0.3, size=(n, 3))
    base[: n // 2, 0] += 0.5
    base[n // 2 :, 1] += 0.5
    base[:, 2] -= 2.0
    return base


@pytest.mark.parametrize("equality", [0.0, 0.005, 0.2])
def test_weights_maximise_the_penalised_score(equality):
    log_p, copies = densities(), np.random.default_rng(1).integers(1, 4, 200).astype(float)

    def loss(z):
        pi = np.exp(z - z.max())
        pi /= pi.sum()
        score = copies @ np.log(np.exp(log_p) @ pi)
        return -(score / copies.sum() + equality * np.log(pi).sum())

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    found = stacking_weights(log_p, copies, equality)
    assert found.sum() == pytest.approx(1.0)
    assert loss(np.log(found + 1e-300)) <= best.fun + 1e-9


def test_equality_draws_to_equal_weights():
    log_p = densities()
    spread = [np.ptp(stacking_weights(log_p, equality=a)) for a in (0.0, 0.01, 1.0, 100.0)]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 0.01


def test_copies_of_rows_are_weights():
    log_p = densities(40)
    copies = np.arange(1.0, 41.0) % 4
    repeated = np.repeat(log_p, copies.astype(int), axis=0)
    np.testing.assert_allclose(stacking_weights(log_p, copies), stacking_weights(repeated), atol=1e-9)


def test_near_copies_are_dropped_and_the_better_converged_stays():
    log_p = densities()
    with_copy = np.column_stack([log_p, log_p[:, 0] + 1e-4])
    assert distinct(with_copy, np.array([3, 1, 0, 2])) == [1, 2, 3]
    assert distinct(with_copy, np.array([0, 1, 2, 3])) == [0, 1, 2]


def test_small_weights_go_and_the_largest_stays():
    np.testing.assert_allclose(drop_small(np.array([0.6, 0.395, 0.005])), [0.6 / 0.995, 0.395 / 0.995, 0.0])
    np.testing.assert_allclose(drop_small(np.full(200, 0.005)), np.full(200, 0.005))


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_fits_that_fell_apart_get_nothing(bad):
    log_p = densities()
    broken = np.insert(log_p, 1, 0.0, axis=1)
    broken[7, 1] = bad
    assert usable(broken) == [0, 2, 3]
    found = stacking_weights(broken)
    np.testing.assert_allclose(found[[0, 2, 3]], stacking_weights(log_p), rtol=1e-12)
    assert found[1] == 0.0
    broken[3] = bad  # every fit has such a row: all count, and nothing is NaN
    found = stacking_weights(broken)
    assert np.all(found > 0.0) and found.sum() == pytest.approx(1.0)


def test_a_fit_without_a_density_is_never_the_better_one(monkeypatch):
    """NaN would be neither better nor worse, and pass where only "not worse" is asked for."""
    data = TrainingData(np.zeros((2, 1)), np.zeros(2), np.ones(2), np.zeros(2))
    monkeypatch.setattr(ensemble, "loo_densities", lambda data, solution: np.array(solution))
    assert ensemble.mean_loo(data, (-1.0, -3.0)) == -2.0
    assert ensemble.mean_loo(data, (np.nan, 0.0)) == -np.inf
