"""The fully coupled approximation against dense grids and beside the factorised one: where it pays."""

import numpy as np
import pytest
from tests.brute.test_small_networks import (
    FIXED,
    V_TRUE,
    errors,
    fit,
    one_weight_truth,
    problem,
    spec_of,
    two_weight_truth,
)

from cavity.ep.coupled import fit_coupled
from cavity.model.spec import network


def coupled_errors(q, log_z, unknowns):
    """As `errors`: means in sds, smallest and largest log ratio of variances, log Z."""
    gap = np.abs(q.mean - unknowns[:, 0]) / np.sqrt(unknowns[:, 1])
    ratio = np.log(np.diag(q.cov) / unknowns[:, 1])
    return gap.max(), ratio.min(), ratio.max(), q.log_evidence - log_z


# Worst over three data sets of 15 rows, coupled beside factorised: |mean|, log variance ratio from, |log Z|.
#   one unit, v held            0.010 -0.10 0.016   0.010 -0.10 0.025
#   one unit, v free            0.282 -1.72 0.349   0.377 -2.82 0.957
#   one unit, v free, x wider   0.083 -0.50 0.123   0.270 -1.29 0.545
#   two units, v held           0.032 -0.26 0.086   0.057 -0.53 0.286
#   one unit, two inputs        0.015 -0.15 0.027   0.016 -0.15 0.169


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [1.0, 2.5])
def test_output_weight_and_input_weight_together(seed, spread):
    """v·g(wx) is a ridge that q(w)q(v) cannot follow; q(w, v) follows its direction, not its bend."""
    data, spec = problem(15, 1, seed, spread), spec_of(1, 1, False)
    log_z, unknowns, _ = one_weight_truth(15, seed, spread, True, False)
    q = fit_coupled(spec, data, np.array([[0.5]]))
    assert q.mismatch < 1e-6
    gap, low, high, evidence = coupled_errors(q, log_z, unknowns)
    assert gap < 0.3 and -1.8 < low and high < 0.05 and abs(evidence) < 0.4
    factorised = errors(spec, data, fit(spec, data), log_z, unknowns)
    assert abs(evidence) < 0.5 * abs(factorised[3]) and low > 0.75 * factorised[1] and gap < factorised[0]
    assert abs(q.cov[0, 1]) > 0.3 * np.sqrt(q.cov[0, 0] * q.cov[1, 1])


@pytest.mark.parametrize("seed", range(3))
def test_two_units_together(seed):
    data, spec = problem(15, 1, seed), spec_of(1, 2, False, FIXED[2])
    truth = two_weight_truth(1, 15, seed, "gaussian", False, False)
    q = fit_coupled(spec, data, np.array([[0.5], [-0.2]]))
    gap, low, _, evidence = coupled_errors(q, *truth)
    factorised = errors(spec, data, fit(spec, data), *truth)
    assert gap < 0.05 and low > -0.3 and abs(evidence) < 0.1
    assert low > 0.6 * factorised[1] and abs(evidence) < 0.5 * abs(factorised[3])
    assert q.cov[0, 1] < 0.0  # what one unit takes the other leaves


def test_one_unit_with_held_output_is_the_same():
    """Nothing is factorised there: both approximations have the same fixed point at the same fraction."""
    data, spec = problem(15, 1, 0), spec_of(1, 1, False, [V_TRUE, 0.0])
    q = fit_coupled(spec, data, np.array([[0.5]]))
    other = fit(spec, data, fraction=1.0).state.posterior.w
    assert q.mean[0] == pytest.approx(other.mean[0, 0], abs=1e-5)
    assert q.cov[0, 0] == pytest.approx(other.var[0, 0], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_hidden": 4}, "at most 3"),
        ({}, "held noise"),
        ({"prior": "laplace", "prior_var": 1.0}, "held noise"),
    ],
)
def test_refused(options, message):
    spec = network(1, **{"n_hidden": 2, "prior": "gaussian", "bias": False, **options})
    with pytest.raises(ValueError, match=message):
        fit_coupled(spec, problem(5, 1, 0), np.zeros((2, 1)))
