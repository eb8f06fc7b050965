"""CPU time of a sweep on one core: `make bench-sweep` writes benchmarks/results/sweep.json.

Three sizes of data with Gaussian ARD priors and inferred noise, as they stand after a short warm-up
(so that node counts are those of a running fit). Medians of process CPU time with BLAS on one thread.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from cavity.ep.schedule import Step
from cavity.ep.solve import solve
from cavity.ep.starts import zero_start
from cavity.ep.sweep import sweep
from cavity.model.data import prepare
from cavity.model.spec import network

SIZES = [(455, 13, 10, 40), (1794, 102, 10, 12), (5000, 100, 30, 6)]
BUDGET_MS = {455: 12.0, 1794: 120.0, 5000: 500.0}
RUNS = 5
BUDGET_NS, BUDGET_COMPILE = 30.0, 30.0
RESULT = Path(__file__).parents[1] / "results" / "sweep.json"


def measure(n: int, d: int, K: int, repeats: int) -> dict[str, float]:
    """Median CPU milliseconds of a parallel and a sequential sweep, and of the row kernel alone per node."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.tanh(X[:, :4].sum(axis=1)) + 0.5 * np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)
    data = prepare(X, y).data
    spec = network(d, K, prior="gaussian", groups="input")
    state, schedule = zero_start(spec, data, Step(damping=0.4), warm_sweeps=8, max_sweeps=4)
    state = solve(spec, data, state, schedule).state
    out: dict[str, float] = {"n": n, "d_with_bias": d + 1, "K": K}
    with threadpool_limits(1):
        for name, step in (
            ("parallel", Step(damping=0.3)),
            ("parallel, input prior held", Step(damping=0.3, weight_prior="hold")),
            ("block 256", Step(damping=0.3, block_size=256)),
            ("sequential", Step(damping=0.5, block_size=1)),
        ):
            count = repeats if name.startswith("parallel") else max(repeats // 6, 1)
            sweep(spec, data, state, step)
            times = []
            for _ in range(count):
                start = time.process_time()
                _, info = sweep(spec, data, state, step)
                times.append(time.process_time() - start)
            out[f"{name} ms"] = 1e3 * float(np.median(times))
            out["nodes per activation"] = info.nodes / (n * K)
        out["ns per row, unit and node"] = kernel_ns(spec, data, state, repeats)
    return out


def typical(*size: int) -> dict[str, float]:
    """Medians over RUNS measurements, and the range of the parallel sweep over them."""
    runs = [measure(*size) for _ in range(RUNS)]
    out = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
    times = [run["parallel ms"] for run in runs]
    return {**out, "parallel ms, least": min(times), "parallel ms, most": max(times)}


def kernel_ns(spec, data, state, repeats: int) -> float:
    """CPU nanoseconds of the fused kernel per (row, unit, node), cavities and moments of g included."""
    from cavity.ep.network import visit_rows
    from cavity.ep.sweep import active_mask, held
    from cavity.types import Gaussian

    h = Gaussian(state.posterior.w.h_mean, state.posterior.w.h_var)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        visit = visit_rows(
            spec,
            data.y,
            data.row_var,
            h,
            state.rows,
            held(state.posterior),
            Step(),
            active_mask(spec.n_hidden, None),
        )
        times.append(time.process_time() - start)
    return 1e9 * float(np.median(times)) / float(visit.nodes.sum())


def cold_compilation() -> dict[str, float]:
    """CPU seconds of a first fit with an empty kernel cache, and of a second process that finds it."""
    code = (
        "import time, numpy as np\n"
        "from cavity.model.data import prepare\nfrom cavity.model.spec import network\n"
        "from cavity.ep.starts import zero_start\nfrom cavity.ep.solve import solve\n"
        "from cavity.ep.schedule import Step\n"
        "rng = np.random.default_rng(0); X = rng.normal(size=(20, 2)); d = prepare(X, X[:, 0]).data\n"
        "s = network(2, 2)\nt = time.process_time()\n"
        "for b in (None, 1):\n"
        "    solve(s, d, *zero_start(s, d, Step(block_size=b), warm_sweeps=1, max_sweeps=1))\n"
        "print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        runs = [
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    return {
        "cold CPU s": float(runs[0].stdout),
        "cached CPU s": float(runs[1].stdout),
        "announced": "compiling" in runs[0].stderr,
    }


def main() -> None:
    """Measure everything, print a table, write the JSON, and say where a budget is missed."""
    rows = [typical(*size) for size in SIZES]
    compilation = cold_compilation()
    RESULT.parent.mkdir(exist_ok=True)
    result = {
        "what": "CPU time of one sweep on one core, Gaussian ARD prior, inferred noise",
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "sweeps": rows,
        "compilation": compilation,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    missed = []
    for row in rows:
        print("  ".join(f"{k} {v:.4g}" for k, v in row.items()))
        if row["parallel ms"] > BUDGET_MS[int(row["n"])]:
            missed.append(f"parallel sweep at n = {row['n']}")
        if row["ns per row, unit and node"] > BUDGET_NS:
            missed.append(f"kernel at n = {row['n']}")
    print(compilation)
    if compilation["cold CPU s"] > BUDGET_COMPILE or not compilation["announced"]:
        missed.append("cold compilation")
    print("all budgets held" if not missed else f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
