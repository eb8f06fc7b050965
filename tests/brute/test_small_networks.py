"""One- and two-weight erf networks against dense grids over everything unknown; EP's error is stated.

Two kinds of error show. With the output weight held, q(w) errs by a few percent in its variance (mostly
h_i given the plug-in θ̂ and Gaussian f). With it free, the posterior is a ridge v·g(wx) that q(w)q(v) cannot
follow: single weights come out far too sure, f much less so.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import erf
from tests.invariants.problems import Axis, panels, run

from cavity.ep.evidence import log_evidence
from cavity.ep.latent import latent_moments
from cavity.ep.schedule import Step
from cavity.ep.solve import solve
from cavity.ep.starts import state_from_sites, zero_start
from cavity.ep.state import initial_prior_sites, zero_row_sites
from cavity.model.data import TrainingData
from cavity.model.priors import PRIORS, TruncatedStudentTPrior
from cavity.model.spec import Noise, Output, network
from cavity.types import Natural

NOISE, NOISE_PRIOR = 0.09, (-2.0, 0.5)
V_TRUE = 1.3
NEW = np.array([-2.0, -0.5, 0.7, 3.0])


def g(h):
    return erf(h / np.sqrt(2.0))


def problem(n, d, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    X = spread * rng.standard_normal((n, d))
    y = V_TRUE * g(X @ np.array([1.2, -0.6])[:d]) + 0.3 * rng.standard_normal(n)
    return TrainingData(X, y, np.ones(n), np.zeros(n))


def spec_of(d, K, inferred, fixed=None, prior="gaussian", **scale):
    return network(
        d,
        K,
        prior=prior,
        bias=False,
        noise=Noise(*NOISE_PRIOR) if inferred else Noise(float(np.log(NOISE)), 0.0),
        output=Output(fixed=None if fixed is None else np.array(fixed)),
        **(scale or {"prior_var": 1.0}),
    )


def fit(spec, data, fraction=0.95):
    step = Step(
        fraction=fraction, damping=0.4, damping_output=0.3, damping_noise=0.4, infer_noise=spec.noise.inferred
    )
    state, schedule = zero_start(spec, data, step, warm_sweeps=15, max_sweeps=1)
    solution = run(spec, data, solve(spec, data, state, schedule).state, step, 2000, 1e-7)
    assert solution.converged
    return solution


# ── dense oracle ────────────────────────────────────────────────────────────────────────────────


def noise_axis(inferred):
    """Nodes, weights and log prior of θ."""
    if not inferred:
        return Axis(np.array([np.log(NOISE)]), np.ones(1)), np.zeros(1)
    mean, var = NOISE_PRIOR
    axis = panels(mean + np.sqrt(var) * np.linspace(-6.0, 8.0, 5), 16)
    return axis, -0.5 * ((axis.nodes - mean) ** 2 / var + np.log(2.0 * np.pi * var))


class Weighted:
    """Normalised weights of a grid and the moments they give."""

    def __init__(self, log_density, *axes):
        mass = np.exp(log_density - log_density.max())
        for k, axis in enumerate(axes):
            mass = mass * axis.weights.reshape([-1 if j == k else 1 for j in range(len(axes))])
        self.log_z = float(log_density.max() + np.log(mass.sum()))
        self.mass = mass / mass.sum()

    def moments(self, value, var=0.0):
        mean = float(np.sum(self.mass * value))
        return mean, float(np.sum(self.mass * ((value - mean) ** 2 + var)))


@cache
def one_weight_truth(n, seed, spread, free, inferred):
    """K = d = 1: grid over w, v and θ; the output bias is Gaussian given them, so it needs no grid."""
    data = problem(n, 1, seed, spread)
    x, y = data.X[:, 0], data.y
    w = panels(np.linspace(-5.0, 5.0, 11), 16)
    theta, log_theta = noise_axis(inferred)
    v = panels([0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 12.0], 12)
    log_v = TruncatedStudentTPrior().log_density(v.nodes, 0.0)
    if not free:
        v, log_v = Axis(np.array([V_TRUE]), np.ones(1)), np.zeros(1)
    out = g(w.nodes[:, None] * x)
    total = (y.sum() - v.nodes * out.sum(axis=1)[:, None])[..., None]
    cross, power = (out @ y)[:, None], np.sum(out**2, axis=1)[:, None]
    squares = (y @ y - 2.0 * v.nodes * cross + v.nodes**2 * power)[..., None]
    var = np.exp(theta.nodes)
    bias_var = 1.0 / (1.0 + n / var) if free else np.zeros(1)  # prior N(0, 1)
    bias = total / var * bias_var
    log_lik = -0.5 * (squares / var - (total / var) ** 2 * bias_var + n * np.log(2.0 * np.pi * var))
    if free:
        log_lik = log_lik + 0.5 * np.log(bias_var)
    log_w = -0.5 * (w.nodes**2 + np.log(2.0 * np.pi))
    grid = Weighted(log_w[:, None, None] + log_v[:, None] + log_theta + log_lik, w, v, theta)
    unknowns = [grid.moments(w.nodes[:, None, None])]
    if free:
        unknowns += [grid.moments(v.nodes[:, None]), grid.moments(bias, bias_var)]
    if inferred:
        unknowns.append(grid.moments(theta.nodes))
    f = [grid.moments(v.nodes[:, None] * g(w.nodes * t)[:, None, None] + bias, bias_var) for t in NEW]
    return grid.log_z, np.array(unknowns), np.array(f)


def errors(spec, data, solution, log_z, unknowns):
    """Largest error of means (sds), largest and smallest log ratio of variances, error of log Z."""
    q = solution.state.posterior
    mean, var = list(q.w.mean.ravel()), list(q.w.var.ravel())
    if spec.output.fixed is None:
        mean, var = mean + list(q.v.mean), var + list(np.diag(q.v.cov))
    if spec.scale_inferred.any():
        mean, var = mean + list(q.scale.mean), var + list(q.scale.var)
    if spec.noise.inferred:
        mean, var = [*mean, q.noise.mean], [*var, q.noise.var]
    gap = np.abs(np.array(mean) - unknowns[:, 0]) / np.sqrt(unknowns[:, 1])
    ratio = np.log(np.array(var) / unknowns[:, 1])
    return (
        gap.max(),
        ratio.min(),
        ratio.max(),
        log_evidence(spec, data, solution.state, solution.step) - log_z,
    )


# ── exact: one row, one unit ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("y", [0.4, -1.0, 3.0])
@pytest.mark.parametrize("x", [0.5, 4.0])
def test_one_row_is_exact(x, y):
    """A single non-Gaussian factor whose moments of h are exact: the posterior of w is the grid's."""
    data = TrainingData(np.array([[x]]), np.array([y]), np.ones(1), np.zeros(1))
    spec = spec_of(1, 1, False, fixed=[V_TRUE, 0.0])
    q = fit(spec, data, fraction=1.0).state.posterior
    w = panels(np.linspace(-9.0, 9.0, 60), 16)
    log_p = -0.5 * (w.nodes**2 + (y - V_TRUE * g(x * w.nodes)) ** 2 / NOISE)
    mean, var = Weighted(log_p, w).moments(w.nodes)
    # the sites stop at a mismatch of 1e-7; the kernel's quadrature is good to 1e-9 here
    assert q.w.mean[0, 0] == pytest.approx(mean, abs=1e-6 * np.sqrt(var))
    assert q.w.var[0, 0] == pytest.approx(var, rel=1e-6)


