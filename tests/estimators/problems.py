"""Small fits that several tests share."""

from functools import cache

import numpy as np

from cavity import EPRegressor

QUICK = {"n_hidden": 2, "max_iter": 5, "n_starts": 1}


@cache
def rows(n=60, d=3, seed=0):
    """Only the first of d inputs matters; noise sd 0.2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 5.0 + 2.0 * np.tanh(1.5 * X[:, 0]) + 0.2 * rng.normal(size=n)
    for a in (X, y):
        a.flags.writeable = False
    return X, y


@cache
def fitted(n=60, d=3, **params):
    """A fitted regressor; do not change it."""
    X, y = rows(n, d)
    return EPRegressor(**{"n_hidden": 3, "max_iter": 40, "n_starts": 1, **params}).fit(X, y)
