"""The sets, their protocols, the methods and the bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.harness import Bar, differences, values
from benchmarks.harness.benchmark import Row

CAVITY, GAUSSIAN, STUDENT = "cavity", "cavity_gaussian", "cavity_student_t"
OUTLIERS, CLEAN, KNOWN = "cavity_outliers", "cavity_clean", "cavity_known"
LOGISTIC, GP, LASSO = "logistic_cv", "gp_classifier", "lasso_cv"


class Method(NamedTuple):
    """A module of `benchmarks.methods`, its parameters, and what it changes in the protocol."""

    module: str
    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}


CLASSIFIER, REGRESSOR = "cavity_classifier", "cavity_regressor"
METHODS = {
    GAUSSIAN: Method(REGRESSOR, {"likelihood": "gaussian"}),
    STUDENT: Method(REGRESSOR, {"likelihood": "student-t"}),
    OUTLIERS: Method(REGRESSOR, {"likelihood": "outliers"}),
    CLEAN: Method(REGRESSOR, {"likelihood": "gaussian"}, {"clean": True}),
    KNOWN: Method(REGRESSOR, {"likelihood": "gaussian"}, {"known": True}),
    LOGISTIC: Method("logistic_cv"),
    GP: Method("gp_classifier"),
    LASSO: Method("lasso_cv"),
}


class Goal(NamedTuple):
    """A bar on the mean (or another summary) of a value of EPClassifier or EPRegressor over the splits."""

    value: str
    at_least: float | None = None
    at_most: float | None = None
    over: str = "mean"


class Against(NamedTuple):
    """A bar on the mean difference of two methods on the same splits, the second one last."""

    value: str
    second: str
    first: str = CAVITY
    least: float = 0.0  # of first minus second, with the sign that makes larger better
    smaller_is_better: bool = False


class Set(NamedTuple):
    """A data set with its protocol; ``quick`` is laid over ``params`` in the small form."""

    params: dict[str, Any]
    n_splits: int
    methods: tuple[str, ...]
    goals: tuple[Goal | Against, ...]
    headline: tuple[str, ...]
    quick: dict[str, Any] = {}


FAST = Goal("fit_cpu", at_most=20.0, over="median")
ALL_FAST = Goal("fit_cpu", at_most=20.0, over="max")
AHEAD_OF_LOGISTIC = Against("lpd", LOGISTIC)
CLASS_SCORES = ("lpd", "accuracy")
NUMBER_SCORES = ("mlpd", "rmse")


def _classes(data: str, folds: int = 10, **more: Any) -> dict[str, Any]:
    return {"protocol": "k_fold", "data": data, "folds": folds, "classes": True, **more}


def _small(data: str) -> Set:
    return Set(_classes(data), 10, (CAVITY, LOGISTIC, GP), (AHEAD_OF_LOGISTIC, FAST), CLASS_SCORES)


SETS = {
    "ionosphere": _small("ionosphere"),
    "sonar": _small("sonar"),
    "pima": _small("pima"),
    "breast_cancer": _small("breast_cancer_wdbc"),
    "german_credit": _small("german_credit"),
    "spambase": Set(
        _classes("spambase", 5),
        5,
        (CAVITY, LOGISTIC),
        (AHEAD_OF_LOGISTIC,),
        CLASS_SCORES,
        {"most_train": 500},
    ),
    "leukemia": Set(
        {"protocol": "published", "data": "leukemia", "classes": True, "train": "train", "test": "test"},
        1,
        (CAVITY, LOGISTIC),
        (Goal("errors", at_most=2.0), ALL_FAST),
        ("errors", *CLASS_SCORES),
        {"most_inputs": 300},
    ),
    "colon": Set(
        _classes("colon", inputs="log"),
        10,
        (CAVITY, LOGISTIC),
        (Goal("accuracy", 0.84), ALL_FAST),
        CLASS_SCORES,
        {"most_inputs": 300},
    ),
    "riboflavin": Set(
        {"protocol": "k_fold", "data": "riboflavin", "folds": 10},
        10,
        (CAVITY, LASSO),
        (Against("mse", LASSO, smaller_is_better=True), ALL_FAST),
        ("mse", "mlpd"),
        {"most_inputs": 300},
    ),
    "madelon": Set(
        {"protocol": "published", "data": "madelon", "classes": True, "train": "train", "test": "valid"},
        1,
        (CAVITY, LOGISTIC),
        (Goal("accuracy", 0.80),),
        CLASS_SCORES,
        {"most_train": 300, "most_inputs": 50},
    ),
    "outlier_data": Set(
        {"protocol": "published", "data": "gpstuff_odata", "train": "train", "test": "test"},
        1,
        (CAVITY, GAUSSIAN, STUDENT),
        (Against("mlpd", GAUSSIAN, STUDENT),),
        NUMBER_SCORES,
    ),
    "housing": Set(
        {"protocol": "k_fold", "data": "boston", "folds": 10},
        10,
        (CAVITY, GAUSSIAN, STUDENT),
        (Against("mlpd", GAUSSIAN, STUDENT),),
        NUMBER_SCORES,
        {"most_train": 150},
    ),
    "diabetes": Set(
        {"protocol": "k_fold", "data": "diabetes_lars", "folds": 10},
        10,
        (CAVITY, GAUSSIAN, STUDENT),
        (Against("mlpd", GAUSSIAN, STUDENT, -0.02),),
        NUMBER_SCORES,
        {"most_train": 150},
    ),
    "gross_outliers": Set(
        {"protocol": "outliers", "n": 200},
        5,
        (CAVITY, GAUSSIAN, STUDENT, OUTLIERS, CLEAN, KNOWN),
        (),
        ("mse", "mse_f", "mlpd"),
        {"n": 60},
    ),
    "gross_outliers_500": Set(
        {"protocol": "outliers", "n": 500},
        5,
        (CAVITY, CLEAN, KNOWN),
        (),
        ("mse", "mse_f", "mlpd"),
        {"n": 60},
    ),
}
SMALL_CLASSES = [name for name, of in SETS.items() if GP in of.methods]
OUTLIER_SETS = [name for name, of in SETS.items() if of.params["protocol"] == "outliers"]


def methods(name: str) -> dict[str, Method]:
    """The methods of a set by name; ours is the estimator that suits its target."""
    of = SETS[name]
    ours = Method(CLASSIFIER if of.params.get("classes") else REGRESSOR)
    return {m: METHODS.get(m, ours) for m in of.methods}


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Every bar of the table and those over several sets; open where a split is missing."""
    out = []
    for name, of in SETS.items():
        for goal in of.goals:
            out.append(_goal(rows, name, goal) if isinstance(goal, Goal) else _against(rows, name, goal))
    robust = [
        (name, m) for name in OUTLIER_SETS for m in (CAVITY, STUDENT, OUTLIERS) if m in SETS[name].methods
    ]
    return [*out, _most(rows), *(_robust(rows, name, m) for name, m in robust)]


