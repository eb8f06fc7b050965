"""What each input does: its effect while the others rest *(paper, Figure 3)*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.plots.reading import Reading, read
from cavity.plots.style import INK, MAIN, Z95, axis, band, finish, number, plain, pyplot, strokes
from cavity.types import FloatArray

GRID = 80
LEVELS = 6  # an input of at most so many values is drawn as that many points
ROUNDING = 1e-12  # undoing the standardisation leaves about 1e-16 of the range where a zero was
BANDS = ("function", "prediction")


def effect(
    model: Any,
    feature: int | str,
    ax: Any = None,
    *,
    interval: str = "function",
    names: Sequence[str] | None = None,
    grid: int = GRID,
) -> Any:
    """Effect of one input with its 95 % band, all other inputs at their mean *(paper, Figure 3)*.

    The line is the predicted mean of y over the range of the training rows, whose percentiles are the
    ticks at the bottom. An input of few values, such as a yes or no, is drawn as points. Shows the whole
    mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    feature : int or str
        The input, by column number or name.
    ax : matplotlib axis, optional
    interval : {"function", "prediction"}
        The band: where the function runs, or where new observations fall (noise included).
    names : sequence of str, optional
        Names of the inputs.
    grid : int
        Points at which the model is asked.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model, names)
    j = reading.column(feature)
    column = reading.inputs[:, j]
    values = np.unique(column)
    values[np.abs(values) < ROUNDING * np.ptp(values)] = 0.0
    few = len(values) <= LEVELS
    x = values if few else np.linspace(values[0], values[-1], grid)
    X = reading.resting(len(x))
    X[:, j] = x
    mean, lower, upper = curve(reading, X, interval)
    ax = axis(ax, 3.0, 2.3)
    if few:
        strokes(ax, (x, lower), (x, upper), color=MAIN, lw=1.4, solid_capstyle="butt")
        ax.plot(x, mean, "o", ms=5, color=MAIN)
        ax.set_xticks(x, [number(value) for value in x])
        ax.margins(x=0.25)
    else:
        band(ax, x, lower, upper, 0.22)
        ax.plot(x, mean, color=MAIN, lw=1.6)
        ticks = np.quantile(column, np.linspace(0.0, 1.0, 51))
        foot = ax.get_xaxis_transform()
        strokes(ax, (ticks, 0.0 * ticks), (ticks, 0.0 * ticks + 0.035), color=INK, lw=0.5, transform=foot)
    name = plain(reading.names[j])
    kind = "function" if interval == "function" else "new observations"
    return finish(ax, f"Effect of {name} (95 % of {kind})", name, plain(reading.target))


def effects(
    model: Any,
    features: Sequence[int | str] | None = None,
    axes: Any = None,
    *,
    interval: str = "function",
    names: Sequence[str] | None = None,
    columns: int = 4,
) -> Any:
    """The effects of several inputs side by side on one vertical scale *(paper, Figure 3)*.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    features : sequence of int or str, optional
        Which inputs; all of them by default.
    axes : array of matplotlib axes, optional
        At least one for each input.
    interval : {"function", "prediction"}
        As in `effect`.
    names : sequence of str, optional
        Names of the inputs.
    columns : int
        Panels in a row when the figure is made here.

    Returns
    -------
    array of matplotlib axes, one for each input
    """
    reading = read(model, names)
    chosen = range(reading.n_inputs) if features is None else features
    wanted = [reading.column(feature) for feature in chosen]
    if axes is None:
        columns = min(columns, len(wanted))
        rows = -(-len(wanted) // columns)
        size = (2.2 * columns, 1.9 * rows)
        _, axes = pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    axes = np.asarray(axes, dtype=object).ravel()
    if len(axes) < len(wanted):
        raise ValueError(f"{len(axes)} axes for {len(wanted)} inputs: one is needed for each.")
    for ax, j in zip(axes, wanted, strict=False):
        effect(reading.posterior, j, ax, interval=interval, names=reading.names).set_ylabel("")
        ax.set_title("", loc="left")
    share_height(axes[: len(wanted)])
    for ax in axes[len(wanted) :]:
        ax.set_visible(False)
    return axes[: len(wanted)]


def share_height(axes: Sequence[Any]) -> None:
    """One vertical range for all, so that what moves most looks it."""
    ends = np.array([ax.get_ylim() for ax in axes])
    for ax in axes:
        ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def curve(reading: Reading, X: FloatArray, interval: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Predicted mean and the ends of the 95 % band of the function, or of new observations."""
    if interval not in BANDS:
        raise ValueError(f"interval must be one of {BANDS}, got {interval!r}.")
    f = reading.posterior.latent(X)
    if interval == "function":
        half = Z95 * np.sqrt(f.var)
        return f.mean, f.mean - half, f.mean + half
    ends = reading.posterior.quantiles(X, [0.025, 0.975])
    return f.mean, ends[:, 0], ends[:, 1]
