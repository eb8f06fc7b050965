"""A fit whose prior sites swing is calmed; one that was cut short on purpose is left alone."""

import numpy as np
import pytest

from cavity import EPClassifier


def fit(max_iter):
    """Two softplus units on 30 separable rows: a combination that swings without end at full steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.standard_normal(30) > 0.0
    return EPClassifier(
        n_hidden=2, n_starts=1, max_iter=max_iter, activation="softplus", prior="laplace"
    ).fit(X, y)


def test_swinging_fits_are_calmed():
    """Warnings are errors: before it settles this fit would warn."""
    history = fit(30).history_
    before = [r.mismatch for r in history if r.stage != "calm"]
    after = [r.mismatch for r in history if r.stage == "calm"]
    assert len(before) < len(history), "the problem no longer swings: find another"
    assert before[-1] > 0.5 > after[-1]


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_short_fits_stay_short():
    assert all(r.stage != "calm" for r in fit(5).history_)
