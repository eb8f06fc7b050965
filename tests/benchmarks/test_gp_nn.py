"""The infinite network: its covariance, gradients and optimum."""

import numpy as np
import pytest
from benchmarks.methods import gp_nn, gp_nn_ard, method
from benchmarks.methods.nn_kernel import ArcsineKernel
from scipy.special import erf
from scipy.stats import multivariate_normal

from cavity import datasets

RNG = np.random.default_rng(3)
X = RNG.normal(size=(7, 3))
ARD = ArcsineKernel(np.array([0.3, 2.0, 9.0]), bias_var=0.7, output_var=1.9)
SHARED = ArcsineKernel(0.8, bias_var=0.7, output_var=1.9)


def by_differences(f, theta, step=1e-6):
    return np.array([(f(theta + e) - f(theta - e)) / (2 * step) for e in step * np.eye(len(theta))])


def test_covariance_is_that_of_a_wide_random_network():
    rng = np.random.default_rng(0)
    units = 200_000
    w = rng.normal(size=(units, 4)) * np.sqrt(np.append(ARD.weight_var, ARD.bias_var))
    g = erf(np.column_stack([X, np.ones(7)]) @ w.T / np.sqrt(2.0))
    # A mean of products within [-1, 1] has a standard error below 1/√units = 0.0022; ten of those.
    assert ARD(X) == pytest.approx(ARD.output_var * g @ g.T / units, abs=ARD.output_var * 0.01)


def test_diagonal_and_blocks_agree():
    assert ARD.diag(X) == pytest.approx(np.diag(ARD(X)))
    assert ARD(X[:2], X[2:]) == pytest.approx(ARD(X)[:2, 2:])


def test_large_variances_lose_no_digits():
    # Without bias arcsin z = arctan(S / √(1 + a + b)) for S² = ab, one input: no cancellation there.
    x = np.array([[1.0], [1.0 + 1e-7], [2.0]])
    a = 1e6 * x[:, 0] ** 2
    exact = np.arctan(np.sqrt(np.outer(a, a)) / np.sqrt(1.0 + a[:, None] + a))
    far = ArcsineKernel(1e6, bias_var=1e-30)(x)
    assert far == pytest.approx(2.0 / np.pi * exact, rel=1e-14)


@pytest.mark.parametrize("kernel", [ARD, SHARED])
def test_gradients(kernel):
    assert len(kernel.theta) == len(kernel.bounds) == 2 + np.size(kernel.weight_var)
    _, full = kernel(X, eval_gradient=True)
    numeric = by_differences(lambda t: kernel.clone_with_theta(t)(X), kernel.theta)
    assert np.moveaxis(full, 2, 0) == pytest.approx(numeric, abs=1e-8)
    W = RNG.normal(size=(7, 7))
    W = W + W.T
    assert kernel.gradient_sums(X, W) == pytest.approx(np.einsum("ij,ijp->p", W, full))


def test_gradient_sums_need_no_array_per_input():
    import tracemalloc

    n, d = 100, 60
    wide = ArcsineKernel(np.ones(d))
    Z, W = RNG.normal(size=(n, d)), np.ones((n, n))
    tracemalloc.start()
    wide.gradient_sums(Z, W)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 8 * n * n  # an n × n × d array would be 60


@pytest.mark.parametrize("prior", [None, (-3.0, 2.0)])
def test_marginal_likelihood_and_its_gradient(prior):
    y = RNG.normal(size=7)
    theta = np.append(ARD.theta, -1.0)
    value, gradient = gp_nn.objective(theta, ARD, X, y, prior)
    exact = multivariate_normal.logpdf(y, cov=ARD(X) + np.exp(-1.0) * np.eye(7))
    extra = 0.0 if prior is None else -0.5 * (-1.0 - prior[0]) ** 2 / prior[1]
    assert -value == pytest.approx(exact + extra)
    numeric = by_differences(lambda t: gp_nn.objective(t, ARD, X, y, prior)[0], theta)
    assert gradient == pytest.approx(numeric, abs=1e-5)


def test_corners_of_the_bounds_are_refused():
    # The first line search of this data once ended here: output and weight variance 1e6, noise 1e-6.
    Z = datasets.case3(n=100, random_state=3).X
    corner = np.log([0.05, 1e6, 1e6, 1e-6])
    value, gradient = gp_nn.objective(corner, ArcsineKernel(), (Z - Z.mean()) / Z.std(), Z[:, 0])
    assert value == gp_nn.REFUSED and not gradient.any()


def test_optimum_prunes_what_does_nothing():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(40, 2)) * [1.0, 100.0]
    y = 5.0 + np.tanh(2.0 * Z[:, 0]) + 0.05 * rng.normal(size=40)
    fitted = gp_nn_ard.fit(Z, y, restarts=1)
    facts = fitted.facts()
    assert facts["weight_var"][1] < 1e-2 * facts["weight_var"][0]
    assert facts["log_evidence"] == max(facts["optima"])
    assert facts["noise_sd"] == pytest.approx(0.05, rel=0.5)
    mean, sd = fitted.latent(Z)
    assert np.mean((mean - y) ** 2) < 0.01
    assert np.mean(fitted.log_density(Z, y)) > 1.0  # log N(0 | 0, 0.05²) - ½ is 1.6, the prior's -1
    low, high = fitted.interval(Z, 0.95).T
    assert 0.8 < np.mean((low < y) & (y < high)) <= 1.0
    total = np.hypot(sd, facts["noise_sd"])
    assert high - low == pytest.approx(2 * 1.959964 * total)


def test_units_of_x_and_y_do_not_matter():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(25, 1))
    y = np.sin(Z[:, 0])
    here = method("gp_nn").fit(Z, y, restarts=0)
    there = method("gp_nn").fit(3.0 + 10.0 * Z, 7.0 - 2.0 * y, restarts=0)
    assert there.mean(3.0 + 10.0 * Z) == pytest.approx(7.0 - 2.0 * here.mean(Z), abs=1e-3)
    raw = method("gp_nn").fit(Z, y, restarts=0, standardise=False, noise_prior=(0.0, 1e-6))
    assert raw.facts()["noise_sd"] == pytest.approx(1.0, rel=1e-3)


def test_inverse_is_mirrored_block_by_block(monkeypatch):
    monkeypatch.setattr(gp_nn, "BLOCK", 3)
    A = RNG.normal(size=(7, 7))
    A = A @ A.T + np.eye(7)
    assert gp_nn._inverse(gp_nn._factor(A, 0.0)) @ A == pytest.approx(np.eye(7), abs=1e-8)


def test_predictions_do_not_depend_on_the_blocks(monkeypatch):
    fitted = gp_nn.fit(X, X[:, 0], restarts=0, max_iter=3)
    at_once = fitted.latent(X.copy())
    monkeypatch.setattr(gp_nn, "BLOCK", 2)
    assert np.array(fitted.latent(X.copy())) == pytest.approx(np.array(at_once))
    assert not fitted.facts()["converged"]
