"""Sparse linear models, y = wᵀx + noise: every prior against dense grids, inclusion against enumeration.

With one weight EP is exact whatever the prior; with two its error is stated. For the spike and slab all 2^d
models can be counted, so inclusion probabilities, moments and evidence have exact values for d = 8.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.invariants.problems import grid_moments, linear_spec, panels, run

from cavity.ep.evidence import log_evidence
from cavity.ep.inclusion import inclusion_probabilities
from cavity.ep.latent import latent_moments
from cavity.ep.schedule import Step
from cavity.ep.starts import zero_state
from cavity.model.data import TrainingData
from cavity.model.priors import (
    GaussianMixturePrior,
    HorseshoePrior,
    RegularizedHorseshoePrior,
    SpikeAndSlabPrior,
    StudentTPrior,
)
from cavity.result.draws import draw_weights
from cavity.result.loo import leave_one_out

NOISE = 0.25
HELD = 0.4
SCALE_PRIOR = (-1.0, 1.0)
SPIKE = SpikeAndSlabPrior(inclusion=0.3, spike=0.05)
PRIORS = {
    "student-t": StudentTPrior(),
    "horseshoe": HorseshoePrior(),
    "regularized-horseshoe": RegularizedHorseshoePrior(),
    "spike-and-slab": SPIKE,
    "mixture": GaussianMixturePrior(),
}


def problem(n, d, seed):
    """The first weight is 0.8, the others nearly nothing; neighbours are correlated."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if d == 2:
        X[:, 1] = 0.6 * X[:, 0] + 0.8 * X[:, 1]
    y = X @ np.array([0.8, 0.05])[:d] + 0.5 * rng.standard_normal(n)
    return TrainingData(X, y, np.ones(n), np.zeros(n))


def fit(prior, data, fraction_weight, inferred, damping=0.5, noise=NOISE):
    scale = {"scale_prior": SCALE_PRIOR} if inferred else {"prior_var": HELD}
    spec = linear_spec(data.X.shape[1], prior=prior, log_noise=np.log(noise), **scale)
    step = Step(
        fraction=1.0,
        damping=1.0,
        infer_noise=False,
        weight_prior="converge",
        output_prior=False,
        fraction_weight=fraction_weight,
        damping_weight=damping,
    )
    solution = run(spec, data, zero_state(spec, data), step, tol=1e-8)
    assert solution.converged
    return spec, solution


@cache
def grid(name, n, d, seed, inferred):
    """Dense grid over w (and φ), its panels shrinking towards zero; 1e-6 in all that is compared."""
    data, prior = problem(n, d, seed), PRIORS[name]
    out = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.4, 1.0, 2.0, 6.0])
    w = panels([*-out[::-1], 0.0, *out], 8 if d == 2 else 24)
    mesh = np.meshgrid(*[w.nodes] * d, indexing="ij")
    resid = data.y.reshape(-1, *[1] * d) - sum(data.X[:, j].reshape(-1, *[1] * d) * mesh[j] for j in range(d))
    log_p = -0.5 * np.sum(resid**2 / NOISE + np.log(2.0 * np.pi * NOISE), axis=0)
    if not inferred:
        return grid_moments(log_p + sum(prior.log_density(m, np.log(HELD)) for m in mesh), [w] * d)
    phi = panels([-9.0, -4.0, -1.0, 2.0, 8.0], 16)
    log_p = log_p[..., None] + sum(prior.log_density(m[..., None], phi.nodes) for m in mesh)
    mean, var = SCALE_PRIOR
    log_p = log_p - 0.5 * ((phi.nodes - mean) ** 2 / var + np.log(2.0 * np.pi * var))
    return grid_moments(log_p, [*[w] * d, phi])


def gaps(spec, data, solution, truth):
    """Means in sds, variances relative, and log Z."""
    q = solution.state.posterior
    mean, var = q.w.mean[0], q.w.var[0]
    if spec.scale_inferred.any():
        mean, var = np.append(mean, q.scale.mean), np.append(var, q.scale.var)
    evidence = log_evidence(spec, data, solution.state, solution.step)
    return np.array(
        [
            np.max(np.abs(mean - truth.mean) / np.sqrt(truth.var)),
            np.max(np.abs(var / truth.var - 1.0)),
            abs(evidence - truth.log_z),
        ]
    )


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_one_weight_is_exact(name, inferred, seed):
    data = problem(8, 1, seed)
    spec, solution = fit(PRIORS[name], data, 1.0, inferred)
    assert gaps(spec, data, solution, grid(name, 8, 1, seed, inferred)).max() < 1e-6


