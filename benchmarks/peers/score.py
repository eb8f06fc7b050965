"""Run one task: the scores of the benchmark that a set comes from, within a limit of CPU time."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from types import ModuleType
from typing import Any

from benchmarks.accuracy import score as numbers
from benchmarks.harness import Task
from benchmarks.harness.measure import cpu_limit
from benchmarks.peers import relevance
from benchmarks.structures import score as structures


def run(task: Task) -> dict[str, Any]:
    """Scores of a method on a split; what it is not given of the set is said in the row."""
    peer = task.params["peer"]
    with cpu_limit(peer.get("cpu_limit")):
        row = home(task.params).run(replace(task, params=given(task.params)))
    if peer.get("most_train") and row["n_train"] == peer["most_train"]:
        row["note"] = f"fitted to {peer['most_train']} of the training rows"
    return row | {"versions": {name: metadata.version(name) for name in peer.get("packages", ())}}


def home(params: dict[str, Any]) -> ModuleType:
    """The module that scores sets of this kind."""
    if "relevance" in params:
        return relevance
    return structures if params.get("classes") else numbers


def given(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the set, with no more training rows than the method is given."""
    limits = [most for most in (params.get("most_train"), params["peer"].get("most_train")) if most]
    return params | ({"most_train": min(limits)} if limits else {})
