"""Which method predicts best: ranks within each set, on the splits that its methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from benchmarks.harness import Bar, values
from benchmarks.harness.benchmark import Row
from benchmarks.peers.peers import CAVITY, PEERS
from benchmarks.peers.sets import CLASS_SETS, SETS, UCI
from scipy.stats import rankdata

# Splits of a method that its rank may rest on; of a large set one is enough, with its many test rows.
FEWEST = 3


class Standing(NamedTuple):
    """Mean score of each method of a set on the splits that all of them have, and its rank (1 is best)."""

    n_splits: int
    mean: dict[str, float]
    rank: dict[str, float]


def standing(rows: Sequence[Row], name: str, fewest: int = FEWEST, score: str = "lpd") -> Standing:
    """Means and ranks of a set; a method with fewer results than that is left out, not ranked last."""
    fewest = 1 if SETS[name].large else fewest
    good = [row for row in rows if "error" not in row]
    found = {method: values(good, name, method, score) for method in PEERS}
    found = {method: of for method, of in found.items() if len(of) >= fewest}
    shared = sorted(set.intersection(*(set(of) for of in found.values()))) if found else []
    if not shared:
        return Standing(0, {}, {})
    mean = {method: float(np.mean([of[place] for place in shared])) for method, of in found.items()}
    ranks = rankdata([-value for value in mean.values()])
    return Standing(len(shared), mean, dict(zip(mean, map(float, ranks), strict=True)))


def mean_ranks(
    rows: Sequence[Row], sets: Iterable[str], fewest: int = FEWEST
) -> dict[str, tuple[float, int]]:
    """Mean rank of each method over the sets where it has one, and their number."""
    ranks: dict[str, list[float]] = {}
    for name in sets:
        for method, rank in standing(rows, name, fewest).rank.items():
            ranks.setdefault(method, []).append(rank)
    return {method: (float(np.mean(found)), len(found)) for method, found in ranks.items()}


def bars(rows: Sequence[Row]) -> list[Bar]:
    """First in mean rank; open until every set has a result of ours."""
    return [_first(rows, "UCI sets", UCI), _first(rows, "sets of classes", CLASS_SETS)]


def _first(rows: Sequence[Row], what: str, sets: Sequence[str]) -> Bar:
    """Our mean rank against the best of the methods that have a result on all sets that we have."""
    found = mean_ranks(rows, [name for name in sets if CAVITY in standing(rows, name).rank])
    if CAVITY not in found:
        return Bar(what, "first in mean rank of lpd", None, 1.0, None)
    ours, n_sets = found[CAVITY]
    others = [rank for method, (rank, n) in found.items() if method != CAVITY and n == n_sets]
    if not others:  # nobody to be compared with
        return Bar(what, "first in mean rank of lpd", ours, 1.0, None)
    best, whole = min(others), n_sets == len(sets)
    return Bar(
        what, f"first in mean rank of lpd; best other {best:.3g}", ours, best, ours <= best if whole else None
    )
