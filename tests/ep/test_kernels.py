"""The compiled kernels against dense oracles that share no node, no trimming and no closed form with them."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf, erfc
from tests.invariants.problems import network_problem, network_step, warm_state

from cavity.ep import posterior as post
from cavity.ep.network import visit_rows_in_turn
from cavity.ep.state import EPState
from cavity.ep.sweep import active_mask
from cavity.model.activations import Activation, Erf
from cavity.numerics import fastmath
from cavity.numerics.kernel_grids import MAX_NODES
from cavity.numerics.kernel_noise import noise_tilted
from cavity.numerics.kernel_tilted import ERF, LINEAR, h_tilted
from cavity.numerics.kernel_units import erf_moments
from cavity.numerics.quadrature import gauss_hermite, gauss_legendre
from cavity.types import Gaussian

ROOT_2 = math.sqrt(2.0)
# What a site can use: its own moments are compared with marginals at tolerances of 1e-4 to 1e-9.
WORST, TYPICAL = 1e-7, 1e-10
WORK = np.empty((2, MAX_NODES))
DRAWS = 120


# ── oracle ──────────────────────────────────────────────────────────────────────────────────────


def dense_moments(log_density, centres, lo, hi):
    """Mean and variance by Gauss–Legendre panels, with ladders about the centres, halved until they agree.

    The centres are where something narrow can sit, so no peak falls between the first panels.
    """
    nodes, weights = gauss_legendre(16)
    ladder = np.geomspace(1e-12, 1.0, 160) * (hi - lo)
    ladders = [c + sign * ladder for c in centres for sign in (-1.0, 1.0)]
    cuts = np.unique(np.clip(np.concatenate([np.linspace(lo, hi, 801), *ladders, centres]), lo, hi))
    for _ in range(30):
        half = 0.5 * np.diff(cuts)[:, None]
        x = cuts[:-1, None] + half + half * nodes
        left = cuts[:-1, None] + 0.5 * half + 0.5 * half * nodes
        p, pl, pr = log_density(x), log_density(left), log_density(left + half)
        top = max(p.max(), pl.max(), pr.max())
        coarse = np.sum(np.exp(p - top) * half * weights, axis=1)
        fine = np.sum((np.exp(pl - top) + np.exp(pr - top)) * 0.5 * half * weights, axis=1)
        bad = (np.abs(fine - coarse) > 1e-15 * fine.sum()) & (half[:, 0] > 4e-16 * np.abs(x).max(axis=1))
        if not bad.any():
            break
        cuts = np.sort(np.concatenate([cuts, (cuts[:-1] + half[:, 0])[bad]]))
    mass = np.exp(p - top) * half * weights
    mass /= mass.sum()
    origin = x.ravel()[np.argmax(p)]
    mean = np.sum(mass * (x - origin)) + origin
    return mean, float(np.sum(mass * (x - mean) ** 2))


# ── activations ─────────────────────────────────────────────────────────────────────────────────


def draw_row(rng, level, kind):
    """One activation of a random row; ``level`` decades around one: 0.5 a converged fit, 3 absurd."""
    units = 3
    var = 10.0 ** rng.uniform(-level, level, units)
    mean = 2.0 * rng.standard_normal(units) * np.sqrt(var) + rng.standard_normal(units)
    scale = units**-0.5
    if kind == ERF:
        moments = Erf().moments(Gaussian(mean, var))
        g_mean, g_var = np.append(scale * moments.mean, 1.0), np.append(scale**2 * moments.var, 0.0)
    else:
        g_mean, g_var = np.append(scale * mean, 1.0), np.append(scale**2 * var, 0.0)
    root = (
        0.5 * rng.standard_normal((units + 1, units + 1)) * 10.0 ** rng.uniform(-1.5 * min(level, 2.0), 0.5)
    )
    cov = root @ root.T / (units + 1) * (rng.random() > 0.15)  # output weights known in one row of seven
    mu = rng.uniform(0.1, 2.0, units + 1) * 10.0 ** rng.uniform(-0.5 * min(level, 2.0), 0.3 * level)
    f_var = g_mean @ cov @ g_mean + g_var @ (np.diag(cov) + mu**2)
    noise = 10.0 ** rng.uniform(-2.0 * level, 0.0)
    outlier = 10.0 ** rng.uniform(0.0, 0.7 * level - 0.3) if rng.random() < 0.5 else 1.0
    residual = rng.standard_normal() * np.sqrt(f_var + noise) * outlier
    rest = max(f_var - g_var[0] * (cov[0, 0] + mu[0] ** 2) + noise, noise * (1.0 + 1e-12))
    return (
        mean[0], var[0], kind, scale, g_mean[0], mu[0], cov[0, 0], (cov @ g_mean)[0], rest, residual, noise
    )  # fmt: skip


def h_oracle(row):
    mc, vc, kind, scale, g_mean, mu, s, c, t0, r0, noise = row

    def total_var(d):
        return np.maximum(t0 + d * (2.0 * c + d * s), noise)

    def output(h):
        return scale * (erf(h / ROOT_2) if kind == ERF else h)

    def log_density(h):
        d = output(h) - g_mean
        t = total_var(d)
        return -0.5 * ((h - mc) ** 2 / vc + (r0 - mu * d) ** 2 / t + np.log(t))

    def where_output_is(g):
        if kind == LINEAR:
            return [g / scale]
        if abs(g) >= scale * (1.0 - 1e-15):
            return [-6.0, 6.0]
        return [brentq(lambda h: output(h) - g, -9.0, 9.0, xtol=1e-15)]

    centres = [0.0, mc]
    if mu != 0.0:
        centres += where_output_is(g_mean + r0 / mu)
    if s > 0.0:
        centres += where_output_is(g_mean - c / s)
    t_min = max(noise, t0 - c * c / s) if s > 0.0 else t0
    d = output(mc) - g_mean
    t = float(total_var(d))
    gain = max(0.0, 0.5 * (r0 - mu * d) ** 2 / t + 0.5 * np.log(t / t_min))
    reach = np.sqrt(2.0 * vc * (60.0 + gain))
    return dense_moments(log_density, centres, mc - reach, mc + reach)


def h_errors(level, kind, seed=7, draws=DRAWS):
    rng = np.random.default_rng(seed)
    errors = np.empty(draws)
    for i in range(draws):
        row = draw_row(rng, level, kind)
        mean, var = h_tilted(*row, WORK)[:2]
        true_mean, true_var = h_oracle(row)
        errors[i] = max(abs(mean - true_mean) / np.sqrt(true_var), abs(var / true_var - 1.0))
    return errors


@pytest.mark.parametrize("kind", [ERF, LINEAR], ids=["erf", "linear"])
@pytest.mark.parametrize("level", [0.5, 1.0, 2.0, 3.0])
def test_tilted_activation(kind, level):
    errors = h_errors(level, kind)
    assert np.median(errors) < TYPICAL
    assert np.max(errors) < WORST


def draw_well_known_row(rng):
    """Little noise and well-known output weights: units anywhere from the bend to far into saturation."""
    mc, sd = rng.uniform(-7.0, 7.0), 10.0 ** rng.uniform(-2.0, 0.7)
    noise = 10.0 ** rng.uniform(-6.0, -2.0)
    mu = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-1.5, 0.7)
    s = (mu * 10.0 ** rng.uniform(-3.0, -0.5)) ** 2
    h = mc + sd * rng.standard_normal() * rng.choice([1.0, 3.0])  # where the target wants it
    moments = Erf().moments(Gaussian(mc, sd**2))
    t0 = noise * 10.0 ** rng.uniform(0.0, 1.5) + s
    c = rng.uniform(-0.9, 0.9) * np.sqrt(s * (t0 - noise))
    r0 = mu * (erf(h / ROOT_2) - moments.mean) + rng.standard_normal() * np.sqrt(t0)
    return (mc, sd**2, ERF, 1.0, moments.mean, mu, s, c, t0, r0, noise)


def test_little_noise_takes_few_nodes():
    """An even grid over the cavity, as fine as the likelihood at its steepest, would have thousands."""
    rng = np.random.default_rng(3)
    rows = [draw_well_known_row(rng) for _ in range(150)]
    errors, nodes = np.empty(len(rows)), np.empty(len(rows))
    for i, row in enumerate(rows):
        mean, var, nodes[i] = h_tilted(*row, WORK)
        true_mean, true_var = h_oracle(row)
        errors[i] = max(abs(mean - true_mean) / np.sqrt(true_var), abs(var / true_var - 1.0))
    assert np.max(errors) < WORST
    assert np.median(nodes) < 70
    assert np.quantile(nodes, 0.8) < 200


EXTREMES = {
    "two modes, far apart": (0.0, 400.0, ERF, 1.0, 0.0, 0.05, 2.0, 0.0, 0.02, 1.6, 0.01),
    "narrow noise, wide cavity": (3.0, 100.0, ERF, 1.0, 0.2, 1.0, 0.0, 0.0, 1e-6, 0.3, 1e-6),
    "narrow noise, narrow cavity": (0.1, 1e-4, ERF, 1.0, 0.08, 1.0, 1e-3, 1e-4, 2e-6, 0.0, 1e-6),
    "far outlier": (0.5, 1.0, ERF, 1.0, 0.3, 1.0, 0.1, 0.02, 0.05, 10.0, 0.01),
    "saturated unit": (30.0, 4.0, ERF, 1.0, 1.0, 1.0, 0.1, 0.05, 0.05, -1.5, 0.01),
    "flat likelihood": (-2.0, 9.0, ERF, 1.0, -0.5, 1e-9, 1e-12, 0.0, 1.0, 0.3, 1.0),
    "linear, uncertain output": (5.0, 25.0, LINEAR, 1.0, 5.0, 1.0, 1.0, 5.0, 26.0, -8.0, 0.01),
    "linear, narrow noise": (5.0, 25.0, LINEAR, 1.0, 5.0, 1.0, 0.0, 0.0, 1e-6, -8.0, 1e-6),
}


@pytest.mark.parametrize("name", list(EXTREMES))
def test_tilted_activation_at_extremes(name):
    row = EXTREMES[name]
    mean, var = h_tilted(*row, WORK)[:2]
    true_mean, true_var = h_oracle(row)
    assert abs(mean - true_mean) < WORST * np.sqrt(true_var)
    assert var == pytest.approx(true_var, rel=WORST)


def test_two_modes_are_wider_than_the_cavity():
    """The likelihood likes both saturated ends: the tilted variance exceeds the cavity's, and is right."""
    row = (0.0, 1.0, ERF, 1.0, 0.0, 0.0, 4.0, 0.0, 0.01, 1.9, 0.01)
    mean, var = h_tilted(*row, WORK)[:2]
    true_mean, true_var = h_oracle(row)
    assert true_var > 1.5
    assert var == pytest.approx(true_var, rel=WORST)
    assert abs(mean - true_mean) < WORST


