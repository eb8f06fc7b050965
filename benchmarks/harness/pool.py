"""Run tasks in fresh processes, a few at a time."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.harness.benchmark import Benchmark, Row, Task
from benchmarks.harness.cache import Cache, plain, read, write
from benchmarks.harness.measure import ONE_THREAD
from benchmarks.harness.worker import identity, log_of, work


@dataclass
class Running:
    """A task under way."""

    task: Task
    path: Path
    process: BaseProcess
    since: float

    @property
    def log(self) -> Path:
        """What its worker has printed."""
        return log_of(self.path, self.process.pid)


def run_tasks(
    benchmark: Benchmark,
    cache: Cache,
    tasks: list[Task],
    stamp: Callable[[Task], dict[str, str]],
    jobs: int,
    time_limit: float | None,
    finished: Callable[[Row], None],
) -> None:
    """Run tasks that have no result yet; each ends as a record in the cache.

    The processes come from a server that has imported all sources at the start: a fresh one costs little,
    its peak memory is the task's own, and who edits a source meanwhile does not change what is measured.
    On an interrupt the running tasks are stopped and leave nothing.
    """
    context = multiprocessing.get_context("forkserver")
    sources = {path for task in tasks for path in benchmark.sources(task)}
    context.set_forkserver_preload([work.__module__, benchmark.run.__module__, *module_names(sources)])
    waiting, running = list(reversed(tasks)), list[Running]()
    with environment(), interrupts() as heard:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task = waiting.pop()
                    path = cache.path(task)
                    process = context.Process(target=work, args=(benchmark.run, task, path, stamp(task)))
                    process.start()
                    running.append(Running(task, path, process, time.monotonic()))
                wait([r.process.sentinel for r in running], timeout=0.2)
                if heard:
                    raise KeyboardInterrupt
                for r in list(running):
                    late = time_limit is not None and time.monotonic() - r.since > time_limit
                    if late and r.process.is_alive():
                        stop(r.process)
                        fail(r, f"stopped after {time_limit:g} s", stamp(r.task))
                    elif r.process.is_alive():
                        continue
                    elif r.process.exitcode != 0 or not r.path.is_file():
                        fail(r, died(r), stamp(r.task))
                    running.remove(r)
                    record = read(r.path)
                    assert record is not None
                    finished(record["row"])
        finally:
            for r in running:
                stop(r.process)
                r.log.unlink(missing_ok=True)


def module_names(paths: Iterable[Path]) -> list[str]:
    """Names under which files can be imported; files that cannot are left out."""
    found = []
    for path in sorted(paths):
        homes = [home for entry in sys.path if (home := Path(entry or ".").resolve()) in path.parents]
        if homes:
            deepest = max(homes, key=lambda home: len(home.parts))
            parts = path.relative_to(deepest).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def fail(running: Running, error: str, stamp: dict[str, str]) -> None:
    """The record of a task that could not write its own."""
    wall = time.monotonic() - running.since
    row = identity(running.task) | {"error": error, "wall": wall} | stamp
    record = {"params": running.task.params, "row": row, "versions": {}}
    write(running.path, json.dumps(plain(record)))
    running.log.unlink(missing_ok=True)


def died(running: Running) -> str:
    """How a worker ended, with the last it said."""
    code = running.process.exitcode or 0
    how = f"exit code {code}"
    if code < 0:
        how = f"killed by {signal.Signals(-code).name}" + (", perhaps out of memory" if code == -9 else "")
    said = running.log.read_text(errors="replace").split() if running.log.is_file() else []
    return f"worker ended: {how}. {' '.join(said)[-300:]}".strip()


def stop(process: BaseProcess) -> None:
    """End a worker and the processes that it started."""
    if process.is_alive() and process.pid is not None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has no group of its own yet
            process.kill()
    process.join()


@contextmanager
def environment() -> Iterator[None]:
    """BLAS and friends of new processes on one thread; modules are found where this process finds them.

    Compiled kernels are kept apart by the version of Numba: two environments that share the sources would
    throw each other's away, and compile them within what is timed.
    """
    kernels = Path(__file__).resolve().parents[1] / ".cache" / "numba" / metadata.version("numba")
    wanted = ONE_THREAD | {
        "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path),
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(kernels)),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Signals to stop are collected, to be heeded where no process is half started."""
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, frame: heard.append(number))
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
