"""The summary in plain words: how well, how sure, what matters, what to worry about."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.ep.solve import Status
from cavity.plots.reading import Reading
from cavity.report.facts import Judgement
from cavity.report.phrases import LISTED, count, figure, listing, percent
from cavity.report.worries import Worry, worries
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import Relevance


class Tile(NamedTuple):
    """A number worth a large font, and what it is."""

    value: str
    label: str


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


def how_ended(posteriors: list[MixturePosterior]) -> str:
    """Of all fits together, the word of the worst; of stacked ones that of the heaviest where others lag."""
    done = {Status.CONVERGED, Status.SETTLED}
    found = {c.solution.status for posterior in posteriors for c in posterior.components}
    if found <= {Status.CONVERGED}:
        return "Converged."
    if found <= done:
        return "Its predictions have settled."
    heaviest = {posterior.main.solution.status for posterior in posteriors}
    lag = heaviest <= done and found <= {*done, Status.MAX_SWEEPS}  # neither time nor patience ran out
    return "Its heaviest fit has settled." if lag else "Not converged."


def _coverage(judged: Judgement) -> str:
    n, inside = len(judged.rows), judged.coverage()
    verdict = {0: "about as many as should be", 1: "more than should be", -1: "fewer than should be"}
    return (
        f"{percent(inside)} of the {n} rows fall within their 95 % interval, "
        f"{verdict[judged.coverage_is_off()]}, and {percent(judged.coverage(0.5))} within their 50 % "
        "interval."
    )


def top(table: Relevance) -> Relevance:
    """The first rows of a table."""
    keep = {k: v[: 2 * LISTED] for k, v in table.to_dict().items()}
    return Relevance(**keep, threshold=table.threshold)


def noise_name(posterior: MixturePosterior) -> str:
    """What `noise_sd` is: noise with outliers has a scale, the sd of most rows but not of all."""
    return "noise scale" if posterior.main.spec.likelihood.robust else "noise sd"
