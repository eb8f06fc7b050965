"""What several commands share: read a table by the options given, build, load and describe a model."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity.cli.classes import described_classes
from cavity.cli.console import Console, number, table, wrapped
from cavity.estimators import EPClassifier, EPRegressor, load_model
from cavity.estimators.inputs import new_table
from cavity.plots.classes import class_relevance, networks
from cavity.plots.reading import read
from cavity.progress import Sweeps
from cavity.report.facts import Judgement, judge_given, judge_left_out
from cavity.report.phrases import count
from cavity.report.words import how_ended, noise_name
from cavity.report.worries import worries
from cavity.result.relevance import Relevance
from cavity.tables import Table, TableEncoder, TableError, read_table
from cavity.tables.columns import weights
from cavity.tables.read import listed
from cavity.types import FloatArray, IntArray

SETTINGS = ("prior", "n_hidden", "n_starts", "max_iter", "time_limit")


def table_of(arguments: argparse.Namespace, text_columns: list[str]) -> Table:
    """The table that a command was given, read the way its options say."""
    return read_table(
        arguments.data, text_columns=text_columns, missing=arguments.missing, encoding=arguments.encoding
    )


class Training:
    """A table read for fitting: inputs as a frame of numbers, target, weights, and how they came about."""

    def __init__(self, arguments: argparse.Namespace, console: Console) -> None:
        self.table = table_of(arguments, arguments.categorical)
        self.encoder, self.rows, notes = TableEncoder.fit(
            self.table,
            arguments.target,
            weights=arguments.weights,
            ignore=arguments.ignore,
            categorical=arguments.categorical,
            missing=arguments.missing_inputs or "refuse",
            task=arguments.task,
        )
        self.notes = [*self.table.notes, *notes]
        # what is filled was said while learning; here only the numbers are wanted
        policy = "impute" if self.encoder.missing == "impute" else "refuse"
        self.X = self.encoder.encode(self.table, self.rows, missing=policy).X
        frame, name = self.table.frame, self.table.name
        self.y = self.encoder.outcome(self.table)[self.rows]
        self.classes = self.encoder.classes
        if self.classes:
            self.y = np.array(self.classes)[self.y.astype(int)]
        elif len(np.unique(self.y)) == 2 and arguments.task is None:
            self.notes.append(
                f"the target {arguments.target!r} takes two values only; --task classification would fit "
                "their probabilities."
            )
        self.weight: FloatArray | None = None
        if arguments.weights is not None:
            self.weight = weights(frame, arguments.weights, name)[self.rows]
        left_out = np.setdiff1d(np.arange(len(frame)), self.rows)
        #: what a model file keeps, so that later commands take raw tables and name rows of this one
        self.extra = {"table": self.encoder.to_json(), "rows_left_out": left_out.tolist()}
        kinds = f" with classes {listed([repr(c) for c in self.classes], 6)}" if self.classes else ""
        console.say(
            f"{name}: {len(self.y)} rows, {described(self.encoder)}, target {arguments.target!r}{kinds}."
        )
        console.note(*self.notes)

    def encoded(self, train: IntArray) -> Any:
        """Inputs of all rows, filled with what the training rows of a fold have."""
        encoder = self.encoder
        if encoder.missing == "impute":
            encoder = encoder.refilled(self.table.frame.iloc[self.rows[train]])
        return encoder.encode(self.table, self.rows, missing="impute").X


def described(encoder: TableEncoder) -> str:
    """Inputs in words: "12 inputs (9 numbers, 1 category with 3 levels)"."""
    numbers = sum(c.kind == "number" for c in encoder.columns)
    truths = sum(c.kind == "boolean" for c in encoder.columns)
    categories = [len(c.levels) for c in encoder.columns if c.kind == "category"]
    parts = [count(numbers, "number")] if numbers else []
    if truths:
        parts.append(f"{truths} true/false")
    if categories:
        parts.append(
            f"1 category with {categories[0]} levels"
            if len(categories) == 1
            else f"{len(categories)} categories with {min(categories)} to {max(categories)} levels"
        )
    return f"{count(len(encoder.columns), 'input')} ({', '.join(parts)})"


def build(arguments: argparse.Namespace, encoder: TableEncoder, **more: Any) -> EPRegressor | EPClassifier:
    """An estimator that suits the target, with the settings that were given; the others keep their defaults.

    With one scale per input, the levels of a column share theirs.
    """
    given = {name: getattr(arguments, name) for name in SETTINGS if getattr(arguments, name) is not None}
    if arguments.prior == "ard" and len(set(encoder.origins)) < len(encoder.origins):
        given["groups"] = np.array(encoder.origins)
    for name in ("likelihood", "noise"):
        value = getattr(arguments, name)
        if value is not None and encoder.classes:
            raise TableError(f"--{name} is for a target of numbers; {encoder.target!r} has classes.")
        if value is not None:
            given[name] = None if value == "one" else value
    kind = EPClassifier if encoder.classes else EPRegressor
    return kind(random_state=arguments.seed, **{**given, **more})


def load(path: str) -> tuple[Any, TableEncoder]:
    """A saved model and its encoder; one saved from Python takes its inputs as columns of numbers."""
    if not Path(path).is_file():
        raise TableError(f"There is no model {path}: `cavity fit` makes one.")
    model = load_model(path)
    extra = getattr(model, "extra_", None) or {}
    stored = extra.get("table")
    if stored is not None:
        encoder = TableEncoder.from_json(stored)
        if len(encoder.features) != model.n_features_in_:
            raise TableError(f"The columns saved in {path} do not fit its network: fit it again.")
        model.target_name_ = encoder.target
        model.table_rows_ = _table_rows(model, extra.get("rows_left_out", []), path)
        return model, encoder
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(model.n_features_in_)]
    return model, TableEncoder.of_numbers(list(names))


def _table_rows(model: Any, left_out: list[int], path: str) -> IntArray:
    """Numbers, counted from 0, of the rows of the raw table that the fit was given."""
    given = len(networks(model)[0].posterior_.main.prepared.row_of)
    rows = np.setdiff1d(np.arange(given + len(left_out)), left_out)
    if len(rows) != given:
        raise TableError(f"The rows saved in {path} are not those of its fit: fit it again.")
    return rows


def check_writable(path: str) -> None:
    """Refuse a path that cannot be written, before the work is done."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise TableError(f"{path} is a folder: name a file to write.")
    if not folder.is_dir():
        raise TableError(f"There is no folder {folder} to write {Path(path).name} to.")
    if not os.access(folder, os.W_OK) or (Path(path).exists() and not os.access(path, os.W_OK)):
        raise TableError(f"{path} cannot be written: permission denied.")


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Interrupts that arrive meanwhile, also those after which the engine keeps its state and returns."""
    seen: list[int] = []

    def interrupted(signum: int, _frame: Any) -> None:
        seen.append(signum)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def fit(model: EPRegressor | EPClassifier, X: Any, y: Any, weight: Any, console: Console, what: str) -> bool:
    """Fit with progress on standard error; False where it was interrupted and what was found is kept."""
    with interrupts() as seen, console.progress(what) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said in our own words
        model.set_params(verbose=Sweeps(progress, model.max_iter))
        model.fit(X, y, sample_weight=weight)
        # a progress bar is nothing to keep in a file
        model.set_params(verbose=0)
        ended = how_ended([part.posterior_ for part in networks(model)])
        progress.finish("Interrupted." if seen else ended)
    return not seen


def mismatch(model: Any) -> float:
    """Largest distance of a tilted moment from its marginal that matters, in marginal sds."""
    return max(part.posterior_.mismatch for part in networks(model))


def judge(model: Any, X: Any, y: FloatArray) -> Judgement:
    """How the model does on rows that it was not fitted on."""
    return judge_given(read(model), new_table(model, X), y)


def relevance_by_column(model: Any, encoder: TableEncoder) -> Relevance:
    """The relevance table with one row per column of the raw table, largest effect first."""
    return class_relevance(model, encoder.features, encoder.origins).sorted()


def described_fit(model: Any, encoder: TableEncoder) -> tuple[dict[str, Any], list[str]]:
    """A fitted model in numbers for programs, and in lines for people."""
    if isinstance(model, EPClassifier):
        matters = relevance_by_column(model, encoder)
        numbers, first, last = described_classes(model)
        lines = [*first, "", *shown_relevance(matters, "of the score f, whose probability is Φ(f)"), *last]
        return {**numbers, "relevance": records(matters)}, lines
    reading = read(model, encoder.features)
    judged = judge_left_out(reading)
    matters = relevance_by_column(model, encoder)
    worth = worries(model, reading, judged, None, first_row=1)
    numbers = {
        "converged": bool(model.converged_),
        "status": str(model.status_),
        "n_iter": int(model.n_iter_),
        "loo": float(model.loo_),
        "loo_without_inputs": judged.baseline,
        "loo_r2": judged.r2,
        "loo_rmse": judged.rmse,
        "loo_coverage_95": judged.coverage(),
        "noise_sd": float(model.noise_sd_),
        "log_evidence": float(model.log_evidence_),
        "relevance": records(matters),
        "worries": [{"level": worry.level, "text": worry.text} for worry in worth],
    }
    lines = [
        "Rows predicted by the fit without them (leave-one-out)",
        f"  R²                {number(judged.r2, 3)}",
        f"  RMSE              {number(judged.rmse)}",
        f"  in 95 % interval  {number(judged.coverage(), 3)}",
        f"  log density       {number(judged.log_density.mean())} per row "
        f"({number(judged.baseline)} for a normal that ignores the inputs)",
        f"{noise_name(model.posterior_).capitalize()} {number(model.noise_sd_)}, "
        f"log evidence {number(model.log_evidence_, 6)}",
        "",
        *shown_relevance(matters),
        "",
        "Worth knowing",
        *(f"  {line}" for worry in worth for line in wrapped(worry.text)),
    ]
    return numbers, lines


def records(matters: Relevance) -> list[dict[str, Any]]:
    """Rows of a relevance table by column name."""
    columns = matters.to_dict()
    return [{key: values[i] for key, values in columns.items()} for i in range(len(matters))]


def shown_relevance(matters: Relevance, scale: str = "sd of the target", most: int = 20) -> list[str]:
    """Lines of a relevance table, largest effects first."""
    header = ["input", "effect", "95 % interval", "P(relevant)"]
    rows = [
        [
            matters.name[i],
            number(matters.effect[i], 3),
            f"{number(matters.effect_lower[i], 3)} to {number(matters.effect_upper[i], 3)}",
            f"{matters.probability[i]:.2f}",
        ]
        for i in range(min(len(matters), most))
    ]
    more = [f"  … and {len(matters) - most} more"] if len(matters) > most else []
    return [
        "What matters (effect: rms change of the prediction when the input rests at its mean;",
        f"relevant: more than {matters.threshold:g} {scale})",
        *table(header, rows, right=[1, 3]),
        *more,
    ]
