"""What every weight prior promises, whatever its formula."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from tests.contracts.pieces import FRACTIONS, WEIGHT_PRIORS, extreme_cavities, moderate_cavities

from cavity.model.priors import (
    OUTPUT_PRIORS,
    PRIORS,
    GaussianMixturePrior,
    GaussianPrior,
    HalfPrior,
    RegularizedHorseshoePrior,
    SpikeAndSlabPrior,
    StudentTPrior,
    TruncatedStudentTPrior,
    WeightPrior,
)
from cavity.numerics.normal import half_line_moments, log_normal
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import Gaussian

every_prior = pytest.mark.parametrize("prior", WEIGHT_PRIORS, ids=repr)

# The oracle forms (w - m)²/v: at 1e3 sds its log density is rounded by 1e-10. Closed forms are far better.
ORACLE = 1e-7
# Fourth-order differences at these steps (in cavity sds): truncation 1e-7, rounding 1e-11.
STEP = 0.02
DIFFERENCES = 2e-6


def sinh_grid():
    """Nodes and weights over ±sinh(32), 4e13: 64 panels a side and a ladder to zero, where densities peak."""
    nodes, weights = gauss_legendre(16)
    right = np.concatenate([[0.0], 0.5 ** np.arange(40, 1, -1), 0.5 * np.arange(1, 65)])
    edges = np.concatenate([-right[:0:-1], right])
    half = 0.5 * np.diff(edges)[:, None]
    t = (edges[:-1, None] + half + half * nodes).ravel()
    return np.sinh(t), (half * weights).ravel() * np.cosh(t)


def is_even(prior):
    w = np.array([1e-3, 0.1, 1.0, 7.0])
    return np.array_equal(prior.log_density(w, 0.3), prior.log_density(-w, 0.3))


@every_prior
@pytest.mark.parametrize("log_var", [-25.0, 0.0, 12.0])
def test_density_integrates_to_one(prior, log_var):
    unit, weight = sinh_grid()
    scale = np.exp(0.5 * log_var)
    mass = np.sum(np.exp(prior.log_density(scale * unit, log_var)) * scale * weight)
    assert mass == pytest.approx(1.0, abs=1e-6)  # df = 1.5 has 1e-7 of its mass beyond 1e5 scales


@every_prior
@pytest.mark.parametrize("log_var", [-6.0, 1.0])
def test_slope_is_the_derivative_of_the_log_density(prior, log_var):
    w = np.exp(0.5 * log_var) * np.array([0.05, 0.4, 1.0, 3.0, 20.0])
    step = 1e-4 * w
    at = [prior.log_density(w + k * step, log_var) for k in (-2, -1, 1, 2)]
    slope = (at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * step)
    np.testing.assert_allclose(prior.slope(w, log_var), slope, rtol=1e-6, atol=1e-9 / w[0])


@every_prior
def test_moments_equal_the_oracle_on_extreme_cavities(prior):
    cavity, log_var, fraction = extreme_cavities()
    found = prior.conditional_moments(cavity, log_var, fraction)
    oracle = WeightPrior.conditional_moments(prior, cavity, log_var, fraction)
    sd = np.sqrt(oracle.var)
    assert np.max(np.abs(found.log_z - oracle.log_z) / (1.0 + np.abs(oracle.log_z))) < ORACLE
    assert np.max(np.abs(found.mean - oracle.mean) / sd) < ORACLE
    assert np.max(np.abs(found.var / oracle.var - 1.0)) < ORACLE


@every_prior
def test_moments_are_finite_and_variances_positive(prior):
    cavity, log_var, fraction = extreme_cavities()
    found = prior.conditional_moments(cavity, log_var, fraction)
    assert all(np.isfinite(field).all() for field in found)
    assert (found.var > 0.0).all()
    assert (found.mean >= prior.support[0]).all()
    assert (found.mean <= prior.support[1]).all()


@every_prior
def test_log_concave_prior_never_widens_its_cavity(prior):
    cavity, log_var, fraction = extreme_cavities()
    widens = prior.conditional_moments(cavity, log_var, fraction).var > cavity.var * (1.0 + 1e-9)
    assert bool(widens.any()) is not prior.log_concave


@every_prior
def test_derivatives_of_log_z_give_the_moments(prior):
    (mean, var), log_var, fraction = moderate_cavities()
    sd = np.sqrt(var)
    at = {
        k: prior.conditional_moments(Gaussian(mean + k * STEP * sd, var), log_var, fraction)
        for k in range(-2, 3)
    }
    first = (8.0 * (at[1].log_z - at[-1].log_z) - (at[2].log_z - at[-2].log_z)) / (12.0 * STEP)
    ends, middle = at[2].log_z + at[-2].log_z, at[1].log_z + at[-1].log_z
    second = (16.0 * middle - ends - 30.0 * at[0].log_z) / (12.0 * STEP**2)
    np.testing.assert_allclose(at[0].mean, mean + sd * first, rtol=0, atol=DIFFERENCES * sd.max())
    np.testing.assert_allclose(at[0].var / var, 1.0 + second, rtol=0, atol=DIFFERENCES)


@every_prior
def test_mirrored_cavity_mirrors_an_even_prior(prior):
    cavity, log_var, fraction = extreme_cavities()
    here = prior.conditional_moments(cavity, log_var, fraction)
    there = prior.conditional_moments(Gaussian(-cavity.mean, cavity.var), log_var, fraction)
    mirrored = (
        np.allclose(here.log_z, there.log_z, rtol=1e-12, atol=1e-12)
        and np.allclose(here.mean, -there.mean, rtol=1e-12, atol=1e-300)
        and np.allclose(here.var, there.var, rtol=1e-12, atol=0.0)
    )
    assert mirrored is is_even(prior)


@every_prior
def test_no_fraction_leaves_the_cavity(prior):
    cavity, log_var, _ = moderate_cavities()
    found = prior.conditional_moments(cavity, log_var, 1e-12)
    expected_log_z, expected = np.zeros_like(cavity.mean), cavity
    if prior.support == (0.0, np.inf):  # p⁰ is then the indicator of the half-line
        sd = np.sqrt(cavity.var)
        a = cavity.mean / sd
        half = half_line_moments(a)
        expected_log_z = half.log_z - 0.5 * np.minimum(a, 0.0) ** 2
        expected = Gaussian(sd * half.mean, cavity.var * half.var)
    np.testing.assert_allclose(found.log_z, expected_log_z, atol=1e-7)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.var, expected.var, rtol=1e-7)


@every_prior
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_narrow_cavity_reads_the_density(prior, fraction):
    """log ∫ N(w | m, v) p^η dw → η log p(m): the difference is v (p^η)''/2p^η, below 1e-9 at 1e7 sds."""
    m, log_var = np.meshgrid([1e-3, 0.05, 0.7, 3.0], [-2.0, 0.0, 1.5])
    found = prior.conditional_moments(Gaussian(m, 1e-14 * m * m), log_var, fraction)
    np.testing.assert_allclose(found.log_z, fraction * prior.log_density(m, log_var), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(found.mean, m, rtol=1e-9)
    np.testing.assert_allclose(found.var, 1e-14 * m * m, rtol=1e-6)


@every_prior
def test_arguments_broadcast(prior):
    mean, log_var = np.array([[-1.0], [0.5], [2.0]]), np.array([-3.0, 0.0, 0.5, 2.0])
    whole = prior.conditional_moments(Gaussian(mean, 0.7), log_var, 0.9)
    assert all(field.shape == (3, 4) for field in whole)
    alone = prior.conditional_moments(Gaussian(2.0, 0.7), -3.0, 0.9)
    assert all(np.shape(field) == () for field in alone)
    np.testing.assert_allclose([field[2, 0] for field in whole], alone, rtol=1e-9)
    fixed_scale = prior.conditional_moments(Gaussian(mean[:, 0], 0.7), 0.0)
    assert all(field.shape == (3,) for field in fixed_scale)


@every_prior
def test_pickle_round_trip(prior):
    copy = pickle.loads(pickle.dumps(prior))
    assert copy == prior
    cavity, log_var, fraction = moderate_cavities()
    np.testing.assert_array_equal(
        copy.conditional_moments(cavity, log_var, fraction),
        prior.conditional_moments(cavity, log_var, fraction),
    )


@every_prior
@pytest.mark.parametrize("draw", ["own", "default"])
def test_samples_follow_the_density(prior, draw):
    rng = np.random.default_rng(3)
    log_var, size = -1.3, 40_000
    sample = prior.sample if draw == "own" else lambda *args: WeightPrior.sample(prior, *args)
    w = sample(rng, log_var, size)
    assert w.shape == (size,)
    unit, weight = sinh_grid()
    scale = np.exp(0.5 * log_var)
    mass = np.exp(prior.log_density(scale * unit, log_var)) * scale * weight
    for bound in np.sinh([-1.0, 0.0, 0.5, 1.5]):  # panel edges of the grid
        expected = mass[unit < bound].sum()
        error = np.sqrt(expected * (1.0 - expected) / size) + 1e-4
        assert abs(np.mean(w < scale * bound) - expected) < 4.5 * error


@dataclass(frozen=True)
class ThreeSpikes(WeightPrior):
    """Thirds of N(-7, 1e-6), N(3, 1e-6) and N(5, 1e-6), in units of exp(φ/2): peaks where no scale points."""

    def components(self, log_var):
        """Means and variances, on a new first axis."""
        sd = np.exp(0.5 * np.asarray(log_var))
        return np.multiply.outer([-7.0, 3.0, 5.0], sd), np.multiply.outer([1e-6, 1e-6, 1e-6], sd**2)

    def log_density(self, w, log_var):
        return np.logaddexp.reduce(log_normal(w, *self.components(log_var)), axis=0) - np.log(3.0)


def test_default_moments_find_peaks_away_from_cavity_and_prior():
    prior = ThreeSpikes()
    grid = np.meshgrid(np.linspace(-10.0, 8.0, 10), [0.5, 1.0], [0.0, 0.4])
    m, v, log_var = (axis.ravel() for axis in grid)
    found = prior.conditional_moments(Gaussian(m, v), log_var)
    mean, var = prior.components(log_var)
    log_w = log_normal(m, mean, v + var) - np.log(3.0)
    log_z = np.logaddexp.reduce(log_w, axis=0)
    share, gain = np.exp(log_w - log_z), var / (v + var)
    each = mean + gain * (m - mean)
    exact = np.sum(share * each, axis=0)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.mean, exact, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.var, np.sum(share * (gain * v + np.square(each - exact)), axis=0), rtol=1e-8
    )


def test_wide_prior_leaves_a_wide_cavity_to_the_prior():
    """Both at once: a cavity that says nothing gives back the prior's variance, which is exp(log_var)."""
    for name in ("gaussian", "laplace"):
        moments = PRIORS[name].family().conditional_moments(Gaussian(0.0, 1e12), 0.4)
        assert moments.var == pytest.approx(np.exp(0.4), rel=1e-9)
        assert moments.log_z == pytest.approx(log_normal(0.0, 0.0, 1e12), rel=1e-9)


