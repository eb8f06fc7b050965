"""Predictions along one input and over two *(paper, Figures 5 and 2a–b)*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.plots.effects import curve
from cavity.plots.reading import read
from cavity.plots.style import INK, MAIN, axis, band, finish, plain
from cavity.result.relevance import spaced
from cavity.types import FloatArray

GRID_1D = 200
GRID_2D = 50
POINTS = 500


def prediction_1d(
    model: Any,
    feature: int | str = 0,
    ax: Any = None,
    *,
    data: bool | None = None,
    names: Sequence[str] | None = None,
    margin: float = 0.1,
) -> Any:
    """Predicted mean, 95 % band of the function (dark) and of new observations (light), with the data.

    *(Paper, Figure 5.)* With several inputs the others rest at their mean. Shows the whole mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    feature : int or str
        The input along the axis, by column number or name.
    ax : matplotlib axis, optional
    data : bool, optional
        Draw the training rows; by default where the model has this one input only.
    names : sequence of str, optional
        Names of the inputs.
    margin : float
        How far to go beyond the data, as a share of their range.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model, names)
    j = reading.column(feature)
    inputs = reading.inputs[:, j]
    x = _around(inputs, margin, GRID_1D)
    X = reading.resting(len(x))
    X[:, j] = x
    ax = axis(ax)
    mean, lower, upper = curve(reading, X, "prediction")
    band(ax, x, lower, upper, 0.15, "95 % of new observations")
    mean, lower, upper = curve(reading, X, "function")
    band(ax, x, lower, upper, 0.35, "95 % of the function")
    ax.plot(x, mean, color=MAIN, lw=1.6, label="predicted mean")
    if data or (data is None and reading.n_inputs == 1):
        some = spaced(len(inputs), POINTS)
        ax.plot(inputs[some], reading.observed[some], "o", ms=2.8, mew=0, color=INK, alpha=0.75, label="data")
    ax.legend(frameon=False, fontsize="small", loc="best", handlelength=1.2)
    rest = "" if reading.n_inputs == 1 else ", other inputs at their mean"
    return finish(ax, f"Predictions{rest}", plain(reading.names[j]), plain(reading.target))


def prediction_2d(
    model: Any,
    features: tuple[int | str, int | str] = (0, 1),
    ax: Any = None,
    *,
    data: bool | None = None,
    names: Sequence[str] | None = None,
    margin: float = 0.1,
    colorbar: bool = True,
) -> Any:
    """Predicted mean over two inputs, with the data in the same colours *(paper, Figures 2a–b)*.

    A dot that stands out from its surroundings is a row the mean does not follow. With more inputs the
    others rest at their mean. Shows the whole mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    features : pair of int or str
        The inputs along the two axes.
    ax : matplotlib axis, optional
    data : bool, optional
        Draw the training rows; by default where the model has these two inputs only.
    names : sequence of str, optional
        Names of the inputs.
    margin : float
        How far to go beyond the data, as a share of their range.
    colorbar : bool
        Add the scale of colours.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model, names)
    pair = [reading.column(feature) for feature in features]
    if len(set(pair)) != 2:
        raise ValueError(f"features must be two different inputs, got {features!r}.")
    inputs, y = reading.inputs[:, pair], reading.observed
    a, b = (_around(column, margin, GRID_2D) for column in inputs.T)
    X = reading.resting(GRID_2D**2)
    X[:, pair[0]], X[:, pair[1]] = (grid.ravel() for grid in np.meshgrid(a, b))
    mean = reading.posterior.latent(X).mean.reshape(GRID_2D, GRID_2D)
    show = data or (data is None and reading.n_inputs == 2)
    seen = np.concatenate([mean.ravel(), y]) if show else mean.ravel()
    ax = axis(ax, 4.2, 3.4)
    levels = round_levels(float(seen.min()), float(seen.max()))
    filled = ax.contourf(a, b, mean, levels=levels, cmap="cividis")
    ax.contour(a, b, mean, levels=levels[1:-1], colors=INK, linewidths=0.4, alpha=0.6)
    if show:
        some = spaced(len(y), POINTS)
        ax.scatter(*inputs[some].T, c=y[some], cmap="cividis", norm=filled.norm, s=16, ec="white", lw=0.8)
    if colorbar:
        bar = ax.figure.colorbar(filled, ax=ax, label=plain(reading.target), pad=0.02, drawedges=False)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=2)
    rest = "" if reading.n_inputs == 2 else ", other inputs at their mean"
    return finish(ax, f"Predicted mean{rest}", *(plain(reading.names[i]) for i in pair))


def round_levels(low: float, high: float, count: int = 10) -> FloatArray:
    """About so many round numbers from just below ``low`` to just above ``high``."""
    if not high > low:
        return np.array([low - 1.0, low, low + 1.0])
    rough = (high - low) / count
    unit = 10.0 ** np.floor(np.log10(rough))
    step = unit * next(k for k in (1.0, 2.0, 2.5, 5.0, 10.0) if k * unit >= rough)
    return step * np.arange(np.floor(low / step), np.ceil(high / step) + 0.5)


def _around(column: FloatArray, margin: float, count: int) -> FloatArray:
    """So many points over the range of a column and a margin on both sides."""
    low, high = column.min(), column.max()
    room = margin * (high - low) if high > low else 1.0
    return np.linspace(low - room, high + room, count)
