"""Tasks, scores and sources of the noise benchmark."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.accuracy.benchmark import missing_data, package_sources
from benchmarks.harness import Benchmark, Meter, Task
from benchmarks.methods import FOLDER, method
from benchmarks.noise.sets import LINEAR, N_SPLITS, SETS, SETTINGS, SLOPES, bars, log_noise_var, problem
from benchmarks.structures.score import of_numbers

MODULE = "cavity_regressor"
QUICK: dict[str, Any] = {"n_hidden": 3, "n_starts": 2, "max_iter": 10}


def tasks(options: Namespace) -> list[Task]:
    """Every set, split and kind of noise, slopes forced on simulated rows only; --quick has these alone."""
    out = []
    for name, params in SETS.items():
        if options.quick and "data" in params:
            continue
        for split in range(1 if options.quick else N_SPLITS):
            for kind, settings in SETTINGS.items():
                if kind == LINEAR and "data" in params:
                    continue
                more = QUICK if options.quick else {}
                size = {"n": 100} if options.quick else {}
                out.append(Task(name, split, kind, {**params, **size, "settings": settings | more}))
    return out


def run(task: Task) -> dict[str, Any]:
    """Scores of a kind of noise on a split; of simulated rows also what the true model scores."""
    params = task.params
    data = problem(params, task.split)
    module = method(MODULE)
    module.warm_up()
    with Meter() as fitting:
        fitted = module.fit(data.X, data.y, **params["settings"])
    posterior = fitted.model.posterior_
    share = sum(
        w for w, c in zip(posterior.weights, posterior.components, strict=True) if c.spec.noise.varies
    )
    row = {
        **of_numbers(data, fitted),
        "n_train": len(data.y),
        "n_test": len(data.y_test),
        "n_inputs": data.X.shape[1],
        "fit_cpu": fitting.cpu,
        "share_varying": float(share),
        **fitted.facts(),
    }
    if data.f_test is not None:
        log_var = log_noise_var(params, data.X_test)
        square = (data.y_test - data.f_test) ** 2
        row["lpd_truth"] = float(-0.5 * np.mean(square * np.exp(-log_var) + log_var + np.log(2.0 * np.pi)))
        found = fitted.model.posterior_.noise_slopes
        true = np.array(SLOPES[params["noise"]]) * data.X.std(axis=0)
        row["slopes"], row["slopes_sd"] = found.mean.tolist(), np.sqrt(found.var).tolist()
        row["slopes_rmse"] = float(np.sqrt(np.mean((found.mean - true) ** 2)))
    return row


def sources(task: Task) -> list[Path]:
    """Protocol, scores, method, and the rooms of the package that runs."""
    here = Path(__file__).parent
    shared = [here.parent / "structures" / "score.py", here.parent / "accuracy" / "protocols.py"]
    return [here / "sets.py", here / "benchmark.py", *shared, FOLDER / f"{MODULE}.py", *package_sources()]


NOISE = Benchmark(
    name="noise",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: ("lpd", "rmse", "coverage95", "share_varying", "fit_cpu"),
    about="EPRegressor's defaults with one noise level, with noise whose log variance is linear in the "
    "inputs, and with the choice of the two by leave-one-out. lpd, rmse: units of y; lpd_truth: mean log "
    "density of the test rows under the model that made them; share_varying: weight of the fits whose noise "
    "depends on the inputs; cpu, wall: seconds of a process with one BLAS thread.",
    seeds="random_state=0; simulated rows: the split's number; elsewhere the published splits",
    refusal=missing_data,
)
