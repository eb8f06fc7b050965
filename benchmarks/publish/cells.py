"""Tables in Markdown, and numbers as they stand in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.harness.summary import number

FIXED = {"lpd", "mlpd", "loo", "loo_bias", "average_precision", "precision", "recall", "brier", "exact"}
FIXED |= {"coverage95", "accuracy", "mse", "mse_y_by_noise"}
NONE = "–"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A table; the first column is text, the others are numbers."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return [_line(head), rule, *map(_line, lines)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cell(found: dict[str, Any] | None, name: str) -> str:
    """Mean ± standard error of a value; a dash where there is none."""
    if found is None:
        return NONE
    mean, se = number(found["mean"]), number(found["se"])
    assert mean is not None
    return shown(mean, name) + (f" ± {shown(se, name)}" if se is not None else "")


def shown(value: float, name: str = "") -> str:
    """Three decimals of scores, three figures of what has a size, such as errors, seconds and megabytes."""
    if name in FIXED:
        return f"{value:.3f}"
    if value == int(value) and abs(value) < 1e5:
        return str(int(value))
    return (
        f"{value:.3g}"
        if 1e-4 <= abs(value) < 1e3
        else (f"{value:.0f}" if 1e3 <= value < 1e6 else f"{value:.1e}")
    )
