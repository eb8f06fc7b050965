"""From rows to a summary: means over splits, bars, and where and with what it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.harness.benchmark import Benchmark, Row, Task
from benchmarks.harness.cache import plain
from benchmarks.harness.measure import machine, versions

# Levels of keys that get lines of their own in the file.
DEPTHS = {"protocols": 1, "sets": 3}

# Parameters of a task that belong to its method, not to its set.
METHOD = {"module", "settings", "inner", "peer"}

# Columns that are no measurement of the method.
BOOKKEEPING = {"split", "fold", "base_mb", "task"}


@dataclass(frozen=True)
class Bar:
    """Something to reach, in words, and what was reached; ``reached`` is None where rows are missing."""

    set: str
    what: str
    value: float | None
    wanted: float
    reached: bool | None


def number(value: Any) -> float | None:
    """A measured number, also where it is not finite and JSON has it as text; None for anything else."""
    if isinstance(value, int | float):
        return float(value)
    return float(value) if value in ("inf", "-inf", "nan") else None


def values(rows: Iterable[Row], set: str, method: str, name: str) -> dict[tuple[int, int], float]:
    """One measured value of a set and method by split and inner fold; failed rows have none."""
    mine = [row for row in rows if row["set"] == set and row["method"] == method and name in row]
    found = {(row["split"], row.get("fold", 0)): number(row[name]) for row in mine}
    return {place: value for place, value in found.items() if value is not None}


def differences(rows: Sequence[Row], set: str, methods: tuple[str, str], name: str) -> list[float]:
    """First method minus second, on the splits that both have."""
    first, second = (values(rows, set, method, name) for method in methods)
    return [first[place] - second[place] for place in sorted(first.keys() & second.keys())]


def aggregate(rows: Sequence[Row]) -> dict[str, Any]:
    """Per set and method: number of splits, failures, and of each number its mean, se, median, min, max."""
    out: dict[str, Any] = {}
    for row in rows:
        out.setdefault(row["set"], {}).setdefault(row["method"], []).append(row)
    for by_method in out.values():
        for method, mine in by_method.items():
            good = [row for row in mine if "error" not in row]
            names = dict.fromkeys(name for row in good for name in row if name not in BOOKKEEPING)
            columns = {name: [number(row[name]) for row in good if name in row] for name in names}
            by_method[method] = {
                "n_splits": len(good),
                "n_failed": len(mine) - len(good),
                **{name: spread(c) for name, c in columns.items() if None not in c},
            }
    return out


def spread(column: Sequence[Any]) -> dict[str, Any]:
    """Mean, its standard error (None of one value), median, smallest and largest."""
    with np.errstate(invalid="ignore"):
        return plain(
            {
                "mean": np.mean(column),
                "se": np.std(column, ddof=1) / np.sqrt(len(column)) if len(column) > 1 else None,
                "median": np.median(column),
                "min": np.min(column),
                "max": np.max(column),
            }
        )


def summarise(
    benchmark: Benchmark, tasks: Sequence[Task], records: Sequence[dict[str, Any]], commit: str
) -> dict[str, Any]:
    """All that a benchmark found, as JSON."""
    rows = [record["row"] for record in records]
    used: dict[str, set[str]] = {}
    for record in records:
        for name, found in record["versions"].items():
            used.setdefault(name, set()).update(found.split(", "))
    return {
        "benchmark": benchmark.name,
        "what": benchmark.about,
        "seeds": benchmark.seeds,
        "commit": commit.removesuffix("+"),
        "dirty": commit.endswith("+"),
        "versions": {name: ", ".join(sorted(found)) for name, found in (used or _here()).items()},
        "machine": machine(),
        "n_tasks": len(tasks),
        "n_missing": len(tasks) - len(rows),
        "n_failed": sum("error" in row for row in rows),
        "n_kept": sum(bool(row.get("kept")) for row in rows),
        "bars": [],
        "protocols": {task.set: _protocol(task) for task in tasks},
        "sets": aggregate(rows),
        "rows": rows,
    }


def _protocol(task: Task) -> dict[str, Any]:
    return {name: value for name, value in task.params.items() if name not in METHOD}


def _here() -> dict[str, set[str]]:
    return {name: {version} for name, version in versions().items()}


def to_json(summary: dict[str, Any]) -> str:
    """JSON that diffs well: one line per row, per bar and per value of a set."""
    lines = []
    for key, value in summary.items():
        if isinstance(value, list):
            body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            text = f"[\n{body}\n ]" if value else "[]"
        elif key in DEPTHS:
            text = _nested(value, 1, DEPTHS[key])
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _nested(value: Any, depth: int, deepest: int) -> str:
    """JSON with the keys of so many levels on lines of their own."""
    if depth > deepest or not isinstance(value, dict):
        return json.dumps(value)
    pad = " " * depth
    body = ",\n".join(f"{pad} {json.dumps(k)}: {_nested(v, depth + 1, deepest)}" for k, v in value.items())
    return f"{{\n{body}\n{pad}}}"


def table(benchmark: Benchmark, summary: dict[str, Any]) -> str:
    """The headline values of each set and method, and the bars, as text."""
    lines = []
    for name, by_method in summary["sets"].items():
        shown = list(benchmark.headline(name))
        width, base = max(map(len, by_method)), next(iter(by_method))
        title = f"{name:<{width + 12}}" + "".join(f"{column:>22}" for column in shown)
        lines += ["", title + (f"    {shown[0]} - {base}'s" if len(by_method) > 1 else "")]
        for method, found in by_method.items():
            splits = f"n={found['n_splits']}" + (f" !{found['n_failed']}" if found["n_failed"] else "")
            cells = "".join(f"{_cell(found.get(column)):>22}" for column in shown)
            gap = [] if method == base else differences(summary["rows"], name, (method, base), shown[0])
            beside = f"    {_cell(spread(gap))} (n={len(gap)})" if gap else ""
            lines.append(f"  {method:<{width}}  {splits:<8}{cells}{beside}")
    if summary["bars"]:
        lines.append("")
    for bar in summary["bars"]:
        mark = {True: "reached", False: "MISSED", None: "open"}[bar["reached"]]
        value = "no rows" if bar["value"] is None else f"{bar['value']:.4g}"
        lines.append(f"{mark:>8}  {bar['set']}: {bar['what']} ({value})")
    return "\n".join(lines)


def _cell(found: dict[str, Any] | None) -> str:
    """Mean ± standard error."""
    if found is None:
        return "-"
    return " ± ".join(f"{number(found[name]):.4f}" for name in ("mean", "se") if found[name] is not None)


def how_it_was_run(summary: dict[str, Any], name: str) -> list[str]:
    """Last section of a page that is made from a summary."""
    versions = ", ".join(f"{package} {version}" for package, version in summary["versions"].items())
    return [
        "",
        "## How it was run",
        "",
        f"Commit {summary['commit']}; {versions}; {summary['machine']['processor']}.",
        f"Seeds: {summary['seeds']}.",
        f"All rows are in `benchmarks/results/{name}.json`, which this page is made from.",
    ]
