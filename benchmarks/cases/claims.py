"""Each claim of the paper's text as a number of one seed, and whether it holds there.

Thresholds were set before the runs over seeds; a claim counts as reproduced where it holds in at least eight
of ten seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.cases.settings import CAVITY, INFINITE, PAPER, SEEDS
from benchmarks.harness import Bar
from benchmarks.harness.benchmark import Row

ENOUGH = 0.8
STRAIGHT = 0.98  # R² from which a unit counts as almost linear


class Claim(NamedTuple):
    """``value(row, rows)`` of a method's row, beside the rows of all methods on that seed."""

    case: str
    key: str
    paper: str  # what the text says
    number: str  # what is measured
    wanted: str  # when it holds
    value: Callable[[Row, Mapping[str, Row]], float]
    holds: Callable[[float], bool]
    methods: tuple[str, ...] = (PAPER, CAVITY)
    beside: tuple[str, ...] = ()  # methods whose rows the number needs too


class Found(NamedTuple):
    """The values of a claim for one method, seed by seed, and in how many it holds."""

    claim: Claim
    method: str
    values: dict[int, float]

    @property
    def count(self) -> int:
        return sum(self.claim.holds(value) for value in self.values.values())

    @property
    def reproduced(self) -> bool | None:
        return self.count >= ENOUGH * len(self.values) if self.values else None


def linear_carrier(row: Row, rows: Mapping[str, Row]) -> float:
    """Largest share of the slopes of inputs 2 to 5 that one almost linear unit has; 0 if it is alone."""
    slopes = np.array(row["slopes"])[:, 1:5].sum(axis=1)
    straight = np.array(row["straight"]) >= STRAIGHT
    if row["n_active"] < 2:
        return 0.0
    return float(np.max(slopes * straight) / np.sum(slopes))


def linear_share(row: Row, rows: Mapping[str, Row]) -> float:
    return float(np.max(np.array(row["share"])[np.array(row["linear"])]))


def rank_correlation(values: Sequence[float]) -> float:
    """Spearman's, against 1, 2, 3, …"""
    ranks = np.argsort(np.argsort(values))
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def ratio(name: str, over: str | None = None) -> Callable[[Row, Mapping[str, Row]], float]:
    """The infinite network's value by the method's, or the method's by ``over`` of the paper's network."""
    if over is None:
        return lambda row, rows: rows[INFINITE][name] / row[name]
    return lambda row, rows: row[name] / rows[PAPER][over]


def scale_gap(row: Row, rows: Mapping[str, Row]) -> float:
    return min(row["phi"][5:10]) - max(row["phi"][:5])


def excess_gap(row: Row, rows: Mapping[str, Row]) -> float:
    return rows[INFINITE]["excess"] - row["excess"]


def above_one(value: float) -> bool:
    return value > 1.0


def below_one(value: float) -> bool:
    return value < 1.0


def get(name: str) -> Callable[[Row, Mapping[str, Row]], float]:
    return lambda row, rows: float(row[name])


