"""Masks: weights outside are zero, and the model is the one without them."""

import numpy as np
import pytest
from tests.invariants.problems import linear_data, linear_spec, linear_truth, run, wavy_data

from cavity.ep.evidence import log_evidence
from cavity.ep.latent import latent_moments
from cavity.ep.schedule import Step
from cavity.ep.solve import solve
from cavity.ep.starts import zero_start, zero_state
from cavity.model.masks import weight_mask
from cavity.model.spec import HELD_VAR, network
from cavity.result.loo import leave_one_out


@pytest.mark.parametrize("form", ["full", "dual"])
@pytest.mark.parametrize("block_size", [1, None])
def test_masked_linear_model_is_the_one_of_the_other_inputs(form, block_size):
    """Posterior, evidence and leave-one-out of the closed form with the masked columns taken out."""
    n, d = (30, 6) if form == "full" else (8, 20)
    data = linear_data(n, d)
    free = np.arange(d) % 3 != 1
    spec = linear_spec(d, form=form, mask=free[None])
    assert np.array_equal(spec.held[0], ~free)
    step = Step(fraction=1.0, damping=1.0, block_size=block_size, infer_noise=False, output_prior=False)
    solution = run(spec, data, zero_state(spec, data), step)
    assert solution.converged
    truth = linear_truth(data._replace(X=np.ascontiguousarray(data.X[:, free])))
    w = solution.state.posterior.w
    np.testing.assert_allclose(w.mean[0, free], truth.mean, atol=1e-8)
    np.testing.assert_allclose(w.var[0, free], np.diag(truth.cov), atol=1e-8)
    assert np.max(np.abs(w.mean[0, ~free])) < 1e-25 and np.all(w.var[0, ~free] <= HELD_VAR)
    evidence = log_evidence(spec, data, solution.state, solution.step)
    assert evidence == pytest.approx(truth.log_evidence, abs=1e-8)
    np.testing.assert_allclose(leave_one_out(spec, data, solution.state).log_density, truth.loo, atol=1e-8)


@pytest.mark.parametrize("prior", ["laplace", "spike-and-slab"])
def test_additive_network_is_additive(prior):
    """f(a, b) + f(a', b') = f(a, b') + f(a', b) for any two values of any two inputs."""
    data = wavy_data(60, 3)
    spec = network(3, 6, prior=prior, mask="additive")
    state, schedule = zero_start(spec, data, Step(block_size=1, damping=0.7), max_sweeps=20)
    state = solve(spec, data, state, schedule).state
    corners = np.array([[x, z, 0.3, 1.0] for x in (-1.0, 0.7) for z in (-0.4, 1.5)])
    f = latent_moments(spec, state.posterior, corners).mean
    assert abs(f[0] + f[3] - f[1] - f[2]) < 1e-12
    assert np.ptp(f) > 0.1
    assert np.max(np.abs(state.posterior.w.mean[spec.held])) < 1e-20


def test_pruned_and_resumed_units_keep_their_mask():
    spec = network(3, 6, mask="additive")
    small = spec.keep_units(np.array([1, 4, 5]))
    np.testing.assert_array_equal(small.held, spec.held[[1, 4, 5]])


def test_units_are_dealt_to_the_sets_in_turn():
    free = weight_mask([[0, 2], [1]], 5, 3)
    np.testing.assert_array_equal(free[0::2], [[True, False, True]] * 3)
    np.testing.assert_array_equal(free[1::2], [[False, True, False]] * 2)
    assert weight_mask(None, 2, 3).all()
    own = np.array([[1, 0, 0], [0, 1, 1]])
    np.testing.assert_array_equal(weight_mask(own, 2, 3), own.astype(bool))
