"""``cavity report``: a page about a model."""

from __future__ import annotations

import argparse

import numpy as np

from cavity.cli.console import Console
from cavity.cli.models import check_writable, load, relevance_by_column, table_of
from cavity.report import write_report
from cavity.tables import TableError


def run(arguments: argparse.Namespace) -> int:
    """Write the page, with a score on another table if one is given."""
    console = Console(arguments.quiet)
    check_writable(arguments.out)
    model, encoder = load(arguments.model)
    X = y = None
    if arguments.data:
        table = table_of(arguments, encoder.text_columns)
        if encoder.target is None:
            raise TableError(f"{arguments.model} was fitted from Python and does not know its target column.")
        if encoder.target not in table.frame.columns:
            raise TableError(f"{table.name} has no target column {encoder.target!r} to score the model on.")
        outcome = encoder.outcome(table)
        encoded = encoder.encode(table, np.flatnonzero(~np.isnan(outcome)))
        console.note(*table.notes, *encoded.notes)
        X, y = encoded.X, outcome[encoded.rows]
        if encoder.classes:
            y = np.array(encoder.classes)[y.astype(int)]
    matters = relevance_by_column(model, encoder)
    write_report(model, arguments.out, X, y, arguments.title, relevance=matters, first_row=1)
    console.say(f"Written to {arguments.out}; open it in a browser.")
    return 0
