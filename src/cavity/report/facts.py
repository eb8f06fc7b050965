"""Numbers the summary speaks of: errors, coverage and surprise on rows that were left out or are new."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.model.data import check_inputs, check_vector
from cavity.plots.reading import Reading
from cavity.result.calibration import pit_difference
from cavity.types import FloatArray, IntArray

SURPRISE = 0.1  # rows are called outliers where calibrated predictions give so many of them per data set


class Judgement(NamedTuple):
    """Predictions held against the rows they are for.

    ``rows`` are their numbers in the user's table, ``weight`` how much they count; ``tail`` is the two-sided
    tail probability of each observation; ``baseline`` the mean log density of a normal with the mean and sd
    of the other rows.
    """

    rows: IntArray
    weight: FloatArray
    observed: FloatArray
    predicted: FloatArray
    epistemic_var: FloatArray
    aleatoric_var: FloatArray
    log_density: FloatArray
    pit: FloatArray
    tail: FloatArray
    baseline: float

    def mean(self, values: FloatArray) -> float:
        """Weighted mean over the rows."""
        return float(np.average(values, weights=self.weight))

    @property
    def r2(self) -> float:
        """1 - mean squared error / variance of the target."""
        return 1.0 - (self.rmse / self.target_sd) ** 2 if self.target_sd > 0.0 else 0.0

    @property
    def target_sd(self) -> float:
        """Standard deviation of the observed target."""
        return float(np.sqrt(self.mean((self.observed - self.mean(self.observed)) ** 2)))

    @property
    def rmse(self) -> float:
        """Root mean squared error of the predicted means."""
        return float(np.sqrt(self.mean((self.observed - self.predicted) ** 2)))

    @property
    def epistemic_share(self) -> float:
        """Share of the predictive variance that comes from not knowing the function."""
        return self.mean(self.epistemic_var) / self.mean(self.epistemic_var + self.aleatoric_var)

    @property
    def predictive_sd(self) -> float:
        """Typical sd of a prediction: the root of the mean variance."""
        return float(np.sqrt(self.mean(self.epistemic_var + self.aleatoric_var)))

    def coverage(self, level: float = 0.95) -> float:
        """Share of the rows within their central interval of this level."""
        return self.mean(self.tail >= 1.0 - level)

    def coverage_is_off(self, level: float = 0.95) -> int:
        """+1 or -1 where too many or too few rows lie inside, by more than two binomial sds; else 0."""
        n = len(self.tail)
        excess = self.coverage(level) - level
        return int(np.sign(excess)) if abs(excess) > 2.0 * np.sqrt(level * (1.0 - level) / n) else 0

    @property
    def calibrated(self) -> bool:
        """True where the distribution of the PIT values stays within its simultaneous band."""
        _, difference, lower, upper = pit_difference(self.pit, self.weight)
        return bool(np.all((difference >= lower) & (difference <= upper)))

    @property
    def outliers(self) -> IntArray:
        """Positions of rows too surprising for chance, the most surprising first."""
        found = np.flatnonzero(self.tail * len(self.tail) < SURPRISE)
        return found[np.argsort(self.tail[found], kind="stable")]


def judge_left_out(reading: Reading) -> Judgement:
    """Every training row predicted without it."""
    rows, y = reading.leave_one_out(), reading.observed
    return Judgement(
        reading.rows,
        reading.weights,
        y,
        rows.predicted,
        rows.epistemic_var,
        rows.aleatoric_var,
        reading.posterior.loo_log_density[reading.engine_rows],
        rows.cdf(y),
        rows.tail(y),
        baseline_left_out(y, reading.weights),
    )


def judge_given(reading: Reading, X: Any, y: Any) -> Judgement:
    """Rows that the model was not fitted on."""
    X = check_inputs(X, reading.names)
    y = check_vector(y, len(X), "y")
    if len(y) < 2:
        raise ValueError("Judging a model needs at least two rows.")
    posterior, prediction = reading.posterior, reading.posterior.predict(X)
    pit = posterior.cdf(X, y)
    s = reading.prepared.scaling
    mean, var = s.y_mean, s.y_scale**2
    return Judgement(
        np.arange(len(y)),
        np.ones(len(y)),
        y,
        prediction.mean,
        prediction.epistemic_var,
        prediction.aleatoric_var,
        posterior.log_density(X, y),
        pit,
        2.0 * np.minimum(pit, 1.0 - pit),
        float(np.mean(-0.5 * ((y - mean) ** 2 / var + np.log(2.0 * np.pi * var)))),
    )


def baseline_left_out(y: FloatArray, weight: FloatArray) -> float:
    """Mean log density of each value under the normal with mean and sd of the others; NaN without spread."""
    rest = weight.sum() - np.minimum(weight, 1.0)  # one copy is left out
    taken = np.minimum(weight, 1.0) / rest
    if len(y) < 3 or not np.isfinite(taken).all():
        return float("nan")
    centre = np.average(y, weights=weight)
    away = y - centre
    mean = centre - taken * away
    var = np.average(away**2, weights=weight) * (1.0 + taken) - taken * (1.0 + taken) * away**2
    if not (var > 1e-12 * np.average(away**2, weights=weight)).all():
        return float("nan")
    log_density = -0.5 * ((y - mean) ** 2 / var + np.log(2.0 * np.pi * var))
    return float(np.average(log_density, weights=weight))