# Two correlated weights, worst of four data sets of 4 to 20 rows: (mean in sds, variance relative, log Z).
# Measured with η = 1 | 0.9:
#   student-t              held      0.000 0.004 0.001 | 0.000 0.003 0.001
#                          inferred  0.051 0.157 0.068 | 0.044 0.133 0.058
#   horseshoe              held      0.031 0.114 0.019 | 0.031 0.093 0.014
#                          inferred  0.049 0.156 0.046 | 0.047 0.126 0.029
#   regularized-horseshoe  held      0.028 0.102 0.016 | 0.028 0.083 0.014
#                          inferred  0.044 0.136 0.042 | 0.042 0.109 0.026
#   spike-and-slab         held      0.083 0.149 0.069 | 0.082 0.392 0.177
#                          inferred  0.136 0.397 0.038 | 0.130 0.369 0.153
#   mixture                held      0.104 0.202 0.056 | 0.104 0.284 0.132
#                          inferred  0.153 0.463 0.078 | 0.149 0.366 0.078
STATED = {
    ("student-t", False): (0.001, 0.006, 0.002),
    ("student-t", True): (0.07, 0.2, 0.09),
    ("horseshoe", False): (0.04, 0.15, 0.03),
    ("horseshoe", True): (0.07, 0.2, 0.06),
    ("regularized-horseshoe", False): (0.04, 0.13, 0.03),
    ("regularized-horseshoe", True): (0.06, 0.18, 0.06),
    ("spike-and-slab", False): (0.11, 0.5, 0.22),
    ("spike-and-slab", True): (0.17, 0.5, 0.2),
    ("mixture", False): (0.13, 0.35, 0.17),
    ("mixture", True): (0.2, 0.55, 0.1),
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize(("seed", "n"), [(0, 8), (1, 8), (2, 20), (3, 4)])
@pytest.mark.parametrize("fraction_weight", [1.0, 0.9])
def test_two_weights_err_as_stated(name, inferred, seed, n, fraction_weight):
    data = problem(n, 2, seed)
    spec, solution = fit(PRIORS[name], data, fraction_weight, inferred)
    found = gaps(spec, data, solution, grid(name, n, 2, seed, inferred))
    assert np.all(found < STATED[name, inferred]), found


@pytest.mark.parametrize("name", ["horseshoe", "spike-and-slab"])
def test_dual_form_with_negative_prior_precisions(name):
    """Some sites have to be negative; the two forms are the same posterior in other coordinates."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((15, 25))
    data = TrainingData(X, 3.0 * X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(15), np.ones(15), np.zeros(15))
    rows, fits = rng.standard_normal((3, 25)), {}
    for form in ("full", "dual"):
        spec = linear_spec(
            25, prior=PRIORS[name], log_noise=np.log(NOISE), scale_prior=(-3.0, 1.0), form=form
        )
        step = Step(fraction=1.0, damping=1.0, infer_noise=False, output_prior=False, damping_weight=0.5)
        solution = run(spec, data, zero_state(spec, data), step, 2000, 1e-8)
        assert solution.converged and (solution.state.priors.w.tau < 0.0).any()
        loo = leave_one_out(spec, data, solution.state).log_density
        new = latent_moments(spec, solution.state.posterior, rows)
        draws = draw_weights(solution.state.posterior.w, 4000, np.random.default_rng(2))[:, 0]
        fits[form] = (
            log_evidence(spec, data, solution.state, solution.step),
            *(a[0] for a in solution.state.posterior.w[:2]),
            loo,
            *new,
        )
        np.testing.assert_allclose(draws.var(axis=0), solution.state.posterior.w.var[0], rtol=0.15)
    for full, dual in zip(fits["full"], fits["dual"], strict=True):
        np.testing.assert_allclose(dual, full, rtol=1e-6, atol=1e-7)


# ── spike and slab: every model counted ─────────────────────────────────────────────────────────


def many(n, correlation, noise_sd, seed, d=8):
    """Three of d weights are drawn from N(0, 0.5²), the others are zero; inputs with a common part."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(1.0 - correlation) * rng.standard_normal((n, d))
    X += np.sqrt(correlation) * rng.standard_normal((n, 1))
    w = np.where(np.arange(d) < 3, 0.5 * rng.standard_normal(d), 0.0)
    return TrainingData(X, X @ w + noise_sd * rng.standard_normal(n), np.ones(n), np.zeros(n))


def enumerated(data, prior, noise, slab):
    """Evidence, inclusion probabilities, means and variances, summed over all models."""
    X, y, n = data.X, data.y, data.n_rows
    logs, included, means, variances = [], [], [], []
    for model in product((0.0, 1.0), repeat=X.shape[1]):
        gamma = np.array(model)
        prior_var = slab * np.where(gamma > 0.0, 1.0, prior.spike**2)
        cov = np.linalg.inv(np.diag(1.0 / prior_var) + X.T @ X / noise)
        K = (X * prior_var) @ X.T + noise * np.eye(n)
        log_prior = np.sum(np.where(gamma > 0.0, np.log(prior.inclusion), np.log1p(-prior.inclusion)))
        logs.append(log_prior - 0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2.0 * np.pi * K)[1]))
        included.append(gamma)
        means.append(cov @ (X.T @ y) / noise)
        variances.append(np.diag(cov))
    log_z = logsumexp(logs)
    p = np.exp(np.array(logs) - log_z)
    mean = p @ np.array(means)
    return log_z, p @ np.array(included), mean, p @ (np.array(variances) + (np.array(means) - mean) ** 2)


