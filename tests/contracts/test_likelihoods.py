"""What every likelihood promises, held against dense quadrature of its density alone."""

import pickle

import numpy as np
import pytest
from scipy.special import gammaln
from tests.contracts.pieces import LIKELIHOOD_PIECES, targets_of

from cavity.model.likelihoods import (
    LIKELIHOODS,
    Likelihood,
    OutlierLikelihood,
    ProbitLikelihood,
    ScaleMixtureLikelihood,
    StudentTLikelihood,
)
from cavity.model.likelihoods.student_t import t_components
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import Gaussian

every = pytest.mark.parametrize("likelihood", LIKELIHOOD_PIECES, ids=repr)
robust = pytest.mark.parametrize(
    "likelihood", [p for p in LIKELIHOOD_PIECES if isinstance(p, ScaleMixtureLikelihood)], ids=repr
)
FRACTIONS = (1.0, 0.95, 0.5)
# log Z and its derivatives (in units of 1/√V and 1/V, at least those of the likelihood): the mixture of a
# Student-t is good to 1e-6 of the density, everything else to the grids' 1e-9.
PROMISED, PROMISED_MIXTURE = 1e-8, 4e-6


def promised(likelihood):
    return PROMISED_MIXTURE if isinstance(likelihood, StudentTLikelihood) else PROMISED


def cases(likelihood, extreme):
    """Targets, f and log scales on a grid, flat; means up to 8 (30) cavity sds or scales from the target."""
    means = [-30.0, -3.0, 0.0, 0.4, 5.0, 30.0] if extreme else [-3.0, 0.0, 0.4, 4.0]
    variances = [1e-8, 1e-3, 0.3, 10.0, 1e3] if extreme else [1e-2, 0.3, 4.0]
    scales = ([-8.0, -1.0, 3.0] if extreme else [-2.0, 0.5]) if likelihood.has_scale else [0.0]
    y, m, v, scale = (
        a.ravel() for a in np.meshgrid(targets_of(likelihood), means, variances, scales, indexing="ij")
    )
    centre = y if likelihood.location else 0.0
    return y, Gaussian(centre + m * np.exp(0.5 * scale), v), scale


def brute(likelihood, y, m, v, scale, row_var, fraction):
    """log Z by Gauss–Legendre panels about the cavity, the peak and whatever the panels show."""
    sd = np.sqrt(v)
    nodes, weights = gauss_legendre(16)
    centres = [m]
    mode = float(np.asarray(likelihood.peak(y, scale, row_var).mode))
    if np.isfinite(mode):
        centres.append(mode)
    # nothing within e^-60 of the density at the mean lies further out
    gain = float(
        likelihood.peak(y, scale, row_var).log_density - likelihood.log_density(y, m, scale, row_var)
    )
    reach = sd * np.sqrt(2.0 * (60.0 + fraction * max(gain, 0.0)))
    lo, hi = m - reach, m + reach
    ladder = np.geomspace(1e-9, 1.0, 80) * (hi - lo)
    ladders = [c + s * ladder for c in [*centres, 0.0] for s in (-1.0, 1.0)]
    cuts = np.unique(np.clip(np.concatenate([np.linspace(lo, hi, 600), *ladders]), lo, hi))

    def log_density(f):
        return fraction * likelihood.log_density(y, f, scale, row_var) - 0.5 * (f - m) ** 2 / v

    with np.errstate(over="ignore"):
        for _ in range(6):  # ladders about the highest cut, which moves to the top
            best = cuts[np.argmax(log_density(cuts))]
            cuts = np.unique(np.clip(np.concatenate([cuts, best - ladder, best + ladder]), lo, hi))
        half = 0.5 * np.diff(cuts)[:, None]
        f = cuts[:-1, None] + half + half * nodes
        log_p = log_density(f)
    top = log_p.max()
    w = np.exp(log_p - top) * half * weights
    total = w.sum()
    origin = f.ravel()[np.argmax(log_p)]
    first = np.sum(w * (f - origin)) / total + (origin - m)
    second = np.sum(w * (f - m - first) ** 2) / total
    return top + np.log(total) - 0.5 * np.log(2.0 * np.pi * v), first / v, (second - v) / v**2


def errors(likelihood, y, f, scale, fraction, row_var=0.0):
    found = likelihood.log_z(y, f, scale, np.full(len(y), row_var), fraction)
    worst = np.zeros(3)
    for i in range(len(y)):
        true = brute(likelihood, y[i], f.mean[i], f.var[i], scale[i], row_var, fraction)
        unit = 1.0 / np.sqrt(f.var[i])
        gaps = [
            abs(found.value[i] - true[0]) / (1.0 + 1e-3 * abs(true[0])),
            abs(found.d1[i] - true[1]) / (unit + abs(true[1])),
            abs(found.d2[i] - true[2]) / (unit**2 + abs(true[2])),
        ]
        worst = np.maximum(worst, gaps)
    return worst


