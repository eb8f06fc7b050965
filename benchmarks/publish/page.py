"""docs/benchmarks.md, from the summaries alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.accuracy.sets import MORE
from benchmarks.harness.summary import differences
from benchmarks.mixtures.benchmark import NAMES, best_weights, products
from benchmarks.peers.peers import CAVITY
from benchmarks.peers.ranks import FEWEST, mean_ranks, standing
from benchmarks.peers.relevance import calibration
from benchmarks.peers.sets import CLASS_SETS, UCI
from benchmarks.publish.cells import cell, markdown, shown
from benchmarks.publish.readme import difference, named, ranked

Summary = dict[str, Any]
COLUMNS = {
    "lpd": "log density",
    "mlpd": "log density, standardised",
    "rmse": "RMSE",
    "mse": "squared error",
    "accuracy": "accuracy",
    "coverage95": "95 % coverage",
    "loo_bias": "LOO − held out",
    "average_precision": "average precision",
    "precision": "precision",
    "recall": "recall",
    "exact": "exactly right",
    "fit_cpu": "fit, CPU s",
    "predict_cpu": "predict, CPU s",
    "peak_mb": "peak MB",
}
NUMBERS = ("lpd", "rmse", "coverage95", "fit_cpu", "predict_cpu", "peak_mb")
CLASSES = ("lpd", "accuracy", "fit_cpu", "predict_cpu", "peak_mb")
RELEVANCE = ("average_precision", "precision", "recall", "exact", "fit_cpu", "peak_mb")
BENCHMARKS = ("accuracy", "mixtures", "starts", "peers", "structures", "table1", "cases")
COMMANDS = {name: f"make bench-{name}" for name in BENCHMARKS}
INTRO = """# Benchmarks

