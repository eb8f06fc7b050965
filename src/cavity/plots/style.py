"""Colours, sizes and small strokes that all figures share; the only place that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.types import FloatArray

# Okabe and Ito's colours keep apart under every common colour blindness; so do they in grey.
MAIN = "#0072b2"
ACCENT = "#d55e00"
MUTED = "#7f8790"
RULE = "#c9ced4"
INK = "#1b1f24"

Z95 = 1.959963984540054  # half-width of a 95 % interval in sds
Z50 = 0.6744897501960817  # and of a 50 % interval

NAME_LENGTH = 22


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an `ImportError` with the line that installs it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Figures need matplotlib: pip install "cavity[plot]"') from error
    return plt


def axis(ax: Any, width: float = 4.2, height: float = 3.0) -> Any:
    """The given axis, or that of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def plain(text: Any, length: int = NAME_LENGTH) -> str:
    """A user's text as a label: one line, shortened in the middle, no character taken for mathematics."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) > length:
        half = (length - 1) // 2
        line = f"{line[: length - 1 - half]}…{line[len(line) - half :]}"
    return line.replace("$", r"\$")


def number(value: float) -> str:
    """A number as people write it: four figures, a true minus sign."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def finish(ax: Any, title: str = "", xlabel: str = "", ylabel: str = "") -> Any:
    """Labels, and no more frame than the reader needs."""
    ax.set_title(title, loc="left", fontsize="medium")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=3)
    return ax


def strokes(ax: Any, starts: Sequence[Any], ends: Sequence[Any], **style: Any) -> None:
    """Many separate segments as one broken line: a tenth of the size in SVG of as many lines."""
    (x0, y0), (x1, y1) = ([np.atleast_1d(np.asarray(c, float)) for c in point] for point in (starts, ends))
    gap = np.full(len(x0), np.nan)
    ax.plot(np.stack([x0, x1, gap], axis=1).ravel(), np.stack([y0, y1, gap], axis=1).ravel(), **style)


def intervals(
    ax: Any,
    place: FloatArray,
    mean: FloatArray,
    sd: FloatArray,
    colour: FloatArray | None = None,
    thin: float = 1.0,
    thick: float = 2.6,
) -> None:
    """Horizontal 95 % intervals with the middle 50 % thick; by default grey where they hold zero."""
    mean, sd, place = (np.asarray(a, float) for a in (mean, sd, place))
    if colour is None:
        colour = np.where(np.abs(mean) > Z95 * sd, MAIN, MUTED)
    for each in (RULE, MUTED, MAIN):
        chosen = np.asarray(colour) == each
        if chosen.any():
            m, s, at = mean[chosen], sd[chosen], place[chosen]
            style = {"color": each, "solid_capstyle": "butt"}
            strokes(ax, (m - Z95 * s, at), (m + Z95 * s, at), lw=thin, **style)
            strokes(ax, (m - Z50 * s, at), (m + Z50 * s, at), lw=thick, **style)


def band(ax: Any, x: FloatArray, lower: FloatArray, upper: FloatArray, alpha: float, label: str = "") -> None:
    """A shaded band about a line."""
    ax.fill_between(x, lower, upper, color=MAIN, alpha=alpha, lw=0, label=label or None)


def rows_on_y(ax: Any, labels: Sequence[str], room: float = 0.6) -> None:
    """Names of the rows 0, 1, … of a figure, the first on top, with room above and below."""
    ax.set_yticks(range(len(labels)), list(labels))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 1 + room, -room)
