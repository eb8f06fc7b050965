"""The sets: the UCI sets on their published splits, six sets of two classes, and simulated relevance."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.accuracy import sets as numbers
from benchmarks.peers.relevance import FUNCTIONS
from benchmarks.structures import sets as structures

LARGE = 2000  # rows from which slow methods get less
QUICK_ROWS, QUICK_SPLITS = 100, 1
RELEVANCE_ROWS, RELEVANCE_SEEDS = 200, 10


class Set(NamedTuple):
    """A set of this benchmark; ``kind`` says how it is scored."""

    kind: str
    params: dict[str, Any]
    n_splits: int
    large: bool = False
    n_rows: int = 0  # of a set of numbers, whose slow methods are given fewer

    @property
    def headline(self) -> tuple[str, ...]:
        """What is shown of it."""
        return HEADLINES[self.kind]


NUMBERS, CLASSES, RELEVANCE = "numbers", "classes", "relevance"
HEADLINES = {
    NUMBERS: ("lpd", "rmse", "coverage95", "fit_cpu"),
    CLASSES: ("lpd", "accuracy", "fit_cpu"),
    RELEVANCE: ("average_precision", "precision", "recall", "fit_cpu"),
}
UCI = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power", "naval", "protein")
CLASS_SETS = ("sonar", "ionosphere", "breast_cancer", "pima", "german_credit", "spambase")

SETS = (
    {
        name: Set(NUMBERS, of.params, of.n_splits, of.n_rows > LARGE, of.n_rows)
        for name in UCI
        for of in (numbers.SETS[name],)
    }
    | {
        name: Set(CLASSES, of.params, of.n_splits, name == "spambase")
        for name in CLASS_SETS
        for of in (structures.SETS[name],)
    }
    | {
        f"relevance_{name}": Set(RELEVANCE, {"relevance": name, "n": RELEVANCE_ROWS}, RELEVANCE_SEEDS)
        for name in FUNCTIONS
    }
)
