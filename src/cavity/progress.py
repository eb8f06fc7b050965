"""What a fit says while it runs: nothing, a line that moves, or a line per sweep."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

REFRESH = 0.1  # seconds between two updates of the moving line
LONG = 3.0  # seconds after which a fit on a terminal shows itself unasked

SweepCallback = Callable[[Any, Any], Any]


class SweepReporter:
    """Called after each sweep with its record; writes to standard error.

    ``detail`` 1: one line that moves on a terminal, one line per stage elsewhere; 2: a line per sweep.
    A fit shorter than ``after`` seconds says nothing at all.
    """

    def __init__(self, detail: int = 1, stream: TextIO | None = None, after: float = 0.0) -> None:
        self.detail, self.stream = detail, stream if stream is not None else sys.stderr
        self.quiet_until = time.monotonic() + after
        self.moving = detail < 2 and self.stream.isatty()
        self.stage, self.written, self.open = "", 0.0, False

    def __call__(self, record: Any, state: Any = None) -> None:
        """Report one sweep."""
        line = (
            f"{record.stage}, sweep {record.sweep}: LOO {record.loo:.3f}, "
            f"mismatch {record.mismatch:.1e}, {record.seconds:.1f} s"
        )
        now = time.monotonic()
        if now < self.quiet_until:
            return
        if self.moving:
            if now - self.written >= REFRESH or record.stage != self.stage:
                self.stream.write(f"\r\x1b[K{line}")
                self.stream.flush()
                self.written, self.open = now, True
        elif self.detail > 1 or record.stage != self.stage:
            self.stream.write(line + "\n")
        self.stage = record.stage

    def say(self, line: str) -> None:
        """End the moving line and write one that stays."""
        if time.monotonic() < self.quiet_until:
            return
        self.stream.write(("\r\x1b[K" if self.open else "") + line + "\n")
        self.open = False


def reporter(verbose: Any) -> SweepCallback | None:
    """The callback that a ``verbose`` setting asks for: a function is taken as it is, 0 is silence.

    "auto" is silence too, except for long fits on a terminal.
    """
    if callable(verbose):
        return verbose
    if verbose == "auto":
        return SweepReporter(1, after=LONG) if sys.stderr.isatty() else None
    return SweepReporter(int(verbose)) if verbose and int(verbose) > 0 else None


def both(*callbacks: SweepCallback | None) -> SweepCallback | None:
    """One callback of several; any of them may ask the fit to stop by returning True."""
    wanted = [c for c in callbacks if c is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None
    return lambda record, state: any([bool(c(record, state)) for c in wanted])


def task_callback(estimator: Any) -> tuple[SweepCallback | None, Callable[[], Any]]:
    """scikit-learn's callbacks of an estimator (1.9 and newer) as a sweep callback, and what ends them.

    Each sweep is a task of its own; a callback that returns True at its end stops the fit.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        return None, lambda: None
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator)

    def after_sweep(record: Any, state: Any) -> bool:
        task = context.subcontext(task_name=f"{record.stage}, sweep {record.sweep}")
        task.call_on_fit_task_begin(estimator=estimator)
        return bool(task.call_on_fit_task_end(estimator=estimator))

    return after_sweep, lambda: context.call_on_fit_task_end(estimator=estimator)
