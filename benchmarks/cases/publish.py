"""The command of the cases: run, then draw the figures and write the page."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases.benchmark import BENCHMARK, tasks
from benchmarks.cases.figures import draw
from benchmarks.cases.page import page
from benchmarks.harness import command
from benchmarks.harness.cache import Cache
from benchmarks.harness.command import CACHE_VARIABLE, HOME

FIGURE_SEED = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; a run over the whole list also writes docs/cases.md and its figures.

    The small form writes them beside its cache, so that it shows all that the whole one does.
    """
    code = command(BENCHMARK, arguments)
    asked = _read(arguments)
    if code or asked.list or asked.only or asked.methods or asked.splits is not None:
        return code
    cache = Cache(asked.cache, BENCHMARK)
    beside = cache.folder / "summary.json" if asked.quick else HOME / "results" / "cases.json"
    folder = cache.folder / "docs" if asked.quick else HOME.parent / "docs"
    publish(asked.out or beside, folder, cache, asked)
    return code


def publish(summary: Path, folder: Path, cache: Cache, asked: Namespace) -> None:
    """Figures from the cached curves of one seed, the page from the summary."""
    records = {
        (task.set, task.method): record["detail"]
        for task in tasks(asked)
        if task.split == FIGURE_SEED and (record := cache.find(task, asked.keep)) and "detail" in record
    }
    figures = draw(records, folder / "figures" / "cases")
    text = page(json.loads(summary.read_text(encoding="utf-8")), figures)
    (folder / "cases.md").write_text(text, encoding="utf-8")
    print(f"{len(figures)} figures and cases.md written to {os.path.relpath(folder)}")


def _read(arguments: Sequence[str] | None) -> Namespace:
    """The options of the harness that matter here; it has already refused what is wrong."""
    parser = ArgumentParser(add_help=False)
    for name in ("--only", "--methods"):
        parser.add_argument(name, default="")
    parser.add_argument("--splits", type=int)
    for name in ("--quick", "--list", "--keep"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--cache", type=Path, default=Path(os.environ.get(CACHE_VARIABLE) or HOME / ".cache"))
    parser.add_argument("--out", type=Path)
    return parser.parse_known_args(arguments)[0]