This page is made by `make bench-docs` from the summaries in `benchmarks/results/`; no number on it is typed.
Values are means ± standard errors over splits. Settings are chosen inside the training part of a split only.
CPU times are of one process with one thread. `benchmarks/README.md` tells how to repeat any of it.
"""
ABOUT_ACCURACY = """\
`EPRegressor()` on held-out rows. Standardised values are in units of the training target's standard
deviation. *More starts* are twice as many; no bar looks at them. LOO − held out: how far the
leave-one-out density of a fit is above that of its test rows.
"""
ABOUT_MIXTURES = """\
Squared errors of unlike methods, in squared standard deviations of the training target, and of the mixture
that is best *in hindsight*: its shares are chosen on the test rows themselves, so no rule that mixes these in
fixed shares leaves less. It tells how far below the best of them there is anything to be had.
"""
ABOUT_STARTS = """\
`EPRegressor()` with one thing changed at a time, and the paper's zero start of ten units with ARD priors.
Fraction 0.7 comes with Gaussian noise, whose fraction it changes. Fitted to nine tenths of the training rows
of a split and scored on the last tenth: no test row is seen. A few folds tell large differences from small
ones, no more.
"""
ABOUT_PEERS = """\
The same splits and the same run for all; peers have the settings that their authors recommend. A slow one has
fewer splits and, of large sets, fewer rows. The difference to cavity is over the splits that both have, their
number in brackets. Memory is that of the process, imports included. On Wine some test rows are copies of
training rows: a Gaussian process that takes the noise for almost nil gains its density there, and has a
larger RMSE than most.
"""
ABOUT_RELEVANCE = """\
Simulated rows of twelve inputs, four of them relevant: a linear function, four curves, two products without
effects of single inputs, and curves whose relevant inputs have correlated shadows that do nothing. cavity
selects inputs that are more probably relevant than not, LassoNet by cross-validation, permutation importance
at two standard deviations above zero, the others above their mean. Average precision needs no such rule.
"""


def page(summaries: Mapping[str, Summary], expected: Sequence[str]) -> str:
    """The page; summaries that are not there are named as missing."""
    lines = [INTRO]
    for name in expected:
        if name in summaries:
            lines += [*SECTIONS[name](summaries[name]), ""]
    absent = [name for name in expected if name not in summaries]
    if absent:
        commands = ", ".join(f"`{COMMANDS[name]}`" for name in absent)
        lines += ["## Not run yet", "", f"No summary is there of {commands}.", ""]
    lines += ["## How it was run", ""]
    for name, summary in summaries.items():
        lines += _how(name, summary)
    return "\n".join(lines).rstrip() + "\n"


def accuracy(summary: Summary) -> list[str]:
    """Our defaults, set by set."""
    columns = ("lpd", "rmse", "mlpd", "mse", "coverage95", "loo_bias", "fit_cpu")
    head = ["set", *(COLUMNS[column] for column in columns), "splits"]
    lines = []
    for name, by_method in summary["sets"].items():
        for method, title in ((CAVITY, name), (MORE, f"{name}, more starts")):
            if found := by_method.get(method):
                lines.append([title, *(cell(found.get(c), c) for c in columns), str(found["n_splits"])])
    return [
        "## Accuracy of the defaults",
        "",
        *_incomplete(summary),
        ABOUT_ACCURACY,
        *markdown(head, lines),
        "",
        *_bars(summary),
    ]


def mixtures(summary: Summary) -> list[str]:
    """Squared errors of unlike methods and of their best mixture, set by set."""
    head = ["set", *(named(name) for name in NAMES), "best mixture", "its weights", "splits"]
    lines = []
    for name in summary["sets"]:
        rows = [row for row in summary["rows"] if row["set"] == name and "n_test" in row]
        if rows:
            errors = products(rows)
            w = best_weights(errors)
            weights = ", ".join(
                f"{named(m)} {share:.2f}" for m, share in zip(NAMES, w, strict=True) if share > 0.005
            )
            values = [*errors.diagonal(), w @ errors @ w]
            lines.append([name, *(f"{value:.4f}" for value in values), weights, str(len(rows))])
    return ["## What mixtures leave", "", *_incomplete(summary), ABOUT_MIXTURES, *markdown(head, lines)]


def starts(summary: Summary) -> list[str]:
    """The defaults with one thing changed at a time, set by set."""
    lines = ["## What single choices are worth", "", *_incomplete(summary), ABOUT_STARTS]
    for name in summary["sets"]:
        lines += [
            f"### {name} with changes",
            "",
            *_set(summary, name, ("mlpd", "mse", "fit_cpu"), "mlpd"),
            "",
        ]
    return lines[:-1]


def peers(summary: Summary) -> list[str]:
    """Ranks, a table per set, failures, relevance."""
    rows = summary["rows"]
    lines = ["## Beside peers", "", *_incomplete(summary), ABOUT_PEERS]
    for title, sets in (("UCI sets", UCI), ("sets of classes", CLASS_SETS)):
        lines += _ranks(rows, title, sets)
    for name in (*UCI, *CLASS_SETS):
        columns = NUMBERS if name in UCI else CLASSES
        if name in summary["sets"]:
            lines += [f"### {name.replace('_', ' ')}", "", *_set(summary, name, columns, "lpd"), ""]
    lines += _failures(rows)
    return [*lines, *relevance(summary), *_bars(summary)]


def relevance(summary: Summary) -> list[str]:
    """Selected against relevant inputs, and cavity's probabilities."""
    names = [name for name in summary["sets"] if name.startswith("relevance_")]
    if not names:
        return ["Relevance on simulated data has not been run yet.", ""]
    lines = ["## Which inputs matter", "", ABOUT_RELEVANCE]
    for name in names:
        title = name.removeprefix("relevance_")
        lines += [f"### {title}", "", *_set(summary, name, RELEVANCE, "average_precision"), ""]
    for method in dict.fromkeys(row["method"] for row in summary["rows"] if "probability" in row):
        mine = [row for row in summary["rows"] if row["method"] == method and row["set"] in names]
        bins = calibration(mine)
        body = [
            [f"{b.low:g} to {b.high:g}", str(b.n), shown(b.probability, "lpd"), shown(b.relevant, "lpd")]
            for b in bins
        ]
        lines += [f"Probability of being relevant by {method}, over all inputs and sets:", ""]
        lines += [*markdown(["between", "inputs", "mean probability", "share relevant"], body), ""]
    return lines


def structures(summary: Summary) -> list[str]:
    """Classes, many inputs, outliers."""
    lines = ["## Classes, many inputs, outliers", "", *_incomplete(summary)]
    for name in summary["sets"]:
        found = next(iter(summary["sets"][name].values()))
        columns = [c for c in ("lpd", "rmse", "accuracy", "coverage95", "fit_cpu") if c in found]
        lines += [f"### {name.replace('_', ' ')}", "", *_set(summary, name, columns, "lpd"), ""]
    return [*lines, *_bars(summary)]


def table1(summary: Summary) -> list[str]:
    """The paper's table, all columns that are there."""
    lines = [
        "## Table 1 of the paper",
        "",
        *_incomplete(summary),
        "[Table 1](table1.md) has all columns.",
        "",
    ]
    for name, by_method in summary["sets"].items():
        columns = [c for c in ("mlpd", "mse", "lpd", "rmse", "coverage95", "fit_cpu") if _any(by_method, c)]
        lines += [f"### {name}", "", *_set(summary, name, columns, columns[0]), ""]
    return [*lines, *_bars(summary)]


