"""How the fit went and how well it predicts: the sweeps, calibration, observed against predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.plots.reading import read
from cavity.plots.style import ACCENT, INK, MAIN, MUTED, RULE, axis, finish, plain, strokes
from cavity.result.calibration import pit_difference
from cavity.result.relevance import spaced
from cavity.types import FloatArray

TRACES = {
    "loo": "running leave-one-out log density per row",
    "mismatch": "largest moment mismatch",
    "log_evidence": "log evidence",
    "noise_sd": "noise sd",
}
POINTS = 400  # rows drawn one by one; of more, an even choice and the most surprising ones
WORST = 5  # so few that the share of misses still looks as it is


def history(model: Any, what: str = "loo", ax: Any = None) -> Any:
    """One quantity over the sweeps of a fit; thin lines with a name on top mark where a stage begins.

    The running leave-one-out density comes from the cavities of the sweep itself, before it has settled,
    so its last value differs a little from ``loo_``. All components of a mixture are drawn, the heaviest
    in colour; the stages are its own.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    what : {"loo", "mismatch", "log_evidence", "noise_sd"}
        The evidence moves every ten sweeps, when it is computed.
    ax : matplotlib axis, optional

    Returns
    -------
    matplotlib axis
    """
    if what not in TRACES:
        raise ValueError(f"what must be one of {tuple(TRACES)}, got {what!r}.")
    mixture = read(model).posterior
    traces = [_trace(c, what) for c in mixture.components]
    main = int(np.argmax(mixture.weights))
    if not len(traces[main]):
        raise ValueError("This fit has no sweeps to show.")
    ax = axis(ax)
    for m in [*(m for m in range(len(traces)) if m != main), main]:
        style = {"color": MAIN, "lw": 1.5} if m == main else {"color": MUTED, "lw": 0.8}
        ax.plot(np.arange(1, len(traces[m]) + 1), traces[m], **style)
    if what == "mismatch":
        ax.set_yscale("log")
        _leave_headroom(ax)
    stages = [record.stage for record in mixture.components[main].solution.history]
    _mark_stages(ax, stages)
    count = len(traces)
    phrase = "" if count == 1 else f" ({count} fits, the heaviest in colour)"
    title = f"{TRACES[what][0].upper()}{TRACES[what][1:]}{phrase}"
    return finish(ax, title, "sweep", "")


def calibration(model: Any, ax: Any = None) -> Any:
    """Calibration: share of rows whose leave-one-out PIT is below u, minus u, over u.

    A calibrated model stays within the grey band, which a sample of uniform numbers leaves nowhere with
    probability 0.95 (pointwise binomial bands widened by simulation, as in Säilynoja, Bürkner and
    Vehtari, 2022; leave-one-out values depend on each other a little, so the level is approximate). Above
    zero on the left and below on the right: the predictions are too narrow; the other way round, too
    wide; above or below throughout: too high or too low. Shows the whole mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    ax : matplotlib axis, optional

    Returns
    -------
    matplotlib axis
    """
    reading = read(model)
    pit = reading.leave_one_out().cdf(reading.observed)
    u, difference, lower, upper = pit_difference(pit, reading.weights)
    ax = axis(ax)
    ax.fill_between(u, lower, upper, color=RULE, alpha=0.6, lw=0, label="95 % of calibrated fits")
    ax.axhline(0.0, color=MUTED, lw=0.7)
    outside = (difference < lower) | (difference > upper)
    ax.plot(u, difference, color=MAIN, lw=1.5)
    ax.plot(
        u[outside], difference[outside], "o", ms=2.5, color=ACCENT, label="outside" if outside.any() else None
    )
    ax.set_ylim(*(1.1 * min(lower.min(), difference.min()), 1.6 * max(upper.max(), difference.max())))
    ax.legend(frameon=False, fontsize="small", loc="upper left", ncols=2, handlelength=1.2)
    return finish(
        ax, "Leave-one-out calibration", "predicted probability u", "share of rows below u, minus u"
    )


def observed(model: Any, ax: Any = None, *, label: int = 3, first_row: int = 0) -> Any:
    """Observed against leave-one-out predicted, each row with its 95 % interval.

    Every row is predicted by the fit without it. A dot off its grey interval, drawn in a second colour as
    a triangle, was missed; about one in twenty should be. With many rows only some are drawn, the most
    surprising ones always. Shows the whole mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    ax : matplotlib axis, optional
    label : int
        Write the row numbers of so many of the most surprising missed rows.
    first_row : int
        The number of the first row: 0 as in Python, 1 as in a table.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model)
    rows, y = reading.leave_one_out(), reading.observed
    tail = rows.tail(y)
    shown = _even_choice(-tail, POINTS)
    rows, y = rows.take(shown), y[shown]
    predicted, lower, upper = rows.predicted, rows.quantile(0.025), rows.quantile(0.975)
    missed = (y < lower) | (y > upper)
    ax = axis(ax, 4.2, 3.4)
    strokes(ax, (predicted, lower), (predicted, upper), color=MUTED, alpha=0.25, lw=0.8)
    ends = np.array([predicted.min(), predicted.max()])
    ax.plot(ends, ends, color=INK, lw=0.8, ls=(0, (4, 3)))
    ax.plot(predicted[~missed], y[~missed], "o", ms=3, mew=0, color=MAIN, alpha=0.8)
    ax.plot(predicted[missed], y[missed], "^", ms=4, mew=0, color=ACCENT)
    worst = np.argsort(tail[shown], kind="stable")[:label]
    named = worst[missed[worst]]
    for n, i in enumerate(named[np.argsort(-predicted[named], kind="stable")]):
        text = f"row {reading.rows[shown[i]] + first_row}"
        side, right = ("left", 4) if n % 2 == 0 else ("right", -4)  # so that neighbours keep apart
        below = -7 if y[i] < predicted[i] else 2
        where = {"xytext": (right, below), "textcoords": "offset points", "ha": side}
        ax.annotate(text, (predicted[i], y[i]), **where, fontsize="x-small")
    note = "" if len(shown) == len(tail) else f", {len(shown)} of {len(tail)} rows"
    target = plain(reading.target)
    return finish(ax, f"Observed against predicted{note}", f"{target} predicted", f"{target} observed")


