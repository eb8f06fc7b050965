"""CPU time, wall time and peak memory of the running process, and a name for the machine."""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import cavity

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")
} | {"VECLIB_MAXIMUM_THREADS": "1"}


class Meter:
    """Context that measures CPU seconds (children that have ended included) and wall seconds."""

    cpu = wall = 0.0

    def __enter__(self) -> Meter:
        self._cpu, self._wall = _cpu(), time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.cpu, self.wall = _cpu() - self._cpu, time.perf_counter() - self._wall


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


class TooSlow(Exception):
    """A task has used up the CPU time that it is given."""


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TooSlow` in the body once it has used so many CPU seconds; None for no limit.

    The signal comes again a little later, in case foreign code swallows the first exception.
    """
    if seconds is None:
        yield
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)
    own = resource.getrusage(resource.RUSAGE_SELF)
    end = int(own.ru_utime + own.ru_stime + seconds + 0.999)

    def late(number: int, frame: object) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        again = int(used.ru_utime + used.ru_stime) + 5
        resource.setrlimit(resource.RLIMIT_CPU, (again, hard[1]))
        raise TooSlow(f"stopped after {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGXCPU, late)
    resource.setrlimit(resource.RLIMIT_CPU, (end, hard[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, hard)
        signal.signal(signal.SIGXCPU, before)


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def versions() -> dict[str, str]:
    """Python and the packages that results depend on."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "cavity": cavity.__version__,
    }


def machine() -> dict[str, Any]:
    """Class of machine, not its name."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0].split(":", 1)[1].strip() if named else model
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system()}


def commit(root: Path) -> str:
    """Commit of a checkout, with a plus where tracked files have changed since; "unknown" elsewhere."""
    head = _git(root, "rev-parse", "--short=10", "HEAD")
    if head is None:
        return "unknown"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py")
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
