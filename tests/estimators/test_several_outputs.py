"""scikit-learn's wrappers for several outputs around the regressors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.multioutput import MultiOutputRegressor, RegressorChain

from cavity import EPLinearRegressor, EPRegressor

TINY = {"n_hidden": 2, "n_starts": 1, "max_iter": 5}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    first = X[:, 0] + 0.1 * rng.normal(size=40)
    return X, np.column_stack([first, 100.0 + 10.0 * first])


@pytest.mark.parametrize("model", [EPRegressor(**TINY), EPLinearRegressor(prior="gaussian")])
def test_each_output_is_a_fit_of_its_own(model):
    X, y = table()
    both = MultiOutputRegressor(model).fit(X, y)
    alone = clone(model).fit(X, y[:, 1])
    np.testing.assert_array_equal(both.predict(X)[:, 1], alone.predict(X))
    # the second output is the first in other units, and y is standardised inside
    first, second = (one.predict(X, return_std=True)[1] for one in both.estimators_)
    np.testing.assert_allclose(second, 10.0 * first, rtol=1e-6)


def test_frames_and_weights_reach_every_network():
    X, y = table()
    X, y = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(y, columns=["u", "v"])
    weight = np.where(np.arange(40) < 20, 1.0, 0.0)
    both = MultiOutputRegressor(EPRegressor(**TINY)).fit(X, y, sample_weight=weight)
    half = EPRegressor(**TINY).fit(X.iloc[:20], y["u"].iloc[:20])
    assert list(both.estimators_[1].feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(both.predict(X)[:, 0], half.predict(X), rtol=1e-6, atol=1e-9)


def test_chain_uses_the_output_before():
    X, y = table()
    chain = RegressorChain(EPLinearRegressor(prior="gaussian"), order=[0, 1]).fit(X, y)
    assert chain.estimators_[1].n_features_in_ == 3
    assert (
        chain.estimators_[1].noise_sd_
        < 0.1
        < MultiOutputRegressor(EPLinearRegressor(prior="gaussian")).fit(X, y).estimators_[1].noise_sd_
    )
