"""The linear start, and the spike-and-slab prior that is fitted on the way."""

from dataclasses import replace

import numpy as np
import pytest
from tests.invariants.problems import linear_spec, run

from cavity.ep.evidence import log_evidence
from cavity.ep.linear import SETTLED, adapted, fit_linear
from cavity.ep.schedule import Step
from cavity.ep.starts import zero_state
from cavity.model.data import TrainingData
from cavity.model.priors import SpikeAndSlabPrior
from cavity.model.spec import WeightBlock
from cavity.types import Gaussian

STEP = Step(fraction=1.0, fraction_weight=1.0, damping=0.8, infer_noise=False, output_prior=False)


def problem(n=60, d=40, seed=0):
    """Five of d weights are drawn from N(0, 0.5^2)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = np.where(np.arange(d) < 5, 0.5 * rng.standard_normal(d), 0.0)
    return TrainingData(X, X @ w + 0.3 * rng.standard_normal(n), np.ones(n), np.zeros(n))


def spec_of(d=40, inclusion=0.1, log_var=-1.0, spike=0.02, **options):
    prior = SpikeAndSlabPrior(inclusion, spike)
    return linear_spec(d, prior=prior, log_noise=np.log(0.09), scale_prior=(log_var, 4.0), **options)


def penalised(data, spec, inclusion, log_var, width):
    """log Z_EP at convergence plus the log priors of the inclusion probability and of the scale."""
    prior = SpikeAndSlabPrior(inclusion, width * float(np.exp(-0.5 * log_var)))
    held = replace(
        spec,
        blocks=(WeightBlock(prior, np.arange(spec.n_inputs)),),
        scale_prior=Gaussian(np.array([log_var]), np.array([0.0])),
    )
    solution = run(held, data, zero_state(held, data), STEP, 1000, 1e-9)
    assert solution.converged
    evidence = log_evidence(held, data, solution.state, solution.step)
    sparse = np.log(inclusion) + spec.n_inputs * np.log1p(-inclusion)
    return evidence + sparse - 0.5 * (log_var + 1.0) ** 2 / 4.0


def test_the_fitted_prior_maximises_the_evidence():
    """Central differences of the penalised log Z_EP at the fitted values; the EM stops within 1e-3 of them.

    A nat is lost within one unit of either, so a slope of some 1e-3 is left (measured: 1.3e-3).
    """
    data, spec = problem(), spec_of()
    solution = fit_linear(spec, data, STEP, adapt_prior=True, tol=1e-8, max_iter=600)
    assert solution.converged
    prior, log_var = solution.spec.blocks[0].prior, float(solution.spec.scale_prior.mean[0])
    width = prior.spike * np.exp(0.5 * log_var)
    assert width == pytest.approx(0.02 * np.exp(-0.5))  # the spike stays as wide as it was
    logit = np.log(prior.inclusion / (1.0 - prior.inclusion))
    h = 0.05

    def value(a, b):
        return penalised(data, spec, float(1.0 / (1.0 + np.exp(-a))), b, width)

    slope = [
        (value(logit + h, log_var) - value(logit - h, log_var)) / (2.0 * h),
        (value(logit, log_var + h) - value(logit, log_var - h)) / (2.0 * h),
    ]
    away = (value(logit + 1.0, log_var) - value(logit, log_var)) / 1.0
    assert np.abs(slope).max() < 0.01 and abs(away) > 1.0


def test_a_settled_prior_stays():
    data = problem()
    solution = fit_linear(spec_of(), data, STEP, adapt_prior=True, tol=1e-8, max_iter=600)
    hyperprior = Gaussian(np.array([-1.0]), np.array([4.0]))
    assert adapted(solution.spec, solution.state, hyperprior).change < SETTLED


@pytest.mark.parametrize("inclusion", [0.02, 0.4])
def test_the_start_of_the_prior_does_not_matter(inclusion):
    data = problem()
    prior = [
        fit_linear(spec_of(inclusion=p), data, STEP, adapt_prior=True, tol=1e-6).spec.blocks[0].prior
        for p in (0.1, inclusion)
    ]
    assert prior[1].inclusion == pytest.approx(prior[0].inclusion, rel=0.01)


def test_groups_share_the_inclusion_and_have_their_own_slabs():
    labels = np.where(np.arange(40) < 10, 0, 1)
    spec = spec_of(groups=labels)
    solution = fit_linear(spec, problem(), STEP, adapt_prior=True)
    first, rest = solution.spec.blocks
    np.testing.assert_array_equal(first.entries, np.arange(10))
    assert first.prior.inclusion == rest.prior.inclusion
    scale = solution.spec.scale_prior
    assert scale.mean[0] != scale.mean[1] and not np.any(scale.var)


def test_without_adapting_the_prior_is_the_given_one():
    solution = fit_linear(spec_of(), problem(), STEP)
    assert solution.spec.blocks[0].prior == SpikeAndSlabPrior(0.1, 0.02)
    assert np.all(solution.spec.scale_inferred)
