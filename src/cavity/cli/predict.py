"""``cavity predict``: a model and a raw table in, predictions out."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from cavity.cli.classes import class_columns, score_line
from cavity.cli.console import Console, as_json, number
from cavity.cli.models import check_writable, judge, load, table_of
from cavity.estimators import EPClassifier
from cavity.tables import Table, TableEncoder, TableError
from cavity.tables.read import pandas
from cavity.types import IntArray

OWN_COLUMNS = ("row", "prediction", "sd", "lower", "upper")


def run(arguments: argparse.Namespace) -> int:
    """Predict the rows of a table."""
    console = Console(arguments.quiet, arguments.json)
    if arguments.out:
        check_writable(arguments.out)
        _check_ending(arguments.out)
    model, encoder = load(arguments.model)
    if isinstance(model, EPClassifier) and arguments.intervals is not None:
        raise TableError(
            "A class has no interval: leave --intervals out, the probabilities are always written."
        )
    table = table_of(arguments, encoder.text_columns)
    if not len(table.frame):
        raise TableError(f"{table.name} has no rows to predict.")
    encoded = encoder.encode(table, unseen=arguments.unseen, missing=arguments.missing_inputs)
    console.note(*table.notes, *encoded.notes)
    if not len(encoded.rows):
        raise TableError(f"{table.name} has no complete rows to predict: --impute fills what is missing.")
    result = pandas().DataFrame({"row": encoded.rows + 1, **_columns(model, encoded.X, arguments.intervals)})
    if arguments.keep:
        result = _beside(table, encoded.rows, result)
    _compare(console, model, encoder, table, encoded.X, encoded.rows)
    head = {
        "model": arguments.model,
        "data": table.name,
        "target": encoder.target,
        "level": arguments.intervals,
    }
    if arguments.out:
        _write(result, arguments.out, head)
        console.say(f"{len(result)} predictions written to {arguments.out}.")
    if arguments.json:
        console.deliver({**head, "predictions": _records(result)})
    elif not arguments.out:
        result.to_csv(sys.stdout, index=False, float_format="%.10g")
    return 0


def _columns(model: Any, X: Any, level: float | None) -> dict[str, Any]:
    """Predictions by column: a class and its probabilities, or a mean with its sd and interval."""
    if isinstance(model, EPClassifier):
        return class_columns(model, X)
    mean, sd = model.predict(X, return_std=True)
    out = {"prediction": mean, "sd": sd}
    if level is not None:
        out["lower"], out["upper"] = np.transpose(model.predict_interval(X, level))
    return out


def _beside(table: Table, rows: IntArray, result: Any) -> Any:
    """The columns of the raw table, then the predictions."""
    raw = table.frame.iloc[rows].reset_index(drop=True)
    taken = [name for name in raw.columns if name in OWN_COLUMNS or name in result.columns]
    if taken:
        raw = raw.rename(columns={name: f"{name} (data)" for name in taken})
    return pandas().concat([raw, result], axis=1)


def _compare(
    console: Console, model: Any, encoder: TableEncoder, table: Table, X: Any, rows: IntArray
) -> None:
    """Where the table holds the target too, say how the predictions did."""
    if console.quiet or encoder.target is None or encoder.target not in table.frame.columns:
        return
    try:
        y = encoder.outcome(table)[rows]
    except TableError:
        return
    known = ~np.isnan(y)
    if known.sum() < 2:
        return
    if isinstance(model, EPClassifier):
        if encoder.classes:
            console.note(score_line(model, X[known], y[known], encoder.target))
        return
    judged = judge(model, X[known], y[known])
    console.note(
        f"the table holds {encoder.target!r} too; on its {known.sum()} rows: RMSE {number(judged.rmse)}, R² "
        f"{number(judged.r2, 3)}, mean log density {number(judged.log_density.mean())}, "
        f"{100.0 * judged.coverage():.0f} % within their 95 % interval."
    )


def _check_ending(path: str) -> None:
    if not path.endswith((".json", ".parquet", ".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".tsv")):
        raise TableError(f"{path} should end in .csv, .csv.gz, .tsv, .parquet or .json: its ending says how.")


def _write(result: Any, path: str, head: dict[str, Any]) -> None:
    if path.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(as_json({**head, "predictions": _records(result)}))
    elif path.endswith(".parquet"):
        try:
            result.to_parquet(path, index=False)
        except ImportError:
            raise TableError('Writing Parquet needs pyarrow: pip install "cavity[parquet]".') from None
    else:
        result.to_csv(path, index=False, sep="\t" if path.endswith(".tsv") else ",", float_format="%.10g")


def _records(result: Any) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = result.to_dict("records")
    return out
