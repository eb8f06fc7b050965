"""Tasks, sources and refusals of Table 1."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy import protocols
from benchmarks.accuracy import score as scores
from benchmarks.accuracy.benchmark import missing_data, package_sources
from benchmarks.harness import Benchmark, Task
from benchmarks.methods import FOLDER
from benchmarks.table1 import score
from benchmarks.table1.bars import bars
from benchmarks.table1.published import CAVITY
from benchmarks.table1.settings import MODULES, NEEDS, QUICK, SETS

HELPERS = {
    "ep_paper": ("units_anew",),
    "gp_nn": ("nn_kernel",),
    "gp_nn_ard": ("nn_kernel", "gp_nn"),
}
OURS = ("ep_paper", MODULES[CAVITY])  # methods that run the package


def tasks(options: Namespace) -> list[Task]:
    """Each set, split and method that is planned."""
    out = []
    for name, of in SETS.items():
        for method, plan in of.plans.items():
            params = of.params | plan.params | (of.quick if options.quick else {})
            settings = plan.settings | (QUICK[method] if options.quick else {})
            chosen = {"settings": settings} if settings else {}
            for split in range(1 if options.quick else plan.n_splits):
                out.append(Task(name, split, method, params | {"module": MODULES[method]} | chosen))
    return out


def sources(task: Task) -> list[Path]:
    """Protocol, scores and method; for networks that EP fits also the rooms of the package that runs."""
    module = task.params["module"]
    names = (module, *HELPERS.get(module, ()))
    files = [Path(str(source.__file__)) for source in (protocols, scores, score)]
    methods = [FOLDER / f"{name}.py" for name in names]
    return [*files, *methods, *(package_sources() if module in OURS else [])]


def refusal(tasks: Sequence[Task]) -> str | None:
    """Why tasks cannot run: data or a package are not there."""
    if (found := missing_data(tasks)) is not None:
        return found
    for method, package in NEEDS.items():
        if any(task.method == method for task in tasks) and importlib.util.find_spec(package) is None:
            return (
                f"{method} needs {package}: pip install -c benchmarks/constraints.txt {package}, "
                "or name the other --methods"
            )
    return None


BENCHMARK = Benchmark(
    name="table1",
    tasks=tasks,
    run=score.run,
    sources=sources,
    bars=bars,
    headline=lambda name: ("mlpd", "lpd_p01", "mse", "cpu_total"),
    about="Table 1 of the paper: ep_la and ep_ard are its networks as it fits them (its K and priors, zero "
    "start, sequential), ep_units starts with one unit and adds the others, ep_anew does so too and goes on "
    "with joint steps and units begun anew, kept where leave-one-out says so, ep_map starts at a MAP "
    "network, cavity is EPRegressor(), gp and gp_ard have the neural-network covariance at their "
    "marginal-likelihood optimum, nn_mc is the network with ARD priors sampled by NUTS. Log densities and "
    "squared errors are of targets "
    "standardised by the training rows.",
    seeds="housing, crime: KFold(10, shuffle=True, random_state=0); kin40k: the split's number; UCI sets: "
    "the published splits; random starts and chains: 0",
    refusal=refusal,
)
