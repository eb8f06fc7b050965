"""The form for more inputs than rows against dense matrices, whatever the rows and the signs of the sites."""

import numpy as np
import pytest
from tests.invariants.problems import linear_data, linear_spec

from cavity.ep import posterior
from cavity.ep.dual import OWN_COORDINATE
from cavity.ep.latent import activation_marginals
from cavity.ep.prior_sites import update_weight_priors
from cavity.ep.starts import zero_state
from cavity.ep.state import zero_row_sites
from cavity.model.data import TrainingData
from cavity.model.priors import LaplacePrior
from cavity.result.draws import draw_weights
from cavity.types import Natural

N, D = 9, 25
# Dense inverses of precisions whose condition is up to 1e7 here are good to 1e-9 themselves.
AGREE = 1e-8


def rows_and_sites(rows, sites, prior):
    """A design, row sites and prior sites of the kinds that the names say."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    if rows == "copies":
        X[4:] = X[:5]
    elif rows == "nearly copies":
        X[4:] = X[:5] + 1e-6 * rng.standard_normal((5, D))
    tau = 4.0 * np.exp(rng.standard_normal((1, D)))
    if prior == "negative":
        tau[0, :2] = -0.002, 0.1 * OWN_COORDINATE
    h = np.stack([np.exp(rng.standard_normal((N, 1))), rng.standard_normal((N, 1))])
    if sites == "negative":
        h[0, ::3] *= -0.01
    elif sites == "zero":
        h[:, ::2] = 0.0
    data = TrainingData(X, np.zeros(N), np.ones(N) + np.arange(N) % 2, np.zeros(N))
    return data, zero_row_sites(N, 1)._replace(h=h), Natural(tau, rng.standard_normal((1, D)))


@pytest.mark.parametrize("rows", ["apart", "copies", "nearly copies"])
@pytest.mark.parametrize("sites", ["positive", "negative", "zero"])
@pytest.mark.parametrize("prior", ["positive", "negative"])
def test_dual_is_the_dense_gaussian(rows, sites, prior):
    data, row_sites, w = rows_and_sites(rows, sites, prior)
    q = posterior.refresh_weights(linear_spec(D, form="dual"), data, row_sites, w)
    precision = np.diag(w.tau[0]) + (data.X.T * (data.weight * row_sites.h[0, :, 0])) @ data.X
    location = w.nu[0] + data.X.T @ (data.weight * row_sites.h[1, :, 0])
    cov = np.linalg.inv(precision)
    mean = cov @ location
    assert np.linalg.eigvalsh(precision).min() > 0.0
    np.testing.assert_allclose(q.mean[0], mean, rtol=AGREE, atol=AGREE * np.abs(mean).max())
    np.testing.assert_allclose(q.var[0], np.diag(cov), rtol=AGREE)
    np.testing.assert_allclose(q.h_mean[:, 0], data.X @ mean, rtol=AGREE, atol=AGREE)
    np.testing.assert_allclose(q.h_var[:, 0], np.sum(data.X @ cov * data.X, axis=1), rtol=AGREE)
    psi = 0.5 * (location @ mean - np.linalg.slogdet(precision)[1] + D * np.log(2.0 * np.pi))
    assert q.log_partition[0] == pytest.approx(psi, rel=AGREE)
    pairs = np.vstack([np.eye(D)[i] + np.eye(D)[j] for i in range(D) for j in range(i)])
    expected = np.sum(pairs @ cov * pairs, axis=1)
    found = activation_marginals(linear_spec(D, form="dual"), q, pairs).var[:, 0]
    np.testing.assert_allclose(found, expected, rtol=AGREE)


def test_draws_have_the_covariance():
    data, row_sites, w = rows_and_sites("apart", "positive", "negative")
    q = posterior.refresh_weights(linear_spec(D, form="dual"), data, row_sites, w)
    draws = draw_weights(q, 40_000, np.random.default_rng(1))[:, 0]
    precision = np.diag(w.tau[0]) + (data.X.T * (data.weight * row_sites.h[0, :, 0])) @ data.X
    whitened = (draws - q.mean[0]) @ np.linalg.cholesky(precision)
    # 40,000 draws: the sd of an entry of the covariance is 0.007 on the diagonal, 0.005 beside it
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(D), atol=0.035)


def test_ridges_of_held_scales_have_nothing_to_move():
    """Their prior is its own site: it stays to the last bit, and q(w) is not made again."""
    data = linear_data(N, D)
    spec = linear_spec(D, form="dual")
    state = zero_state(spec, data)
    run = update_weight_priors(spec, data, state, 0.9, 0.6, 1)
    assert run.state is state
    assert run.mismatch == 0.0


def test_sites_that_are_not_the_prior_move():
    data = linear_data(N, D)
    for spec, factor in (
        (linear_spec(D, form="dual"), 1.5),
        (linear_spec(D, form="dual", prior=LaplacePrior()), 1.0),
    ):
        state = zero_state(spec, data)
        tau = factor * state.priors.w.tau
        w = posterior.refresh_weights(spec, data, state.rows, Natural(tau, state.priors.w.nu))
        state = state._replace(
            priors=state.priors._replace(w=Natural(tau, state.priors.w.nu)),
            posterior=state.posterior._replace(w=w),
        )
        run = update_weight_priors(spec, data, state, 0.9, 0.6, 1)
        assert run.mismatch > 0.01
        assert not np.allclose(run.state.priors.w.tau, tau)
