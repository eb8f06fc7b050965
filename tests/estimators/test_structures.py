"""Mixed units and products of units through the estimators: words, files, effects, and what is refused."""

from functools import cache

import numpy as np
import pytest

import cavity
from cavity import EPClassifier, EPRegressor


@cache
def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + 0.5 * X[:, 1] + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)
    return X, y


@cache
def fitted(**params):
    quick = {"n_hidden": 2, "n_starts": 1, "max_iter": 25}
    return EPRegressor(**{**quick, **{k: list(v) if k == "mask" else v for k, v in params.items()}}).fit(
        *rows()
    )


PRODUCT = {"activation": "linear", "mask": ((0,), (1,)), "interactions": ((0, 1),)}


def test_a_product_of_two_linear_units():
    model, (X, y) = fitted(**PRODUCT), rows()
    assert model.output_weights_.mean.shape == (4,)
    assert model.score(X, y) > 0.97
    assert fitted(activation="linear").score(X, y) < 0.9
    draws = model.sample_y(X[:3], 4000)
    mean, sd = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5.0 * sd.max() / np.sqrt(4000))
    # both inputs matter, and so they do where one changes and the other stands at its mean
    assert (model.relevance_.effect > 0.3 * y.std()).all()


def test_saved_and_loaded(tmp_path):
    for number, model in enumerate((fitted(**PRODUCT), fitted(activation="relu+sine", n_hidden=3))):
        model.save(tmp_path / f"{number}.cavity")
        again = cavity.load(tmp_path / f"{number}.cavity")
        np.testing.assert_array_equal(again.predict(rows()[0]), model.predict(rows()[0]))


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_mixed_units_by_word_and_number():
    X, y = rows()
    model = EPRegressor(activation={"linear": 1, "erf": 2}, n_starts=1, max_iter=5).fit(X, y)
    kinds = [type(a).__name__ for a in model.posterior_.main.spec.activations]
    assert kinds == ["Linear", "Erf", "Erf"]
    model = EPRegressor(activation="linear+tanh", n_starts=1, max_iter=5).fit(X, y)
    kinds = [type(a).__name__ for a in model.posterior_.main.spec.activations]
    assert kinds[0] == "Linear" and set(kinds[1:]) == {"Tanh"}


def test_classes_take_them_too():
    X, y = rows()
    model = EPClassifier(
        n_hidden=2, n_starts=1, max_iter=20, activation="linear", interactions=[(0, 1)], mask=[[0], [1]]
    ).fit(X, X[:, 0] * X[:, 1] > 0.0)
    assert model.score(X, X[:, 0] * X[:, 1] > 0.0) > 0.9


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_hidden": "auto", "interactions": [(0, 1)]}, "give n_hidden"),
        ({"interactions": [(0, 5)]}, "from 0 to 1"),
        ({"activation": "sinus"}, "'sinus' is unknown"),
        ({"activation": ("erf", "erf", "erf")}, "3 entries"),
    ],
)
def test_refused_before_the_first_sweep(params, message):
    with pytest.raises(ValueError, match=message):
        EPRegressor(**{"n_hidden": 2, **params}).fit(*rows())
