"""Gauss–Hermite rules of narrow cavities against dense oracles and the rules for any cavity."""

import math

import numpy as np
import pytest
from scipy.special import erf
from tests.ep.test_kernels import h_oracle
from tests.ep.test_likelihood_kernels import oracle

from cavity.model.likelihoods import OutlierLikelihood, ProbitLikelihood, StudentTLikelihood
from cavity.numerics.kernel_activations import bounds, h_tilted_by
from cavity.numerics.kernel_grids import HERMITE_SIZES, MAX_NODES
from cavity.numerics.kernel_hermite import WIDEST, narrow_tilted, narrow_tilted_by, rule_for
from cavity.numerics.kernel_likelihoods import NARROW_SCALE, PROBIT, mixture, scale_tilted
from cavity.numerics.kernel_tilted import h_tilted
from cavity.numerics.kernel_units import COSINE, ERF, LINEAR, RELU, SINE, SOFTPLUS, TANH, unit_moments

WORK = np.empty((4, MAX_NODES))
# Of 200,000 rows drawn as below the worst was off by 1.3e-9 (sine), of erf units by 2e-10; medians are 3e-13.
WORST = 5e-9
SMOOTH = [ERF, LINEAR, TANH, SOFTPLUS, SINE, COSINE]
NAMES = ["erf", "linear", "tanh", "softplus", "sine", "cosine"]
PIECES = [(ProbitLikelihood(), 1.0), (OutlierLikelihood(), 1.0), (StudentTLikelihood(df=4.0), 0.7)]


def draw(rng, kind):
    """One activation of a row that tells its unit little, of any size beside its noise of about one."""
    mc = rng.normal() * rng.choice([0.3, 1.0, 3.0, 8.0])
    vc = 10.0 ** rng.uniform(-5.0, -0.6)
    scale = 10.0 ** rng.uniform(-1.5, 0.0)
    mu = 10.0 ** rng.uniform(-2.0, 0.7) * rng.choice([1.0, 1.0, -1.0, 0.01])
    s = 10.0 ** rng.uniform(-6.0, 0.7)
    rest = 10.0 ** rng.uniform(-3.0, 1.5)
    c = 0.95 * rng.uniform(-1.0, 1.0) * math.sqrt(s * rest)
    mean, var = unit_moments(kind, mc, vc, np.empty((2, 2048)))
    f_var = rest + scale**2 * var * (s + mu * mu)
    resid = rng.normal() * math.sqrt(rest + 1.0) * rng.choice([1.0, 1.0, 2.0, 4.0])
    return mc, vc, scale, scale * mean, mu, s, c, rest, f_var, resid


def gaussian_rows(kind, count, seed=5):
    """Rows under Gaussian noise with the rule that takes them."""
    rng = np.random.default_rng(seed)
    while count > 0:
        mc, vc, scale, mg, mu, s, c, rest, _, resid = draw(rng, kind)
        noise = 1.0 / 0.95
        t0 = rest + noise
        rule = rule_for(mc, vc, kind, scale, mu, s, 1.0 / max(noise, t0 - c * c / s), 0.5 * resid**2 / t0)
        if rule >= 0:
            count -= 1
            yield rule, (mc, vc, kind, scale, mg, mu, s, c, t0, resid, noise)


def rows_by(likelihood, fraction, kind, count, seed=6):
    """The same under another likelihood, as `cavity.numerics.kernel_rows` chooses rules there."""
    rng, form = np.random.default_rng(seed), likelihood.kernel_form(fraction)
    while count > 0:
        mc, vc, scale, mg, mu, s, c, rest, f_var, resid = draw(rng, kind)
        y = float(rng.choice([-1.0, 1.0])) if form.code == PROBIT else 0.3
        _, peak, misfit, _ = bounds(form.code, y, resid, f_var, 0.0, 1.0, form.mix)
        rule = rule_for(mc, vc, kind, scale, mu, s, peak, misfit) if 2.0 * rest > f_var else -1
        if rule >= 0:
            count -= 1
            yield rule, (mc, vc, kind, scale, mg, mu, s, c, rest, resid, form.code, y, 1.0, form.mix)


def far(found, true):
    """How far moments are apart: means in sds, variances relative."""
    return max(abs(found[0] - true[0]) / math.sqrt(true[1]), abs(found[1] / true[1] - 1.0))


