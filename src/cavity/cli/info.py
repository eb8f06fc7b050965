"""``cavity info``: what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

from cavity.cli.console import Console, table
from cavity.cli.models import described_fit, load
from cavity.tables import TableEncoder
from cavity.tables.read import listed

MISSING = {
    "refuse": "refused",
    "impute": "filled with the median or most frequent level",
    "drop": "left out, row by row",
}


def run(arguments: argparse.Namespace) -> int:
    """Columns, settings, how the fit ended, what matters."""
    console = Console(arguments.quiet, arguments.json)
    model, encoder = load(arguments.model)
    numbers, lines = described_fit(model, encoder)
    settings = {key: value for key, value in sorted(model.get_params().items()) if _simple(value)}
    console.deliver(
        {
            "model": arguments.model,
            "kind": type(model).__name__,
            "target": encoder.target,
            "columns": encoder.to_json()["columns"],
            "missing": encoder.missing,
            "settings": settings,
            **numbers,
        }
    )
    given = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
    console.show(
        f"{arguments.model}: {type(model).__name__} for {encoder.target or 'y'!r}. {model.status_}",
        "",
        f"Columns (missing values are {MISSING[encoder.missing]})",
        *table(["column", "kind", "levels, or fill value"], _columns(encoder)),
        "",
        *lines,
        "",
        f"Settings: {given}",
    )
    return 0


def _columns(encoder: TableEncoder) -> list[list[str]]:
    out = []
    for column in encoder.columns:
        out.append([column.name, column.kind, listed(column.levels, 8) or f"{column.fill:g}"])
    return out


def _simple(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