def _trace(component: Any, what: str) -> FloatArray:
    """One quantity of a component's history in the units of y."""
    records, scale = component.solution.history, component.prepared.scaling.y_scale
    if what == "noise_sd":
        return np.array([np.exp(0.5 * record.log_noise_var) * scale for record in records])
    values = np.array([getattr(record, what) for record in records], float)
    if what == "loo":
        return values - np.log(scale)
    if what == "log_evidence":
        return values - float(component.prepared.data.weight.sum()) * np.log(scale)
    return values


def _leave_headroom(ax: Any) -> None:
    """Raise the upper end of a log axis where the label of the last decade would stick out of the figure."""
    low, high = ax.get_ylim()
    decade = 10.0 ** np.floor(np.log10(high))
    if np.log(high / decade) < 0.06 * np.log(high / low):
        ax.set_ylim(low, decade * (high / low) ** 0.08)


def _mark_stages(ax: Any, stages: list[str]) -> None:
    """A line wherever a new stage begins, and its name; of names that would collide, the longer stage's."""
    starts = [i for i in range(len(stages)) if i == 0 or stages[i] != stages[i - 1]]
    lengths = np.diff([*starts, len(stages)])
    named: list[int] = []
    for i in np.array(starts)[np.argsort(-lengths, kind="stable")]:
        if i:
            ax.axvline(i + 0.5, color=RULE, lw=0.8, zorder=0)
        if all(abs(i - other) >= 0.06 * len(stages) for other in named):
            named.append(i)
            ax.annotate(
                plain(stages[i], 18),
                (i + 0.5, 0.0),
                (2, 3),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                rotation=90,
                ha="left",
                va="bottom",
                fontsize="x-small",
                color=MUTED,
            )


def _even_choice(surprise: FloatArray, limit: int) -> FloatArray:
    """Rows to draw: all, or the few most surprising ones and an even choice of the others."""
    n = len(surprise)
    if n <= limit:
        return np.arange(n)
    first = np.argsort(-surprise, kind="stable")[:WORST]
    others = np.setdiff1d(np.arange(n), first)
    even = others[spaced(len(others), limit - len(first))]
    return np.sort(np.concatenate([first, even]))