def test_oracle_knows_gaussians():
    """The linear unit with known output weight is conjugate: checks the oracle itself."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        mc, vc, mu, t0, r0 = (
            rng.normal(),
            10.0 ** rng.uniform(-3, 3),
            rng.normal(),
            10.0 ** rng.uniform(-6, 1),
            3.0,
        )
        mean, var = h_oracle((mc, vc, LINEAR, 0.7, 0.7 * mc, mu, 0.0, 0.0, t0, r0, t0))
        b = 0.7 * mu
        exact = 1.0 / (1.0 / vc + b * b / t0)
        assert var == pytest.approx(exact, rel=1e-12)
        assert mean == pytest.approx(mc + exact * b * r0 / t0, abs=1e-12 * max(1.0, abs(r0 / b)))


# ── noise level ─────────────────────────────────────────────────────────────────────────────────


def noise_oracle(mc, vc, f_var, resid, row_var, eta):
    """log Ẑ, moments of θ and of 1/V_y on uniform grids that cover 60 nats."""
    sd = np.sqrt(vc)

    def log_density(theta):
        sigma2 = np.exp(theta) + row_var
        total = f_var + sigma2 / eta
        log_power = 0.5 * (1.0 - eta) * np.log(2.0 * np.pi * sigma2) - 0.5 * np.log(eta)
        log_normal = -0.5 * (np.log(2.0 * np.pi * total) + resid**2 / total)
        return log_power + log_normal - 0.5 * ((theta - mc) ** 2 / vc + np.log(2.0 * np.pi * vc)), 1.0 / total

    # the likelihood gains at most r²/2V_y over its value at the cavity mean, so nothing lies further out
    gain = 0.5 * resid**2 / (f_var + (np.exp(mc) + row_var) / eta)
    theta = mc + sd * np.sqrt(2.0 * (60.0 + gain)) * np.linspace(-1.0, 1.0, 100_001)
    log_p, inverse = log_density(theta)
    keep = np.flatnonzero(log_p > log_p.max() - 60.0)
    theta = np.linspace(theta[max(keep[0] - 1, 0)], theta[min(keep[-1] + 1, len(theta) - 1)], 40_001)
    log_p, inverse = log_density(theta)
    w = np.exp(log_p - log_p.max())
    log_z = log_p.max() + np.log(w.sum() * (theta[1] - theta[0]))
    w /= w.sum()
    mean, inv = w @ theta, w @ inverse
    return log_z, mean, w @ (theta - mean) ** 2, inv, w @ (inverse - inv) ** 2


@pytest.mark.parametrize("level", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("eta", [1.0, 0.7])
def test_tilted_noise(level, eta):
    rng = np.random.default_rng(11)
    errors = []
    for _ in range(DRAWS):
        mc, vc = rng.normal(-2.0 * level, level), 10.0 ** rng.uniform(-2.0 * level, 0.5 * level)
        f_var = 10.0 ** rng.uniform(-3.0 * level, level)
        row_var = 10.0 ** rng.uniform(-3.0 * level, 0.0) if rng.random() < 0.5 else 0.0
        resid = rng.standard_normal() * np.sqrt(f_var + np.exp(mc)) * 10.0 ** rng.uniform(0.0, level)
        given = noise_tilted(mc, vc, f_var, resid, row_var, eta, WORK)
        truth = noise_oracle(mc, vc, f_var, resid, row_var, eta)
        scale = (1.0 + abs(truth[0]), np.sqrt(truth[2]), truth[2], truth[3])
        errors.append([abs(g - t) / s for g, t, s in zip(given[:4], truth[:4], scale, strict=True)])
        # the spread of 1/V_y enters the output site as r²·Var[1/V_y] beside E[1/V_y]
        errors[-1].append(abs(given[4] - truth[4]) * resid**2 / (truth[3] + resid**2 * truth[4]))
    errors = np.array(errors)
    assert np.median(errors) < TYPICAL
    assert np.max(errors) < WORST


# ── moments of the activation ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mean", [0.0, 0.3, -2.0, 8.0, 40.0])
@pytest.mark.parametrize("var", [1e-8, 1e-3, 0.5, 10.0, 1e4, 1e6])
def test_erf_moments(mean, var):
    """Var g = E g² - (E g)² has no digits left at small variance; the centred oracle keeps them."""
    sd = np.sqrt(var)
    z_mean, z_var = dense_g_moments(mean, sd)
    for g_mean, g_var in (erf_moments(mean, var), Erf().moments(Gaussian(np.array(mean), np.array(var)))):
        assert float(g_mean) == pytest.approx(z_mean, abs=1e-14)
        # 1e-12 wherever it matters; a saturated unit's variance of 1e-30 is good to a few digits only
        assert float(g_var) == pytest.approx(z_var, rel=1e-11, abs=1e-20)


def dense_g_moments(mean, sd):
    """E and centred Var of erf(h/√2) on panels, from 1 ∓ g, which keeps its digits where g saturates."""
    nodes, weights = gauss_legendre(16)
    reach = 30.0 * sd  # far enough that a unit saturated at 13 sds still shows its other end
    ladder = np.concatenate([np.geomspace(1e-6, reach, 120), np.linspace(0.0, reach, 400)])
    around = [mean + ladder, mean - ladder, ladder, -ladder, np.linspace(-9.0, 9.0, 121)]
    cuts = np.unique(np.clip(np.concatenate(around), mean - reach, mean + reach))
    half = 0.5 * np.diff(cuts)[:, None]
    h = (cuts[:-1, None] + half + half * nodes).ravel()
    w = (half * weights).ravel() * np.exp(-0.5 * ((h - mean) / sd) ** 2)
    w /= w.sum()
    sign = 1.0 if mean >= 0 else -1.0
    gap = erfc(sign * h / ROOT_2)  # 1 - sign·g
    centre = w @ gap
    return sign * (1.0 - centre), w @ (gap - centre) ** 2


def test_erf_moments_of_the_default_activation():
    """Any activation's default moments (Gauss–Hermite) agree where g is smooth on the cavity's scale."""

    class Plain(Activation):
        def __call__(self, h):
            return erf(np.asarray(h) / ROOT_2)

    h = Gaussian(np.array([0.0, 0.7, -2.0]), np.array([0.01, 0.3, 1.0]))
    default, closed = Plain().moments(h), Erf().moments(h)
    np.testing.assert_allclose(default.mean, closed.mean, atol=1e-12)
    np.testing.assert_allclose(default.var, closed.var, rtol=1e-10)


# ── elementary functions ────────────────────────────────────────────────────────────────────────


def test_fast_exp():
    x = -np.concatenate([np.linspace(0.0, 40.0, 1500), np.geomspace(1e-12, 708.0, 500)])
    fast = np.array([fastmath.exp_nonpositive(float(v)) for v in x])
    # stated 3e-16, and the library's own half ulp
    np.testing.assert_allclose(fast, np.exp(x), rtol=5e-16)
    below = [fastmath.exp_nonpositive(v) for v in (-709.0, -1e6, -math.inf)]
    assert all(0.0 <= v < 1e-306 for v in below)


def test_fast_log():
    x = np.concatenate(
        [np.geomspace(1e-300, 1e300, 2001), np.linspace(0.5, 2.0, 2000), 1.0 + np.geomspace(1e-15, 1.0)]
    )
    fast = np.array([fastmath.log_positive(float(v)) for v in x])
    # stated 3e-16, half an ulp, and the library's own half ulp
    np.testing.assert_allclose(fast, np.log(x), rtol=3e-16, atol=4e-16)


def test_fast_erf():
    x = np.concatenate([np.linspace(-7.0, 7.0, 2001), np.geomspace(1e-12, 1e3, 300)])
    fast = np.array([fastmath.erf(float(v)) for v in x])
    # stated 8e-16, and one ulp of the library's
    assert np.max(np.abs(fast - erf(x))) < 1.1e-15
    assert fastmath.erf(1e300) == 1.0 and fastmath.erf(-1e300) == -1.0


# ── rank-one updates ────────────────────────────────────────────────────────────────────────────

# 100 sweeps over 60 rows are 6000 rank-one updates of each covariance; rounding of each is 1e-16 of it, and
# the update multiplies errors by at most the condition of one row. Measured: below 1e-11.
DRIFT = 1e-8


@pytest.mark.parametrize("name", ["ard", "laplace"])
def test_rank_one_updates_do_not_drift(name):
    spec, data = network_problem(name)
    step = network_step(name, block_size=1, damping_output=0.0)
    active = active_mask(spec.n_hidden, None)
    state = warm_state(name)
    moved = 0.0
    for _ in range(100):
        visit, mean, cov, noise, _ = visit_rows_in_turn(spec, data, state, step, active)
        moved += float(np.abs(visit.sites.h - state.rows.h).sum())
        w = state.posterior.w._replace(z_mean=mean, factor=np.linalg.cholesky(cov))
        state = EPState(visit.sites, state.priors, state.posterior._replace(w=w, noise=noise))
    fresh = post.refresh_weights(spec, data, state.rows, state.priors.w)
    exact = np.matmul(fresh.factor, np.swapaxes(fresh.factor, 1, 2))
    sd = np.sqrt(np.einsum("kii->ki", exact))
    assert moved > 1.0
    assert np.max(np.abs(mean - fresh.z_mean) / sd) < DRIFT
    assert np.max(np.abs(cov - exact) / (sd[:, :, None] * sd[:, None, :])) < DRIFT
    if noise.var > 0.0:
        again = post.refresh_noise(spec, data.weight, state.rows.noise)
        assert abs(again.mean - noise.mean) < DRIFT * np.sqrt(noise.var)
        assert noise.var == pytest.approx(again.var, rel=DRIFT)


def test_hermite_rule_is_normalised():
    nodes, weights = gauss_hermite(24)
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert weights @ nodes**2 == pytest.approx(1.0, abs=1e-13)
