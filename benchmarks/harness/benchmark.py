"""A task, and a benchmark as a list of tasks."""

from __future__ import annotations

import ast
import hashlib
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.harness.summary import Bar

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One method on one split of one set. ``params`` is JSON and tells all that the result depends on."""

    set: str
    split: int
    method: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Short hash of the task."""
        return digest([self.set, self.split, self.method, self.params])

    def __str__(self) -> str:
        return f"{self.set} {self.split}, {self.method}"


@dataclass(frozen=True)
class Benchmark:
    """A name and what the harness needs to know.

    ``tasks(options)`` lists the tasks that the command line asks for; with default options these are the
    tasks of the committed summary. ``run(task)`` is a pure function of a module, run in a process of its
    own; what it returns becomes the row, except the entry "detail", which only the cache keeps, and
    "versions" of packages beyond those that are always listed. ``sources(task)`` are the files whose change
    makes a result old. ``bars(rows)`` are held against complete runs. ``headline(set)`` names the values that
    are shown. ``refusal(tasks)`` says why tasks cannot run here at all, such as data that are not there, so
    that they do not fail one by one. ``may_fail(row)`` says of which rows an error is a result like any other
    and no failure of the run.
    """

    name: str
    tasks: Callable[[Namespace], list[Task]]
    run: Callable[[Task], Row]
    sources: Callable[[Task], Iterable[Path]]
    bars: Callable[[Sequence[Row]], list[Bar]]
    headline: Callable[[str], Sequence[str]]
    options: Callable[[ArgumentParser], None] = lambda parser: None
    about: str = ""
    seeds: str = ""
    refusal: Callable[[Sequence[Task]], str | None] = lambda tasks: None
    may_fail: Callable[[Row], bool] = lambda row: False

    def sources_digest(self, task: Task) -> str:
        """Short hash of the code that a task's result depends on."""
        return source_digest(tuple(sorted(self.sources(task))))


def digest(value: Any) -> str:
    """Twelve hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=64)
def source_digest(paths: tuple[Path, ...]) -> str:
    """Hash of Python files by their code: comments, docstrings and layout do not count."""
    return digest([[path.name, code_of(path)] for path in paths])


@lru_cache(maxsize=1024)
def code_of(path: Path) -> str:
    """A file's code without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            assert isinstance(body, list)
            del body[0]
    return ast.unparse(tree)