@every
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_log_z_is_the_integral(likelihood, fraction):
    worst = errors(likelihood, *cases(likelihood, False), fraction)
    assert worst.max() < promised(likelihood), worst


@every
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_log_z_is_the_integral_far_out(likelihood, fraction):
    y, f, scale = cases(likelihood, True)
    found = likelihood.log_z(y, f, scale, np.zeros(len(y)), fraction)
    assert all(np.isfinite(part).all() for part in found)
    assert (f.var + f.var**2 * found.d2 > -1e-9 * f.var).all(), "a tilted variance below zero"
    worst = errors(likelihood, y, f, scale, fraction)
    assert worst.max() < max(10.0 * promised(likelihood), 3e-7), worst  # 1e-7 at rates of e^31


@every
def test_known_variances_add_to_the_scale(likelihood):
    if not likelihood.location:
        pytest.skip("no noise variance to add to")
    y, f, scale = cases(likelihood, False)
    assert errors(likelihood, y, f, scale, 0.95, row_var=0.7).max() < promised(likelihood)


@every
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_derivatives_are_differences(likelihood, fraction):
    y, f, scale = cases(likelihood, False)
    h = 1e-3 * np.sqrt(f.var)

    def value(shift):
        return likelihood.log_z(y, Gaussian(f.mean + shift, f.var), scale, np.zeros(len(y)), fraction)

    at, up, down = value(0.0), value(h), value(-h)
    sd = np.sqrt(f.var)
    size = 1.0 + sd * np.abs(at.d1)
    np.testing.assert_allclose(sd * (up.value - down.value) / (2.0 * h) / size, sd * at.d1 / size, atol=1e-5)
    np.testing.assert_allclose(f.var * (up.d1 - down.d1) / (2.0 * h), f.var * at.d2, rtol=1e-4, atol=1e-4)


@every
def test_derivatives_of_the_density(likelihood):
    """The closed forms against the default's differences."""
    y, f, scale = cases(likelihood, False)
    found = likelihood.derivatives(y, f.mean, scale, np.zeros(len(y)))
    plain = Likelihood.derivatives(likelihood, y, f.mean, scale, np.zeros(len(y)))
    unit = np.sqrt(likelihood.peak(y, scale, 0.0).curvature)
    np.testing.assert_allclose(found.value, likelihood.log_density(y, f.mean, scale, 0.0), rtol=1e-12)
    np.testing.assert_allclose(found.d1 / unit, plain.d1 / unit, rtol=1e-5, atol=1e-6)
    rounding = 1e-4 + 1e-7 * np.abs(found.value)  # of a second difference over 1e-4
    assert (np.abs(found.d2 - plain.d2) / unit**2 < rounding).all()


@every
def test_peak_is_the_top(likelihood):
    y, _, scale = cases(likelihood, False)
    peak = likelihood.peak(y, scale, np.zeros(len(y)))
    f = np.linspace(-40.0, 40.0, 8001)[:, None]
    with np.errstate(over="ignore"):
        p = likelihood.log_density(y, f, scale, 0.0)
        second = likelihood.derivatives(y, f, scale, 0.0).d2
    assert (p.max(axis=0) <= peak.log_density + 1e-12).all()
    known = np.isfinite(peak.mode)
    at_mode = likelihood.log_density(y[known], np.asarray(peak.mode)[known], scale[known], 0.0)
    np.testing.assert_allclose(at_mode, np.broadcast_to(peak.log_density, y.shape)[known], atol=1e-10)
    matters = p > peak.log_density - 8.0
    assert (np.where(matters, -second, 0.0) <= peak.curvature * (1.0 + 1e-9)).all()


@every
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_bounds_hold(likelihood, fraction):
    y, f, scale = cases(likelihood, False)
    bounds = likelihood.bounds(y, f, f.var, scale, np.zeros(len(y)), fraction)
    shifts = np.linspace(-6.0, 6.0, 121)[:, None] * np.sqrt(f.var)
    for wider in (1.0, 3.0):
        z = likelihood.log_z(y, Gaussian(f.mean + shifts, wider * f.var), scale, np.zeros(len(y)), fraction)
        assert (z.value <= bounds.upper + 1e-9).all()


@every
def test_density_sums_to_one(likelihood):
    f = np.array([-1.2, 0.0, 0.7])
    scale = np.full(3, -0.5 if likelihood.has_scale else 0.0)
    if likelihood.discrete:
        y = np.array([-1.0, 1.0]) if isinstance(likelihood, ProbitLikelihood) else np.arange(400.0)
        total = np.exp(likelihood.log_density(y[:, None], f, scale, 0.0)).sum(axis=0)
        np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    else:
        u, w = gauss_legendre(200)
        t = 12.0 * u[:, None]  # y = sinh t reaches 8e4
        density = np.exp(likelihood.log_density(f + np.sinh(t), f, scale, 0.0)) * np.cosh(t) * 12.0
        np.testing.assert_allclose(w @ density, 1.0, rtol=1e-6)


