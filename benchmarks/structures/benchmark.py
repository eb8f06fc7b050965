"""Tasks, options and sources of the structures benchmark."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from benchmarks.accuracy.benchmark import label, options, package_sources, refusal
from benchmarks.harness import Benchmark, Task
from benchmarks.methods import FOLDER
from benchmarks.structures.score import run
from benchmarks.structures.sets import CAVITY, SETS, Method, bars, methods

QUICK_SPLITS = 2
SHARED = {
    "lasso_cv": "gaussian",
    "logistic_cv": "classes",
    "gp_classifier": "classes",
}  # what modules rest on


def tasks(options: Namespace) -> list[Task]:
    """The tasks that the options ask for: with --params its variants, and the methods that are named."""
    out = []
    for name, of in SETS.items():
        params = of.params | (of.quick if options.quick else {})
        n_splits = min(of.n_splits, QUICK_SPLITS) if options.quick else of.n_splits
        known = methods(name)
        ours = known[CAVITY].module
        variants = {f"{CAVITY} {label(extra)}": Method(ours, extra) for extra in options.params or ()}
        plain = known if options.methods or not variants else {}
        for split in range(n_splits):
            for fold in range(options.inner) if options.inner else (None,):
                inner = {} if fold is None else {"inner": fold}
                for method, how in (plain | variants).items():
                    more = {"module": how.module} | ({"settings": how.settings} if how.settings else {})
                    out.append(Task(name, split, method, params | how.params | inner | more))
    return out


def sources(task: Task) -> list[Path]:
    """Protocol, scores and method; for cavity also the rooms of the package that runs."""
    here, module = Path(__file__).parent, task.params["module"]
    files = [here / "protocols.py", here / "score.py", FOLDER / f"{module}.py"]
    if module.startswith("cavity_"):
        return [*files, *package_sources()]
    return [*files, FOLDER / f"{SHARED[module]}.py"]


STRUCTURES = Benchmark(
    name="structures",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: (*SETS[name].headline, "fit_cpu"),
    options=options,
    about="Held-out scores of the defaults of EPClassifier and EPRegressor beside peers with recommended "
    "settings. lpd: mean log predictive probability (classes) or density in units of y; mlpd: the same in "
    "units of the training target's robust scale; mse: squared units of y; cpu, wall: seconds of a process "
    "with one BLAS thread.",
    seeds="random_state=0; (Stratified)KFold(shuffle=True, random_state=0); gross_outliers: the split's "
    "number; leukemia, madelon, outlier_data: the published split",
    refusal=refusal,
)