@pytest.mark.parametrize("kind", SMOOTH, ids=NAMES)
def test_gaussian_noise(kind):
    seen = set()
    for rule, row in gaussian_rows(kind, 400):
        found = narrow_tilted(rule, *row, WORK)
        true = h_oracle(row) if kind in (ERF, LINEAR) else h_tilted(*row, WORK)
        assert far(found, true) < WORST
        assert found[2] == HERMITE_SIZES[rule]
        seen.add(rule)
    assert seen == set(range(len(HERMITE_SIZES)))


@pytest.mark.parametrize("kind", SMOOTH, ids=NAMES)
@pytest.mark.parametrize(("likelihood", "fraction"), PIECES, ids=str)
def test_other_likelihoods(likelihood, fraction, kind):
    seen = set()
    for rule, row in rows_by(likelihood, fraction, kind, 150):
        found = narrow_tilted_by(rule, *row, WORK)
        true = oracle(likelihood, fraction, row) if kind in (ERF, LINEAR) else h_tilted_by(*row, WORK)
        assert far(found, true) < WORST
        seen.add(rule)
    assert seen == set(range(len(HERMITE_SIZES)))


def test_what_no_rule_takes():
    narrow = dict(mc=0.1, vc=1e-3, kind=ERF, scale=0.3, mu=1.0, s=0.1, curvature=1.0, misfit=0.5)
    assert rule_for(*narrow.values()) == 0
    for change in (
        {"vc": 1.01 * WIDEST[-1]},
        {"kind": RELU},  # a kink
        {"curvature": 1e4},  # little noise
        {"mu": 300.0},
        {"misfit": 1e3},  # an outlier
        {"misfit": math.nan},
    ):
        assert rule_for(*(narrow | change).values()) == -1, change
    saturated = narrow | {"curvature": 1e4, "mc": 9.0}  # flat there, whatever the likelihood
    assert rule_for(*saturated.values()) == 0


@pytest.mark.parametrize("resid", [0.0, 0.7, 2.5])
@pytest.mark.parametrize("row_var", [0.0, 0.4])
def test_narrow_noise_level(resid, row_var):
    """θ to the digits of a dense sum, on either side of where the rule changes."""
    mix, eta, mc, f_var = StudentTLikelihood(df=4.0).kernel_form(0.7).mix, 0.7, -0.3, 0.2
    for vc in (1e-5, 1e-4, 1e-3, 2e-3, 4e-3, 1e-2, 0.1):
        found = scale_tilted(mc, vc, f_var, resid, row_var, eta, mix, WORK)
        z = np.linspace(-9.0, 9.0, 4001)
        theta = mc + math.sqrt(vc) * z
        sigma2 = np.exp(theta) + row_var
        value, inverse, spread = np.array([mixture(resid**2, f_var, s2, mix) for s2 in sigma2]).T
        log_p = value + 0.5 * (1.0 - eta) * np.log(sigma2) - 0.5 * z * z
        p = np.exp(log_p - log_p.max())
        total = p.sum()
        p /= total
        mean, first = p @ theta, p @ inverse
        true = (
            math.log(total * (z[1] - z[0])) + log_p.max() - 0.5 * math.log(2.0 * math.pi),
            mean,
            p @ (theta - mean) ** 2,
            resid * first,
            resid**2 * (p @ (spread + (inverse - first) ** 2)) - first,
        )
        np.testing.assert_allclose(found, true, rtol=1e-9, atol=1e-11)
        assert abs(found[1] - mean) < 1e-9 * math.sqrt(vc)
    assert 1e-3 < NARROW_SCALE < 0.1  # both rules were seen


def test_erf_is_what_the_kernels_take_it_for():
    """The rules are as good as their g: one node of each against SciPy's."""
    for rule, row in gaussian_rows(ERF, 50, seed=8):
        mc, vc, _, scale, mg, mu, s, c, t0, resid, noise = row
        x, w = np.polynomial.hermite_e.hermegauss(HERMITE_SIZES[rule])
        d = scale * erf((mc + math.sqrt(vc) * x) / math.sqrt(2.0)) - mg
        t = np.maximum(t0 + d * (2.0 * c + d * s), noise)
        p = w * np.exp(-0.5 * (resid - mu * d) ** 2 / t) / np.sqrt(t)
        mean = p @ x / p.sum()
        true = mc + math.sqrt(vc) * mean, vc * (p @ (x - mean) ** 2) / p.sum()
        assert far(narrow_tilted(rule, *row, WORK), true) < 1e-12
