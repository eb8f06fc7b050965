"""More sweeps, gentler ones, where a fit of few rows ended far from converged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cavity.ep.schedule import Schedule, Stage
from cavity.ep.solve import Record, Solution, Status, solve
from cavity.ep.state import EPState
from cavity.model.data import TrainingData

FAR = 0.5  # marginal standard deviations: beyond it the estimators warn
NEAR = 0.4  # where calming ends: some fits would swing again
MOST_SWEEPS = 40  # a horseshoe on 30 rows of two classes needed 25 to come within 0.5
FEW_ROWS = 500
CUT_SHORT = 20  # a fit of fewer sweeps was cut short on purpose


def calmed(
    data: TrainingData,
    solution: Solution,
    max_iter: int,
    tol: float,
    n_threads: int = 1,
    time_limit: float | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Solution:
    """The solution, or where a moment of it is far off, what gentler sweeps make of it.

    With few rows the prior sites of weights that the data hardly know swing between "used" and "pruned", and
    everything with them. At the fraction 0.5 and half the steps they settle, at a fixed point that differs a
    little. ``max_iter`` and ``tol`` are those of the fit, ``time_limit`` what is left of it.
    """
    done = solution.status in (Status.CONVERGED, Status.SETTLED, Status.INTERRUPTED, Status.TIME_LIMIT)
    late = time_limit is not None and time_limit <= 0.0
    if done or late or solution.mismatch <= FAR or max_iter < CUT_SHORT or data.n_rows > FEW_ROWS:
        return solution
    step = solution.step
    gentle = replace(step, damping=0.5 * step.damping, damping_weight=0.3, fraction_weight=0.5)
    schedule = Schedule((Stage("calm", gentle, MOST_SWEEPS, max(tol, NEAR)),))
    more = solve(
        solution.spec, data, solution.state, schedule,
        n_threads=n_threads, time_limit=time_limit, callback=callback,
    )  # fmt: skip
    if not more.history:
        return solution
    status = Status.MAX_SWEEPS if more.converged and more.mismatch > tol else more.status
    return more._replace(status=status, history=solution.history + more.history)
