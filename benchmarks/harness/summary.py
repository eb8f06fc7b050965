"""From rows to a summary: means over splits, bars, and where and with what it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from benchmarks.harness.benchmark import Benchmark, Row, Task
from benchmarks.harness.measure import machine, versions

# Columns that are no measurement of the method.
BOOKKEEPING = {"split", "fold", "base_mb"}


@dataclass(frozen=True)
class Bar:
    """Something to reach, in words, and what was reached; ``reached`` is None where rows are missing."""

    set: str
    what: str
    value: float | None
    wanted: float
    reached: bool | None


def values(rows: Iterable[Row], set: str, method: str, name: str) -> dict[int, float]:
    """One measured value of a set and method by split; failed rows have none."""
    out = {}
    for row in rows:
        if row["set"] == set and row["method"] == method and isinstance(row.get(name), int | float):
            out[int(row["split"])] = float(row[name])
    return out


def compare(
    rows: Sequence[Row], set: str, methods: tuple[str, str], name: str
) -> tuple[float | None, float | None, int]:
    """Mean of two methods on the splits that both have, and how many those are."""
    first, second = (values(rows, set, method, name) for method in methods)
    common = sorted(first.keys() & second.keys())
    if not common:
        return None, None, 0
    return fmean(first[s] for s in common), fmean(second[s] for s in common), len(common)


def aggregate(rows: Sequence[Row]) -> dict[str, Any]:
    """Per set and method: number of splits, failures, and of each number its mean, se, median, min, max."""
    out: dict[str, Any] = {}
    for row in rows:
        out.setdefault(row["set"], {}).setdefault(row["method"], []).append(row)
    for by_method in out.values():
        for method, mine in by_method.items():
            good = [row for row in mine if "error" not in row]
            names = dict.fromkeys(name for row in good for name in row if name not in BOOKKEEPING)
            columns = {name: [row[name] for row in good if name in row] for name in names}
            by_method[method] = {
                "n_splits": len(good),
                "n_failed": len(mine) - len(good),
                **{name: spread(c) for name, c in columns.items() if all(map(_number, c))},
            }
    return out


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def spread(column: Sequence[float]) -> dict[str, float | None]:
    """Mean, its standard error, median, smallest and largest."""
    error = stdev(column) / len(column) ** 0.5 if len(column) > 1 else None
    return {
        "mean": _short(fmean(column)),
        "se": None if error is None else _short(error),
        "median": _short(median(column)),
        "min": _short(min(column)),
        "max": _short(max(column)),
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def summarise(
    benchmark: Benchmark, tasks: Sequence[Task], records: Sequence[dict[str, Any]], commit: str
) -> dict[str, Any]:
    """All that a benchmark found, as JSON."""
    rows = [record["row"] for record in records]
    used: dict[str, list[str]] = {}
    for record in records:
        for name, version in record["versions"].items():
            if version not in used.setdefault(name, []):
                used[name].append(version)
    return {
        "benchmark": benchmark.name,
        "what": benchmark.about,
        "commit": commit,
        "versions": {name: ", ".join(sorted(found)) for name, found in (used or _here()).items()},
        "machine": machine(),
        "n_tasks": len(tasks),
        "n_missing": len(tasks) - len(rows),
        "n_failed": sum("error" in row for row in rows),
        "n_kept": sum(bool(row.get("kept")) for row in rows),
        "bars": [],
        "sets": aggregate(rows),
        "rows": rows,
    }


def _here() -> dict[str, list[str]]:
    return {name: [version] for name, version in versions().items()}


def to_json(summary: dict[str, Any]) -> str:
    """JSON that diffs well: one line per row, per bar and per value of a set."""
    lines = []
    for key, value in summary.items():
        if isinstance(value, list):
            body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            text = f"[\n{body}\n ]" if value else "[]"
        elif key == "sets":
            text = _nested(value, 1)
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _nested(value: dict[str, Any], depth: int) -> str:
    """Two levels of keys on lines of their own, the rest of each on one line."""
    if depth > 3:
        return json.dumps(value)
    pad = " " * (depth + 1)
    body = ",\n".join(
        f"{pad}{json.dumps(k)}: {_nested(v, depth + 1) if isinstance(v, dict) else json.dumps(v)}"
        for k, v in value.items()
    )
    return "{\n" + body + "\n" + pad[1:] + "}"


def table(benchmark: Benchmark, summary: dict[str, Any]) -> str:
    """The headline values of each set and method, and the bars, as text."""
    lines = []
    for name, by_method in summary["sets"].items():
        shown = list(benchmark.headline(name))
        width = max(len(method) for method in by_method)
        lines += ["", f"{name:<{width + 12}}" + "".join(f"{column:>22}" for column in shown)]
        for method, found in by_method.items():
            failed = f" !{found['n_failed']}" if found["n_failed"] else ""
            cells = "".join(f"{_cell(found.get(column)):>22}" for column in shown)
            lines.append(f"  {method:<{width}}  n={found['n_splits']}{failed:<6}{cells}")
    if summary["bars"]:
        lines.append("")
    for bar in summary["bars"]:
        mark = {True: "reached", False: "MISSED", None: "open"}[bar["reached"]]
        value = "no rows" if bar["value"] is None else f"{bar['value']:.4g}"
        lines.append(f"{mark:>8}  {bar['set']}: {bar['what']} ({value})")
    return "\n".join(lines)


def _cell(found: dict[str, float | None] | None) -> str:
    if found is None:
        return "-"
    return f"{found['mean']:.4f}" + ("" if found["se"] is None else f" ± {found['se']:.4f}")
