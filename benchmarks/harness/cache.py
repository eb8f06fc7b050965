"""Finished tasks on disk: one JSON each, named by task and by the sources it was made with."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from benchmarks.harness.benchmark import Benchmark, Row, Task

DIGITS = 7  # of the numbers that are kept


class Cache:
    """Results of one benchmark in a folder of their own, before them the rows of a committed summary.

    So a fresh clone goes on from what is committed, without the details that only the folder keeps.
    """

    def __init__(self, folder: Path, benchmark: Benchmark, committed: Path | None = None) -> None:
        self.folder, self.benchmark = folder / benchmark.name, benchmark
        self.folder.mkdir(parents=True, exist_ok=True)
        self.committed = _records(committed) if committed is not None else {}

    def path(self, task: Task) -> Path:
        """Where the result of a task belongs, with the sources as they are."""
        return self.folder / f"{_stem(task)}.{self.benchmark.sources_digest(task)}.json"

    def find(self, task: Task, keep: bool = False) -> Row | None:
        """The task's record, or with ``keep`` the newest one of other sources, marked as such."""
        record, committed = read(self.path(task)), self.committed.get(task.digest)
        if record is None and committed is not None:
            if committed["row"]["sources"] == self.benchmark.sources_digest(task):
                return _marked(committed, kept=False)
        if record is None and keep:
            older = sorted(self.folder.glob(f"{_stem(task)}.*.json"), key=lambda p: p.stat().st_mtime)
            record = (read(older[-1]) if older else None) or committed
            return record and _marked(record, kept=True)
        return record

    def seconds(self, task: Task) -> float | None:
        """Wall time of some finished task of the same set and method, whatever its sources."""
        found = next(self.folder.glob(f"{_word(task.set)}.{_word(task.method)}.*.json"), None)
        record = read(found) if found else None
        return None if record is None else record["row"].get("wall")


def _records(summary: Path) -> dict[str, dict[str, Any]]:
    """Rows of a summary as records, by the digest of their task."""
    try:
        found = json.loads(summary.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    rows = [row for row in found["rows"] if "task" in row]
    return {row["task"]: {"row": row, "versions": found["versions"]} for row in rows}


def _marked(record: dict[str, Any], kept: bool) -> dict[str, Any]:
    row = {name: value for name, value in record["row"].items() if name != "kept"}
    return record | {"row": row | ({"kept": True} if kept else {})}


def read(path: Path) -> dict[str, Any] | None:
    """A record, None where there is none or it is not whole."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "row" in record else None


def write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def plain(value: Any) -> Any:
    """Numbers and arrays as JSON has them, rounded; what is not finite becomes text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) < float("inf") else str(value)
    return value


def _stem(task: Task) -> str:
    return f"{_word(task.set)}.{_word(task.method)}.{task.split}.{task.digest}"


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_=-]+", "_", name)[:60]
