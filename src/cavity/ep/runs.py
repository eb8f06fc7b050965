"""Several fits one after the other, or in processes, within a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cavity.ep.countdown import Countdown
from cavity.ep.solve import Record, Solution, Status
from cavity.ep.state import EPState

Told = Callable[[Record, EPState], Any] | None  # called after each sweep


def run_all(
    run: Callable[[int, Told], Solution],
    count: int,
    n_jobs: int,
    callback: Told,
    clock: Countdown,
    part: tuple[int, int],
) -> list[Solution]:
    """Solutions 0 … count - 1, in processes or one by one; fewer where the time is up, but one at least.

    ``part`` is how many starts went before, of how many.
    """
    if n_jobs != 1 and count > 1:
        from joblib import Parallel, delayed

        return list(Parallel(n_jobs=n_jobs)(delayed(run)(m, None) for m in range(count)))
    solutions: list[Solution] = []
    for m in range(count):
        if part[0] + m > 0 and clock.over:
            break
        solutions.append(run(m, numbered(callback, part[0] + m + 1, part[1])))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    return solutions


def of_view(callback: Told, view: int, count: int) -> Told:
    """The callback, told which of so many views of the inputs a sweep belongs to."""
    if callback is None or count == 1:
        return callback
    return lambda record, state: callback(record._replace(view=(view, count)), state)


def numbered(callback: Told, start: int, count: int) -> Told:
    """The callback, told which start of how many a sweep belongs to."""
    if callback is None or count == 1:
        return callback
    return lambda record, state: callback(record._replace(part=(start, count)), state)
