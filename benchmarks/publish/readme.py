"""The table of the README: log densities on the UCI sets, cavity beside its peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.benchmark import Row
from benchmarks.harness.summary import spread
from benchmarks.peers.peers import CAVITY
from benchmarks.peers.ranks import FEWEST, mean_ranks, standing
from benchmarks.peers.sets import UCI
from benchmarks.publish.cells import NONE, cell, markdown, shown

PAGE = "docs/benchmarks.md"


def table(summaries: Mapping[str, dict[str, Any]]) -> str:
    """Peers where they have run on some splits; otherwise cavity alone, or a sentence where nothing has."""
    if "peers" in summaries and ranked(summaries["peers"]["rows"], UCI):
        return of_peers(summaries["peers"])
    if "accuracy" in summaries:
        return of_accuracy(summaries["accuracy"])
    return f"No results yet; `make bench-peers` makes them, `{PAGE}` will show them."


def ranked(rows: Sequence[Row], sets: Sequence[str], fewest: int = FEWEST) -> list[str]:
    """The sets with enough results of cavity and of at least one other method."""
    found = {name: standing(rows, name, fewest).rank for name in sets}
    return [name for name, ranks in found.items() if CAVITY in ranks and len(ranks) > 1]


def of_peers(summary: dict[str, Any]) -> str:
    """One row per method, best mean rank first, one column per set."""
    rows = summary["rows"]
    sets = ranked(rows, UCI)
    found = {name: standing(rows, name) for name in sets}
    ranks = mean_ranks(rows, sets)
    order = sorted(ranks, key=lambda method: (-ranks[method][1], ranks[method][0]))
    lines = []
    for method in order:
        rank, n = ranks[method]
        scores = [shown(of.mean[method], "lpd") if method in of.mean else NONE for of in found.values()]
        lines.append([named(method), f"{rank:.1f}" + ("" if n == len(sets) else f" ({n} sets)"), *scores])
    splits = ", ".join(f"{name} {of.n_splits}" for name, of in found.items())
    head = ["mean held-out log density", "mean rank", *(name.replace("_", " ") for name in sets)]
    note = (
        f"Higher is better. Means over the splits that all methods of a column have ({splits}), of the "
        f"published 90/10 splits; recommended settings, {CAVITY} with its defaults. Errors, coverage, time "
        f"and memory are in `{PAGE}`."
    )
    return "\n".join([*markdown(head, lines), "", note])


def of_accuracy(summary: dict[str, Any]) -> str:
    """One row per UCI set."""
    lines = []
    for name in UCI:
        found = summary["sets"].get(name, {}).get(CAVITY)
        if found:
            values = [cell(found.get(value), value) for value in ("lpd", "rmse", "coverage95")]
            lines.append([name.replace("_", " "), *values, str(found["n_splits"])])
    note = f"{CAVITY} with its defaults on the published 90/10 splits, mean ± standard error; more: `{PAGE}`."
    head = ["set", "log density", "RMSE", "95 % coverage", "splits"]
    return "\n".join([*markdown(head, lines), "", note])


def named(method: str) -> str:
    """Ours stands out."""
    return f"**{method}**" if method == CAVITY else method


def difference(values: list[float], name: str) -> str:
    """Mean difference ± standard error, and of how many splits."""
    return f"{cell(spread(values), name)} ({len(values)})" if values else NONE
