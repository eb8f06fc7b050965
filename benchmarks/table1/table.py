"""The rows of the table: test rows of all splits of a set and method taken together, as the paper does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.harness import Task
from benchmarks.table1.published import CAVITY
from benchmarks.table1.score import TAIL
from benchmarks.table1.settings import SETS

Record = dict[str, Any]
# Of each split, what tells how far the method got; means over the splits are kept.
WATCHED = (
    "n_evaluations",
    "rhat_noise",
    "rhat_f_median",
    "rhat_f_max",
    "ess_noise",
    "ess_f_median",
    "steps_per_draw",
    "divergences",
    "n_iter",
)


def table(found: Iterable[tuple[Task, Record]]) -> list[dict[str, Any]]:
    """One entry for each set and method with finished splits; failed ones are counted."""
    groups: dict[tuple[str, str], dict[int, Record]] = {}
    tasks: dict[tuple[str, str], Task] = {}
    for task, record in found:
        groups.setdefault((task.set, task.method), {})[task.split] = record
        tasks[task.set, task.method] = task
    good = {key: {s: r for s, r in of.items() if "error" not in r["row"]} for key, of in groups.items()}
    order = [(name, method) for name, of in SETS.items() for method in of.plans if groups.get((name, method))]
    return [
        _entry(tasks[key], good[key], len(groups[key]) - len(good[key]), good.get((key[0], CAVITY), {}))
        for key in order
    ]


def _entry(
    task: Task, records: Mapping[int, Record], failed: int, ours: Mapping[int, Record]
) -> dict[str, Any]:
    rows = [record["row"] for record in records.values()]
    entry: dict[str, Any] = {
        "set": task.set,
        "method": task.method,
        "n_splits": len(rows),
        "n_planned": SETS[task.set].plans[task.method].n_splits,
        "n_failed": failed,
        "settings": task.params.get("settings", {}),
    }
    if not rows:
        return entry
    entry |= {
        "n_train": round(float(np.mean([row["n_train"] for row in rows]))),
        "n_inputs": rows[0]["n_inputs"],
        "n_test": sum(row["n_test"] for row in rows),
        **pooled(rows),
        "cpu": _mean(rows, "cpu_total"),
        "fit_cpu": _mean(rows, "fit_cpu"),
        "peak_mb": max(row["peak_mb"] for row in rows),
        "n_converged": sum(_converged(row) for row in rows),
        **{name: _mean(rows, name) for name in WATCHED if all(name in row for row in rows)},
    }
    if "sampler" in rows[0]:
        entry["sampler"] = rows[0]["sampler"]
    if all("lpd_of_halves" in row for row in rows):
        entry["halves_gap"] = float(np.mean([abs(np.subtract(*row["lpd_of_halves"])) for row in rows]))
    if common := sorted(records.keys() & ours.keys()):
        mine, theirs = ([of[s]["row"]["mlpd"] for s in common] for of in (records, ours))
        gap = np.subtract(mine, theirs)
        weight = [records[s]["row"]["n_test"] for s in common]
        error = float(np.std(gap, ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else None
        entry["to_cavity"] = [float(np.average(gap, weights=weight)), error, len(common)]
    return entry


def pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The six columns over the test rows of all splits, from the columns and the worst rows of each split."""
    n = np.array([row["n_test"] for row in rows], float)
    place = 0.01 * (n.sum() - 1.0)  # of the percentile among all test rows, the worst first
    out = {}
    for mean, sd, percentile, tail, sign in (
        ("mlpd", "lpd_sd", "lpd_p01", "lpd_low", 1.0),
        ("mse", "se_sd", "se_p99", "se_high", -1.0),
    ):
        means, sds = (np.array([row[name] for row in rows], float) for name in (mean, sd))
        out[mean] = float(np.average(means, weights=n))
        out[sd] = float(np.sqrt(np.average(sds**2 + (means - out[mean]) ** 2, weights=n)))
        if len(rows) > 1 and place + 1.0 < TAIL and all(tail in row for row in rows):
            worst = np.sort(sign * np.concatenate([row[tail] for row in rows]))
            out[percentile] = sign * float(np.interp(place, np.arange(len(worst)), worst))
        else:  # of one split its own; of more test rows than the tails speak for, the mean over splits
            out[percentile] = float(np.average([row[percentile] for row in rows], weights=n))
    return out


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([float(row[name]) for row in rows]))


def _converged(row: Mapping[str, Any]) -> bool:
    """By the flag of a row, else by the sentence of its status."""
    return bool(row.get("converged", str(row.get("status", "")).startswith("Converged")))
