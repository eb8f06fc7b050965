"""Variants of the defaults and their tasks: folds of training rows, so that no test row decides anything."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy import protocols, score
from benchmarks.accuracy.benchmark import missing_data, package_sources
from benchmarks.accuracy.sets import CAVITY
from benchmarks.harness import Bar, Benchmark, Task
from benchmarks.harness.benchmark import Row
from benchmarks.methods import FOLDER
from benchmarks.table1.settings import ARD

OURS, PAPER = "cavity_regressor", "ep_paper"
# What is changed, one thing at a time; the paper's network and zero start for comparison.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    CAVITY: (OURS, {}),
    "one start": (OURS, {"n_starts": 1}),
    "four starts": (OURS, {"n_starts": 4}),
    "inputs as they are": (OURS, {"draw_in": False}),
    "twelve starts, inputs as they are": (OURS, {"draw_in": False, "n_starts": 12}),
    "Gaussian noise": (OURS, {"likelihood": "gaussian"}),
    "one noise level": (OURS, {"noise": None}),
    "Gaussian noise, one level": (OURS, {"likelihood": "gaussian", "noise": None}),
    "no linear unit": (OURS, {"activation": "erf"}),
    "one common scale": (OURS, {"groups": "common"}),
    "Gaussian ARD": (OURS, {"prior": "ard"}),
    "fraction 0.7": (OURS, {"fraction": 0.7, "likelihood": "gaussian"}),
    "paper's zero start": (PAPER, ARD | {"n_hidden": 10}),
}
SETS = ("yacht", "boston", "energy", "concrete")
N_SPLITS = 2
QUICK_ROWS = 60
QUICK: dict[str, dict[str, Any]] = {
    OURS: {"n_hidden": 3, "n_starts": 2, "max_iter": 3},
    PAPER: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3},
}


def tasks(options: Namespace) -> list[Task]:
    """Fold 0 of ten of the training rows of the first splits, for every variant."""
    out = []
    for name in SETS:
        for split in range(1 if options.quick else N_SPLITS):
            for variant, (module, settings) in VARIANTS.items():
                chosen = settings | (QUICK[module] if options.quick else {})
                size = {"most_train": QUICK_ROWS} if options.quick else {}
                params = {"protocol": "canonical", "data": name, "inner": 0, "module": module, **size}
                out.append(Task(name, split, variant, params | ({"settings": chosen} if chosen else {})))
    return out


def sources(task: Task) -> list[Path]:
    """Protocol, scores, method, and the rooms of the package that runs."""
    shared = [Path(str(module.__file__)) for module in (protocols, score)]
    return [*shared, FOLDER / f"{task.params['module']}.py", *package_sources()]


def bars(rows: Sequence[Row]) -> list[Bar]:
    """None: the differences are the result."""
    return []


STARTS = Benchmark(
    name="starts",
    tasks=tasks,
    run=score.run,
    sources=sources,
    bars=bars,
    headline=lambda name: ("mlpd", "mse", "fit_cpu"),
    about="EPRegressor's defaults with one thing changed at a time, fitted to nine tenths of the training "
    "rows of a split and scored on the last tenth. mlpd, mse: units of the training target's standard "
    "deviation; cpu, wall: seconds of a process with one BLAS thread.",
    seeds="random_state=0; the published splits, KFold(10, shuffle=True, random_state=split) inside",
    refusal=missing_data,
)