CLAIMS = (
    Claim(
        "case1", "pruned", "GP-ARD prunes one of two relevant inputs (x2 in the figure).",
        "change of the mean along the weaker input, by that along the stronger", "below 0.05",
        get("weaker"), lambda v: v < 0.05, (INFINITE,),
    ),
    Claim(
        "case1", "kept", "NN-EP uses both inputs.",
        "change of the mean along the weaker input, by that along the stronger", "above 0.2",
        get("weaker"), lambda v: v > 0.2,
    ),
    Claim(
        "case1", "smoother", "NN-EP's step is much smoother than the GP's.",
        "steepest slope of the GP's mean, by the network's", "above 1.5",
        ratio("steepest"), lambda v: v > 1.5, beside=(INFINITE,),
    ),
    Claim(
        "case1", "two units", "Only two of ten units are in use.",
        "units that move f by 0.05 sd of y or more", "two", get("n_active"), lambda v: v == 2, (PAPER,),
    ),
    Claim(
        "case1", "linear unit", "The one linear unit stays unused.",
        "its share of f, in sd of y", "below 0.05", linear_share, lambda v: v < 0.05, (PAPER,),
    ),
    Claim(
        "case2", "ARD better", "ARD priors give clearly more accurate effects than the fixed Gaussian prior.",
        "squared error of f at fresh rows, by that under the fixed prior", "below 0.8",
        ratio("mse_f", "gaussian_mse_f"), lambda v: v < 0.8, beside=(PAPER,),
    ),
    Claim(
        "case2", "ARD surer", "Posterior uncertainty of f shrinks with ARD.",
        "mean posterior sd of f at fresh rows, by that under the fixed prior", "below 1",
        ratio("mean_sd", "gaussian_mean_sd"), below_one, beside=(PAPER,),
    ),
    Claim(
        "case2", "Gaussian input 1", "The fixed Gaussian prior leaves a small effect of input 1.",
        "sd of the estimated effect of input 1", "above 0.02",
        get("gaussian_input1"), lambda v: v > 0.02, (PAPER,),
    ),
    Claim(
        "case2", "input 1", "ARD removes the effect of input 1.",
        "sd of the estimated effect of input 1 (the true effect of input 2 has 0.18)", "below 0.02",
        get("input1"), lambda v: v < 0.02,
    ),
    Claim(
        "case2", "weights of input 1", "All weights of input 1 are zero at the 95 % level.",
        "weights of input 1 whose 95 % interval is off zero", "none",
        lambda row, rows: float(row["clear_weights"][0]), lambda v: v == 0,
    ),
    Claim(
        "case2", "scales", "Scales of the nonlinear inputs 6–10 are clearly larger than those of 1–5.",
        "smallest E φ of inputs 6–10 minus the largest of 1–5", "above 0", scale_gap, lambda v: v > 0,
    ),
    Claim(
        "case2", "order", "Scales of inputs 1–5 increase with their effects.",
        "rank correlation of E φ of inputs 1–5 with the slopes", "0.9 or more",
        lambda row, rows: rank_correlation(row["phi"][:5]), lambda v: v > 0.899,
    ),
    Claim(
        "case2", "linear unit", "One almost linear unit models inputs 1–5.",
        "largest share of the slopes of inputs 2–5 in one unit of R² ≥ 0.98, other units being active",
        "above 0.5", linear_carrier, lambda v: v > 0.5,
    ),
    Claim(
        "case2", "six units", "Six of ten units have a clearly nonzero effect.",
        "units that move f by 0.05 sd of y or more", "five to seven",
        get("n_active"), lambda v: 5 <= v <= 7, (PAPER,),
    ),
    Claim(
        "case3", "smoother", "The network's step is slightly smoother than the GP's.",
        "steepest slope of the GP's mean at the jump, by the network's", "above 1",
        ratio("steepest"), above_one, beside=(INFINITE,),
    ),
    Claim(
        "case3", "fluctuation", "The GP's mean fluctuates near the jump, the network's less.",
        "variation beyond the rise on [-π/2, π/2]: the GP's minus the network's", "above 0",
        excess_gap, lambda v: v > 0, beside=(INFINITE,),
    ),
    Claim(
        "case3", "generalises", "The finite network may generalise better.",
        "squared error of the GP's mean at fresh rows, by the network's", "above 1",
        ratio("mse_f"), above_one, beside=(INFINITE,),
    ),
)  # fmt: skip


def find(rows: Sequence[Row]) -> list[Found]:
    """Every claim for every method that it is made of, over the seeds that have all rows it needs."""
    by_seed: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        if "error" not in row:
            by_seed.setdefault((row["set"], row["split"]), {})[row["method"]] = row
    out = []
    for claim in CLAIMS:
        for method in claim.methods:
            needed = {method, *claim.beside}
            values = {
                seed: float(claim.value(found[method], found))
                for (case, seed), found in sorted(by_seed.items())
                if case == claim.case and needed <= found.keys()
            }
            out.append(Found(claim, method, values))
    return out


def bars(rows: Sequence[Row]) -> list[Bar]:
    """The share of seeds in which each claim holds; open until all seeds are there."""
    return [
        Bar(
            found.claim.case,
            f"{found.method}: {found.claim.key}, {found.claim.wanted}, share of seeds",
            found.count / len(found.values) if found.values else None,
            ENOUGH,
            found.reproduced if len(found.values) >= SEEDS else None,
        )
        for found in find(rows)
    ]


def spread(found: Found) -> dict[str, Any]:
    """Median, smallest and largest value."""
    values = list(found.values.values())
    return {"median": float(np.median(values)), "min": min(values), "max": max(values)}
