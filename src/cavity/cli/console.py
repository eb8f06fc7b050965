"""What the user reads: notes and progress on standard error, tables and JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from cavity.progress import LineProgress, Progress, moving, on_terminal
from cavity.report.phrases import figure

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

    def progress(self, what: str) -> Progress:
        """A bar or moving line on a terminal, a line now and then elsewhere, nothing when quiet."""
        if self.quiet:
            return Progress()
        return moving(what) if on_terminal() else LineProgress(what, LINE_SECONDS)


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
    """A number for people, in characters that every terminal has; a dash for NaN."""
    return "–" if math.isnan(value) else figure(value, digits).replace("\N{MINUS SIGN}", "-")


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
