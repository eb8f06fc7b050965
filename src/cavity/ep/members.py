"""Several models of the same rows in one stack: each is stacked within itself first, then all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble, joined
from cavity.ep.ladder import fit_ensemble
from cavity.ep.options import FitOptions
from cavity.ep.solve import Status
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec

Member = tuple[ModelSpec, FitOptions]


def fit_members(members: Sequence[Member], data: TrainingData, callback: Any = None) -> Ensemble:
    """Fit all members and stack them; as many as fit into the time limit (the first one's), one at least."""
    clock = Countdown(members[0][1].time_limit)
    found: list[Ensemble] = []
    for spec, options in members:
        if found and clock.over:
            break
        found.append(fit_ensemble(spec, data, replace(options, time_limit=clock.left), callback))
        if any(s.status is Status.INTERRUPTED for s in found[-1].solutions):
            break
    return joined(found, data)
