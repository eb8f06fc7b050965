"""Numbers and lists as people write them."""

from __future__ import annotations

import math

import numpy as np

from cavity.types import IntArray

LISTED = 10


def count(n: int, noun: str) -> str:
    """1 row, 2 rows."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def percent(share: float) -> str:
    """A share in whole per cent, with tenths near the ends."""
    value = 100.0 * share
    return f"{value:.0f} %" if 10.0 <= value <= 90.0 or value in (0.0, 100.0) else f"{value:.1f} %"


def figure(value: float, digits: int = 3) -> str:
    """A number for people: significant digits, no exponent where it can be helped, a true minus sign."""
    value = float(value)
    if not np.isfinite(value):
        return "unknown"
    size = abs(value)
    if size == 0.0 or not 1e-4 <= size < 1e9:
        rounded = f"{value:.{digits}g}"
    else:
        decimals = digits - 1 - math.floor(math.log10(size))
        rounded = f"{round(value, decimals):.{max(decimals, 0)}f}"
    return rounded.replace("-", "\N{MINUS SIGN}")


def listing(names: list[str]) -> str:
    """a, b and c; long lists are cut."""
    if len(names) > LISTED:
        return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def row_list(rows: IntArray, first_row: int) -> str:
    """Numbers of rows, of many the first few."""
    shown = ", ".join(str(int(row) + first_row) for row in rows[:LISTED])
    more = f" and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return f"{shown}{more} (counted from {first_row})"
