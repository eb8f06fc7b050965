"""Quantiles by inverting a distribution function."""

import numpy as np
import pytest
from scipy.special import ndtr, stdtr

from cavity.result import predict


def test_quantiles_take_few_evaluations():
    """Every evaluation of a mixture's distribution costs as much as a prediction."""
    seen = []
    mean, sd = np.linspace(-3.0, 3.0, 50), np.geomspace(1e-3, 1e3, 50)

    def distribution(y):
        seen.append(len(y))
        return ndtr((y - mean) / sd)

    for level in (1e-6, 0.025, 0.5, 0.975, 1.0 - 1e-6):
        seen.clear()
        found = predict.invert(distribution, level, mean, 4.0 * sd, discrete=False)
        np.testing.assert_allclose(ndtr((found - mean) / sd), level, rtol=1e-6)
        assert len(seen) < 30


@pytest.mark.parametrize("level", [1e-4, 0.3, 0.9999])
def test_a_bracket_that_holds_no_quantile_is_widened(level):
    centre, width = np.array([50.0, 0.0, -1e4]), np.array([0.1, 1.0, 2.0])
    found = predict.invert(lambda y: stdtr(2.0, y), level, centre, width, discrete=False)
    np.testing.assert_allclose(stdtr(2.0, found), level, rtol=1e-6)


def test_steps_are_found_from_the_right():
    """A distribution with a jump: its quantile is where the jump is."""
    found = predict.invert(
        lambda y: np.where(y < 0.7, 0.2, 0.8), 0.5, np.zeros(3), np.array([1.0, 4.0, 90.0]), discrete=False
    )
    np.testing.assert_allclose(found, 0.7, atol=1e-9)
    counts = predict.invert(
        lambda y: np.where(y < 3.0, 0.2, 0.8), 0.5, np.zeros(2), np.array([9.0, 1.0]), discrete=True
    )
    np.testing.assert_array_equal(counts, 3.0)
