"""The sets, their protocols and the bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.harness import Bar, differences, values
from benchmarks.harness.benchmark import Row

CAVITY, MORE, RIDGE, GP = "cavity", "cavity_more_starts", "bayesian_ridge", "gp_ard"
MODULES = {CAVITY: "cavity_regressor", RIDGE: "bayesian_ridge", GP: "gp_ard"}
FIT_SECONDS, SMALL = 20.0, 1100


class Goal(NamedTuple):
    """A bar on the mean (or another summary) of a value over the splits."""

    value: str
    at_least: float | None = None
    at_most: float | None = None
    over: str = "mean"  # "min": in every split; "median"


class Set(NamedTuple):
    """A data set with its protocol; ``quick`` is laid over ``params`` in the small form.

    ``more_starts``: so many in rows of their own, to see what more time would buy; no bar looks at them.
    """

    params: dict[str, Any]
    n_splits: int
    goals: tuple[Goal, ...]
    headline: tuple[str, ...]
    n_rows: int
    quick: dict[str, Any] = {}
    methods: tuple[str, ...] = (CAVITY, RIDGE)
    more_starts: int | None = None


STANDARDISED = ("mlpd", "mse")
RAW = ("lpd", "rmse")


def _uci(name: str, n_rows: int, lpd: float, n_splits: int = 20) -> Set:
    quick = {"most_train": 1000} if n_rows > 2000 else {}
    return Set({"protocol": "canonical", "data": name}, n_splits, (Goal("lpd", lpd),), RAW, n_rows, quick)


SETS = {
    "housing": Set(
        {"protocol": "k_fold", "data": "boston"},
        10,
        (Goal("mlpd", -0.20), Goal("mse", at_most=0.11)),
        STANDARDISED,
        506,
        methods=(CAVITY, RIDGE, GP),
        more_starts=24,
    ),
    "kin40k": Set(
        {"protocol": "noise_inputs", "data": "kin40k", "n_noise": 92, "n_train": 5000},
        3,
        (Goal("mlpd", 0.64), Goal("mse", at_most=0.02), Goal("real_first", 1.0, over="min")),
        STANDARDISED,
        40000,
        {"n_train": 500, "n_noise": 12, "most_test": 2000},
    ),
    "crime": Set(
        {"protocol": "k_fold", "data": "crime_unnorm", "target": "sqrt"},
        10,
        (Goal("mlpd", -0.79), Goal("mse", at_most=0.29)),
        STANDARDISED,
        1993,
        {"most_train": 500},
    ),
    "case2": Set(
        {"protocol": "case2", "n": 200},
        10,
        (Goal("mse_y_by_noise", at_most=2.5), Goal("irrelevant_called", 1.0, over="min")),
        ("mse_y", "mse_f", "mse_y_by_noise"),
        200,
        {"n": 60},
    ),
    "boston": _uci("boston", 506, -2.35),
    "concrete": _uci("concrete", 1030, -2.88),
    "energy": _uci("energy", 768, -0.55),
    "yacht": _uci("yacht", 308, -0.18),
    "wine_red": _uci("wine_red", 1599, -0.93),
    "power": _uci("power", 9568, -2.79),
    "kin8nm": _uci("kin8nm", 8192, 1.38),
    "naval": _uci("naval", 11934, 8.0),
    "protein": _uci("protein", 45730, -2.83, n_splits=5),
}


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Every bar of the table, and those that hold for all sets; open where a split is missing."""
    out = []
    for name, of in SETS.items():
        for goal in of.goals:
            found = values(rows, name, CAVITY, goal.value)
            out.append(_bar(name, goal, found, len(found) >= of.n_splits))
        for rival in of.methods[1:]:
            gaps = differences(rows, name, (CAVITY, rival), "mlpd")
            gap = float(np.mean(gaps)) if gaps else None
            reached = gap >= 0.0 if gap is not None and len(gaps) >= of.n_splits else None
            out.append(Bar(name, f"mean mlpd not below {rival}'s on the same splits", gap, 0.0, reached))
        if of.n_rows < SMALL:
            found = values(rows, name, CAVITY, "fit_cpu")
            goal = Goal("fit_cpu", at_most=FIT_SECONDS, over="median")
            out.append(_bar(name, goal, found, len(found) >= of.n_splits))
    return [*out, _small_fits(rows)]


def _small_fits(rows: Sequence[Row]) -> Bar:
    """The median over all fits of the small sets; above, each set is held to it."""
    small = {name: of for name, of in SETS.items() if of.n_rows < SMALL}
    found = {(name, at): v for name in small for at, v in values(rows, name, CAVITY, "fit_cpu").items()}
    goal = Goal("fit_cpu", at_most=FIT_SECONDS, over="median")
    return _bar("all small sets", goal, found, len(found) >= sum(of.n_splits for of in small.values()))


def _bar(name: str, goal: Goal, found: Mapping[Any, float], whole: bool) -> Bar:
    value = float(getattr(np, goal.over)(list(found.values()))) if found else None
    lower = goal.at_least is not None
    wanted = goal.at_least if goal.at_least is not None else goal.at_most
    assert wanted is not None
    what = f"{goal.over} {goal.value} {'≥' if lower else '≤'} {wanted:g}"
    met = None if value is None or not whole else (value >= wanted if lower else value <= wanted)
    return Bar(name, what, value, wanted, met)
