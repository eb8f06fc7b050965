"""Compiled kernels of likelihoods that are not Gaussian against dense oracles and the NumPy twin."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf
from tests.ep.test_kernels import dense_moments, draw_row
from tests.ep.test_twin import assert_same, both

from cavity.ep.ladder import fit_ensemble
from cavity.ep.options import FitOptions
from cavity.ep.row_tilted import Conditional, tilted_activations
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import solve
from cavity.ep.starts import zero_state
from cavity.ep.sweep import active_mask
from cavity.model.data import prepare
from cavity.model.likelihoods import (
    OutlierLikelihood,
    PoissonLikelihood,
    ProbitLikelihood,
    StudentTLikelihood,
)
from cavity.model.spec import Noise, network
from cavity.numerics.kernel_activations import h_tilted_by
from cavity.numerics.kernel_grids import MAX_NODES
from cavity.numerics.kernel_likelihoods import PROBIT, probit, scale_tilted
from cavity.numerics.kernel_tilted import ERF, LINEAR
from cavity.numerics.normal import half_line_moments, log_cdf
from cavity.types import Gaussian

WORK = np.empty((4, MAX_NODES))
ROOT_2 = math.sqrt(2.0)
PIECES = [
    (ProbitLikelihood(), 1.0),
    (OutlierLikelihood(), 1.0),
    (StudentTLikelihood(df=4.0), 1.0),
    (StudentTLikelihood(df=4.0), 0.6),
]
# Over 60 draws each the worst error is 2e-9 for probit, 4e-9 for two components and 2e-8 for a Student-t,
# whose rarest components are left out; medians are 5e-13, 5e-13 and 1e-9.
WORST = 1e-7
pieces = pytest.mark.parametrize(("likelihood", "fraction"), PIECES, ids=str)


def test_probit_in_both_tails():
    for z in [-1e6, -300.0, -100.1, -99.9, -30.0, -3.0, -1e-9, 0.0, 0.5, 5.0, 9.0, 40.0]:
        value, ratio, mean = probit(z)
        half = half_line_moments(z)
        assert value == pytest.approx(float(log_cdf(z)), rel=1e-12, abs=1e-300)
        assert mean == pytest.approx(float(half.mean), rel=1e-9)
        assert ratio == pytest.approx(float(half.mean) - z, rel=1e-9, abs=1e-15)


def draw(rng, level, kind, likelihood, fraction):
    mc, vc, kind, scale, g_mean, mu, s, c, t0, r0, noise = draw_row(rng, level, kind)
    form = likelihood.kernel_form(fraction)
    y = float(rng.choice([-1.0, 1.0])) if form.code == PROBIT else 0.3
    rest = max(t0 - noise, 0.0)
    return (mc, vc, kind, scale, g_mean, mu, s, c, rest, r0, form.code, y, noise, form.mix)


def oracle(likelihood, fraction, row):
    mc, vc, kind, scale, g_mean, mu, s, c, v0, r0, code, y, noise, _ = row
    f_mean = (0.0 if code == PROBIT else y) - r0

    def output(h):
        return scale * (erf(h / ROOT_2) if kind == ERF else h)

    def log_density(h):
        d = output(h) - g_mean
        f = Gaussian(f_mean + mu * d, np.maximum(v0 + d * (2.0 * c + d * s), 0.0))
        return likelihood.log_z(y, f, np.log(noise), 0.0, fraction).value - 0.5 * (h - mc) ** 2 / vc

    def where_output_is(g):
        if kind == LINEAR:
            return [g / scale]
        if abs(g) >= scale * (1.0 - 1e-15):
            return [-6.0, 6.0]
        return [brentq(lambda h: output(h) - g, -9.0, 9.0, xtol=1e-15)]

    centres = [0.0, mc, *where_output_is(g_mean + r0 / mu)]
    if s > 0.0:
        centres += where_output_is(g_mean - c / s)
    upper = likelihood.bounds(y, Gaussian(f_mean, v0), 0.0, np.log(noise), 0.0, fraction).upper
    gain = max(0.0, float(upper) - float(log_density(np.array([mc]))[0]))
    reach = np.sqrt(2.0 * vc * (60.0 + gain))
    return dense_moments(log_density, np.array(centres), mc - reach, mc + reach)


@pieces
@pytest.mark.parametrize("kind", [ERF, LINEAR], ids=["erf", "linear"])
@pytest.mark.parametrize("level", [0.5, 2.0])
def test_tilted_activation(likelihood, fraction, kind, level):
    rng = np.random.default_rng(7)
    for _ in range(12):
        row = draw(rng, level, kind, likelihood, fraction)
        mean, var = h_tilted_by(*row, WORK)[:2]
        true_mean, true_var = oracle(likelihood, fraction, row)
        assert abs(mean - true_mean) < WORST * np.sqrt(true_var)
        assert var == pytest.approx(true_var, rel=WORST)


def test_more_nodes_than_the_workspace_holds():
    """A likelihood 1e5 times sharper than its wide cavity: nothing is written beyond the workspace."""
    form = StudentTLikelihood(df=4.0).kernel_form(1.0)
    row = (0.0, 400.0, ERF, 1.0, 0.0, 1.0, 0.0, 0.0, 1e-9, 0.0, form.code, 0.0, 1e-8, form.mix)
    memory = np.full((5, MAX_NODES), 7.0)
    mean, var, _ = h_tilted_by(*row, memory[:3])
    assert (memory[3:] == 7.0).all()
    true_mean, true_var = oracle(StudentTLikelihood(df=4.0), 1.0, row)
    assert abs(mean - true_mean) < WORST * np.sqrt(true_var) and var == pytest.approx(true_var, rel=WORST)


@pieces
@pytest.mark.parametrize("kind", [ERF, LINEAR], ids=["erf", "linear"])
def test_the_twin_takes_the_same_grid(likelihood, fraction, kind):
    """NumPy rows at once against the kernel one by one, absurd rows included."""
    rng = np.random.default_rng(3)
    rows = [draw(rng, level, kind, likelihood, fraction) for level in (0.5, 1.0, 2.0, 3.0) for _ in range(25)]
    mc, vc, _, _, g_mean, mu, s, c, v0, r0, code, y, noise = (
        np.array([row[i] for row in rows]) for i in range(13)
    )
    compiled = np.array([h_tilted_by(*row, WORK)[:2] for row in rows]).T
    name = "erf" if kind == ERF else "linear"
    extra = {} if not likelihood.has_scale else {"noise": Noise(0.0, 0.0)}
    spec = network(1, 3, activation=name, likelihood=likelihood, **extra)
    given = Conditional(np.where(code == PROBIT, 0.0, y) - r0, mu, g_mean, v0, c, s)
    found = tilted_activations(
        spec, 0, Gaussian(mc, vc), given, y, np.zeros(len(y)), np.log(noise), fraction
    )  # fmt: skip
    np.testing.assert_allclose((found.mean - compiled[0]) / np.sqrt(compiled[1]), 0.0, atol=3e-8)
    np.testing.assert_allclose(found.var, compiled[1], rtol=3e-8)


@pytest.mark.parametrize("eta", [1.0, 0.6])
@pytest.mark.parametrize("resid", [0.0, 1.0, 40.0])
@pytest.mark.parametrize(("f_var", "vc", "row_var"), [(0.3, 0.2, 0.0), (1e-4, 2.0, 0.3), (5.0, 1e-3, 0.0)])
def test_tilted_scale(eta, resid, f_var, vc, row_var):
    likelihood, mc = StudentTLikelihood(df=4.0), -1.0
    found = scale_tilted(mc, vc, f_var, resid, row_var, eta, likelihood.kernel_form(eta).mix, WORK)
    theta = np.linspace(mc - 40.0 * np.sqrt(vc), mc + 40.0 * np.sqrt(vc) + 8.0, 60_001)
    z = likelihood.log_z(resid, Gaussian(0.0, f_var), theta, row_var, eta)
    p = z.value - 0.5 * (theta - mc) ** 2 / vc - 0.5 * np.log(2.0 * np.pi * vc)
    w = np.exp(p - p.max())
    log_z = p.max() + np.log(w.sum() * (theta[1] - theta[0]))
    w /= w.sum()
    mean, slope = w @ theta, w @ z.d1
    expected = [log_z, mean, w @ (theta - mean) ** 2, slope, w @ z.d2 + w @ (z.d1 - slope) ** 2]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


# ── whole visits ────────────────────────────────────────────────────────────────────────────────


@cache
def problem(likelihood):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    f = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    if isinstance(likelihood, ProbitLikelihood):
        y = np.where(rng.random(40) < 0.5 * (1.0 + np.tanh(2.0 * f)), 1.0, -1.0)
    elif isinstance(likelihood, PoissonLikelihood):
        y = rng.poisson(np.exp(f)).astype(float)
    else:
        y = f + 0.2 * rng.standard_normal(40)
        y[:3] += [4.0, -6.0, 20.0]
    data = prepare(X, y).data
    data = data if likelihood.location else data._replace(y=y)
    spec = network(2, 3, activation=("erf", "erf", "linear"), likelihood=likelihood, scale_prior=(0.0, 1.0))
    solution = fit_ensemble(spec, data, FitOptions(max_iter=4)).solutions[0]
    return spec, data, zero_state(spec, data), solution.state


# A Student-t's rarest components are left out by the kernel and kept by the twin.
SAME = {ProbitLikelihood: 1e-11, OutlierLikelihood: 1e-8, StudentTLikelihood: 2e-6}


@pytest.mark.parametrize("likelihood", list(dict.fromkeys(piece for piece, _ in PIECES)), ids=repr)
@pytest.mark.parametrize("at", ["start", "fitted"])
def test_twins_agree(likelihood, at):
    spec, data, start, fitted = problem(likelihood)
    state = start if at == "start" else fitted
    step = Step(fraction=likelihood.default_fraction)
    compiled, plain = both(spec, data, state, step, active_mask(3, None))
    assert not np.array_equal(compiled.sites.h, state.rows.h)
    assert_same(compiled, plain, SAME[type(likelihood)])


def test_known_output_and_linear_unit():
    """One linear unit of known output weight: its h is f, and the closed form is used on both paths."""
    for likelihood, fraction in PIECES:
        form = likelihood.kernel_form(fraction)
        y = 1.0 if form.code == PROBIT else 0.3
        r0 = (0.0 if form.code == PROBIT else y) - 0.2
        row = (0.5, 0.8, LINEAR, 1.0, 0.5, 1.4, 0.0, 0.0, 0.1, r0, form.code, y, 0.3, form.mix)
        mean, var, _ = h_tilted_by(*row, WORK)
        true_mean, true_var = oracle(likelihood, fraction, row)
        assert mean == pytest.approx(true_mean, abs=1e-8) and var == pytest.approx(true_var, rel=1e-7)
        extra = {} if not likelihood.has_scale else {"noise": Noise(0.0, 0.0)}
        spec = network(1, 1, activation="linear", likelihood=likelihood, **extra)
        one = np.ones(1)
        given = Conditional(0.2 * one, 1.4 * one, 0.5 * one, 0.1 * one, 0.0 * one, 0.0 * one)
        found = tilted_activations(
            spec, 0, Gaussian(0.5 * one, 0.8 * one), given, y * one, 0.0 * one, np.log(0.3) * one, fraction
        )  # fmt: skip
        np.testing.assert_allclose([found.mean[0], found.var[0]], [mean, var], rtol=1e-7)


def test_sequential_sweeps_reach_the_parallel_fixed_point():
    """Rank-one updates and blocks, compiled, for a likelihood without θ."""
    spec, data, _, state = problem(ProbitLikelihood())
    means = []
    for size in (1, None):
        step = Step(fraction=1.0, damping=0.5, block_size=size, weight_prior="hold", output_prior=False)
        solution = solve(spec, data, state, Schedule((Stage("on", step, 600, 1e-7),)))
        assert solution.converged
        means.append(solution.state.posterior.w.mean)
    np.testing.assert_allclose(means[0], means[1], atol=1e-5)


def test_quadrature_agrees_with_the_closed_form_in_a_sweep():
    """Probit at fraction 1 - 1e-9 has no closed form and no kernel; its sweep is the compiled one's."""
    spec, data, _, state = problem(ProbitLikelihood())
    compiled = both(spec, data, state, Step(fraction=1.0), active_mask(3, None))[0]
    assert not spec.compiled(1.0 - 1e-9)
    plain = both(spec, data, state, Step(fraction=1.0 - 1e-9), active_mask(3, None))[0]
    assert_same(compiled, plain, 1e-6)
