"""The band of the calibration curve, and how the curve counts weights."""

import numpy as np
import pytest

from cavity.result.calibration import pit_difference


@pytest.mark.parametrize("n", [30, 400])
def test_a_calibrated_sample_stays_in_the_band_with_probability_95(n):
    rng = np.random.default_rng(n)
    inside = 0
    for _ in range(2000):
        _, difference, lower, upper = pit_difference(rng.uniform(size=n), np.ones(n))
        inside += bool(np.all((difference >= lower) & (difference <= upper)))
    # 0.95 with the errors of 2000 samples here and 4000 behind the band, three of each
    assert inside / 2000 == pytest.approx(0.95, abs=3.0 * np.sqrt(0.95 * 0.05 * (1 / 2000 + 1 / 4000)) + 0.01)


def test_the_difference_counts_weights_as_copies():
    pit = np.array([0.1, 0.4, 0.45, 0.9])
    weight = np.array([1.0, 3.0, 1.0, 2.0])
    u, once, _, _ = pit_difference(pit, weight)
    _, copies, _, _ = pit_difference(np.repeat(pit, weight.astype(int)), np.ones(7))
    np.testing.assert_allclose(once, copies, atol=1e-12)
    assert once[u.tolist().index(0.5)] == pytest.approx(5 / 7 - 0.5)
