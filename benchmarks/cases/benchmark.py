"""Tasks and sources of the cases."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.accuracy.benchmark import ROOMS
from benchmarks.cases.claims import bars
from benchmarks.cases.measure import run
from benchmarks.cases.settings import (
    CASES,
    CAVITY,
    INFINITE,
    MODULES,
    PAPER,
    QUICK,
    QUICK_ROWS,
    QUICK_SEEDS,
    SEEDS,
)
from benchmarks.harness import Benchmark, Task
from benchmarks.methods import FOLDER

import cavity


def tasks(options: Namespace) -> list[Task]:
    """Each case, seed and method."""
    out = []
    for name, case in CASES.items():
        settings: dict[str, dict[str, Any]] = {
            PAPER: case.paper,
            CAVITY: {},
            INFINITE: case.infinite_settings,
        }
        for seed in range(QUICK_SEEDS if options.quick else SEEDS):
            for method, of in settings.items():
                params = {
                    "n": QUICK_ROWS if options.quick else case.n,
                    "module": MODULES.get(method, case.infinite),
                    "settings": of | (QUICK[method] if options.quick else {}),
                }
                out.append(Task(name, seed, method, params))
    return out


def sources(task: Task) -> list[Path]:
    """Measurements and method; for networks also the rooms of the package that runs."""
    package = Path(cavity.__file__).parent
    files = [Path(__file__).parent / "measure.py", package / "datasets.py"]
    if task.params["module"].startswith("gp"):
        return [*files, *(FOLDER / f"{name}.py" for name in ("nn_kernel", "gp_nn", "gp_nn_ard"))]
    rooms = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    return [*files, FOLDER / f"{task.params['module']}.py", package / "types.py", *rooms]


BENCHMARK = Benchmark(
    name="cases",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: (*CASES[name].headline, "fit_cpu"),
    about="Cases 1 to 3 of the paper: ep_paper is the network as the paper fits it (zero start, its K and "
    "priors, sequential), cavity is EPRegressor(), gp the infinite network at its "
    "marginal-likelihood optimum. Bars are the paper's claims; a missed one did not reproduce.",
    seeds="data: the split's number, fresh rows 1000 more; EPRegressor(random_state=0)",
)
