"""What the user reads: notes and progress on standard error, tables and JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal


class Console:
    """Standard output and error of one command.

    Parameters
    ----------
    quiet : bool
        Nothing but results that were asked for.
    json : bool
        The result is JSON, so text for people stays away from standard output.
    """

    def __init__(self, quiet: bool = False, json: bool = False) -> None:
        self.quiet, self.json = quiet, json

    def note(self, *sentences: str) -> None:
        """Sentences about what was done, on standard error."""
        if not self.quiet:
            for sentence in sentences:
                print(f"note: {sentence}", file=sys.stderr)

    def say(self, text: str) -> None:
        """A line on the way, on standard error."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def show(self, *lines: str) -> None:
        """Results for people, on standard output."""
        if not (self.quiet or self.json):
            print("\n".join(lines))

    def deliver(self, result: Any) -> None:
        """Results for programs, on standard output if asked for."""
        if self.json:
            sys.stdout.write(as_json(result))

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Progress]:
        """A bar on a terminal (with rich), a line now and then elsewhere, nothing when quiet."""
        if self.quiet:
            yield Progress()
        elif sys.stderr.isatty() and _has_rich():
            with _bar() as bar:
                yield BarProgress(bar, bar.add_task(what, total=total, detail=""))
        else:
            yield LineProgress(what, total)


class Progress:
    """How far something has come, in sweeps or folds; the quiet kind."""

    def at(self, done: int, detail: str = "") -> None:
        """So much is done."""

    def finish(self, detail: str = "") -> None:
        """All is done."""


class LineProgress(Progress):
    """A line every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.started = self.printed = time.monotonic()

    def at(self, done: int, detail: str = "") -> None:
        now = time.monotonic()
        if now - self.printed >= LINE_SECONDS:
            self.printed = now
            self._line(f"{detail}, {now - self.started:.0f} s" if detail else f"{done}/{self.total}")

    def finish(self, detail: str = "") -> None:
        elapsed = f"{time.monotonic() - self.started:.1f} s"
        self._line(f"{detail}, {elapsed}" if detail else f"done in {elapsed}")

    def _line(self, text: str) -> None:
        print(f"{self.what}: {text}", file=sys.stderr, flush=True)


class BarProgress(Progress):
    """A bar on the terminal."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def at(self, done: int, detail: str = "") -> None:
        self.bar.update(self.task, completed=done, detail=detail)

    def finish(self, detail: str = "") -> None:
        total = self.bar.tasks[self.task].total
        self.bar.update(self.task, completed=total, detail=detail, refresh=True)


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True


def _bar() -> Any:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
        console=RichConsole(stderr=True),
    )


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), indent: str = "  "
) -> list[str]:
    """Lines of a table; the columns ``right`` are aligned to the right."""
    lines, to_right = [list(header), *(list(row) for row in rows)], set(right)
    widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
    padded = [
        [
            cell.rjust(width) if j in to_right else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    return [(indent + "  ".join(line)).rstrip() for line in padded]


def number(value: Any, digits: int = 4) -> str:
    """A number for people: so many significant digits, no exponent where it can be helped, a dash for NaN."""
    value = float(value)
    if math.isnan(value):
        return "–"
    size = abs(value)
    if size == 0.0 or not 1e-4 <= size < 1e9:
        return f"{value:.{digits}g}"
    decimals = max(digits - 1 - math.floor(math.log10(size)), 0)
    return f"{value:.{decimals}f}"


def as_json(value: Any) -> str:
    """JSON text that ends in a line break."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def plain(value: Any) -> Any:
    """Values that JSON knows: arrays become lists, numbers that are not finite null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def wrapped(text: str, width: int = 96) -> list[str]:
    """Lines of a sentence, the first with a dash."""
    return textwrap.wrap(text, width, initial_indent="- ", subsequent_indent="  ")