@pytest.mark.parametrize("n", [3, 15])
@pytest.mark.parametrize("seed", range(3))
def test_known_features_make_the_output_exact(n, seed):
    """Input weight known to 1e-4: v meets Gaussian rows and one truncated-t factor, so q(v) is exact."""
    data = problem(n, 1, seed)
    spec = spec_of(1, 1, False)
    priors = initial_prior_sites(spec)
    priors = priors._replace(w=Natural(np.array([[1e8]]), np.array([[1.2e8]])))
    start = state_from_sites(spec, data, zero_row_sites(n, 1), priors)
    step = Step(fraction=1.0, damping=0.0, damping_output=0.7, fraction_output=1.0, infer_noise=False)
    solution = run(spec, data, start, replace(step, weight_prior="hold"), 500, 1e-9)
    assert solution.converged
    v = panels([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 12.0], 16)
    out = g(1.2 * data.X[:, 0])
    rest = data.y - v.nodes[:, None] * out
    bias_var = 1.0 / (1.0 + n / NOISE)
    bias = rest.sum(axis=1) / NOISE * bias_var
    log_lik = -0.5 * (np.sum(rest**2, axis=1) / NOISE - bias**2 / bias_var)
    grid = Weighted(log_lik + TruncatedStudentTPrior().log_density(v.nodes, 0.0), v)
    truth = np.array([grid.moments(v.nodes), grid.moments(bias, bias_var)])
    q = solution.state.posterior.v
    # the input weight's own variance of 1e-8 adds about that to the noise of 0.09
    np.testing.assert_allclose(q.mean, truth[:, 0], atol=1e-5)
    np.testing.assert_allclose(np.diag(q.cov), truth[:, 1], rtol=1e-5)