def _goal(rows: Sequence[Row], name: str, goal: Goal) -> Bar:
    found = values(rows, name, CAVITY, goal.value)
    value = float(getattr(np, goal.over)(list(found.values()))) if found else None
    lower = goal.at_least is not None
    wanted = goal.at_least if goal.at_least is not None else goal.at_most
    assert wanted is not None
    what = f"{goal.over} {goal.value} {'≥' if lower else '≤'} {wanted:g}"
    whole = value is not None and len(found) >= SETS[name].n_splits
    return Bar(name, what, value, wanted, (value >= wanted if lower else value <= wanted) if whole else None)


def _against(rows: Sequence[Row], name: str, goal: Against) -> Bar:
    gap = _gap(rows, name, goal)
    value, reached = (None, None) if gap is None else (gap[0], gap[0] >= goal.least if gap[1] else None)
    than = f"{goal.second}'s" + (f" {goal.least:+g}" if goal.least else "")
    what = f"mean {goal.value} of {goal.first} ahead of {than} on the same splits"
    return Bar(name, what, value, goal.least, reached)


def _gap(rows: Sequence[Row], name: str, goal: Against) -> tuple[float, bool] | None:
    """How far the first method is ahead of the second, and whether all splits are there."""
    found = differences(rows, name, (goal.first, goal.second), goal.value)
    if not found:
        return None
    return float(np.mean(found)) * (-1.0 if goal.smaller_is_better else 1.0), len(found) >= SETS[
        name
    ].n_splits


def _most(rows: Sequence[Row]) -> Bar:
    """Sets of classes with at most 1000 rows where we are ahead of the Gaussian process."""
    gaps = [_gap(rows, name, Against("lpd", GP)) for name in SMALL_CLASSES]
    found = [gap for gap in gaps if gap is not None]
    wanted = len(SMALL_CLASSES) // 2 + 1
    ahead = sum(value >= 0.0 for value, _ in found)
    whole = len(found) == len(SMALL_CLASSES) and all(complete for _, complete in found)
    what = f"sets with mean lpd ahead of {GP}'s ≥ {wanted} of {len(SMALL_CLASSES)}"
    names = ", ".join(SMALL_CLASSES)
    return Bar(names, what, float(ahead) if found else None, wanted, ahead >= wanted if whole else None)


def _robust(rows: Sequence[Row], name: str, robust: str) -> Bar:
    """Mean squared error with outliers by a robust likelihood over that of Gaussian noise without them."""
    dirty, clean = (values(rows, name, method, "mse") for method in (robust, CLEAN))
    both = sorted(dirty.keys() & clean.keys())
    ratio = float(np.mean([dirty[k] for k in both]) / np.mean([clean[k] for k in both])) if both else None
    whole = ratio is not None and len(both) >= SETS[name].n_splits
    what = f"mean mse of {robust} over that of {CLEAN}, without outliers, ≤ 1.1"
    return Bar(name, what, ratio, 1.1, ratio <= 1.1 if whole else None)
