"""Run one task: the scores of the accuracy benchmark, on the standardised target as in the paper's table."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.accuracy import score
from benchmarks.harness import Task

# Worst test rows of a split that are kept: percentiles of all splits together are exact with these as long as
# one in a hundred of all test rows are fewer.
TAIL = 25


def run(task: Task) -> dict[str, Any]:
    """Log predictive densities and squared errors of a split, in units of the training target's sd."""
    row = score.run(task)
    sd = row["y_sd"]
    detail = row.pop("detail")
    points = {"lpd": detail["log_density"] + np.log(sd), "se": (detail["error"] / sd) ** 2}
    tails = {"lpd_low": np.sort(points["lpd"])[:TAIL], "se_high": -np.sort(-points["se"])[:TAIL]}
    return row | columns(points) | tails | {"cpu_total": row["fit_cpu"] + row["predict_cpu"]}


def columns(points: dict[str, np.ndarray]) -> dict[str, float]:
    """The six columns of the table, over the test rows that are given."""
    lpd, se = points["lpd"], points["se"]
    return {
        "mlpd": float(np.mean(lpd)),
        "lpd_sd": float(np.std(lpd)),
        "lpd_p01": float(np.percentile(lpd, 1)),
        "mse": float(np.mean(se)),
        "se_sd": float(np.std(se)),
        "se_p99": float(np.percentile(se, 99)),
    }