def cases(summary: Summary) -> list[str]:
    """How many claims reproduce; the page of the cases has the rest."""
    reached = [bar["reached"] for bar in summary["bars"]]
    n = {verdict: sum(one is verdict for one in reached) for verdict in (True, False, None)}
    return [
        "## The cases of the paper",
        "",
        f"Of {len(reached)} statements and methods that were measured, {n[True]} reproduce, {n[False]} do "
        f"not, {n[None]} are open. [The cases](cases.md) shows each of them.",
    ]


SECTIONS = {
    "accuracy": accuracy,
    "mixtures": mixtures,
    "starts": starts,
    "peers": peers,
    "structures": structures,
    "table1": table1,
    "cases": cases,
}


def _set(summary: Summary, name: str, columns: Sequence[str], score: str) -> list[str]:
    """One row per method; beside the score its difference to ours on the splits that both have."""
    head = ["method", COLUMNS.get(score, score), "minus cavity's (splits)"]
    rest = [column for column in columns if column != score]
    lines = []
    for method, found in summary["sets"][name].items():
        gaps = [] if method == CAVITY else differences(summary["rows"], name, (method, CAVITY), score)
        cells = [named(method), cell(found.get(score), score), difference(gaps, score)]
        cells += [cell(found.get(column), column) for column in rest]
        lines.append([*cells, _splits(found)])
    notes = dict.fromkeys(
        f"{row['method']}: {row['note']}." for row in summary["rows"] if row["set"] == name and "note" in row
    )
    table = markdown([*head, *(COLUMNS.get(column, column) for column in rest), "splits"], lines)
    return [*table, *(["", " ".join(notes)] if notes else [])]


def _splits(found: dict[str, Any]) -> str:
    failed = f", {found['n_failed']} failed" if found["n_failed"] else ""
    return f"{found['n_splits']}{failed}"


def _ranks(rows: Sequence[dict[str, Any]], title: str, sets: Sequence[str]) -> list[str]:
    """Mean ranks over the sets that have enough splits, or as a first look over those that have any."""
    fewest = FEWEST if ranked(rows, sets) else 1
    mine = ranked(rows, sets, fewest)
    found = mean_ranks(rows, mine, fewest)
    if not found:
        return []
    shared = ", ".join(f"{name} {standing(rows, name, fewest).n_splits}" for name in mine)
    first = " That is too few for a verdict." if fewest < FEWEST else ""
    order = sorted(found, key=lambda method: (-found[method][1], found[method][0]))
    body = [[named(method), shown(found[method][0], "lpd"), str(found[method][1])] for method in order]
    table = [*markdown([f"{title}: method", "mean rank of log density", "sets"], body)]
    return [*table, "", f"Splits that the ranked methods of a set share: {shared}.{first}", ""]


def _failures(rows: Sequence[dict[str, Any]]) -> list[str]:
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if "error" in row:
            key = (row["method"], row["set"], " ".join(str(row["error"]).split())[:160])
            found[key] = found.get(key, 0) + 1
    if not found:
        return []
    lines = [f"- {m} on {s}, {n} split{'s' if n > 1 else ''}: {error}" for (m, s, error), n in found.items()]
    return ["### What failed", "", *lines, ""]


def _incomplete(summary: Summary) -> list[str]:
    done, total = summary["n_tasks"] - summary["n_missing"], summary["n_tasks"]
    kept = f" Of these, {summary['n_kept']} are of an older state of the code." if summary["n_kept"] else ""
    if done == total and not kept:
        return []
    state = (
        f"**Not complete yet**: {done} of {total} fits are in." if done < total else f"{done} fits are in."
    )
    return [state + kept, ""]


def _bars(summary: Summary) -> list[str]:
    """What was wanted and missed, and how much was reached or is open."""
    bars = summary["bars"]
    if not bars:
        return []
    n = {verdict: sum(bar["reached"] is verdict for bar in bars) for verdict in (True, False, None)}
    head = f"Of {len(bars)} bars {n[True]} are reached, {n[False]} missed, {n[None]} open for want of rows."
    missed = [
        f"- missed, {bar['set']}: {bar['what']} ({float(bar['value']):.4g})"
        for bar in bars
        if bar["reached"] is False
    ]
    return [head, *(["", *missed] if missed else []), ""]


def _any(by_method: Mapping[str, dict[str, Any]], column: str) -> bool:
    return any(column in found for found in by_method.values())


def _how(name: str, summary: Summary) -> list[str]:
    versions = ", ".join(f"{package} {version}" for package, version in summary["versions"].items())
    dirty = ", with changes" if summary["dirty"] else ""
    machine = summary["machine"]
    return [
        f"- `{COMMANDS[name]}`: commit {summary['commit']}{dirty}; {versions}; {machine['processor']}, "
        f"{machine['cores']} cores. Seeds: {summary['seeds']}."
    ]
