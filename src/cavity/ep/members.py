"""Several models of the same rows in one stack: each is stacked within itself first, then all together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cavity.ep.ensemble import Ensemble, joined
from cavity.ep.ladder import FitOptions, fit_ensemble
from cavity.ep.solve import Status
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec

Member = tuple[ModelSpec, FitOptions]


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
