"""Several models of the same rows in one stack: each is stacked within itself first, then all together.

Members of a stack that differ in kind (a straight border, a smooth one, one that ignores most inputs) count
as one each, however many starts each of them ran. The pull to equal weights is weaker between kinds than
between the starts of one: leave-one-out tells kinds apart, and on inner folds of sonar and ionosphere a
straight border in equal parts cost several hundredths of a nat.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.ep.evidence import look_at_rows
from cavity.ep.ladder import Ensemble, FitOptions, fit_ensemble
from cavity.ep.schedule import Step
from cavity.ep.solve import Status
from cavity.ep.stacking import drop_small, stacking_weights
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray

Member = tuple[ModelSpec, FitOptions]
KIND_EQUALITY = 0.001  # share of the rows that the Dirichlet prior between kinds is worth, for each kind


def fit_members(members: Sequence[Member], data: TrainingData, callback: Any = None) -> Ensemble:
    """Fit every member and stack them; with a time limit as many as fit into it, but one at least."""
    began = time.perf_counter()
    found: list[Ensemble] = []
    for spec, options in members:
        limit = options.time_limit
        left = None if limit is None else limit - (time.perf_counter() - began)
        if found and left is not None and left <= 0.0:
            break
        found.append(fit_ensemble(spec, data, replace(options, time_limit=left), callback))
        if any(s.status is Status.INTERRUPTED for s in found[-1].solutions):
            break
    return joined(found, data)


def joined(found: Sequence[Ensemble], data: TrainingData) -> Ensemble:
    """One mixture of several, weighed by their leave-one-out densities."""
    if len(found) == 1:
        return found[0]
    loo = np.stack([mixture_loo(ensemble, data) for ensemble in found], axis=1)
    shares = stacking_weights(loo, data.weight, KIND_EQUALITY)
    weights = np.concatenate([share * e.weights for share, e in zip(shares, found, strict=True)])
    weights = drop_small(weights)
    solutions = [solution for ensemble in found for solution in ensemble.solutions]
    kept = tuple(s for s, w in zip(solutions, weights, strict=True) if w > 0.0)
    return Ensemble(kept, weights[weights > 0.0])


def mixture_loo(ensemble: Ensemble, data: TrainingData) -> FloatArray:
    """Leave-one-out log densities of the rows under a mixture."""
    step = Step(fraction=1.0)
    parts = np.stack([look_at_rows(s.spec, data, s.state, step).log_z for s in ensemble.solutions])
    return np.logaddexp.reduce(parts + np.log(ensemble.weights)[:, None], axis=0)
