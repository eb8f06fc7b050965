"""Units of a fitted network begun anew, kept where leave-one-out says so: one network instead of many starts.

Sweeps and joint steps end where no unit gains by a small change. Some units then do what the others could do
nearly as well: they lose their sites and start again, from small random weights, on what the rest leaves,
while all others go on. The larger density of the rows, each left out, decides whether the network goes on as
before or so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.ensemble import mean_loo
from cavity.ep.latent import output_moments
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Solution, solve
from cavity.ep.starts import state_from_sites
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian, IntArray, Natural

MOST_UNITS = 4  # begun anew at once
HELD_SWEEPS, FREE_SWEEPS = 8, 40  # of a try with their priors held, twice, and with all free
FIRST_MEANS, FIRST_SD = (0.5, 1.5), 0.05  # of their output weights
NARROWER, SHIFT = (
    0.25,
    0.5,
)  # variances of their weights by those of their scales, and sds of their first means


def improved(spec: ModelSpec, data: TrainingData, found: Solution, joint: Stage, tries: int) -> Solution:
    """The solution after so many tries; its history has the sweeps of all of them."""
    rng = np.random.default_rng(0)
    best, density, history = found, mean_loo(data, found), found.history
    for _ in range(tries):
        units = _units(spec, best.state, rng)
        other = begun_anew(spec, data, best.state, units, rng)
        if other is None:
            continue
        tried = solve(spec, data, other, _schedule(joint))
        history += tried.history
        new = mean_loo(data, tried)
        if new > density:
            best, density = tried, new
    return best._replace(history=history)


def usefulness(spec: ModelSpec, state: EPState) -> FloatArray:
    """By how much the mean square of f's error would grow without each unit, the others' weights refitted."""
    q = state.posterior
    g = output_moments(spec, Gaussian(q.w.h_mean, q.w.h_var)).mean
    gram = g.T @ g / len(g)
    inverse = np.linalg.inv(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)))
    return (q.v.mean**2 / np.diag(inverse))[: spec.n_hidden]


def _units(spec: ModelSpec, state: EPState, rng: np.random.Generator) -> IntArray:
    """Some units, the less useful the likelier."""
    odds = 1.0 / (usefulness(spec, state) + 1e-6)
    count = int(rng.integers(1, min(MOST_UNITS, spec.n_hidden) + 1))
    return rng.choice(spec.n_hidden, size=count, replace=False, p=odds / odds.sum())


def begun_anew(
    spec: ModelSpec, data: TrainingData, state: EPState, units: IntArray, rng: np.random.Generator
) -> EPState | None:
    """The state without what ``units`` have learnt; None where that is improper."""
    rows, priors = state.rows, state.priors
    h, v_dir, v_nu = rows.h.copy(), rows.v_dir.copy(), rows.v_nu.copy()
    h[:, :, units], v_dir[:, units], v_nu[:, units] = 0.0, 0.0, 0.0
    w, scale, v = (Natural(site.tau.copy(), site.nu.copy()) for site in priors)
    var = np.exp(state.posterior.scale.mean)[spec.group_of][units]
    w.tau[units] = 1.0 / (NARROWER * var)
    w.nu[units] = w.tau[units] * SHIFT * np.sqrt(var) * rng.standard_normal(var.shape)
    scale.tau[units], scale.nu[units] = 0.0, 0.0
    v.tau[units] = FIRST_SD**-2
    v.nu[units] = v.tau[units] * rng.uniform(*FIRST_MEANS, len(units))
    new = rows._replace(h=h, v_dir=v_dir, v_nu=v_nu)
    try:
        return state_from_sites(
            spec, data, new, priors._replace(w=w, scale=scale, v=v), noises.of(state.posterior)
        )
    except ValueError:
        return None


def _schedule(joint: Stage) -> Schedule:
    """All priors held at first, then those of the input weights alone, then none."""

    def held(**changes: bool) -> Step:
        return replace(joint.step, weight_prior="hold", **changes)

    return Schedule(
        (
            Stage("anew, priors held", held(output_prior=False, infer_noise=False), HELD_SWEEPS, 1e-3),
            Stage("anew, output prior", held(), HELD_SWEEPS, 1e-3),
            replace(joint, name="anew", max_sweeps=FREE_SWEEPS),
        )
    )
