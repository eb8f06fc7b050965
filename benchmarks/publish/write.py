"""Read the summaries, write the page, and fill the README between its two markers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.publish.page import page
from benchmarks.publish.readme import table

RESULTS = ("accuracy", "mixtures", "starts", "peers", "structures", "table1", "cases")
START, END = "<!-- benchmarks: start -->", "<!-- benchmarks: end -->"

Summaries = Mapping[str, dict[str, Any]]


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The summaries that are there, by name."""
    paths = {name: folder / f"{name}.json" for name in RESULTS}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.is_file()}


def publish(root: Path) -> list[Path]:
    """Write what has changed under a checkout; the paths that were written."""
    return [path for path, text in wanted(root).items() if _write(path, text)]


def wanted(root: Path) -> dict[Path, str]:
    """The files that are made of the summaries, and what they should hold."""
    found = read(root / "benchmarks" / "results")
    readme = root / "README.md"
    out = {root / "docs" / "benchmarks.md": page(found, RESULTS)}
    before = readme.read_text("utf-8")
    return out | ({readme: fill(before, table(found))} if START in before else {})


def fill(text: str, table: str) -> str:
    """The text with a table between the markers."""
    head, rest = text.split(START, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{START}\n{table.strip()}\n{END}{tail}"


def _write(path: Path, text: str) -> bool:
    if path.is_file() and path.read_text("utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