# (rows, correlation, noise sd), then the largest and the mean error of the 80 inclusion probabilities of ten
# data sets. Measured with η = 1 | 0.9:
#   independent      0.030 0.0008 | 0.013 0.0008
#   correlated       0.031 0.0022 | 0.046 0.0039
#   nearly the same  0.106 0.0136 | 0.143 0.0148
#   few rows         0.155 0.0106 | 0.141 0.0135
ENUMERATION = {
    "independent": ((30, 0.0, 0.3), 0.04, 0.0015),
    "correlated": ((30, 0.5, 0.3), 0.06, 0.006),
    "nearly the same": ((30, 0.9, 0.5), 0.18, 0.02),
    "few rows": ((12, 0.0, 0.5), 0.2, 0.02),
}


@pytest.mark.parametrize("name", ENUMERATION)
@pytest.mark.parametrize("fraction_weight", [1.0, 0.9])
def test_inclusion_against_all_models(name, fraction_weight):
    (n, correlation, noise_sd), worst, typical = ENUMERATION[name]
    prior = SpikeAndSlabPrior(inclusion=0.2, spike=0.02)
    errors = []
    for seed in range(10):
        data = many(n, correlation, noise_sd, seed)
        spec, solution = fit(prior, data, fraction_weight, False, noise=noise_sd**2)
        exact = enumerated(data, prior, noise_sd**2, HELD)[1]
        errors.append(np.abs(inclusion_probabilities(spec, solution.state)[0] - exact))
    assert np.max(errors) < worst and np.mean(errors) < typical


def test_inclusion_integrates_over_the_scale():
    """φ inferred: the enumeration once more, over 60 nodes of φ; worst error of four data sets: 1.1e-3."""
    prior = SpikeAndSlabPrior(inclusion=0.2, spike=0.02)
    phi = panels([-6.0, -2.0, 1.0, 5.0], 20)
    mean, var = SCALE_PRIOR
    log_prior = -0.5 * ((phi.nodes - mean) ** 2 / var + np.log(2.0 * np.pi * var)) + np.log(phi.weights)
    for seed in range(4):
        data = many(30, 0.0, 0.3, seed, d=5)
        spec, solution = fit(prior, data, 1.0, True, noise=0.09)
        parts = [enumerated(data, prior, 0.09, np.exp(value))[:2] for value in phi.nodes]
        p = np.exp(log_prior + [part[0] for part in parts])
        exact = p @ np.array([part[1] for part in parts]) / p.sum()
        found = inclusion_probabilities(spec, solution.state)[0]
        assert np.max(np.abs(found - exact)) < 2e-3
