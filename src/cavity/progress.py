"""What a long job says while it runs: nothing, a bar or a line that moves, or lines that stay."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

REFRESH = 0.1  # seconds between two updates of the moving line
LONG = 3.0  # seconds after which a fit on a terminal shows itself unasked
EXTRA_SWEEPS = 8  # at most so many before the last stage, after a MAP start
STARTS_SHARE, LAST_STAGE = 0.6, "polish"  # what all starts take of a fit that then goes on with the best

SweepCallback = Callable[[Any, Any], Any]


class Progress:
    """How far something has come; this kind says nothing, the others write to standard error.

    Leaving its ``with`` block, however that happens, leaves the terminal as it was.
    """

    each_sweep = True  # of a fit; else only the first of each stage is worth telling

    def at(self, share: float, detail: str) -> None:
        """So much of the whole is done, and a few words on it."""

    def finish(self, sentence: str) -> None:
        """All is done; a sentence that stays."""

    def close(self) -> None:
        """Stop whatever moves."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LineProgress(Progress):
    """A line every so many seconds."""

    def __init__(self, what: str, every: float = 0.0, each_sweep: bool = True) -> None:
        self.what, self.every, self.each_sweep = what, every, each_sweep
        self.began = self.written = time.monotonic()

    def at(self, share: float, detail: str) -> None:
        if time.monotonic() - self.written >= self.every:
            self.written = time.monotonic()
            self.write(f"{self.what}: {detail}, {self.elapsed()}")

    def finish(self, sentence: str) -> None:
        self.close()
        print(f"{self.what} took {self.elapsed()}. {sentence}", file=sys.stderr, flush=True)

    def write(self, line: str) -> None:
        """Put a line on standard error."""
        print(line, file=sys.stderr, flush=True)

    def elapsed(self) -> str:
        """Time since the job began."""
        return f"{time.monotonic() - self.began:.1f} s"


class MovingLine(LineProgress):
    """One line on a terminal that is written over."""

    def __init__(self, what: str, began: float) -> None:
        super().__init__(what, REFRESH)
        self.began, self.written = began, -REFRESH

    def write(self, line: str) -> None:
        # a line that wraps could not be written over
        print(
            f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True
        )

    def close(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Bar(LineProgress):
    """A bar on a terminal, drawn by rich; what is printed meanwhile appears above it."""

    def __init__(self, what: str, began: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(what)
        self.began = began
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24 if console.width >= 100 else 8),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=console,
            transient=True,
            get_time=time.monotonic,
            # standard output that goes elsewhere must go on going there
            redirect_stdout=_on_terminal(sys.stdout),
        )
        self.task = self.bar.add_task(what, total=1.0, detail="")
        self.bar.tasks[0].start_time = began
        self.bar.start()

    def at(self, share: float, detail: str) -> None:
        self.bar.update(self.task, completed=share, detail=detail)

    def close(self) -> None:
        self.bar.stop()


class Late(Progress):
    """Silence for so many seconds, then another kind; a job that ends before says nothing at all.

    A timer opens it, so that it appears even while the job has nothing to tell.
    """

    def __init__(self, after: float, kind: Callable[[], Progress]) -> None:
        self.kind, self.over = kind, False
        self.shown: Progress | None = None
        self.last: tuple[float, str] | None = None
        self.lock = threading.Lock()
        self.timer = threading.Timer(after, self._open)
        self.timer.daemon = True
        self.timer.start()

    def _open(self) -> None:
        with self.lock:
            if not self.over:
                self.shown = self.kind()
                if self.last is not None:
                    self.shown.at(*self.last)

    def at(self, share: float, detail: str) -> None:
        with self.lock:
            self.last = share, detail
            if self.shown is not None:
                self.shown.at(share, detail)

    def finish(self, sentence: str) -> None:
        with self.lock:
            self.over = True
            if self.shown is not None:
                self.shown.finish(sentence)

    def close(self) -> None:
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.shown is not None:
                self.shown.close()


def moving(what: str, began: float | None = None) -> Progress:
    """Progress for a terminal: a bar where rich is installed, else a line."""
    began = time.monotonic() if began is None else began
    try:
        return Bar(what, began)
    except ImportError:
        return MovingLine(what, began)


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return _on_terminal(sys.stderr)


def _on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; programs without a console have none, a closed or a makeshift one."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _undisturbed() -> bool:
    """Whether nobody else is likely to move things on the terminal: other workers, or rich already."""
    return (
        multiprocessing.parent_process() is None
        and threading.current_thread() is threading.main_thread()
        and not hasattr(sys.stderr, "rich_proxied_file")
    )


class Sweeps:
    """Progress of a fit, start by start; called after each sweep with its record."""

    def __init__(self, progress: Progress, max_iter: int) -> None:
        self.progress, self.sweeps = progress, EXTRA_SWEEPS + max_iter
        self.part: Any = None
        self.done, self.share = 0, 0.0

    def __call__(self, record: Any, state: Any = None) -> None:
        """Move on by one sweep."""
        part = (record.part or (1, 1), record.stage == LAST_STAGE, record.view or (1, 1))
        if part != self.part:
            self.part, self.done = part, 0
        self.done += 1
        if record.sweep > 1 and not self.progress.each_sweep:
            return
        (start, count), last, (view, views) = part
        within = (start - 1 + min(self.done / self.sweeps, 1.0)) / count
        if count > 1 or last:
            within = STARTS_SHARE + (1.0 - STARTS_SHARE) * within if last else STARTS_SHARE * within
        self.share = max(self.share, (view - 1 + min(within, 1.0)) / views)
        which = ("inputs drawn in, " if view > 1 else "") + (f"start {start}/{count}, " if count > 1 else "")
        detail = f"{which}{record.stage} {record.sweep}, LOO {record.loo:.3f}, mismatch {record.mismatch:.1e}"
        self.progress.at(self.share, detail)


def progress_of(verbose: Any, callbacks: bool = False) -> Progress:
    """The progress of a fit that a ``verbose`` setting asks for.

    0 is silence, and so is a function, which is called instead. 1 moves on a terminal that nothing else
    writes to; elsewhere, and for 2, there are lines. "auto" is silence too, except for long fits on such a
    terminal; ``callbacks`` says that scikit-learn's write to it.
    """
    if callable(verbose):
        return Progress()
    alone = on_terminal() and _undisturbed() and not callbacks
    if verbose == "auto":
        if not alone:
            return Progress()
        began = time.monotonic()
        return Late(LONG, lambda: moving("Fitting", began))
    if isinstance(verbose, str):
        raise ValueError(f'verbose must be "auto", a number or a function, got {verbose!r}.')
    detail = int(verbose or 0)
    if detail <= 0:
        return Progress()
    if detail == 1 and alone:
        return moving("Fitting")
    return LineProgress("Fitting", each_sweep=detail > 1)


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
