"""Quantiles by inverting a distribution function."""

import numpy as np
import pytest
from scipy.special import ndtr, pdtr, stdtr
from scipy.stats import poisson

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
        found = predict.invert(distribution, level, mean, sd, discrete=False)
        np.testing.assert_allclose(ndtr((found - mean) / sd), level, rtol=1e-6)
        assert len(seen) < 8


@pytest.mark.parametrize("level", [1e-4, 0.3, 0.9999])
def test_a_bracket_that_holds_no_quantile_is_widened(level):
    centre, width = np.array([50.0, 0.0, -1e4]), np.array([0.1, 1.0, 2.0])
    found = predict.invert(lambda y: stdtr(2.0, y), level, centre, width, discrete=False)
    np.testing.assert_allclose(stdtr(2.0, found), level, rtol=1e-6)


@pytest.mark.parametrize("level", [0.01, 0.35, 0.6, 0.99])
def test_two_humps_far_apart(level):
    """Nowhere near the quantile of a normal distribution with their mean and sd."""

    def distribution(y):
        return 0.4 * ndtr(y + 20.0) + 0.6 * ndtr((y - 1000.0) / 3.0)

    mean = 0.4 * -20.0 + 0.6 * 1000.0
    sd = np.sqrt(0.4 * (1.0 + 20.0**2) + 0.6 * (9.0 + 1000.0**2) - mean**2)
    found = predict.invert(distribution, level, np.array([mean]), np.array([sd]), discrete=False)
    np.testing.assert_allclose(distribution(found), level, rtol=1e-6)


def test_counts_are_found_from_either_side():
    """Guesses above and below the smallest count that reaches the level."""
    mean = np.array([0.2, 3.0, 40.0, 900.0])

    def distribution(y):
        return np.where(y < 0.0, 0.0, pdtr(np.maximum(y, 0.0), mean))

    for level in (0.001, 0.3, 0.5, 0.9, 0.9999):
        for off in (0.2, 1.0, 7.0):
            found = predict.invert(distribution, level, off * mean, np.sqrt(mean), discrete=True)
            np.testing.assert_array_equal(found, poisson.ppf(level, mean))


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
