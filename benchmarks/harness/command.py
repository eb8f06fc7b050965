"""The command line of a benchmark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness.benchmark import Benchmark, Task
from benchmarks.harness.cache import Cache, plain, write
from benchmarks.harness.measure import commit
from benchmarks.harness.pool import run_tasks
from benchmarks.harness.progress import Progress
from benchmarks.harness.summary import summarise, table, to_json

HOME = Path(__file__).resolve().parents[1]
CACHE_VARIABLE = "CAVITY_BENCH_CACHE"


def command(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for, show and write a summary; 1 where tasks failed, 130 if stopped."""
    parser = _parser(benchmark)
    options = parser.parse_args(arguments)
    tasks = _select(parser, benchmark, options)
    if options.list:
        print("\n".join(map(str, tasks)))
        return 0
    cache = open_cache(benchmark, options)
    head = commit(HOME.parent)

    def missing(task: Task) -> bool:
        record = cache.find(task, options.keep)
        return record is None or (options.retry and "error" in record["row"])

    todo = [] if options.report else [task for task in tasks if missing(task)]
    if todo:
        if (reason := benchmark.refusal(todo)) is not None:
            parser.error(reason)
        print(f"{benchmark.name}: {len(tasks)} tasks, {len(tasks) - len(todo)} known", file=sys.stderr)

        def stamp(task: Task) -> dict[str, str]:
            return {"commit": head, "sources": benchmark.sources_digest(task)}

        with Progress(todo, options.jobs, cache.seconds, benchmark.headline) as progress:
            try:
                run_tasks(benchmark, cache, todo, stamp, options.jobs, options.time_limit, progress.finished)
            except KeyboardInterrupt:
                left = len(progress.left)
                print(f"stopped with {left} left; the same command goes on from here", file=sys.stderr)
                return 130
    found = [(task, record) for task in tasks if (record := cache.find(task, options.keep)) is not None]
    full = _full(benchmark)
    whole = {task.digest for task in tasks} == full
    summary = summarise(benchmark, tasks, [record for _, record in found], head)
    bars = benchmark.bars([record["row"] for task, record in found if task.digest in full])
    summary["bars"] = [plain(asdict(bar)) for bar in bars if whole or bar.value is not None]
    print(table(benchmark, summary))
    path = options.out or _path(benchmark, cache, whole)
    write(path, to_json(summary))
    _say(summary, path)
    return int(any("error" in row and not benchmark.may_fail(row) for row in summary["rows"]))


def asked(
    benchmark: Benchmark, arguments: Sequence[str] | None = None
) -> tuple[argparse.Namespace, list[Task]]:
    """The options of a command line and the tasks that they select, for what is made of the results."""
    parser = _parser(benchmark)
    options = parser.parse_args(arguments)
    return options, _select(parser, benchmark, options)


def summary_path(benchmark: Benchmark, options: argparse.Namespace, tasks: Sequence[Task]) -> Path:
    """Where `command` writes the summary of these tasks."""
    whole = {task.digest for task in tasks} == _full(benchmark)
    return options.out or _path(benchmark, open_cache(benchmark, options), whole)


def committed_path(benchmark: Benchmark) -> Path:
    """Where the summary of the whole benchmark is committed."""
    return HOME / "results" / f"{benchmark.name}.json"


def open_cache(benchmark: Benchmark, options: argparse.Namespace) -> Cache:
    """The cache that is asked for, with the committed rows before it."""
    return Cache(options.cache, benchmark, committed_path(benchmark))


def _path(benchmark: Benchmark, cache: Cache, whole: bool) -> Path:
    """Only the whole benchmark goes where results are committed; anything else stays beside the cache."""
    return committed_path(benchmark) if whole else cache.folder / "summary.json"


def _full(benchmark: Benchmark) -> set[str]:
    """Digests of the tasks of the committed summary."""
    return {task.digest for task in benchmark.tasks(_parser(benchmark).parse_args([]))}


def _say(summary: dict[str, Any], path: Path) -> None:
    parts = [f"{summary['n_tasks'] - summary['n_missing']} of {summary['n_tasks']} tasks"]
    parts += [f"{summary[f'n_{word}']} {word}" for word in ("failed", "kept") if summary[f"n_{word}"]]
    print(f"\n{', '.join(parts)}; written to {os.path.relpath(path)}")
    for row in summary["rows"]:
        if "error" in row:
            print(f"failed: {row['set']} {row['split']}, {row['method']}: {row['error']}")


def _parser(benchmark: Benchmark) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"benchmarks.{benchmark.name}", description=benchmark.about)
    parser.add_argument("--only", metavar="SET[,SET]", default="", help="only these sets")
    parser.add_argument("--methods", metavar="NAME[,NAME]", default="", help="only these methods")
    parser.add_argument("--splits", metavar="N", type=int, help="only the first N splits of each set")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="processes (2)")
    parser.add_argument("--quick", action="store_true", help="a small form that takes a few minutes")
    parser.add_argument("--list", action="store_true", help="list the tasks and stop")
    parser.add_argument("--report", action="store_true", help="run nothing, summarise what the cache holds")
    parser.add_argument("--keep", action="store_true", help="take cached results of older sources, marked")
    parser.add_argument("--retry", action="store_true", help="run failed tasks again")
    parser.add_argument("--time-limit", metavar="S", type=float, help="stop a task after S seconds")
    where = Path(os.environ.get(CACHE_VARIABLE) or HOME / ".cache")
    parser.add_argument(
        "--cache", metavar="DIR", type=Path, default=where, help=f"also {CACHE_VARIABLE} ({_near(where)})"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the summary here instead")
    benchmark.options(parser)
    return parser


def _near(path: Path) -> str:
    return os.path.relpath(path)


def _select(parser: argparse.ArgumentParser, benchmark: Benchmark, options: argparse.Namespace) -> list[Task]:
    """The tasks that are asked for, first splits first, so that an early look sees all sets."""
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    tasks = benchmark.tasks(options)
    for name, read in (("only", lambda task: task.set), ("methods", lambda task: task.method.split()[0])):
        wanted = [w for w in getattr(options, name).split(",") if w]
        known = list(dict.fromkeys(map(read, tasks)))
        if unknown := sorted(set(wanted) - set(known)):
            parser.error(f"--{name}: no {', '.join(unknown)}; there are {', '.join(known)}")
        tasks = [task for task in tasks if not wanted or read(task) in wanted]
    if options.splits is not None:
        tasks = [task for task in tasks if task.split < options.splits]
    return sorted(tasks, key=lambda task: task.split)
