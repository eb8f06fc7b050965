"""Quadrature that finds its density: exact answers are known for every density used here."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

from cavity.numerics.normal import log_normal
from cavity.numerics.quadrature import (
    follow_mixture,
    gauss_hermite,
    gauss_legendre,
    log_trapezoid_moments,
    trapezoid_mixture,
)
from cavity.types import Moments


def follow_density(log_density, mean, sd):
    """Moments of a density alone, looked for around a guess."""
    both = follow_mixture(
        lambda x, items: Moments(log_density(x, items), x, np.zeros_like(x)), mean - 9.0 * sd, mean + 9.0 * sd
    )
    return Moments(both.log_z, both.scale.mean, both.scale.var)


def test_gauss_hermite_is_exact_for_polynomials():
    nodes, weights = gauss_hermite(8)
    for degree, moment in {0: 1.0, 1: 0.0, 2: 1.0, 7: 0.0, 8: 105.0, 14: 135135.0}.items():
        assert np.sum(weights * nodes**degree) == pytest.approx(moment, rel=1e-12, abs=1e-9)


def test_gauss_legendre_is_exact_for_polynomials():
    nodes, weights = gauss_legendre(6)
    for degree in range(12):
        exact = 2.0 / (degree + 1) if degree % 2 == 0 else 0.0
        assert np.sum(weights * nodes**degree) == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize("rule", [gauss_hermite, gauss_legendre])
def test_rules_are_cached_and_read_only(rule):
    assert rule(5) is rule(5)
    with pytest.raises(ValueError, match="read-only"):
        rule(5).nodes[0] = 0.0


def test_trapezoid_moments_are_centred():
    """At 1e8 sds from zero E(x²) - E(x)² would have no digit left."""
    x = 1e8 + 0.5 * np.arange(-18.0, 19.0)  # exact nodes
    found = log_trapezoid_moments(x, log_normal(x, 1e8, 1.0) - 1e4)
    assert found.log_z == pytest.approx(-1e4, rel=1e-12)
    assert found.mean == pytest.approx(1e8, abs=1e-7)
    assert found.var == pytest.approx(1.0, rel=1e-12)


def test_trapezoid_rule_halves_its_ends():
    x = np.array([1.0, 2.0, 3.0])
    found = log_trapezoid_moments(x, np.zeros(3))
    assert np.exp(found.log_z) == pytest.approx(2.0)
    assert found.mean == pytest.approx(2.0)
    assert found.var == pytest.approx(0.5)  # a quarter of the weight on each end


def test_trapezoid_mixture_adds_variance_within_and_between():
    x = np.linspace(-9.0, 9.0, 41)
    found = trapezoid_mixture(x, Moments(log_normal(x, 0.0, 1.0), 5.0 + 3.0 * x, 0.25 * np.ones_like(x)))
    assert found.value.mean == pytest.approx(5.0)
    assert found.value.var == pytest.approx(9.25)
    assert found.scale.var == pytest.approx(1.0)


def test_follow_density_resolves_skewed_densities():
    """exp(k x - eˣ) integrates to Γ(k), with mean ψ(k) and variance ψ'(k)."""
    k = np.array([0.3, 1.0, 4.0, 300.0])
    found = follow_density(lambda x, j: k[j, None] * x - np.exp(x), np.zeros(4), np.ones(4))
    np.testing.assert_allclose(found.log_z, gammaln(k), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.mean, digamma(k), rtol=1e-10)
    np.testing.assert_allclose(found.var, polygamma(1, k), rtol=1e-10)


@pytest.mark.parametrize("guess", [(0.0, 1.0), (700.0, 1e-2), (700.0, 1e4), (-3e3, 1e-3), (709.0, 1e6)])
def test_follow_density_finds_a_far_or_narrow_density(guess):
    found = follow_density(
        lambda x, j: log_normal(x, 712.0, 0.04), np.array([guess[0]]), np.array([guess[1]])
    )
    assert found.log_z[0] == pytest.approx(0.0, abs=1e-10)
    assert found.mean[0] == pytest.approx(712.0, rel=1e-12)
    assert found.var[0] == pytest.approx(0.04, rel=1e-9)


def test_follow_density_covers_two_modes():
    def two(x, j):
        return np.logaddexp(np.log(0.7) + log_normal(x, -20.0, 1.0), np.log(0.3) + log_normal(x, 25.0, 0.25))

    found = follow_density(two, np.array([0.0]), np.array([4.0]))
    assert found.log_z[0] == pytest.approx(0.0, abs=1e-10)
    assert found.mean[0] == pytest.approx(-14.0 + 7.5, rel=1e-10)
    assert found.var[0] == pytest.approx(0.7 * 1.0 + 0.3 * 0.25 + 0.21 * 45.0**2, rel=1e-10)


def test_follow_mixture_covers_the_tail_that_carries_the_variance():
    """Var w = E e^{8x} = e³² for x ~ N(0, 1): the integrand peaks at x = 8, where the density is e⁻³²."""
    found = follow_mixture(
        lambda x, j: Moments(log_normal(x, 0.0, 1.0), np.zeros_like(x), np.exp(8.0 * x)),
        np.array([-9.0]),
        np.array([9.0]),
    )
    assert found.value.var[0] == pytest.approx(np.exp(32.0), rel=1e-10)
    assert found.scale.var[0] == pytest.approx(1.0, rel=1e-10)


def test_what_cannot_be_integrated_is_nan_and_leaves_its_neighbours_alone():
    kinds = [
        lambda x: log_normal(x, 3.0, 2.0),
        lambda x: np.full_like(x, np.nan),
        np.zeros_like,  # does not fall off
        lambda x: np.full_like(x, -np.inf),
        lambda x: log_normal(x, -1.0, 0.5),
    ]

    def density(x, items):
        return np.stack([kinds[j](row) for j, row in zip(items, x, strict=True)])

    found = follow_density(density, np.zeros(5), np.ones(5))
    np.testing.assert_allclose(found.mean[[0, 4]], [3.0, -1.0], rtol=1e-10)
    assert np.isnan(np.stack(found)[:, 1:4]).all()


def test_many_items_are_worked_through_in_blocks():
    """More items than fit one block; each must get its own answer."""
    mean = np.linspace(-50.0, 50.0, 2503)
    found = follow_density(
        lambda x, j: log_normal(x, mean[j, None], 1.7), np.zeros_like(mean), np.ones_like(mean)
    )
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.var, 1.7, rtol=1e-9)
