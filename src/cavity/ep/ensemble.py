"""Solutions weighed by their leave-one-out densities: starts of one model, and models of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cavity.ep.evidence import look_at_rows
from cavity.ep.latent import activation_marginals
from cavity.ep.schedule import Step
from cavity.ep.solve import Solution
from cavity.ep.stacking import distinct, drop_small, stacking_weights, usable
from cavity.ep.state import zero_row_sites
from cavity.ep.temper import predictive_state
from cavity.model.data import TrainingData
from cavity.types import FloatArray

CARRYING = 0.5  # of an equal share of the weight: those below stay as their first sweeps left them
KIND_EQUALITY = 0.001  # share of the rows that the Dirichlet prior between kinds is worth, for each kind


class Ensemble(NamedTuple):
    """Solutions and their stacking weights; one solution has weight one.

    ``on_folds``: kinds of models were weighed on folds that were fitted again, not by leave-one-out.
    """

    solutions: tuple[Solution, ...]
    weights: FloatArray
    on_folds: bool = False


def loo_densities(data: TrainingData, solution: Solution) -> FloatArray:
    """Whole-site leave-one-out log densities of the rows."""
    data = solution.sees(data)
    state = predictive_state(data, solution)
    return look_at_rows(solution.spec, data, state, Step(fraction=1.0)).log_z


def unseen_densities(data: TrainingData, solution: Solution, unseen: TrainingData) -> FloatArray:
    """Log predictive densities of rows that were not among ``data``: a visit of rows whose sites are zero."""
    unseen = solution.sees(unseen)
    spec, state = solution.spec, predictive_state(solution.sees(data), solution)
    q = state.posterior
    h = activation_marginals(spec, q.w, unseen.X)
    state = state._replace(
        rows=zero_row_sites(unseen.n_rows, spec.n_hidden, len(spec.pairs)),
        posterior=q._replace(w=q.w._replace(h_mean=h.mean, h_var=h.var)),
    )
    return look_at_rows(spec, unseen, state, Step(fraction=1.0)).log_z


def mean_loo(data: TrainingData, solution: Solution) -> float:
    """Mean leave-one-out log density, copies counted; -inf where a fit that fell apart has none."""
    mean = float(np.average(loo_densities(data, solution), weights=data.weight))
    return -np.inf if np.isnan(mean) else mean


def stack(data: TrainingData, solutions: Sequence[Solution]) -> Ensemble:
    """Weigh the starts of a model, those of each kind of noise first, then these together."""

    def alike(a: Solution, b: Solution) -> bool:
        views = (a.drawn is None) == (b.drawn is None)
        return views and a.spec.likelihood == b.spec.likelihood and a.spec.noise == b.spec.noise

    kinds: list[list[Solution]] = []
    for solution in solutions:
        same = [kind for kind in kinds if alike(kind[0], solution)]
        if same:
            same[0].append(solution)
        else:
            kinds.append([solution])
    return joined([_stack_starts(data, kind) for kind in kinds], data)


def _stack_starts(data: TrainingData, solutions: Sequence[Solution]) -> Ensemble:
    """Weigh starts that differ in nothing else; drop near-copies and what adds nothing."""
    if len(solutions) == 1:
        return Ensemble((solutions[0],), np.ones(1))
    loo = np.stack([loo_densities(data, s) for s in solutions], axis=1)
    fine = usable(loo)
    kept = distinct(loo, [m for m in np.argsort([s.mismatch for s in solutions]) if m in fine])
    weights = drop_small(stacking_weights(loo[:, kept], data.weight))
    return _kept([solutions[m] for m in kept], weights)


def joined(found: Sequence[Ensemble], data: TrainingData, equality: float = KIND_EQUALITY) -> Ensemble:
    """One mixture of several kinds of models, each stacked within itself.

    Kinds (a straight border, a smooth one, noise with wider tails) count as one each, however many starts
    each of them ran. The pull to equal weights is weaker between kinds than between the starts of one:
    leave-one-out tells kinds apart, and on inner folds of sonar and ionosphere a straight border in equal
    parts cost several hundredths of a nat.
    """
    if len(found) == 1:
        return found[0]
    loo = np.stack([mixture_loo(ensemble, data) for ensemble in found], axis=1)
    return mixed(found, stacking_weights(loo, data.weight, equality))


def mixed(found: Sequence[Ensemble], shares: FloatArray) -> Ensemble:
    """One mixture of several, each with its share."""
    weights = np.concatenate([share * e.weights for share, e in zip(shares, found, strict=True)])
    return _kept([s for ensemble in found for s in ensemble.solutions], drop_small(weights))


def mixture_loo(ensemble: Ensemble, data: TrainingData) -> FloatArray:
    """Leave-one-out log densities of the rows under a mixture."""
    parts = np.stack([loo_densities(data, s) for s in ensemble.solutions])
    return np.logaddexp.reduce(parts + np.log(ensemble.weights)[:, None], axis=0)


def _kept(solutions: Sequence[Solution], weights: FloatArray) -> Ensemble:
    """Those with any weight."""
    some = tuple(s for s, w in zip(solutions, weights, strict=True) if w > 0.0)
    return Ensemble(some, weights[weights > 0.0])
