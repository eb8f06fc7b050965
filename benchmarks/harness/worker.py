"""One task in a process of its own."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.benchmark import Row, Task
from benchmarks.harness.cache import plain, write
from benchmarks.harness.measure import Meter, peak_megabytes, versions
from threadpoolctl import threadpool_limits


def work(run: Callable[[Task], Row], task: Task, path: Path, stamp: dict[str, str]) -> None:
    """Run a task and write its record; an error becomes part of the row.

    What the task prints goes to a file beside the record, which stays only if the process dies.
    """
    os.setsid()  # an interrupt from the keyboard is for the parent alone
    log = log_of(path, os.getpid())
    with log.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    faulthandler.enable()
    before = peak_megabytes()
    result: Row = {}
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught, Meter() as meter:
        warnings.simplefilter("default")
        try:
            result = dict(run(task))
        except Exception as error:
            result = {"error": describe(error), "traceback": traceback.format_exc()}
    detail = {k: result.pop(k) for k in ("detail", "traceback") if k in result}
    more = result.pop("versions", {})  # of packages that only this task uses
    texts = sorted({f"{w.category.__name__}: {str(w.message)[:200]}" for w in caught})
    if texts:
        result["warnings"] = texts
    measured = {"cpu": meter.cpu, "wall": meter.wall, "peak_mb": peak_megabytes(), "base_mb": before}
    row = identity(task) | result | measured | stamp
    record = {"params": task.params, "row": row, "versions": versions() | more} | detail
    write(path, json.dumps(plain(record)))
    log.unlink()


def log_of(path: Path, pid: int | None) -> Path:
    """Where a worker's output goes; another run may be at the same task, so each has its own."""
    return path.with_suffix(f".{pid}.log")


def identity(task: Task) -> Row:
    """The columns that say which task a row belongs to."""
    return {"set": task.set, "split": task.split, "method": task.method, "task": task.digest}


def describe(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
