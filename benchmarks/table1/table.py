"""The rows of the table: test rows of all splits of a set and method taken together, as the paper does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.harness import Task
from benchmarks.table1.published import CAVITY
from benchmarks.table1.score import columns
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
    good = {key: {s: r for s, r in records.items() if "detail" in r} for key, records in groups.items()}
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
    points = {name: _pooled(records.values(), name) for name in ("lpd", "se")}
    entry |= {
        "n_train": round(float(np.mean([row["n_train"] for row in rows]))),
        "n_inputs": rows[0]["n_inputs"],
        "n_test": len(points["lpd"]),
        **columns(points),
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
        gap = _pooled([records[s] for s in common], "lpd") - _pooled([ours[s] for s in common], "lpd")
        entry["to_cavity"] = [float(np.mean(gap)), float(np.std(gap) / np.sqrt(len(gap))), len(common)]
    return entry


def _pooled(records: Iterable[Record], name: str) -> np.ndarray:
    return np.concatenate([np.asarray(record["detail"][name], float) for record in records])


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([float(row[name]) for row in rows]))


def _converged(row: Mapping[str, Any]) -> bool:
    """By the flag of a row, else by the sentence of its status."""
    return bool(row.get("converged", str(row.get("status", "")).startswith("Converged")))
