"""Tasks, options and sources of the accuracy benchmark."""

from __future__ import annotations

import importlib.util
import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.score import run
from benchmarks.accuracy.sets import CAVITY, MODULES, MORE, SETS, bars
from benchmarks.harness import Benchmark, Task
from benchmarks.methods import FOLDER

from cavity import datasets

QUICK_SPLITS = 2
ROOMS = ("ep", "model", "numerics", "estimators", "result")  # of cavity: what a fit depends on

Variant = tuple[str, str, dict[str, Any]]  # label, module, parameters


def tasks(options: Namespace) -> list[Task]:
    """The tasks that the options ask for: with --params its variants, and the methods that are named."""
    variants: list[Variant] = [
        (f"{CAVITY} {label(extra)}", MODULES[CAVITY], extra) for extra in options.params or ()
    ]
    out = []
    for name, of in SETS.items():
        params = of.params | (of.quick if options.quick else {})
        n_splits = min(of.n_splits, QUICK_SPLITS) if options.quick else of.n_splits
        plain: list[Variant] = []
        if options.methods or not variants:
            plain = [(m, MODULES[m], {}) for m in of.methods]
            if of.more_starts is not None and not options.quick:
                plain.append((MORE, MODULES[CAVITY], {"n_starts": of.more_starts}))
        for split in range(n_splits):
            for fold in range(options.inner) if options.inner else (None,):
                inner = {} if fold is None else {"inner": fold}
                for method, module, extra in plain + variants:
                    settings = {"settings": extra} if extra else {}
                    out.append(Task(name, split, method, params | inner | {"module": module} | settings))
    return out


def label(extra: dict[str, Any]) -> str:
    """Parameters in one word."""
    return ",".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in sorted(extra.items()))


def sources(task: Task) -> list[Path]:
    """Protocol, scores and method; for cavity also the rooms of the package that runs."""
    here = Path(__file__).parent
    files = [here / "protocols.py", here / "score.py", FOLDER / f"{task.params['module']}.py"]
    if task.params["module"] != MODULES[CAVITY]:
        return [*files, FOLDER / "gaussian.py"]
    return [*files, *package_sources()]


def package_sources() -> list[Path]:
    """The files of the package that a fit depends on."""
    found = importlib.util.find_spec("cavity")
    assert found is not None and found.origin is not None
    package = Path(found.origin).parent
    rooms = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    return [package / "types.py", *rooms]


def refusal(tasks: Sequence[Task]) -> str | None:
    """Why the data cannot be read, None if they can."""
    found = missing_data(tasks)
    return None if found is None else f"{found}, or --only case2"


def missing_data(tasks: Sequence[Task]) -> str | None:
    """Which sets are not where the data should be, None if all are."""
    folder = os.environ.get(datasets.DATA_VARIABLE, "")
    wanted = {task.params["data"] for task in tasks if "data" in task.params}
    missing = sorted(name for name in wanted if not (Path(folder) / f"{name}.csv.gz").is_file())
    if not missing:
        return None
    names = ", ".join(missing)
    return f"{names}: not found; set {datasets.DATA_VARIABLE} to the folder with NAME.csv.gz"


def options(parser: ArgumentParser) -> None:
    """Options for research; what they run is never written to the committed summary."""
    parser.add_argument(
        "--params",
        metavar="JSON",
        action="append",
        type=parameters,
        help="our estimator with these parameters, instead of the default methods; may be repeated",
    )
    parser.add_argument(
        "--inner",
        metavar="FOLDS",
        type=int,
        nargs="?",
        const=1,
        choices=range(1, 11),
        help="score on folds (1) of ten of the training rows instead of the test rows",
    )


def parameters(text: str) -> dict[str, Any]:
    """A JSON object with at least one entry."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(found, dict) or not found:
        raise ArgumentTypeError('an object is wanted, such as {"n_starts": 4}')
    return found


ACCURACY = Benchmark(
    name="accuracy",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: (*SETS[name].headline, "fit_cpu"),
    options=options,
    about="Held-out accuracy of EPRegressor's defaults. lpd, rmse, loo: units of y; mlpd, mse: units of the "
    "training target's standard deviation; cpu, wall: seconds of a process with one BLAS thread.",
    seeds="EPRegressor(random_state=0); housing, crime: KFold(10, shuffle=True, random_state=0); "
    "kin40k, case2: the split's number; elsewhere the published splits",
    refusal=refusal,
)