@pytest.mark.parametrize("family", [TruncatedStudentTPrior, StudentTPrior])
@pytest.mark.parametrize("df", [0.0, -1.0, np.nan])
def test_no_degrees_of_freedom_is_refused(family, df):
    with pytest.raises(ValueError, match="df must be positive"):
        family(df=df)


@pytest.mark.parametrize(
    ("family", "params", "message"),
    [
        (RegularizedHorseshoePrior, {"slab": 0.0}, "slab must be"),
        (SpikeAndSlabPrior, {"inclusion": 1.0}, "inclusion must lie"),
        (SpikeAndSlabPrior, {"spike": 0.0}, "spike must lie"),
        (GaussianMixturePrior, {"weights": (0.5, 0.6)}, "sum to one"),
        (GaussianMixturePrior, {"weights": (1.0,)}, "same length"),
        (GaussianMixturePrior, {"weights": (), "variances": ()}, "same length"),
        (GaussianMixturePrior, {"variances": (0.0, 1.0)}, "variances must be positive"),
        (HalfPrior, {"even": TruncatedStudentTPrior()}, "not symmetric"),
    ],
)
def test_what_is_no_density_is_refused(family, params, message):
    with pytest.raises(ValueError, match=message):
        family(**params)


def test_every_named_prior_is_tested():
    named = {named.family for named in PRIORS.values()} | {type(prior) for prior in OUTPUT_PRIORS.values()}
    assert named <= {type(prior) for prior in WEIGHT_PRIORS}


