"""Predicted probabilities of classes held against the classes that were observed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.types import FloatArray, IntArray

BINS = 10
Z = 2.0  # standard errors beyond which a difference is not put down to chance


class Bin(NamedTuple):
    """Rows of like predictions: mean predicted probability, share observed, its standard error, weight."""

    predicted: float
    observed: float
    error: float
    weight: float


class ClassRows(NamedTuple):
    """Rows with the probabilities that were predicted for them and the class each turned out to have.

    ``rows`` are their numbers in the user's table, ``weight`` how much they count, ``code`` the number of
    the observed class, ``probability`` (n, C).
    """

    classes: tuple[str, ...]
    rows: IntArray
    weight: FloatArray
    code: IntArray
    probability: FloatArray

    def mean(self, values: FloatArray) -> float:
        """Weighted mean over the rows."""
        return float(np.average(values, weights=self.weight))

    @property
    def observed_probability(self) -> FloatArray:
        """Probability that was predicted for the observed class of each row."""
        return self.probability[np.arange(len(self.code)), self.code]

    @property
    def log_score(self) -> float:
        """Mean log probability of the observed classes; larger is better, zero is perfect."""
        with np.errstate(divide="ignore"):
            return self.mean(np.log(self.observed_probability))

    @property
    def shares(self) -> FloatArray:
        """Share of each class."""
        return np.array([self.mean(self.code == c) for c in range(len(self.classes))])

    @property
    def baseline(self) -> float:
        """Log score of predicting the share of each class among the other rows, whatever the inputs."""
        total = self.weight.sum()
        taken = np.minimum(self.weight, 1.0)  # one copy is left out
        share = (self.shares[self.code] * total - taken) / (total - taken)
        return self.mean(np.log(share)) if (share > 0.0).all() else float("-inf")

    @property
    def predicted(self) -> IntArray:
        """Number of the most probable class of each row."""
        return np.argmax(self.probability, axis=1)

    @property
    def accuracy(self) -> float:
        """Share of the rows whose most probable class is the observed one."""
        return self.mean(self.predicted == self.code)

    @property
    def confidence(self) -> float:
        """Mean probability of the most probable class: the accuracy the model expects of itself."""
        return self.mean(self.probability.max(axis=1))

    @property
    def brier(self) -> float:
        """Mean squared distance of the probabilities from what happened, over classes, halved."""
        happened = self.code[:, None] == np.arange(len(self.classes))
        return 0.5 * self.mean(np.sum((self.probability - happened) ** 2, axis=1))

    @property
    def confusion(self) -> FloatArray:
        """(C, C) weight of the rows by observed (down) and predicted (across) class."""
        out = np.zeros((len(self.classes), len(self.classes)))
        np.add.at(out, (self.code, self.predicted), self.weight)
        return out

    def misjudged(self) -> int:
        """+1 or -1 where the model is surer, or less sure, than it is right beyond chance; else 0."""
        top = self.probability.max(axis=1)
        share = self.weight / self.weight.sum()
        error = float(np.sqrt(np.sum(share**2 * top * (1.0 - top))))
        excess = self.confidence - self.accuracy
        return int(np.sign(excess)) if abs(excess) > Z * max(error, 1e-12) else 0

    def bins(self) -> list[Bin]:
        """Calibration: rows by the predicted probability of the last of two classes, in tenths.

        With more classes, by the probability of the most probable class, and how often that was right.
        """
        two = len(self.classes) == 2
        p = self.probability[:, 1] if two else self.probability.max(axis=1)
        happened = (self.code == 1) if two else (self.predicted == self.code)
        place = np.minimum((BINS * p).astype(int), BINS - 1)
        out = []
        for b in range(BINS):
            mine = place == b
            w = self.weight[mine]
            if w.sum() > 0.0:
                q, share = p[mine], w / w.sum()
                error = float(np.sqrt(np.sum(share**2 * q * (1.0 - q))))
                out.append(Bin(float(share @ q), float(share @ happened[mine]), error, float(w.sum())))
        return out
