"""Tilted moments of a weight and its scale, against brute force and identities."""

from dataclasses import dataclass

import numpy as np
import pytest

from cavity.ep.tilted import scaled_tilted_moments
from cavity.model.priors import GaussianPrior, LaplacePrior, TruncatedStudentTPrior, WeightPrior
from cavity.numerics.normal import log_normal
from cavity.numerics.quadrature import gauss_legendre, trapezoid_mixture
from cavity.types import Gaussian

PROMISED = 1e-8


@dataclass(frozen=True)
class CauchyPrior(WeightPrior):
    """Only a density, so its moments are the base class's quadrature: what a newcomer writes first."""

    def log_density(self, w, log_var):
        log_var = np.asarray(log_var)
        return -np.log(np.pi) - 0.5 * log_var - np.log1p(np.square(w) * np.exp(-log_var))


def assert_close(found, oracle, tolerance):
    """Errors of log_z absolute, of means in oracle sds, of variances relative."""
    assert found.log_z == pytest.approx(oracle.log_z, abs=tolerance, rel=1e-12)
    for mine, theirs in ((found.value, oracle.value), (found.scale, oracle.scale)):
        assert abs(mine.mean - theirs.mean) < tolerance * np.sqrt(theirs.var)
        assert mine.var == pytest.approx(theirs.var, rel=tolerance)


def one(moments):
    """The only item of a batch of one."""
    fields = (moments.log_z, *moments.value, *moments.scale)
    log_z, mean, var, scale_mean, scale_var = (float(field[0]) for field in fields)
    return type(moments)(log_z, Gaussian(mean, var), Gaussian(scale_mean, scale_var))


def tilted(prior, m, v, a, b, fraction):
    return one(scaled_tilted_moments(prior, Gaussian(np.array([m]), v), Gaussian(a, b**2), fraction))


def brute(prior, m, v, a, b, fraction):
    """The joint density summed over a product grid; nothing but log_density is used.

    φ: 300 even nodes over ±10 cavity sds (and as far as the weight may pull). w: panels cut at 0, at
    ratio-1.6 ladders about 0 and evenly over the cavity, so that a narrow prior, its kink and a wide cavity
    are all resolved.
    """
    sd = np.sqrt(v)
    phi = np.linspace(a - 10 * b, max(a, np.log(m * m + v)) + 10 * b, 300)
    lo, hi = min(m, 0.0) - 10 * sd, max(m, 0.0) + 10 * sd
    ladder = 1.6 ** np.arange(-75, 25) * max(hi, -lo)
    edges = np.concatenate([np.linspace(lo, hi, 60), -ladder, [0.0], ladder])
    edges = np.unique(np.clip(edges, max(lo, prior.support[0]), hi))
    nodes, weights = gauss_legendre(12)
    half = 0.5 * np.diff(edges)[:, None]
    w = (edges[:-1, None] + half + half * nodes).ravel()
    log_p = np.log(half * weights).ravel() + log_normal(w, m, v)
    log_p = log_p + log_normal(phi, a, b**2)[:, None] + fraction * prior.log_density(w, phi[:, None])
    top = log_p.max()
    p = np.exp(log_p - top)
    log_z = top + np.log(p.sum() * (phi[1] - phi[0]))
    p /= p.sum()
    moments = []
    for axis, x in ((0, w), (1, phi)):
        q = p.sum(axis=axis)
        mean = np.sum(q * x)
        moments.append(Gaussian(mean, np.sum(q * (x - mean) ** 2)))
    return type("Brute", (), {"log_z": log_z, "value": moments[0], "scale": moments[1]})


def dense(prior, m, v, a, b, fraction, lo, hi, n=40_001):
    """One dense trapezoid sum over [lo, hi], known to hold the density, of the prior's own moments."""
    phi = np.linspace(lo, hi, n)
    given = prior.conditional_moments(Gaussian(m, v), phi, fraction)
    return trapezoid_mixture(phi, given._replace(log_z=given.log_z + log_normal(phi, a, b**2)))


@pytest.mark.parametrize(
    "prior", [GaussianPrior(), LaplacePrior(), TruncatedStudentTPrior(), CauchyPrior()], ids=repr
)
@pytest.mark.parametrize(
    ("m", "v", "a", "b"),
    [
        (0.4, 0.09, -1.0, 1.0),
        (-0.2, 0.01, -3.0, 0.3),
        (1.5, 0.04, -4.0, 0.7),  # ten prior sds out: pulls the scale up
        (0.3, 1.0, -9.0, 0.5),  # pruned: prior a hundred times narrower than the cavity
        (1e-3, 1e-4, 2.0, 1.5),  # prior far wider than the cavity
        (0.5, 0.25, -2.0, 0.01),
    ],
)
def test_equals_brute_force(prior, m, v, a, b):
    assert_close(tilted(prior, m, v, a, b, 0.9), brute(prior, m, v, a, b, 0.9), PROMISED)


