"""What is done and what is left, on a terminal or as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from benchmarks.harness.benchmark import Row, Task
from benchmarks.harness.summary import number


class Progress:
    """Counts finished tasks, writes a line for each and a moving bar below them where that can be shown."""

    def __init__(
        self, tasks: Sequence[Task], jobs: int, expected: Callable[[Task], float | None], shown: Any
    ) -> None:
        self.left = {(t.set, t.split, t.method, i): t for i, t in enumerate(tasks)}
        self.jobs, self.shown, self.total, self.done, self.failed = jobs, shown, len(tasks), 0, 0
        self.expected: dict[tuple[str, str], float] = {}
        for task in tasks:
            kind = (task.set, task.method)
            if kind not in self.expected and (seconds := expected(task)) is not None:
                self.expected[kind] = seconds
        self.bar = self._bar()

    def _bar(self) -> Any:
        if not sys.stderr.isatty():
            return None
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar
        except ImportError:
            return None
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        bar = Bar(*columns, console=Console(stderr=True))
        bar.add_task(self.remaining(), total=self.total)
        return bar

    def __enter__(self) -> Progress:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar:
            self.bar.stop()

    def finished(self, row: Row) -> None:
        """Count a row and show it."""
        self.done += 1
        self.failed += "error" in row
        kind = (row["set"], row["method"])
        if "wall" in row:
            self.expected[kind] = float(row["wall"])
        gone = next(k for k in self.left if k[:3] == (row["set"], row["split"], row["method"]))
        del self.left[gone]
        numbers = ((name, number(row.get(name))) for name in self.shown(row["set"]))
        found = row.get("error") or "  ".join(f"{name} {x:.4g}" for name, x in numbers if x is not None)
        line = f"{row['set']} {row['split']}, {row['method']}: {found}  [{row.get('wall', 0.0):.1f} s]"
        if self.bar:
            self.bar.console.print(
                line, style="red" if "error" in row else None, markup=False, highlight=False
            )
            self.bar.update(self.bar.task_ids[0], completed=self.done, description=self.remaining())
        else:
            print(f"[{self.done}/{self.total}] {line}  {self.remaining()}", file=sys.stderr, flush=True)

    def remaining(self) -> str:
        """Time left, by what tasks of the same set and method took before."""
        failed = f", {self.failed} failed" if self.failed else ""
        if not self.left:
            return f"done{failed}"
        if not self.expected:
            return f"{len(self.left)} left{failed}"
        usual = fmean(self.expected.values())
        seconds = sum(self.expected.get((k[0], k[2]), usual) for k in self.left) / self.jobs
        return f"{len(self.left)} left, about {_clock(seconds)}{failed}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