@every
def test_moments_cdf_and_draws_agree(likelihood):
    rng = np.random.default_rng(3)
    size = 40_000
    for f in (-0.8, 0.9):
        scale = -0.5 if likelihood.has_scale else 0.0
        y = likelihood.sample(rng, np.full(size, f), scale, 0.0)
        moments = likelihood.moments(np.float64(f), scale, 0.0)
        if np.isfinite(moments.var) and not (
            isinstance(likelihood, StudentTLikelihood) and likelihood.df <= 4
        ):
            assert abs(y.mean() - moments.mean) < 4.5 * np.sqrt(moments.var / size)
            assert y.var() == pytest.approx(moments.var, rel=0.1)
        for level in np.unique(np.quantile(y, [0.05, 0.4, 0.9])):
            p = float(likelihood.cdf(level, np.float64(f), scale, 0.0))
            assert abs(np.mean(y <= level) - p) < 4.5 * np.sqrt(p * (1.0 - p) / size) + 1e-9


@every
def test_predictive_forms_integrate_f(likelihood):
    f = Gaussian(np.array([-0.6, 0.5]), np.array([0.2, 0.6]))
    scale = np.full(2, -0.5 if likelihood.has_scale else 0.0)
    x, w = np.polynomial.hermite_e.hermegauss(80)
    nodes = f.mean[:, None] + np.sqrt(f.var)[:, None] * x
    w = w / w.sum()
    given = likelihood.moments(nodes, scale[:, None], 0.0)
    mean = given.mean @ w
    found = likelihood.predictive_moments(f, scale, 0.0)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    if np.isfinite(given.var).all():
        np.testing.assert_allclose(found.var, (given.var + (given.mean - mean[:, None]) ** 2) @ w, rtol=1e-9)
    y = np.array([0.3, 1.4])
    expected = likelihood.cdf(y[:, None], nodes, scale[:, None], 0.0) @ w
    np.testing.assert_allclose(likelihood.predictive_cdf(y, f, scale, 0.0), expected, rtol=1e-6)


@every
def test_wrong_targets_are_named(likelihood):
    good = np.asarray(targets_of(likelihood))
    likelihood.check_target(good)
    if likelihood.discrete:
        with pytest.raises(ValueError, match=r"got 0.5 in row \d+"):
            likelihood.check_target(np.append(good, 0.5))


@every
def test_pickles_and_compares(likelihood):
    copy = pickle.loads(pickle.dumps(likelihood))
    assert copy == likelihood
    assert type(likelihood) in LIKELIHOODS.values()


# ── mixtures ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("df", [0.5, 1.0, 2.0, 4.0, 10.0, 30.0])
def test_components_make_a_student_t(df):
    r = np.concatenate([np.linspace(0.0, 10.0, 400), np.geomspace(10.0, 100.0, 200)])
    weights, var = t_components(df, 1e-6)
    exact = (
        gammaln(0.5 * (df + 1.0))
        - gammaln(0.5 * df)
        - 0.5 * np.log(df * np.pi)
        - 0.5 * (df + 1.0) * np.log1p(r**2 / df)
    )
    keep = exact > exact[0] - 45.0
    p = np.exp(-0.5 * r[:, None] ** 2 / var) / np.sqrt(2.0 * np.pi * var) @ weights
    np.testing.assert_allclose(p[keep], np.exp(exact[keep]), rtol=2e-6)
    assert len(weights) <= 64 and (np.diff(var) > 0.0).all()


@robust
def test_outlier_probability_is_bayes(likelihood):
    """At a known f and θ: prior share × density of the outlying part over the whole density."""
    y = np.array([0.0, 2.0, 5.0, 20.0, 300.0])
    f = Gaussian(np.zeros(5), np.full(5, 0.3))
    p = likelihood.outlier_probability(y, f, 0.0, 0.0)
    assert (np.diff(p) >= 0.0).all() and p[0] < 0.1 and p[-1] > 0.99
    if isinstance(likelihood, OutlierLikelihood):
        y, p = y[:3], p[:3]
        narrow, wide = (
            np.exp(-0.5 * y**2 / (0.3 + c)) / np.sqrt(0.3 + c) for c in (1.0, likelihood.ratio**2)
        )
        eps = likelihood.share
        np.testing.assert_allclose(p, eps * wide / (eps * wide + (1.0 - eps) * narrow), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StudentTLikelihood(df=0.0), "df must be positive"),
        (lambda: OutlierLikelihood(share=1.0), "share must lie"),
        (lambda: OutlierLikelihood(ratio=1.0), "ratio must be"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
