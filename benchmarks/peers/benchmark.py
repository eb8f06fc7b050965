"""Tasks and sources of the comparison with peers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.accuracy.benchmark import package_sources, refusal
from benchmarks.harness import Benchmark, Task
from benchmarks.harness.benchmark import Row
from benchmarks.methods import FOLDER
from benchmarks.peers import peers
from benchmarks.peers.peers import CAVITY, CPU_LIMIT, SELECTORS, Peer, Selector
from benchmarks.peers.ranks import bars
from benchmarks.peers.score import home, run
from benchmarks.peers.sets import CLASSES, QUICK_ROWS, QUICK_SPLITS, RELEVANCE, SETS, Set


def tasks(options: Namespace) -> list[Task]:
    """Every method on the splits of every set that it is given; the small form has one split of few rows."""
    out = []
    for name, of in SETS.items():
        small = {"n" if of.kind == RELEVANCE else "most_train": QUICK_ROWS} if options.quick else {}
        for method, n_splits, more in methods(of):
            for split in range(min(n_splits, QUICK_SPLITS) if options.quick else n_splits):
                out.append(Task(name, split, method, of.params | small | more))
    return out


def methods(of: Set) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The methods of a set, the number of splits that each is given, and its parameters."""
    if of.kind == RELEVANCE:
        for name, one in SELECTORS.items():
            yield name, min(of.n_splits, one.splits), about(name, one, one.module, one.settings)
        return
    for name, peer in peers.PEERS.items():
        found = peer.module_for(of.kind == CLASSES)
        if found is not None:
            n_splits = min(of.n_splits, peer.splits_of(of.large, of.kind == CLASSES))
            yield name, n_splits, about(name, peer, *found, peer.rows_of(of.n_rows))


def about(
    method: str, peer: Peer | Selector, module: str, settings: dict[str, Any], most_train: int | None = None
) -> dict[str, Any]:
    """What of a method a result depends on."""
    limit = {} if method.startswith(CAVITY) else {"cpu_limit": CPU_LIMIT}
    limit |= {"most_train": most_train} if most_train else {}
    packages = {"packages": list(peer.packages)} if peer.packages else {}
    return {"module": module, "peer": limit | packages} | ({"settings": settings} if settings else {})


def sources(task: Task) -> list[Path]:
    """Protocol, scores and method; for cavity also the rooms of the package that runs."""
    module, scores = task.params["module"], Path(str(home(task.params).__file__))
    of = "relevance" in task.params
    files = [scores, FOLDER / "selection.py" if of else scores.with_name("protocols.py")]
    shared = (SELECTORS if of else peers.PEERS)[task.method].shared
    files += [FOLDER / f"{name}.py" for name in (module, *shared)]
    return [*files, *package_sources()] if task.method.startswith(CAVITY) else files


def may_fail(row: Row) -> bool:
    """A peer that is not installed, too slow or broken is a row that says so."""
    return not row["method"].startswith(CAVITY)


PEERS = Benchmark(
    name="peers",
    tasks=tasks,
    run=run,
    sources=sources,
    bars=bars,
    headline=lambda name: SETS[name].headline,
    about="cavity's defaults beside peers with recommended settings, on the same splits. lpd: mean log "
    "predictive density in units of y, or log probability of classes; rmse: units of y; cpu, wall: seconds "
    f"of a process with one thread, at most {CPU_LIMIT:g} s of a peer; peak_mb: with its imports.",
    seeds="random_state=0 or seed 0 in every method; the published splits; StratifiedKFold(shuffle=True, "
    "random_state=0) for classes",
    refusal=refusal,
    may_fail=may_fail,
)
