r"""Linear models: one start, run to convergence, and a spike-and-slab prior fitted on the way.

A model with one linear unit has no units to tell apart, so the prior means are a good start whatever the
data. What can go wrong is the order: with more inputs than rows the first, weak prior sites let the weights
interpolate, and a noise that is free by then follows them. So the prior sites settle first, at held noise.

The prior probability of inclusion π and the slab's log-variance φ can be estimated instead of given or
integrated over: between sweeps, one EM step on

.. math:: \log Z_{EP}(\pi,\varphi) + \log\pi(1-\pi)^d + \log\mathcal N(\varphi\mid a, b^2) .

The prior of π is the Beta(1, d) of Castillo and van der Vaart (2012), under which few of many inputs are in
whatever d, times π, which keeps π from zero. A flat one expects half of them in: weights of inputs that do
nothing then add up to half as many again as are true, the slab and the noise shrink with them, and even exact
probabilities under such fitted values are too large (`benchmarks/results/linear.json`). Where more inputs are
in than half of the rows, few is not what the data say, and the fit is made again with :math:`\pi(1-\pi)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.inclusion import has_inclusion, inclusion_probabilities, whole_site_cavity
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Record, Solution, Status, solve
from cavity.ep.starts import zero_state
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec, WeightBlock
from cavity.types import Gaussian

Told = Callable[[Record, EPState], Any] | None

ROUND = 3  # sweeps between two EM steps
UNSTEADY, STEADY_FRACTION = 0.1, 0.9  # mismatch of a fit that is made again, and at which fraction
NARROWER = float(np.log(10.0))  # and the spike of that, in log variance
MANY = 0.5  # inputs in, for each row, from which on they are not few
SETTLED = 1e-3  # change of log π and φ that ends the EM steps


def linear_schedule(step: Step, max_iter: int, tol: float, flat: float = 0.0) -> Schedule:
    """Fit with the weak first prior sites, then the prior sites, then everything."""
    step = replace(step, output_prior=False)
    held = replace(step, infer_noise=False, weight_prior="hold")
    return Schedule(
        (
            Stage("fit, priors held", held, 3, 1e-2),
            Stage("input prior", replace(held, weight_prior="sweep"), 8, 1e-2),
            Stage("converge", step, max_iter, tol, flat=flat),
        )
    )


def fit_linear(
    spec: ModelSpec,
    data: TrainingData,
    step: Step,
    *,
    adapt_prior: bool = False,
    few: bool = True,
    max_iter: int = 200,
    tol: float = 1e-3,
    flat: float = 0.0,
    time_limit: float | None = None,
    n_threads: int = 1,
    callback: Told = None,
) -> Solution:
    """Run EP on a linear model; with ``adapt_prior`` a spike-and-slab prior is fitted by EM on the way.

    ``few`` is the sparser prior of π.

    Then the scales of the slab are held in the solution's model, at values that also heed the hyperprior.
    Few rows can keep weights changing between spike and slab; such a fit is made again with a lower
    fraction and a spike a third as wide, which hold them.
    """
    schedule = linear_schedule(step, max_iter, tol, flat)
    adapt_prior = adapt_prior and has_inclusion(spec)
    given, hyperprior = spec, spec.scale_prior
    if adapt_prior:
        spec = _held_scales(spec)
    clock = Countdown(time_limit)
    history: tuple[Record, ...] = ()

    def run(model: ModelSpec, state: EPState, stages: tuple[Stage, ...]) -> Solution:
        nonlocal history
        done = solve(
            model,
            data,
            state,
            Schedule(stages),
            n_threads=n_threads,
            time_limit=clock.left,
            callback=callback,
        )
        history += done.history
        return done._replace(history=history)

    state = zero_state(spec, data)
    if not adapt_prior:
        return run(spec, state, schedule.stages)
    *first, last = schedule.stages
    solution = run(spec, state, tuple(first))
    for _ in range(max_iter // ROUND):
        if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            return solution
        spec, state, change = adapted(spec, solution.state, hyperprior, few)
        solution = run(spec, state, (replace(last, name="adapt the prior", max_sweeps=ROUND),))
        if change < SETTLED and solution.mismatch <= tol:
            break
    if solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
        return solution
    solution = run(solution.spec, solution.state, (last,))
    total = float(np.nansum(inclusion_probabilities(solution.spec, solution.state)))
    if few and total > MANY * float(data.weight.sum()):
        return fit_linear(
            given, data, step, adapt_prior=True, few=False, max_iter=max_iter, tol=tol, flat=flat,
            time_limit=clock.left, n_threads=n_threads, callback=callback,
        )  # fmt: skip
    unsteady = solution.status in (Status.MAX_SWEEPS, Status.OSCILLATING) and solution.mismatch > UNSTEADY
    if not unsteady or step.fraction_weight <= STEADY_FRACTION:
        return solution
    narrow = tuple(
        WeightBlock(b.prior.adapted(b.prior.inclusion, NARROWER), b.entries)  # type: ignore[attr-defined]
        if hasattr(b.prior, "slab_square")
        else b
        for b in given.blocks
    )
    steady = replace(step, fraction_weight=STEADY_FRACTION)
    return fit_linear(
        replace(given, blocks=narrow), data, steady, adapt_prior=True, few=few, max_iter=max_iter, tol=tol,
        flat=flat, time_limit=clock.left, n_threads=n_threads, callback=callback,
    )  # fmt: skip


def _held_scales(spec: ModelSpec) -> ModelSpec:
    """The model with the scales of the spike-and-slab blocks held at their prior means, one block a scale."""
    var = np.asarray(spec.scale_prior.var).copy()
    group = spec.group_of.ravel()
    blocks: list[WeightBlock] = []
    for block in spec.blocks:
        if not hasattr(block.prior, "slab_square"):
            blocks.append(block)
            continue
        for label in np.unique(group[block.entries]):
            blocks.append(WeightBlock(block.prior, block.entries[group[block.entries] == label]))
            var[label] = 0.0
    return replace(spec, blocks=tuple(blocks), scale_prior=Gaussian(spec.scale_prior.mean, var))


class Adapted(NamedTuple):
    """Model and state after an EM step, and the largest change of log π and φ."""

    spec: ModelSpec
    state: EPState
    change: float


def adapted(spec: ModelSpec, state: EPState, hyperprior: Gaussian, few: bool = True) -> Adapted:
    r"""One EM step: inclusion probabilities and slab moments from the cavities, then π and each φ.

    .. math:: \pi = \frac{1+\sum_j p_j}{1+2d},\qquad
              \varphi = \arg\max -\tfrac12\sum_j p_j\big(\varphi + \mathrm E(w_j^2\mid\text{slab})
              e^{-\varphi}\big) - \frac{(\varphi-a)^2}{2b^2} ,

    one π for all, one φ a group; unless ``few``, the denominator is 2 + d. The spike keeps its width. Both
    are where the gradient of log Z_EP, at held sites and for a spike that does not move with the slab,
    cancels that of the priors.
    """
    q, sites = state.posterior, state.priors
    cavity = whole_site_cavity(Gaussian(q.w.mean.ravel(), q.w.var.ravel()), sites.w)
    group = spec.group_of.ravel()
    log_var = np.asarray(spec.scale_prior.mean).copy()
    mine = [i for i, block in enumerate(spec.blocks) if hasattr(block.prior, "slab_square")]
    included, square = {}, {}
    for i in mine:
        prior, j = spec.blocks[i].prior, spec.blocks[i].entries
        part, phi = Gaussian(cavity.mean[j], cavity.var[j]), log_var[group[j]]
        included[i] = prior.inclusion_probability(part, phi)  # type: ignore[attr-defined]
        square[i] = included[i] @ prior.slab_square(part, phi)  # type: ignore[attr-defined]
    count = sum(len(p) for p in included.values())
    inclusion = float(
        (1.0 + sum(p.sum() for p in included.values())) / (1.0 + 2.0 * count if few else 2.0 + count)
    )
    blocks, change = list(spec.blocks), 0.0
    for i in mine:
        block = blocks[i]
        label = int(group[block.entries[0]])
        mean, var = float(np.asarray(hyperprior.mean)[label]), float(np.asarray(hyperprior.var)[label])
        moved = 0.0
        if var > 0.0:
            old = float(log_var[label])
            log_var[label] = _slab_log_var(float(included[i].sum()), float(square[i]), mean, var, old)
            moved = float(log_var[label]) - old
        was = block.prior.inclusion  # type: ignore[attr-defined]
        change = max(change, abs(moved), abs(float(np.log(inclusion / was))))
        blocks[i] = WeightBlock(block.prior.adapted(inclusion, moved), block.entries)  # type: ignore[attr-defined]
    spec = replace(spec, blocks=tuple(blocks), scale_prior=Gaussian(log_var, spec.scale_prior.var))
    scale = Gaussian(np.where(spec.scale_inferred, q.scale.mean, log_var), q.scale.var)
    return Adapted(spec, state._replace(posterior=q._replace(scale=scale)), change)


def _slab_log_var(mass: float, square: float, mean: float, var: float, start: float) -> float:
    """The maximum in φ of -½(mass·φ + square·e^-φ) - (φ - mean)²/2var, by Newton steps of at most one.

    The function is concave; 50 steps reach any φ within 50 of the start, the last few to rounding.
    """
    phi = start
    for _ in range(50):
        energy = square * float(np.exp(-phi))
        slope = 0.5 * (mass - energy) + (phi - mean) / var
        step = slope / (0.5 * energy + 1.0 / var)
        phi -= float(np.clip(step, -1.0, 1.0))
        if abs(step) < 1e-12:
            break
    return phi