# ── one weight ──────────────────────────────────────────────────────────────────────────────────

# Worst over n = 5, 15, 40, three data sets and two spreads of the input:
# (|mean| in sds, log variance ratio from, to, |log Z|). Measured:
#   v held, θ known     0.029  -0.31 -0.02  0.19
#   v held, θ inferred  0.076  -0.31  0.15  0.23
#   v free, θ known     0.41   -3.05  0.33  1.11
#   v free, θ inferred  0.38   -2.92  0.33  1.04
STATED = {
    (False, False): (0.05, -0.4, 0.05, 0.25),
    (False, True): (0.10, -0.4, 0.20, 0.30),
    (True, False): (0.55, -3.5, 0.45, 1.40),
    (True, True): (0.55, -3.5, 0.45, 1.40),
}
# f at four inputs, v free: means within 0.39 sds, sd ratios between 0.36 (far outside the data) and 1.71.
STATED_F = (0.5, 0.3, 2.0)


@pytest.mark.parametrize(("free", "inferred"), list(STATED))
@pytest.mark.parametrize(("n", "spread"), [(5, 1.0), (15, 1.0), (15, 2.5), (40, 2.5)])
@pytest.mark.parametrize("seed", range(3))
def test_one_weight(free, inferred, n, spread, seed):
    data = problem(n, 1, seed, spread)
    spec = spec_of(1, 1, inferred, None if free else [V_TRUE, 0.0])
    solution = fit(spec, data)
    log_z, unknowns, f = one_weight_truth(n, seed, spread, free, inferred)
    gap, low, high, evidence = errors(spec, data, solution, log_z, unknowns)
    bound = STATED[free, inferred]
    assert gap < bound[0] and bound[1] < low and high < bound[2] and abs(evidence) < bound[3]
    if free:
        given = latent_moments(spec, solution.state.posterior, NEW[:, None])
        assert np.max(np.abs(given.mean - f[:, 0]) / np.sqrt(f[:, 1])) < STATED_F[0]
        ratio = np.sqrt(given.var / f[:, 1])
        assert STATED_F[1] < ratio.min() and ratio.max() < STATED_F[2]


