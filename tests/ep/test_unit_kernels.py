"""Every activation with a compiled form: its tilted moments against dense panels, and against its twin."""

import numpy as np
import pytest
from tests.ep.test_kernels import TYPICAL, WORK, WORST, dense_moments
from tests.ep.test_twin import assert_same, both
from tests.invariants.problems import run, wavy_data

from cavity.ep.schedule import Step
from cavity.ep.starts import zero_state
from cavity.ep.sweep import active_mask
from cavity.model.activations import ACTIVATIONS
from cavity.model.likelihoods import GaussianLikelihood, OutlierLikelihood, ProbitLikelihood
from cavity.model.spec import Noise, network
from cavity.numerics.kernel_tilted import h_tilted
from cavity.types import Gaussian

NEW = ["tanh", "relu", "softplus", "sine", "cosine"]
MIXED = [("tanh", "relu", "relu"), ("softplus", "softplus", "sine"), ("cosine", "linear", "sine")]
DRAWS = 30


def draw_row(rng, level, activation, sign):
    """One activation of a random row; ``level`` decades around one."""
    units = 3
    var = 10.0 ** rng.uniform(-level, 0.5 * level, units)
    mean = 2.0 * rng.standard_normal(units) * np.sqrt(var) + rng.standard_normal(units)
    scale = sign * units**-0.5
    moments = activation.moments(Gaussian(mean, var))
    g_mean, g_var = np.append(scale * moments.mean, 1.0), np.append(scale**2 * moments.var, 0.0)
    root = 0.5 * rng.standard_normal((units + 1, units + 1)) * 10.0 ** rng.uniform(-1.5 * level, 0.5)
    cov = root @ root.T / (units + 1) * (rng.random() > 0.15)
    mu = rng.uniform(0.1, 2.0, units + 1)
    f_var = g_mean @ cov @ g_mean + g_var @ (np.diag(cov) + mu**2)
    noise = 10.0 ** rng.uniform(-2.0 * level, 0.0)
    residual = rng.standard_normal() * np.sqrt(f_var + noise) * rng.choice([1.0, 3.0])
    rest = max(f_var - g_var[0] * (cov[0, 0] + mu[0] ** 2) + noise, noise * (1.0 + 1e-12))
    return (
        mean[0], var[0], activation.kernel_code, scale, g_mean[0], mu[0], cov[0, 0], (cov @ g_mean)[0], rest,
        residual, noise,
    )  # fmt: skip


def oracle(row, activation):
    mc, vc, _, scale, g_mean, mu, s, c, t0, r0, noise = row

    def log_density(h):
        d = scale * activation(h) - g_mean
        t = np.maximum(t0 + d * (2.0 * c + d * s), noise)
        return -0.5 * ((h - mc) ** 2 / vc + (r0 - mu * d) ** 2 / t + np.log(t))

    reach = np.sqrt(2.0 * vc * (60.0 + log_density(np.linspace(-30, 30, 40001)).max() - log_density(mc)))
    look = np.linspace(mc - reach, mc + reach, 200_001)
    p = log_density(look)
    peaks = look[1:-1][(p[1:-1] >= p[:-2]) & (p[1:-1] >= p[2:])]
    return dense_moments(log_density, [0.0, mc, *peaks[:40]], mc - reach, mc + reach)


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("level", [0.5, 1.0])
def test_tilted_activation(name, level):
    activation, rng = ACTIVATIONS[name](), np.random.default_rng(3)
    errors = np.empty(DRAWS)
    for i in range(DRAWS):
        row = draw_row(rng, level, activation, -1.0 if i % 2 else 1.0)
        mean, var = h_tilted(*row, WORK)[:2]
        true_mean, true_var = oracle(row, activation)
        errors[i] = max(abs(mean - true_mean) / np.sqrt(true_var), abs(var / true_var - 1.0))
    assert np.median(errors) < 10.0 * TYPICAL
    assert np.max(errors) < WORST


@pytest.mark.parametrize("likelihood", [GaussianLikelihood(), OutlierLikelihood(), ProbitLikelihood()])
@pytest.mark.parametrize("names", MIXED, ids="+".join)
@pytest.mark.parametrize("sweeps", [0, 6])
def test_twins_agree(likelihood, names, sweeps):
    data = wavy_data(30, 2, seed=4)
    if isinstance(likelihood, ProbitLikelihood):
        data = data._replace(y=np.sign(data.y))
    noise = {"noise": Noise(-2.0, 1.0)} if likelihood.has_scale else {}
    spec = network(2, 3, activation=names, likelihood=likelihood, scale_prior=(0.0, 1.0), **noise)
    assert spec.compiled(1.0)
    step = Step(fraction=1.0)
    state = zero_state(spec, data)
    if sweeps:
        state = run(spec, data, state, step, sweeps, 0.0).state
    compiled, plain = both(spec, data, state, step, active_mask(3, None))
    assert not np.array_equal(compiled.sites.h, state.rows.h)
    assert_same(compiled, plain)
