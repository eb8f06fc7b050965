"""Joint steps: their equations against a dense Jacobian, what they move and leave, when they are taken."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cavity.ep import joint
from cavity.ep.ensemble import mean_loo
from cavity.ep.joint import CAUTION, HOPELESS, Joint, joint_step, possible, with_means_moved
from cavity.ep.ladder import fit_ensemble
from cavity.ep.latent import latent_moments
from cavity.ep.options import FitOptions
from cavity.ep.posterior import row_blocks
from cavity.ep.schedule import Schedule, Stage, Step, paper_schedule
from cavity.ep.solve import solve
from cavity.ep.starts import zero_state
from cavity.model.data import prepare
from cavity.model.likelihoods import ProbitLikelihood, StudentTLikelihood
from cavity.model.spec import Noise, network

STEP = Step(block_size=1, damping=0.7)
KINDS = {
    "erf": {},
    "mixed": {"activation": ["erf", "linear", "tanh", "softplus"]},
    "products": {"interactions": [(0, 1), (2, 3)]},
    "student-t": {"likelihood": StudentTLikelihood()},
    "classes": {"likelihood": ProbitLikelihood()},
    "masked": {"mask": "additive"},
}


def table(n=60, seed=0, classes=False, weight=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    if classes:
        return prepare(X, np.where(y > 0.0, 1.0, -1.0), weight, standardise=False).data
    return prepare(X, y, weight).data


@cache
def begun(kind="erf", sweeps=6, **more):
    """A network after some sweeps, its priors and noise free."""
    options = {"n_hidden": 4, **KINDS[kind], **more}
    spec = network(3, options.pop("n_hidden"), **options)
    data = table(classes=kind == "classes")
    schedule = paper_schedule(replace(STEP, fraction=spec.likelihood.default_fraction), warm_sweeps=sweeps)
    stages = [replace(stage, max_sweeps=min(stage.max_sweeps, sweeps)) for stage in schedule.stages]
    return spec, data, solve(spec, data, zero_state(spec, data), Schedule(tuple(stages))).state


def mean_function(spec, data, state):
    return latent_moments(spec, state.posterior, data.X).mean


def direction(state, seed=1):
    rng = np.random.default_rng(seed)
    q = state.posterior
    free = q.w.var > 1e-20
    return rng.normal(size=q.w.mean.shape) * free, rng.normal(size=q.v.mean.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_means_move_by_what_was_asked_and_covariances_stay(kind):
    spec, data, state = begun(kind)
    dw, dv = direction(state)
    moved = with_means_moved(spec, data, state, 0.1 * dw, 0.1 * dv)
    before, after = state.posterior, moved.posterior
    np.testing.assert_allclose(after.w.mean - before.w.mean, 0.1 * dw, atol=1e-8)
    np.testing.assert_allclose(after.v.mean - before.v.mean, 0.1 * dv, atol=1e-8)
    np.testing.assert_allclose(after.w.h_var, before.w.h_var, rtol=1e-8)
    np.testing.assert_allclose(after.v.cov, before.v.cov, rtol=1e-8, atol=1e-12)
    assert moved.priors is state.priors or all(
        np.array_equal(a, b) for a, b in zip(moved.priors.w, state.priors.w, strict=True)
    )
    np.testing.assert_allclose(after.noise, before.noise, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_equations_are_those_of_a_dense_jacobian(kind):
    """J by differences of E f along each weight, its covariances held."""
    spec, data, state = begun(kind)
    q, priors = state.posterior, state.priors
    K, d = q.w.mean.shape
    size, eps = K * d + len(q.v.mean), 1e-4
    free = np.append((q.w.var > 1e-20).ravel(), np.ones(len(q.v.mean), bool))
    J = np.zeros((data.n_rows, size))
    for at in np.flatnonzero(free):
        unit = np.eye(size)[at] * eps
        f = [
            mean_function(
                spec,
                data,
                with_means_moved(spec, data, state, s * unit[: K * d].reshape(K, d), s * unit[K * d :]),
            )
            for s in (1.0, -1.0)
        ]
        J[:, at] = (f[0] - f[1]) / (2.0 * eps)
    fit = spec.likelihood.derivatives(data.y, mean_function(spec, data, state), q.noise.mean, data.row_var)
    prior = np.append(priors.w.tau.ravel(), priors.v.tau)
    held = np.append((priors.w.tau * q.w.mean - priors.w.nu).ravel(), priors.v.tau * q.v.mean - priors.v.nu)
    pull, apply = joint._linearised(spec, data, state, map)
    np.testing.assert_allclose(pull[free], (J.T @ fit.d1 - held)[free], rtol=1e-4, atol=1e-4)
    precision = np.zeros((size, size))
    for k in range(K):
        at = slice(k * d, (k + 1) * d)
        precision[at, at] = q.w.lik_tau[k] + np.diag(priors.w.tau[k])
    precision[K * d :, K * d :] = np.linalg.inv(q.v.cov)
    curvature = np.maximum(-fit.d2, 0.0) * np.ones(data.n_rows)
    dense = (J * curvature[:, None]).T @ J + np.diag(prior) + 0.3 * precision
    z = np.random.default_rng(2).normal(size=size) * free
    np.testing.assert_allclose(apply(0.3, z)[free], (dense @ z)[free], rtol=1e-4, atol=1e-3)
    found = joint._solve(lambda v: apply(0.3, v), joint._preconditioner(state), pull)
    wanted = np.linalg.solve(dense[np.ix_(free, free)], pull[free])
    assert np.linalg.norm(found[free] - wanted) < 0.1 * np.linalg.norm(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_taken_only_if_the_rows_become_more_probable(kind):
    spec, data, state = begun(kind)
    step = replace(STEP, fraction=spec.likelihood.default_fraction)
    before = joint._density(spec, data, state, step, map)
    moved = joint_step(spec, data, state, step, CAUTION)
    if moved.state is state:
        assert moved.caution == CAUTION * joint.MORE_CAUTIOUS**joint.TRIES
    else:
        after_tries = [joint.BOLDER * CAUTION * joint.MORE_CAUTIOUS**t for t in range(joint.TRIES)]
        assert moved.caution in after_tries
        assert joint._density(spec, data, moved.state, step, map) > before


def test_a_step_that_would_make_rows_less_probable_is_refused(monkeypatch):
    spec, data, state = begun()
    monkeypatch.setattr(joint, "_solve", lambda apply, precondition, b: -10.0 * precondition(b) - 3.0)
    assert joint_step(spec, data, state, STEP, CAUTION) == Joint(
        state, CAUTION * joint.MORE_CAUTIOUS**joint.TRIES
    )


def test_no_output_weight_changes_its_sign():
    spec, data, state = begun()
    v = state.posterior.v.mean[: spec.n_hidden]
    change = np.concatenate([np.ones(state.posterior.w.mean.size), -5.0 * v, [0.3]])
    dw, dv = joint._shortened(spec, state, change)
    assert np.all((v + dv[: spec.n_hidden]) * v > 0.0)
    np.testing.assert_allclose(dw, dw[0, 0])  # all as much shorter
    assert 0.0 < dw[0, 0] < 1.0


def test_joint_steps_lead_where_sweeps_do_not_come():
    """Five units from zero: more sweeps gain little, the same number with joint steps between a lot."""
    data = table(n=200, seed=3)
    spec = network(3, 5, noise=Noise())
    start = solve(spec, data, zero_state(spec, data), paper_schedule(STEP, max_sweeps=10)).state

    def after(every):
        stage = Stage("converge", STEP, 60, 1e-6, joint=every)
        return mean_loo(data, solve(spec, data, start, Schedule((stage,))))

    alone, with_joint = after(0), after(2)
    assert with_joint > alone + 0.02


def test_rows_may_be_visited_in_blocks_and_threads(monkeypatch):
    spec, data, state = begun()
    one = joint_step(spec, data, state, STEP, CAUTION)
    monkeypatch.setattr(joint, "row_blocks", lambda n: row_blocks(n, 7))
    with ThreadPoolExecutor(2) as pool:
        other = joint_step(spec, data, state, STEP, CAUTION, pool.map)
    assert one.state is not state
    assert one.caution == other.caution
    np.testing.assert_allclose(
        one.state.posterior.w.mean, other.state.posterior.w.mean, rtol=1e-8, atol=1e-10
    )


def test_weights_are_copies():
    """Pull and equations of rows of weight two are those of rows that stand there twice."""
    rng = np.random.default_rng(5)
    spec = network(3, 4)
    weight = rng.integers(1, 3, 60).astype(float)
    data = table(weight=weight)
    stages = paper_schedule(replace(STEP, block_size=None, damping=0.3), warm_sweeps=4, max_sweeps=4)
    state = solve(spec, data, zero_state(spec, data), stages).state
    index = np.repeat(np.arange(60), weight.astype(int))
    twice = data._replace(
        X=data.X[index], y=data.y[index], weight=np.ones(len(index)), row_var=data.row_var[index]
    )
    rows, w = state.rows, state.posterior.w
    copies = state._replace(
        rows=rows._replace(
            h=rows.h[:, index],
            v_dir=rows.v_dir[index],
            v_tau=rows.v_tau[index],
            v_nu=rows.v_nu[index],
            noise=rows.noise[:, index],
        ),
        posterior=state.posterior._replace(w=w._replace(h_mean=w.h_mean[index], h_var=w.h_var[index])),
    )
    z = rng.normal(size=w.mean.size + len(state.posterior.v.mean))
    pull, apply = joint._linearised(spec, data, state, map)
    pull_twice, apply_twice = joint._linearised(spec, twice, copies, map)
    np.testing.assert_allclose(pull, pull_twice, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(apply(0.5, z), apply_twice(0.5, z), rtol=1e-9, atol=1e-9)


def test_where_it_cannot_be_done_nothing_happens():
    spec, data, state = begun()
    assert joint_step(spec, data, state, STEP, 2.0 * HOPELESS) == Joint(state, 2.0 * HOPELESS)
    for form in ("dual", "diagonal"):
        other, _, held = begun(form=form, sweeps=1)
        assert not possible(other, held)
        assert joint_step(other, data, held, STEP, CAUTION) == Joint(held, CAUTION)


@pytest.mark.parametrize(("start", "used"), [("zero", True), ("incremental", True), ("map", False)])
def test_zero_starts_take_joint_steps(start, used, monkeypatch):
    taken = []

    def told(*given):
        taken.append(given)
        return joint_step(*given)

    monkeypatch.setattr("cavity.ep.solve.joint_step", told)
    data = table()
    fit_ensemble(network(3, 3), data, FitOptions(start=start, max_iter=6, tol=1e-9))
    assert bool(taken) is used
