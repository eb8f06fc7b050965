"""How much memory a fit takes, and a refusal with numbers before it cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

from cavity.model.spec import FORMS

# Arrays of each shape alive at the peak of a fit (start, sweeps, leave-one-out), fitted to traced peaks from
# n = 100, d = 1000 to n = 20000, d = 10; tests/estimators/test_memory.py holds it within a factor of two.
_ROW_INPUT, _ROW_UNIT, _UNIT_SQUARE, _DUAL, _DIAGONAL = 6, 32, 8, 5, 24
_BASE = 16_000_000  # compiled kernels


def estimate_memory(n_rows: int, n_inputs: int, n_hidden: int, form: str = "auto", n_jobs: int = 1) -> int:
    """Bytes that fitting a network takes at its peak, good to about a factor of two.

    Parameters
    ----------
    n_rows, n_inputs, n_hidden : int
        n, d (the bias not counted) and K.
    form : {"auto", "full", "dual", "diagonal"}
        How the covariance of each unit's input weights is kept; "auto" is "dual" where d + 1 > n.
    n_jobs : int
        Processes that run at the same time.
    """
    for name, value in (("n_rows", n_rows), ("n_inputs", n_inputs), ("n_hidden", n_hidden)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown: use one of {FORMS}.")
    d, K = n_inputs + 1, n_hidden
    if form == "auto":
        form = "dual" if d > n_rows else "full"
    numbers = _ROW_INPUT * n_rows * d + _ROW_UNIT * n_rows * (K + 1)
    if form == "diagonal":
        numbers += _DIAGONAL * K * d
    elif form == "full":
        numbers += _UNIT_SQUARE * K * d * d
    else:
        rank = min(n_rows, d)
        numbers += _UNIT_SQUARE * K * rank * rank + _DUAL * K * rank * (d + n_rows)
    return n_jobs * (8 * numbers + _BASE)


def available_memory() -> int | None:
    """Bytes that can be had now, None where the system does not say."""
    found: list[int] = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        pass
    if not found:
        try:
            found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return None
    try:  # a container's limit
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):
        pass
    return min(found)


def check_memory(n_rows: int, n_inputs: int, n_hidden: int, form: str = "auto", n_jobs: int = 1) -> None:
    """Raise a `MemoryError` that says how much is needed, how much there is, and what would help."""
    needed, available = estimate_memory(n_rows, n_inputs, n_hidden, form, n_jobs), available_memory()
    if available is None or needed <= available:
        return
    advice = ["fewer hidden units", "fewer rows"]
    if n_jobs > 1:
        advice.insert(0, "fewer jobs")
    if estimate_memory(n_rows, n_inputs, n_hidden, "diagonal", n_jobs) < 0.5 * needed:
        advice.append('form="diagonal"')
    raise MemoryError(
        f"fitting {n_rows} rows, {n_inputs} inputs and {n_hidden} hidden units takes about "
        f"{needed / 1e9:.3g} GB, but only {available / 1e9:.3g} GB are free: use {' or '.join(advice)}."
    )
