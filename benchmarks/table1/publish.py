"""The command of Table 1: run, put the table into the summary, write the page."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Task, command
from benchmarks.harness.cache import plain, write
from benchmarks.harness.command import HOME, asked, committed_path, open_cache, summary_path
from benchmarks.harness.summary import to_json
from benchmarks.table1.benchmark import BENCHMARK
from benchmarks.table1.page import page
from benchmarks.table1.table import table

STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the whole list also writes docs/table1.md, any part a page beside its cache."""
    code = command(BENCHMARK, arguments)
    options, tasks = asked(BENCHMARK, arguments)
    if code == STOPPED or options.list:
        return code
    publish(options, tasks)
    return code


def publish(options: Namespace, tasks: Sequence[Task]) -> None:
    """The table from the rows of the splits, the page from the summary."""
    cache = open_cache(BENCHMARK, options)
    path = summary_path(BENCHMARK, options, tasks)
    found = [(task, record) for task in tasks if (record := cache.find(task, options.keep)) is not None]
    summary = json.loads(path.read_text(encoding="utf-8"))
    summary["table"] = plain(table(found))
    write(path, to_json(summary))
    where = page_path(path)
    write(where, page(summary))
    print(f"table written to {os.path.relpath(where)}")


def page_path(summary: Path) -> Path:
    """docs/table1.md for the committed summary, a file beside any other."""
    whole = summary == committed_path(BENCHMARK)
    return HOME.parent / "docs" / "table1.md" if whole else summary.with_suffix(".md")
