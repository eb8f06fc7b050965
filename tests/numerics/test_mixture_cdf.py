"""Distribution of a Gaussian mixture of one mean, compiled, beside SciPy's normal."""

import numpy as np
from scipy.special import ndtr

from cavity.numerics.kernel_mixture import mixture_cdf

WEIGHT, RATIO = np.array([0.9, 0.1]), np.array([1.0, 25.0])


def test_both_tails_are_those_of_the_normal():
    resid = np.array([-30.0, -6.0, -0.4, 0.0, 0.7, 5.0, 80.0])
    var, sigma2 = np.linspace(0.1, 0.7, 7), np.linspace(0.5, 1.1, 7)
    out = np.empty(7)
    mixture_cdf(resid, var, sigma2, WEIGHT, RATIO, out)
    sd = np.sqrt(var[:, None] + RATIO * sigma2[:, None])
    # erfcx is good to 9e-16, of 0.1 or more here: 1e-13 of the smaller tail
    np.testing.assert_allclose(out, ndtr(resid[:, None] / sd) @ WEIGHT, rtol=1e-13)


def test_ends_and_what_is_no_number():
    out = np.empty(3)
    mixture_cdf(np.array([np.inf, -np.inf, np.nan]), np.ones(3), np.ones(3), WEIGHT, RATIO, out)
    assert out[0] == 1.0 and 0.0 <= out[1] < 1e-300 and np.isnan(out[2])