def test_held_output_error_falls_with_rows():
    """With v held the posterior turns Gaussian as rows come in, and EP with it."""
    worst = []
    for n in (5, 40):
        gaps = []
        for seed in range(3):
            data, spec = problem(n, 1, seed), spec_of(1, 1, False, [V_TRUE, 0.0])
            log_z, unknowns, _ = one_weight_truth(n, seed, 1.0, False, False)
            gaps.append(np.abs(errors(spec, data, fit(spec, data), log_z, unknowns)).max())
        worst.append(max(gaps))
    assert worst[1] < 0.5 * worst[0]


# ── two weights ─────────────────────────────────────────────────────────────────────────────────

FIXED = {1: [V_TRUE, 0.0], 2: [1.2, 0.6, 0.1]}
SCALE_PRIOR = (0.0, 1.0)


@cache
def two_weight_truth(d, n, seed, prior, scaled, inferred):
    """K·d = 2 with v held: grid over both weights, θ and the scale φ where they are inferred."""
    data = problem(n, d, seed)
    K = 2 // d
    w = panels(np.linspace(-5.0, 5.0, 9), 12)
    a, b = w.nodes[:, None, None], w.nodes[None, :, None]
    scale = K**-0.5
    if d == 2:
        f = FIXED[1][0] * g(a * data.X[:, 0] + b * data.X[:, 1])
    else:
        v = FIXED[2]
        f = scale * (v[0] * g(a * data.X[:, 0]) + v[1] * g(b * data.X[:, 0])) + v[2]
    squares = np.sum((data.y - f) ** 2, axis=2)[..., None, None]
    theta, log_theta = noise_axis(inferred)
    var = np.exp(theta.nodes)
    phi, log_phi = Axis(np.zeros(1), np.ones(1)), np.zeros(1)
    if scaled:
        mean, spread = SCALE_PRIOR
        phi = panels(mean + np.sqrt(spread) * np.linspace(-7.0, 8.0, 5), 8)
        log_phi = -0.5 * ((phi.nodes - mean) ** 2 / spread + np.log(2.0 * np.pi * spread))
    density = PRIORS[prior].family().log_density
    log_w = density(w.nodes[:, None, None], phi.nodes) + density(w.nodes[None, :, None], phi.nodes)
    log_lik = -0.5 * (squares / var[:, None] + data.n_rows * np.log(2.0 * np.pi * var)[:, None])
    log_p = log_lik + log_w[:, :, None, :] + log_theta[:, None] + log_phi
    grid = Weighted(log_p, w, w, theta, phi)
    unknowns = [grid.moments(w.nodes[:, None, None, None]), grid.moments(w.nodes[:, None, None])]
    if scaled:
        unknowns.append(grid.moments(phi.nodes))
    if inferred:
        unknowns.append(grid.moments(theta.nodes[:, None]))
    return grid.log_z, np.array(unknowns)


# Worst over three data sets of 15 rows and four combinations of priors, as above. Measured:
#   two inputs, one unit   0.135  -0.26  0.18  0.18
#   one input, two units   0.157  -1.00  0.07  0.42   (units trade places: dependence that q(w_1)q(w_2) lacks)
STATED_TWO = {2: (0.20, -0.4, 0.30, 0.25), 1: (0.25, -1.3, 0.15, 0.60)}


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    ("prior", "scaled", "inferred"),
    [
        ("gaussian", False, False),
        ("laplace", False, False),
        ("laplace", True, False),
        ("laplace", False, True),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_two_weights(d, prior, scaled, inferred, seed):
    data = problem(15, d, seed)
    K = 2 // d
    scale = {"scale_prior": SCALE_PRIOR} if scaled else {}
    spec = spec_of(d, K, inferred, FIXED[K], prior, **scale)
    gaps = errors(spec, data, fit(spec, data), *two_weight_truth(d, 15, seed, prior, scaled, inferred))
    bound = STATED_TWO[d]
    assert gaps[0] < bound[0] and bound[1] < gaps[1] and gaps[2] < bound[2] and abs(gaps[3]) < bound[3]