def test_indicator_stays_inside_the_power():
    """Σ_c A_c^η is not (Σ_c A_c)^η: where two components cross they differ by (1 - η) log 2."""
    prior, cavity = SpikeAndSlabPrior(), Gaussian(0.0369, 1e-8)
    found = prior.conditional_moments(cavity, 0.0, 0.5)
    apart = [
        0.5 * np.log(share) + GaussianPrior().conditional_moments(cavity, log_var, 0.5).log_z
        for share, log_var in ((0.9, 2.0 * np.log(0.01)), (0.1, 0.0))
    ]
    assert np.logaddexp(*apart) - found.log_z == pytest.approx(0.5 * np.log(2.0), abs=0.01)


@pytest.mark.parametrize("m", [0.0, 0.01, 0.05, 0.3])
def test_inclusion_is_the_share_of_the_slab(m):
    """By quadrature: the mass of N(w | m, v) π N(w | 0, e^φ) in that of the whole tilted density."""
    prior, v, log_var = SpikeAndSlabPrior(inclusion=0.3, spike=0.02), 4e-3, -1.0
    slab = np.log(0.3) + WeightPrior.conditional_moments(GaussianPrior(), Gaussian(m, v), log_var).log_z
    whole = WeightPrior.conditional_moments(prior, Gaussian(m, v), log_var).log_z
    found = prior.inclusion_probability(Gaussian(m, v), log_var)
    assert found == pytest.approx(np.exp(slab - whole), rel=1e-8)
