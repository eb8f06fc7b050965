"""Several models of the same rows in one stack: each is stacked within itself first, then all together.

Leave-one-out takes the site of a row away, not what the row did to the sites of the prior. Where few rows
choose among many inputs that choice is most of the fit: by leave-one-out horseshoes on riboflavin gain
a third of a nat a row more than they do on unseen rows, those on colon beat a ridge that is better, and so do
sparse networks smooth ones on sonar, with three rows for each input.
Such kinds of models are therefore weighed on a few folds that are fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble, joined, mixed, unseen_densities
from cavity.ep.ladder import fit_ensemble
from cavity.ep.options import FitOptions
from cavity.ep.runs import of_view
from cavity.ep.solve import Status
from cavity.ep.stacking import stacking_weights
from cavity.ep.temper import with_temperature
from cavity.model.data import TrainingData
from cavity.model.draw_in import DrawIn
from cavity.model.spec import ModelSpec, WeightBlock
from cavity.types import FloatArray

FOLDS = 3  # five gained little on inner folds of riboflavin and colon, and cost as much as the fit again
# Rows that the pull to equal weights is worth for each kind. Folds do not flatter, so that it need not grow
# with the rows: as a share of them it kept sparse and straight networks where they did harm (ionosphere).
FOLD_EQUALITY = 0.5
# Share of the rows that the pull to equal weights is worth for the fits that see inputs as they are and those
# that see them drawn in: on other folds of Boston, Concrete and Yacht a little better than 0.01 and 0.1.
VIEW_EQUALITY = 0.03
FOLD_STARTS = 1  # at most, of a model that is fitted again: two weigh kinds alike, for twice the time


class Member(NamedTuple):
    """A model, how it is fitted, and its kind, if kinds are to be weighed on folds that are fitted again.

    ``tempered``: its solutions learn how sure they may be (`cavity.ep.temper`). ``inputs``: so many of them
    are used, those that go with the target most (`screened`), chosen anew for every set of rows. ``drawn``:
    half of its starts, where it has several, see inputs drawn in (`cavity.model.draw_in`).
    """

    spec: ModelSpec
    options: FitOptions
    kind: str | None = None
    tempered: bool = False
    inputs: int | None = None
    drawn: DrawIn | None = None


def fit_members(members: Sequence[Member], data: TrainingData, callback: Any = None) -> Ensemble:
    """Fit all members and stack them; as many as fit into the time limit (the first one's), one at least."""
    clock = Countdown(members[0].options.time_limit)
    found: list[Ensemble] = []
    for member in members:
        if found and clock.over:
            break
        found.append(_fitted(member, data, clock, callback))
        if _interrupted(found[-1]):
            return joined(found, data)
    kinds: dict[str | None, list[int]] = {}
    for m, member in enumerate(members[: len(found)]):
        kinds.setdefault(member.kind, []).append(m)
    if len(kinds) > 1 and data.n_rows >= 2 * FOLDS:
        stacks = [joined([found[m] for m in mine], data) for mine in kinds.values()]
        best = [
            members[max(mine, key=lambda m: _weight_in(stack, found[m]))]
            for mine, stack in zip(kinds.values(), stacks, strict=True)
        ]
        density = refitted(best, data, clock, callback)
        if density is not None:
            equality = FOLD_EQUALITY / float(data.weight.sum())
            return mixed(stacks, stacking_weights(density, data.weight, equality))._replace(on_folds=True)
    return joined(found, data)


def _fitted(member: Member, data: TrainingData, clock: Countdown, callback: Any) -> Ensemble:
    """One member in what is left of the time."""
    spec = member.spec if member.inputs is None else screened(member.spec, data, member.inputs)
    if member.drawn is not None and member.options.n_starts > 1:
        return _both_views(member, spec, data, clock, callback)
    found = fit_ensemble(spec, data, replace(member.options, time_limit=clock.left), callback)
    if not member.tempered:
        return found
    return found._replace(solutions=tuple(with_temperature(data, s) for s in found.solutions))


def _both_views(
    member: Member, spec: ModelSpec, data: TrainingData, clock: Countdown, callback: Any
) -> Ensemble:
    """Half of the starts on inputs as they are, half on inputs drawn in."""
    drawn, half = member.drawn, member.options.n_starts // 2
    assert drawn is not None
    options = replace(member.options, n_starts=member.options.n_starts - half, time_limit=clock.left)
    found = fit_ensemble(spec, data, options, of_view(callback, 1, 2))
    if clock.over or _interrupted(found):
        return found
    options = replace(options, n_starts=half, time_limit=clock.left)
    again = fit_ensemble(spec, data._replace(X=drawn(data.X)), options, of_view(callback, 2, 2))
    if all(np.isinf(s.mismatch) for s in again.solutions):  # no sweep: a start flatters itself
        return found
    again = again._replace(solutions=tuple(s._replace(drawn=drawn) for s in again.solutions))
    return joined((found, again), data, VIEW_EQUALITY)


def screened(spec: ModelSpec, data: TrainingData, count: int) -> ModelSpec:
    """The model with only the ``count`` inputs whose correlation with the target is largest.

    The weights of the others are held at zero, as by a mask; a bias is not one of them, and stays.
    """
    d = spec.n_inputs
    w = data.weight / data.weight.sum()
    X, y = data.X - w @ data.X, data.y - w @ data.y
    size = np.sqrt(w @ X**2)
    told = np.abs((w * y) @ X) / np.where(size > 0.0, size, np.inf)
    if spec.bias:
        told[-1] = np.inf
        count += 1
    used = np.zeros(d, dtype=bool)
    used[np.argsort(-told, kind="stable")[:count]] = True
    blocks = tuple(WeightBlock(b.prior, b.entries[used[b.entries % d]]) for b in spec.blocks)
    return replace(spec, blocks=blocks)


def refitted(
    members: Sequence[Member], data: TrainingData, clock: Countdown, callback: Any = None
) -> FloatArray | None:
    """Log densities of all rows under each member, (n, M), fitted without the fold that the row is in.

    Every fold holds its share of small and large targets, or of each class. None where time ran out.
    """
    density = np.empty((data.n_rows, len(members)))
    members = [
        m._replace(options=replace(m.options, n_starts=min(m.options.n_starts, FOLD_STARTS))) for m in members
    ]
    fold = np.empty(data.n_rows, dtype=int)
    fold[np.argsort(data.y, kind="stable")] = np.arange(data.n_rows) % FOLDS
    for f in range(FOLDS):
        rest, out = (TrainingData(*(part[which] for part in data)) for which in (fold != f, fold == f))
        for m in range(len(members)):
            if clock.over:
                return None
            again = _fitted(members[m], rest, clock, callback)
            if _interrupted(again):
                return None
            parts = np.stack([unseen_densities(rest, s, out) for s in again.solutions])
            density[fold == f, m] = np.logaddexp.reduce(parts + np.log(again.weights)[:, None], axis=0)
    return density


def _weight_in(stack: Ensemble, part: Ensemble) -> float:
    """What the solutions of ``part`` weigh in a stack of it and others."""
    return sum(
        float(w)
        for s, w in zip(stack.solutions, stack.weights, strict=True)
        if any(s is p for p in part.solutions)
    )


def _interrupted(ensemble: Ensemble) -> bool:
    return any(s.status is Status.INTERRUPTED for s in ensemble.solutions)
