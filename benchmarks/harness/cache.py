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
    """Results of one benchmark in a folder of their own."""

    def __init__(self, folder: Path, benchmark: Benchmark) -> None:
        self.folder, self.benchmark = folder / benchmark.name, benchmark
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, task: Task) -> Path:
        """Where the result of a task belongs, with the sources as they are."""
        return self.folder / f"{_stem(task)}.{self.benchmark.sources_digest(task)}.json"

    def find(self, task: Task, keep: bool = False) -> Row | None:
        """The task's record, or with ``keep`` the newest one of other sources, marked as such."""
        record = read(self.path(task))
        if record is None and keep:
            older = sorted(self.folder.glob(f"{_stem(task)}.*.json"), key=lambda p: p.stat().st_mtime)
            record = read(older[-1]) if older else None
            if record is not None:
                record["row"]["kept"] = True
        return record

    def seconds(self, task: Task) -> float | None:
        """Wall time of some finished task of the same set and method, whatever its sources."""
        found = next(self.folder.glob(f"{_word(task.set)}.{_word(task.method)}.*.json"), None)
        record = read(found) if found else None
        return None if record is None else record["row"].get("wall")


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