@pytest.mark.parametrize("prior", [GaussianPrior(), LaplacePrior()], ids=repr)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("b", [1e-3, 0.03, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("sds_out", [0.0, 3.0, 100.0, 1e4])
def test_scale_follows_a_weight_far_out(prior, fraction, b, sds_out):
    a, v = -8.0, 1e-4
    m = sds_out * np.exp(0.5 * a)
    found = tilted(prior, m, v, a, b, fraction)
    # wide enough for the oracle: 14 tilted sds and two of the cavity on both sides are over 40 nats here
    reach = 14.0 * np.sqrt(found.scale.var) + 2.0 * b
    oracle = dense(prior, m, v, a, b, fraction, found.scale.mean - reach, found.scale.mean + reach)
    assert_close(found, oracle, PROMISED)
    if sds_out == 1e4 and b <= 0.03:
        pull = 2e3 if prior == GaussianPrior() else 3.0  # the Laplace tail is far easier on its scale
        assert found.scale.mean - a > min(pull * b, 3.0)


@pytest.mark.parametrize(
    ("prior", "a", "b"),
    [
        (GaussianPrior(), -5.0, 1.0),
        (LaplacePrior(), -12.0, 1.0),
        (GaussianPrior(), -5.0, 0.1),  # modes 60 sds of the cavity apart
        (LaplacePrior(), -12.0, 0.1),
        (GaussianPrior(), -20.0, 0.3),
    ],
)
def test_both_modes_of_a_contested_scale_are_kept(prior, a, b):
    """A sharp cavity far from zero against a scale believed small: pruned at any price, or used after all.

    The weight's location is halved down to where the two modes hold about the same mass.
    """
    low, high = 1.0, 1e4
    for _ in range(60):
        m = 0.5 * (low + high)
        top = max(a, np.log(m * m + 1.0))
        oracle = dense(prior, m, 1.0, a, b, 0.9, a - 10.0 * b, top + 10.0 * b)
        if oracle.scale.var > 4.0 * b**2:
            break
        low, high = (low, m) if oracle.scale.mean > a + 3.0 * b else (m, high)
    assert oracle.scale.var > 4.0 * b**2
    assert_close(tilted(prior, m, 1.0, a, b, 0.9), oracle, PROMISED)


@pytest.mark.parametrize("prior", [GaussianPrior(), LaplacePrior(), TruncatedStudentTPrior()], ids=repr)
def test_derivatives_of_log_z_give_both_means(prior):
    rng = np.random.default_rng(5)
    m, v = rng.normal(size=20), rng.uniform(0.05, 2.0, 20)
    a, b2 = rng.uniform(-6.0, 2.0, 20), rng.uniform(0.01, 4.0, 20)
    found = scaled_tilted_moments(prior, Gaussian(m, v), Gaussian(a, b2), 0.9)
    h = 1e-4

    def log_z(dm=0.0, da=0.0):
        return scaled_tilted_moments(prior, Gaussian(m + dm, v), Gaussian(a + da, b2), 0.9).log_z

    np.testing.assert_allclose(found.value.mean, m + v * (log_z(dm=h) - log_z(dm=-h)) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(found.scale.mean, a + b2 * (log_z(da=h) - log_z(da=-h)) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("prior", [GaussianPrior(), LaplacePrior()], ids=repr)
def test_narrow_scale_keeps_its_digits(prior):
    """For b → 0: E φ - a = b² L', Var φ = b² + b⁴ L'', L = log Z(φ). E φ² - (E φ)² would be off by b⁴."""
    m, v, a, b, h = 0.8, 0.3, -9.0, 3e-4, 1e-2
    before, at, after = (
        float(prior.conditional_moments(Gaussian(m, v), a + step, 0.9).log_z) for step in (-h, 0.0, h)
    )
    found = tilted(prior, m, v, a, b, 0.9)
    assert (found.scale.mean - a) / b**2 == pytest.approx((after - before) / (2 * h), rel=1e-2)
    assert (found.scale.var - b**2) / b**4 == pytest.approx(
        (after - 2 * at + before) / h**2, rel=0.1, abs=2e-3
    )
    sharp = tilted(prior, 1e4, 1e-8, 12.0, 0.5, 0.9)  # E w² - (E w)² would leave 1e8·eps, twice the variance
    assert sharp.value.var == pytest.approx(1e-8, rel=1e-6)


def test_an_item_does_not_depend_on_its_company():
    rng = np.random.default_rng(2)
    n = 60
    value = Gaussian(rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3, n), 10.0 ** rng.uniform(-6, 2, n))
    scale = Gaussian(rng.uniform(-12, 4, n), 10.0 ** rng.uniform(-6, 1, n))
    together = scaled_tilted_moments(LaplacePrior(), value, scale, 0.9)
    for j in range(n):
        some = slice(j, j + 1)
        alone = scaled_tilted_moments(
            LaplacePrior(), Gaussian(*(f[some] for f in value)), Gaussian(*(f[some] for f in scale)), 0.9
        )
        np.testing.assert_allclose(alone.value, [f[some] for f in together.value], rtol=1e-12)
        np.testing.assert_allclose(alone.scale, [f[some] for f in together.scale], rtol=1e-12)


def test_improper_cavities_are_nan_and_harm_no_other():
    value = Gaussian(
        np.array([0.5, 0.5, np.nan, 0.5, 0.5, 0.5]), np.array([1.0, -1.0, 1.0, 1.0, np.inf, 1.0])
    )
    scale = Gaussian(np.zeros(6), np.array([1.0, 1.0, 1.0, 0.0, 1.0, -2.0]))
    found = scaled_tilted_moments(LaplacePrior(), value, scale)
    fields = np.stack([found.log_z, *found.value, *found.scale])
    assert np.isfinite(fields[:, 0]).all()
    assert np.isnan(fields[:, 1:]).all()
    empty = scaled_tilted_moments(LaplacePrior(), Gaussian(np.array([]), np.array([])), Gaussian(0.0, 1.0))
    assert empty.log_z.shape == (0,)


def test_mirrored_weights_mirror_and_share_their_scale():
    value = Gaussian(np.array([0.7, -0.7, 0.0]), np.full(3, 0.2))
    found = scaled_tilted_moments(LaplacePrior(), value, Gaussian(np.full(3, -2.0), np.full(3, 0.5)), 0.9)
    assert found.value.mean[0] == -found.value.mean[1] > 0.0
    assert found.value.mean[2] == 0.0
    assert found.scale.mean[0] == found.scale.mean[1] > found.scale.mean[2]
