"""Normal tails against integrals, series and each other."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm

from cavity.numerics.normal import half_line_moments, log_cdf, log_normal
from cavity.numerics.quadrature import gauss_legendre


def integrated_half_line(a):
    """Log of ∫ exp(-x²/2 + a x) dx / √2π over x > 0, its top taken out, with mean and variance, by panels."""
    width = 1.0 / max(1.0, -a)
    edges = (
        max(a, 0.0) + np.linspace(-9.0, 42.0, 205) * width if a > 9.0 else np.linspace(0.0, 42.0, 169) * width
    )
    nodes, weights = gauss_legendre(24)
    half = 0.5 * np.diff(edges)[:, None]
    x = edges[:-1, None] + half + half * nodes
    density = half * weights * np.exp(-0.5 * x * x + a * x - 0.5 * max(a, 0.0) ** 2)
    mass = density.sum()
    mean = (density * x).sum() / mass
    return np.log(mass / np.sqrt(2.0 * np.pi)), mean, (density * (x - mean) ** 2).sum() / mass


@pytest.mark.parametrize(
    "a", [12.0, 5.0, 1.0, 0.0, -0.3, -2.0, -5.0, -6.9999, -7.0, -7.0001, -8.0, -20.0, -300.0, -1e4, -1e7]
)
def test_half_line_moments_equal_integrals(a):
    # exp(min(a,0)²/2) Φ(a) = ∫ exp(-x²/2 + a x) dx / √2π for a ≤ 0, less exp(a²/2) for a > 0
    log_mass, mean, var = integrated_half_line(a)
    found = half_line_moments(a)
    assert found.log_z == pytest.approx(log_mass, rel=1e-13, abs=1e-14)
    assert found.mean == pytest.approx(mean, rel=1e-12)
    assert found.var == pytest.approx(var, rel=2e-12)


def test_half_line_moments_follow_their_series_far_out():
    t = np.array([1e3, 1e5, 1e9, 1e30, 1e100])
    found = half_line_moments(-t)
    u = 1.0 / t**2  # mean = (1 - 2u + 10u² - …)/t, var = (1 - 6u + 50u² - …)/t²
    np.testing.assert_allclose(found.mean * t, 1 - 2 * u + 10 * u**2, rtol=1e-13)
    np.testing.assert_allclose(found.var * t**2, 1 - 6 * u + 50 * u**2, rtol=1e-13)
    log_mills = -np.log(t) + np.log1p(-u + 3 * u**2)
    np.testing.assert_allclose(found.log_z, log_mills - 0.5 * np.log(2 * np.pi), rtol=1e-14)


def test_half_line_variance_is_the_derivative_of_its_mean():
    a = np.linspace(-30.0, 9.0, 400)
    h = 1e-3
    slope = (8 * (half_line_moments(a + h).mean - half_line_moments(a - h).mean)) / (12 * h)
    slope -= (half_line_moments(a + 2 * h).mean - half_line_moments(a - 2 * h).mean) / (12 * h)
    np.testing.assert_allclose(half_line_moments(a).var, slope, rtol=1e-8)


def test_half_line_moments_keep_shape():
    assert all(field.shape == (2, 3) for field in half_line_moments(np.zeros((2, 3))))
    assert all(np.shape(field) == () for field in half_line_moments(-50.0))
    assert all(field.size == 0 for field in half_line_moments(np.array([])))


def test_log_cdf_in_both_tails():
    x = np.concatenate([np.linspace(-40.0, 30.0, 281), [-1e4, -1e8]])
    np.testing.assert_allclose(log_cdf(x), log_ndtr(x), rtol=1e-12)
    body = np.linspace(-6.0, 6.0, 49)
    np.testing.assert_allclose(np.exp(log_cdf(body)) + np.exp(log_cdf(-body)), 1.0, rtol=1e-14)
    far = np.array([-1e3, -1e6])
    series = -0.5 * far**2 - np.log(-far) - 0.5 * np.log(2 * np.pi) + np.log1p(-1 / far**2)
    np.testing.assert_allclose(log_cdf(far), series, rtol=1e-14)
    assert log_cdf(20.0) == pytest.approx(-quad(norm.pdf, 20.0, 30.0, epsabs=0.0)[0], rel=1e-9)


def test_log_normal_is_a_normalised_density():
    x = np.linspace(-40.0, 44.0, 4001)
    mass = np.exp(log_normal(x, 2.0, 9.0)).sum() * (x[1] - x[0])
    assert mass == pytest.approx(1.0, rel=1e-13)
    np.testing.assert_allclose(log_normal(x, 2.0, 9.0), norm.logpdf(x, 2.0, 3.0), rtol=1e-13)
