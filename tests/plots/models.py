"""Small fitted models for the tests of figures and reports, each fitted once."""

import warnings
from functools import cache

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity import EPRegressor
from cavity.plots.reading import read
from cavity.result.mixture import MixturePosterior


def table(n, d, seed, noise=0.2):
    """Inputs of which the first two matter, and a target in units of its own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 3.0 + 10.0
    Z = (X - 10.0) / 3.0
    y = 50.0 + 20.0 * (np.tanh(1.5 * Z[:, 0]) + (0.4 * Z[:, 1] if d > 1 else 0.0))
    return X, y + 20.0 * noise * rng.normal(size=n)


def fit(n_hidden, X, y, **settings):
    """A fit that may stop early: these tests are about what is shown of it."""
    weight = settings.pop("sample_weight", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return EPRegressor(n_hidden, n_starts=1, **settings).fit(X, y, sample_weight=weight)


@cache
def fitted(d=3, n=50, prior="ard"):
    """A single fit of three units."""
    return fit(3, *table(n, d, seed=d), prior=prior, max_iter=30)


@cache
def mixture():
    """Two fits of the same rows, unequal in units, under weights of their own."""
    X, y = table(50, 3, seed=3)
    other = fit(2, X, y, prior="laplace", max_iter=15)
    components = [other.posterior_.components[0], fitted().posterior_.components[0]]
    return MixturePosterior(components, np.array([0.3, 0.7]))


@cache
def reading(d=3):
    return read(fitted(d))
