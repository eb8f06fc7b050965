"""The ranking of the inputs by the size of their effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.plots.reading import read
from cavity.plots.style import MAIN, MUTED, axis, finish, plain, rows_on_y, strokes
from cavity.plots.weights import MAX_ROWS
from cavity.result.relevance import Relevance, input_blocks
from cavity.result.relevance import relevance as table_of


def relevance(
    model: Any,
    ax: Any = None,
    *,
    names: Sequence[str] | None = None,
    max_rows: int = MAX_ROWS,
    table: Relevance | None = None,
) -> Any:
    """Inputs (or blocks of inputs) by the size of their effect, with 95 % intervals and P(relevant).

    The dashed line is the size an effect must exceed to be called relevant; the number on the right is
    the probability that it does. In colour where that is more likely than not. Shows the whole mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    ax : matplotlib axis, optional
    names : sequence of str, optional
        Names of the inputs.
    max_rows : int
        With more inputs, only those of the largest effects are shown.
    table : Relevance, optional
        What to show instead of the model's own ``relevance_``.

    Returns
    -------
    matplotlib axis

    See Also
    --------
    cavity.result.relevance.Relevance : what an effect and its probability of being relevant are.
    """
    reading = read(model, names)
    table = (relevance_table(model, names) if table is None else table).sorted()
    count = min(len(table), max_rows)
    place = np.arange(count)
    likely = table.probability[:count] > 0.5
    ax = axis(ax, 4.2, 0.9 + 0.22 * max(count, 3))
    limit = table.threshold * reading.prepared.scaling.y_scale
    ax.axvline(limit, color=MUTED, lw=0.8, ls=(0, (4, 3)))
    for colour, chosen in ((MUTED, ~likely), (MAIN, likely)):
        at = place[chosen]
        if len(at):
            strokes(ax, (table.effect_lower[at], at), (table.effect_upper[at], at), color=colour, lw=1.4)
            ax.plot(table.effect[at], at, "o", ms=4, mew=0, color=colour)
    side = ax.get_yaxis_transform()
    for i in place:
        ax.text(1.02, i, f"{table.probability[i]:.2f}", transform=side, va="center", fontsize="small")
    ax.text(1.02, -0.8, "P", transform=side, va="center", fontsize="small", fontstyle="italic")
    ax.set_xlim(left=0.0)
    rows_on_y(ax, [plain(name) for name in table.name[:count]])
    note = "" if count == len(table) else f", {count} largest of {len(table)}"
    return finish(ax, f"Sizes of effects{note}", f"rms effect on {plain(reading.target)}")


def relevance_table(model: Any, names: Sequence[str] | None = None) -> Relevance:
    """The model's ``relevance_`` where it has one; else the table of its inputs."""
    known = getattr(model, "relevance_", None)
    if isinstance(known, Relevance) and names is None:
        return known
    reading = read(model, names)
    return table_of(reading.posterior, input_blocks(reading.names))
