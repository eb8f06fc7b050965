"""A benchmark of toy tasks; what they do is in their parameters, what they did in a file."""

import os
import signal
import time
import warnings
from pathlib import Path

from benchmarks.harness import Bar, Benchmark, Task, values


def run(task):
    """Leave a mark, then succeed, fail, die or dawdle."""
    with (Path(task.params["folder"]) / "ran").open("a") as file:
        file.write(f"{task.set} {task.split}\n")
    print("said by the task")
    match task.params["does"]:
        case "fail":
            raise ValueError("on\npurpose")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":  # until a second run is at it too
            until = time.monotonic() + 30
            while (Path(task.params["folder"]) / "ran").read_text().count("b 0") < 2:
                assert time.monotonic() < until
                time.sleep(0.02)
        case "sleep":
            time.sleep(60)
        case "overflow":
            return {"score": float("-inf")}
        case "warn":
            warnings.warn("careful", UserWarning, stacklevel=1)
    return {"score": 1.0 + task.split, "name": "text", "detail": {"all": [1, 2]}}


def toy(folder, does="work", splits=2):
    """Sets "a" and "b"; "b" does what ``does`` says. The source that counts is folder/source.py."""

    def tasks(options):
        n = 1 if options.quick else splits
        return [
            Task(name, split, "method", {"folder": str(folder), "does": what})
            for name, what in (("a", "work"), ("b", does))
            for split in range(n)
        ]

    def bars(rows):
        found = values(rows, "a", "method", "score")
        first = found.get((0, 0))
        return [Bar("a", "score of split 0 is 1", first, 1.0, None if first is None else first == 1.0)]

    return Benchmark(
        name="toy",
        tasks=tasks,
        run=run,
        sources=lambda task: [Path(folder) / "source.py"],
        bars=bars,
        headline=lambda name: ["score"],
    )
