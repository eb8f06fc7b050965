"""Tasks and sources of the comparison with peers."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks import accuracy, structures
from benchmarks.accuracy.benchmark import package_sources, refusal
from benchmarks.harness import Benchmark, Task
from benchmarks.harness.benchmark import Row
from benchmarks.methods import FOLDER
from benchmarks.peers import peers
from benchmarks.peers.peers import CAVITY, CPU_LIMIT, Peer
from benchmarks.peers.ranks import bars
from benchmarks.peers.score import run
from benchmarks.peers.sets import CLASSES, QUICK_ROWS, QUICK_SPLITS, SETS, Set

HOMES = {False: accuracy, True: structures}  # of the protocols and scores, for numbers and for classes


def tasks(options: Namespace) -> list[Task]:
    """Every method on the splits of every set that it is given; the small form has one split of few rows."""
    out = []
    for name, of in SETS.items():
        params = of.params | ({"most_train": QUICK_ROWS} if options.quick else {})
        for method, peer in peers.PEERS.items():
            found = peer.module_for(of.kind == CLASSES)
            if found is None:
                continue
            module, settings = found
            more = {"module": module, "peer": about(peer, of)} | ({"settings": settings} if settings else {})
            n_splits = min(of.n_splits, peer.large_splits if of.large else peer.splits)
            for split in range(min(n_splits, QUICK_SPLITS) if options.quick else n_splits):
                out.append(Task(name, split, method, params | more))
    return out


def about(peer: Peer, of: Set) -> dict[str, Any]:
    """What of a peer a result depends on."""
    limits = {"cpu_limit": CPU_LIMIT} if peer.module != peers.PEERS[CAVITY].module else {}
    part = {"most_train": peer.most_train} if of.large and peer.most_train else {}
    return limits | part | ({"packages": list(peer.packages)} if peer.packages else {})


def sources(task: Task) -> list[Path]:
    """Protocol, scores and method; for cavity also the rooms of the package that runs."""
    home = Path(HOMES[bool(task.params.get("classes"))].__path__[0])
    module = task.params["module"]
    files = [home / "protocols.py", home / "score.py", FOLDER / f"{module}.py"]
    files += [FOLDER / f"{name}.py" for name in peers.PEERS[task.method].shared]
    return [*files, *package_sources()] if module.startswith("cavity_") else files


def may_fail(row: Row) -> bool:
    """A peer that is not installed, too slow or broken is a row that says so."""
    return row["method"] != CAVITY


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
