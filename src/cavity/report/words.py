"""The summary in plain words: how well, how sure, what matters, what to worry about."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.prune import UNUSED, unit_effects
from cavity.ep.solve import Status
from cavity.estimators.base import LARGE_MISMATCH
from cavity.plots.reading import Reading
from cavity.report.facts import SURPRISE, Judgement
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import Relevance
from cavity.types import IntArray

LISTED = 10
PROBLEM, CAUTION, NOTE = "problem", "caution", "note"


class Tile(NamedTuple):
    """A number worth a large font, and what it is."""

    value: str
    label: str


class Worry(NamedTuple):
    """A sentence and how serious it is."""

    level: str
    text: str


class Summary(NamedTuple):
    """Everything the top of the page says."""

    lead: str
    tiles: list[Tile]
    well: list[str]
    given: list[str]
    sure: list[str]
    matters: list[str]
    relevance: Relevance
    relevance_left_off: int
    worries: list[Worry]


def summary(
    model: Any,
    reading: Reading,
    judged: Judgement,
    given: Judgement | None,
    table: Relevance,
    first_row: int = 0,
) -> Summary:
    """Put the facts into sentences."""
    table = table.sorted()
    main, _ = reading.component()
    n, fits = len(judged.rows), len(reading.posterior.components)
    lead = (
        f"{count(n, 'row')}, {count(reading.n_inputs, 'input')}, {count(main.spec.n_hidden, 'hidden unit')}"
        + (f", {fits} fits stacked" if fits > 1 else "")
        + ". "
        + how_ended([reading.posterior])
    )
    tiles = [
        Tile(figure(judged.r2, 2), "R², leave-one-out"),
        Tile(figure(judged.rmse), "typical error, leave-one-out"),
        Tile(percent(judged.coverage()), "of rows within their 95 % interval"),
        Tile(figure(reading.posterior.noise_sd), noise_name(reading.posterior)),
    ]
    return Summary(
        lead,
        tiles,
        how_well(reading, judged),
        [] if given is None else on_given_rows(given),
        how_sure(reading, judged),
        what_matters(table),
        top(table),
        max(len(table) - 2 * LISTED, 0),
        worries(model, reading, judged, given, first_row),
    )


def how_well(reading: Reading, judged: Judgement) -> list[str]:
    """Errors and coverage of leave-one-out predictions."""
    n, average = len(judged.rows), judged.mean(judged.log_density)
    share = (
        f"explains {percent(judged.r2)} of the variance"
        if judged.r2 > 0.0
        else "explains none of the variance"
    )
    first = (
        f"Each of the {n} rows was predicted by the fit without it. So judged, the model {share} of "
        f"{reading.target} (R² {figure(judged.r2, 2)}): it is off by {figure(judged.rmse)} (root mean "
        f"square), where {reading.target} itself varies with an sd of {figure(judged.target_sd)}."
    )
    error = np.sqrt(judged.mean((judged.log_density - average) ** 2) / n)
    density = (
        f"The leave-one-out log density is {figure(average)} per row "
        f"(± {figure(error, 2)}, one standard error)"
    )
    if np.isfinite(judged.baseline):
        density += f"; a normal distribution that ignores the inputs gets {figure(judged.baseline)}"
    return [first, f"{_coverage(judged)} {density}."]


def on_given_rows(given: Judgement) -> list[str]:
    """Errors and coverage on rows the caller brought."""
    n = len(given.rows)
    return [
        f"On the {count(n, 'row')} given besides, R² is {figure(given.r2, 2)}, the root mean squared error "
        f"{figure(given.rmse)}, the log density {figure(given.mean(given.log_density))} per row. "
        + _coverage(given)
    ]


def how_sure(reading: Reading, judged: Judgement) -> list[str]:
    """Epistemic against aleatoric variance."""
    share = judged.epistemic_share
    advice = (
        "More rows of the same kind would narrow the predictions."
        if share > 0.3
        else "More rows of the same kind would narrow the predictions only a little; better inputs might."
    )
    spread = "" if len(reading.posterior.components) == 1 else ", the disagreement between the fits included"
    return [
        f"A prediction comes with an sd of about {figure(judged.predictive_sd)}. Of its variance "
        f"{percent(1.0 - share)} is noise around the function (aleatoric) and {percent(share)} is not "
        f"knowing the function (epistemic{spread}). {advice}"
    ]


def named_inputs(table: Relevance) -> list[str]:
    """Names of the inputs that matter, and of those that do not seem to."""
    chance = table.probability
    sure = [table.name[i] for i in np.flatnonzero(chance >= 0.95)]
    open_ = [table.name[i] for i in np.flatnonzero((chance > 0.05) & (chance < 0.95))]
    none = [table.name[i] for i in np.flatnonzero(chance <= 0.05)]
    out = []
    if sure:
        out.append(f"Surely relevant: {listing(sure)}.")
    if open_:
        out.append(f"Perhaps relevant: {listing(open_)}.")
    if none:
        out.append(f"No sign of relevance: {listing(none)}.")
    return out


def what_matters(table: Relevance) -> list[str]:
    """The inputs that matter, and what that means."""
    meaning = (
        "An effect is the root mean square change of the function when the input is put at its mean. It is "
        f"called relevant if it exceeds {table.threshold:g} sds of the target, so that the input explains "
        f"more than {100.0 * table.threshold**2:.2g} % of the variance. Inputs that carry the same "
        "information can stand in for each other: one may look irrelevant because another says the same."
    )
    return [*named_inputs(table), meaning]


def worries(
    model: Any, reading: Reading, judged: Judgement, given: Judgement | None, first_row: int = 0
) -> list[Worry]:
    """What may be wrong with the fit, the worst first."""
    out = [
        *unsettled(reading),
        *_useless(judged),
        *improper(reading, first_row),
        *_miscalibrated(judged, ""),
        *([] if given is None else _miscalibrated(given, " on the given rows")),
        *_outliers(judged, first_row),
        *_set_aside(reading, first_row),
        *units(model, reading),
        *(Worry(NOTE, note) for note in reading.prepared.notes),
    ]
    return ranked([*out, *stacked(reading)])


def stacked(reading: Reading) -> list[Worry]:
    """Stacking looked at the rows that its leave-one-out score is taken on."""
    if len(reading.posterior.components) == 1:
        return []
    text = (
        "The weights of the stacked fits were chosen by leave-one-out, so its score is a little "
        "optimistic; a test set or cross-validation is not."
    )
    return [Worry(NOTE, text)]


def _set_aside(reading: Reading, first_row: int) -> list[Worry]:
    """Rows that robust noise took for outliers."""
    found = reading.posterior.outlier_probability[reading.engine_rows] > 0.5
    if not found.any():
        return []
    return [
        Worry(
            NOTE,
            f"Outliers to the noise model, with a probability above one half: "
            f"{count(int(found.sum()), 'row')} that hardly shaped the fit, "
            f"{row_list(reading.rows[found], first_row)}. Look for errors there.",
        )
    ]


def ranked(found: list[Worry]) -> list[Worry]:
    """The worst first."""
    return sorted(found, key=lambda worry: (PROBLEM, CAUTION, NOTE).index(worry.level))


def how_ended(posteriors: list[MixturePosterior]) -> str:
    """Of all fits together, the word of the worst."""
    found = {c.solution.status for posterior in posteriors for c in posterior.components}
    if found <= {Status.CONVERGED}:
        return "Converged."
    settled = found <= {Status.CONVERGED, Status.SETTLED}
    return "Its predictions have settled." if settled else "Not converged."


def unsettled(reading: Reading) -> list[Worry]:
    """Fits that stopped before the tolerance: those out of sweeps or time, and those that settled."""
    fits = reading.posterior.components
    out = []
    for settled in (False, True):
        found = [f for f in fits if f.solution.status is not Status.CONVERGED]
        found = [f for f in found if (f.solution.status is Status.SETTLED) == settled]
        if not found:
            continue
        worst = max(found, key=lambda fit: np.nan_to_num(fit.solution.mismatch, nan=np.inf))
        far = not settled and not reading.posterior.mismatch <= LARGE_MISMATCH
        many = "" if len(fits) == 1 else f"{len(found)} of {len(fits)} stacked fits. "
        out.append(
            Worry(
                PROBLEM if far else NOTE if settled else CAUTION,
                f"{many}{worst.solution.status.value} Largest disagreement of a moment with its marginal, in "
                f"sds: {worst.solution.mismatch:.1e}.",
            )
        )
    return out


def _useless(judged: Judgement) -> list[Worry]:
    if judged.r2 <= 0.0 or judged.mean(judged.log_density) < judged.baseline:
        text = (
            "Leave-one-out predictions are no better than the mean and sd of the target: the inputs may "
            "not help."
        )
        return [Worry(PROBLEM, text)]
    return []


def improper(reading: Reading, first_row: int) -> list[Worry]:
    """Rows whose leave-one-out prediction flatters."""
    found = np.any([c.loo.improper for c in reading.posterior.components], axis=0)[reading.engine_rows]
    if not found.any():
        return []
    return [
        Worry(
            CAUTION,
            f"Leave-one-out is optimistic for {count(int(found.sum()), 'row')}, whose influence could be "
            f"removed only in part: {row_list(reading.rows[found], first_row)}.",
        )
    ]


def _miscalibrated(judged: Judgement, where: str) -> list[Worry]:
    off = judged.coverage_is_off()
    if off:
        kind = "too wide" if off > 0 else "too narrow"
        text = f"The 95 % intervals are {kind}{where}: they hold {percent(judged.coverage())} of the rows."
        return [Worry(CAUTION, text)]
    if not judged.calibrated:
        text = (
            f"Predicted and observed distributions differ{where} by more than chance, although the 95 % "
            "intervals hold about the right share of the rows"
            # the figure shows the rows of the fit
            + ("." if where else "; see the figure on calibration.")
        )
        return [Worry(CAUTION, text)]
    return []


def _outliers(judged: Judgement, first_row: int) -> list[Worry]:
    found = judged.outliers
    if not len(found):
        return []
    return [
        Worry(
            CAUTION,
            f"{count(len(found), 'row')} too far from the leave-one-out prediction for chance (well "
            f"calibrated predictions give {SURPRISE:g} such rows in a table of this length): "
            f"{row_list(judged.rows[found], first_row)}. Look for errors in them.",
        )
    ]


def units(model: Any, reading: Reading) -> list[Worry]:
    """Hidden units that are idle, pruned, or all in use."""
    main, phrase = reading.component()
    asked = getattr(model, "n_hidden", None)
    now = main.spec.n_hidden
    idle = int(np.sum(unit_effects(main.spec, main.prepared.data, main.state) < UNUSED))
    out = []
    if isinstance(asked, int) and asked > now:
        out.append(
            Worry(NOTE, f"{count(asked - now, 'hidden unit')} of {asked} pruned: the data do not use more.")
        )
    if idle:
        out.append(
            Worry(
                NOTE,
                f"{count(idle, 'hidden unit')} of {now} idle{phrase}: fewer would do. This is harmless, "
                "and how the network finds its size.",
            )
        )
    elif now > 1 and len(out) == 0:
        out.append(
            Worry(NOTE, f"All {now} hidden units are in use{phrase}: a larger n_hidden may predict better.")
        )
    return out


def _coverage(judged: Judgement) -> str:
    n, inside = len(judged.rows), judged.coverage()
    verdict = {0: "about as many as should be", 1: "more than should be", -1: "fewer than should be"}
    return (
        f"{percent(inside)} of the {n} rows fall within their 95 % interval, "
        f"{verdict[judged.coverage_is_off()]}, and {percent(judged.coverage(0.5))} within their 50 % "
        "interval."
    )


def row_list(rows: IntArray, first_row: int) -> str:
    """Numbers of rows, of many the first few."""
    shown = ", ".join(str(int(row) + first_row) for row in rows[:LISTED])
    more = f" and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return f"{shown}{more} (counted from {first_row})"


def top(table: Relevance) -> Relevance:
    """The first rows of a table."""
    keep = {k: v[: 2 * LISTED] for k, v in table.to_dict().items()}
    return Relevance(**keep, threshold=table.threshold)


def noise_name(posterior: MixturePosterior) -> str:
    """What `noise_sd` is: noise with outliers has a scale, the sd of most rows but not of all."""
    return "noise scale" if posterior.main.spec.likelihood.robust else "noise sd"


def listing(names: list[str]) -> str:
    """a, b and c; long lists are cut."""
    if len(names) > LISTED:
        return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


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
