"""The encoder a model keeps: which columns it reads, of which kind, and how they become numbers.

Numbers stay as they are and booleans become 0 and 1. A text column with two levels becomes one column of
0 and 1, with more levels one column each. Everything needed to repeat that on a raw table (names, kinds,
levels, fill values) goes into JSON.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cavity.tables import columns as col
from cavity.tables import target as outcomes
from cavity.tables.read import Table, TableError, listed, pandas
from cavity.types import FloatArray, IntArray

VERSION = 2  # 2: classes of the target
MISSING_CHOICES = ("refuse", "impute", "drop")


class Encoded(NamedTuple):
    """Inputs as a data frame of numbers, the positions of the rows that were kept, and notes."""

    X: Any
    rows: IntArray
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """An input column of the raw table.

    Attributes
    ----------
    kind : "number", "boolean" or "category".
    dtype : its type in the table the model was fitted on.
    levels, shares : of a category, sorted by name, with their share of the rows.
    fill : what a missing value becomes: the median, or the most frequent value or level.
    """

    name: str
    kind: str
    dtype: str
    fill: float | str
    levels: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the numeric columns this one becomes."""
        if self.kind != col.CATEGORY:
            return [self.name]
        shown = self.levels[1:] if len(self.levels) == 2 else self.levels
        return [f"{self.name}={level}" for level in shown]

    def encode(self, values: Any, table: str) -> tuple[FloatArray, FloatArray, Any]:
        """Numeric columns, the mask of missing values, and levels never seen (a series of them)."""
        nothing = values.iloc[:0]
        if self.kind != col.CATEGORY:
            read = col.numbers if self.kind == col.NUMBER else col.booleans
            numbers = read(values, self.name, table)
            return numbers[:, None], np.isnan(numbers), nothing
        text = col.levels(values)
        absent = text.isna().to_numpy()
        known = text.isin(self.levels).to_numpy()
        block = np.stack([(text == level).to_numpy(dtype=np.float64) for level in self.levels], axis=1)
        # an unknown level rests at the training means, where it says nothing
        block[~known & ~absent] = self.shares
        block = block[:, 1:] if len(self.levels) == 2 else block
        return block, absent, text[~known & ~absent]

    def filled(self) -> FloatArray:
        """The numeric columns of a missing value."""
        if self.kind != col.CATEGORY:
            return np.array([self.fill], dtype=np.float64)
        row = np.array([level == self.fill for level in self.levels], dtype=np.float64)
        return row[1:] if len(self.levels) == 2 else row


@dataclass(frozen=True)
class TableEncoder:
    """From raw tables to the inputs of a model; made by :meth:`fit` or :meth:`from_json`."""

    columns: tuple[Column, ...]
    target: str | None = None
    weights: str | None = None
    missing: str = "refuse"
    left_out: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()  # of the target; empty where it is a number

    @property
    def features(self) -> list[str]:
        """Names of the model's inputs."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def origins(self) -> list[str]:
        """For each of ``features``, the column of the raw table that it comes from."""
        return [column.name for column in self.columns for _ in column.features]

    @property
    def text_columns(self) -> list[str]:
        """Columns to read as they are written."""
        return [column.name for column in self.columns if column.kind == col.CATEGORY]

    @classmethod
    def fit(
        cls,
        table: Table,
        target: str,
        *,
        weights: str | None = None,
        ignore: Iterable[str] = (),
        categorical: Iterable[str] = (),
        missing: str = "refuse",
        task: str | None = None,
    ) -> tuple[TableEncoder, IntArray, list[str]]:
        """Learn the columns of a table.

        Parameters
        ----------
        table : Table
            The raw table.
        target, weights : str
            Columns that are not inputs.
        ignore : iterable of str
            Columns to leave out.
        categorical : iterable of str
            Columns to treat as levels although they look like numbers or row names.
        missing : {"refuse", "impute", "drop"}
            What to do with missing inputs. Rows without target or weight can only be dropped.
        task : {"regression", "classification"}, optional
            By default the target says: text and true/false are classes.

        Returns
        -------
        TableEncoder, rows, notes
            The rows to fit on, by position, and sentences on what was done.
        """
        frame, name = table.frame, table.name
        ignore, categorical = list(ignore), list(categorical)
        for wanted, role in [
            (target, "target "),
            (weights, "weights "),
            *((c, "") for c in ignore + categorical),
        ]:
            if wanted is not None and wanted not in frame.columns:
                raise TableError(f"{name} has no {role}column {wanted!r}; {_present(wanted, frame.columns)}")
        if weights == target:
            raise TableError(f"The target {target!r} cannot be the column of weights as well.")
        if len(frame) < 2:
            raise TableError(f"{name} has {len(frame)} data row(s): a fit needs at least 2.")
        inputs = [c for c in frame.columns if c not in {target, weights, *ignore}]
        if not inputs:
            raise TableError(f"{name} has no input columns besides the target {target!r}.")
        notes: list[str] = []
        absent = {c: col.missing(frame[c]).to_numpy() for c in inputs}
        for c in [c for c in inputs if absent[c].all()]:
            notes.append(f"column {c!r} is empty; left out.")
            inputs.remove(c)
        kinds = {c: col.CATEGORY if c in categorical else col.kind_of(frame[c], c, name) for c in inputs}
        classes = outcomes.classes_of(frame[target], target, name, task)
        bare = cls((), target, classes=classes)
        never_filled = {target: np.isnan(bare.outcome(table))}
        if weights is not None:
            never_filled[weights] = np.isnan(col.weights(frame, weights, name))
        rows = _kept_rows(table, {c: absent[c] for c in inputs}, never_filled, missing, notes)
        if len(rows) < 2:
            raise TableError(f"{name} has {len(rows)} row(s) without missing values: a fit needs at least 2.")
        y = bare.outcome(table)[rows]
        if np.ptp(y) == 0.0:
            only = repr(classes[int(y[0])]) if classes else f"{y[0]:g}"
            raise TableError(
                f"The target {target!r} is {only} in every row of {name}: there is nothing to learn."
            )
        learnt = []
        for c in inputs:
            column = _learn(frame[c].iloc[rows], c, kinds[c], name, c in categorical, notes)
            if column is not None:
                learnt.append(column)
        if not learnt:
            raise TableError(f"No input column of {name} varies: there is nothing to learn from.")
        left_out = tuple(c for c in frame.columns if c in ignore)
        encoder = cls(tuple(learnt), target, weights, missing, left_out, classes)
        names = encoder.features
        twice = sorted({feature for feature in names if names.count(feature) > 1})
        if twice:
            raise TableError(f"Two inputs would be called {twice[0]!r}: rename a column of {name}.")
        return encoder, rows, notes

    def encode(
        self, table: Table, rows: IntArray | None = None, *, unseen: str = "error", missing: str | None = None
    ) -> Encoded:
        """Inputs of the model from a raw table, whatever the order of its columns.

        Parameters
        ----------
        table : Table
            The raw table; extra columns are not used.
        rows : ndarray of int, optional
            Positions of the rows to encode; all by default.
        unseen : {"error", "ignore"}
            Levels that the fit did not see are refused, or rest at the mean of their columns.
        missing : {"refuse", "impute", "drop"}, optional
            By default what the fit did.
        """
        name = table.name
        frame = table.frame if rows is None else table.frame.iloc[rows]
        needed = [column.name for column in self.columns]
        lacking = [c for c in needed if c not in frame.columns]
        if lacking:
            listed = ", ".join(map(repr, lacking))
            hint = _present(lacking[0], [c for c in frame.columns if c not in needed])
            plural = (
                f"{len(lacking)} columns that the model needs: {listed}"
                if len(lacking) > 1
                else (f"the column {listed} that the model needs")
            )
            raise TableError(f"{name} lacks {plural}; {hint}")
        notes = []
        extra = [c for c in frame.columns if c not in {*needed, self.target, self.weights}]
        if extra and rows is None:
            notes.append(f"not used by the model: {', '.join(map(repr, extra))}.")
        positions = np.arange(len(frame)) if rows is None else np.asarray(rows)
        policy = missing if missing is not None else self.missing
        blocks, absent, strange = [], {}, 0
        for column in self.columns:
            block, gone, unknown = column.encode(frame[column.name], name)
            if len(unknown):
                if unseen == "error":
                    raise _unseen(column, unknown, name)
                strange += len(unknown)
            block[gone] = column.filled()
            absent[column.name] = gone
            blocks.append(block)
        if strange:
            notes.append(f"{strange} value(s) are levels that the fit did not see; they count as unknown.")
        X = np.hstack(blocks)
        kept = _kept_rows(Table(frame, name, ()), absent, {}, policy, notes)
        index = frame.index[kept]
        return Encoded(
            pandas().DataFrame(X[kept], columns=self.features, index=index), positions[kept], tuple(notes)
        )

    def outcome(self, table: Table) -> FloatArray:
        """The target of every row: a number, or the number of its class; NaN where missing."""
        assert self.target is not None
        if not self.classes:
            return col.targets(table.frame, self.target, table.name)
        return outcomes.codes(table.frame[self.target], self.classes, self.target, table.name)

    def refilled(self, frame: Any) -> TableEncoder:
        """The same encoder with fill values from other rows (the training rows of a fold)."""
        columns = tuple(
            replace(c, fill=_fill(frame[c.name], c.kind, c.name)) if not frame[c.name].isna().all() else c
            for c in self.columns
        )
        return replace(self, columns=columns)

    @classmethod
    def of_numbers(cls, features: Sequence[str]) -> TableEncoder:
        """An encoder for a model that was fitted from Python, on columns of numbers."""
        return cls(tuple(Column(str(f), col.NUMBER, "float64", 0.0) for f in features))

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and text."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, stored: Any) -> TableEncoder:
        """An encoder from :meth:`to_json`, checked piece by piece."""
        try:
            if stored["version"] > VERSION:
                raise TableError("The model's columns were written by a newer cavity: upgrade to read them.")
            read = tuple(
                Column(
                    str(c["name"]),
                    str(c["kind"]),
                    str(c["dtype"]),
                    str(c["fill"]) if c["kind"] == col.CATEGORY else float(c["fill"]),
                    tuple(map(str, c["levels"])),
                    tuple(map(float, c["shares"])),
                )
                for c in stored["columns"]
            )
            if not all(c.kind in col.KINDS and len(c.levels) == len(c.shares) for c in read):
                raise ValueError
            if stored["missing"] not in MISSING_CHOICES:
                raise ValueError
            target, weights = stored["target"], stored["weights"]
            left_out, classes = (tuple(map(str, stored.get(key, ()))) for key in ("left_out", "classes"))
            return cls(read, target, weights, stored["missing"], left_out, classes)
        except TableError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TableError("The model's description of its columns is damaged: fit it again.") from None


def _learn(values: Any, name: str, kind: str, table: str, insisted: bool, notes: list[str]) -> Column | None:
    """A column from its training rows, or None and a note where it does not vary."""
    dtype = str(values.dtype)
    if kind != col.CATEGORY:
        read = col.numbers if kind == col.NUMBER else col.booleans
        numbers = read(values, name, table)
        present = numbers[~np.isnan(numbers)]
        if np.ptp(present) == 0.0:
            notes.append(f"column {name!r} is {present[0]:g} in every row; left out.")
            return None
        if kind == col.NUMBER and len(present) > 2 and (np.diff(numbers) == 1.0).all():
            notes.append(
                f"column {name!r} counts the rows; leave it out with --ignore {name} if it is only a number."
            )
        return Column(name, kind, dtype, _fill(values, kind, name))
    text = col.levels(values).dropna()
    counts = text.value_counts()
    if len(counts) == 1:
        notes.append(f"column {name!r} is {text.iloc[0]!r} in every row; left out.")
        return None
    if not insisted:
        col.check_levels(text, len(counts), name, table)
    names = tuple(sorted(counts.index))
    shares = tuple(float(counts[level] / len(text)) for level in names)
    return Column(name, kind, dtype, _fill(values, kind, name), names, shares)


def _fill(values: Any, kind: str, name: str) -> float | str:
    """Median of numbers; the most frequent value of booleans and levels, the first by name in a tie."""
    if kind == col.NUMBER:
        return float(np.nanmedian(col.numbers(values, name, "")))
    if kind == col.BOOLEAN:
        return float(np.nanmean(col.booleans(values, name, "")) > 0.5)
    counts = col.levels(values).value_counts()
    return str(min(counts.index[counts == counts.max()]))


def _kept_rows(
    table: Table,
    absent: dict[str, FloatArray],
    never_filled: dict[str, FloatArray],
    missing: str,
    notes: list[str],
) -> IntArray:
    """Positions of the rows to use; refuses, or says what was filled or dropped."""
    n = len(table.frame)

    def gone(masks: dict[str, FloatArray]) -> FloatArray:
        return np.any([np.zeros(n, bool), *masks.values()], axis=0)

    def counted(masks: dict[str, FloatArray]) -> list[str]:
        found = {c: int(mask.sum()) for c, mask in masks.items() if mask.any()}
        return [f"{c!r} {k}" for c, k in sorted(found.items(), key=lambda item: -item[1])]

    filled, lacking, outcome = counted(absent), counted(never_filled), gone(never_filled)
    incomplete = outcome | gone(absent)
    if not incomplete.any():
        return np.arange(n)
    where = listed([*lacking, *filled], 10)
    if missing == "refuse":
        choice = "--impute fills them (median, most frequent level), " if filled else ""
        raise TableError(
            f"{table.name} has missing values ({where} of {n} rows): choose what to do. {choice}"
            f"--drop-missing keeps the {n - int(incomplete.sum())} complete rows."
        )
    if missing == "drop":
        notes.append(f"{int(incomplete.sum())} of {n} rows have missing values ({where}); left out.")
        return np.flatnonzero(~incomplete)
    if filled:
        where = listed(filled, 10)
        notes.append(f"missing values filled with the median or most frequent level ({where} of {n} rows).")
    if lacking:
        notes.append(
            f"rows that lack the target or weight ({', '.join(lacking)}) are never filled; left out."
        )
    return np.flatnonzero(~outcome)


def _present(wanted: str, names: Iterable[str]) -> str:
    """What to look at instead of a column that is not there."""
    names = [str(n) for n in names]
    folded = {n.lower(): n for n in names}
    near = difflib.get_close_matches(wanted.lower(), folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = listed([repr(n) for n in names], 8)
    return f"its other columns are {shown}." if shown else "it has no other columns."


def _unseen(column: Column, unknown: Any, table: str) -> TableError:
    known = listed([repr(level) for level in column.levels], 6)
    more = f" and {len(unknown) - 1} more rows" if len(unknown) > 1 else ""
    return TableError(
        f"Column {column.name!r} of {table} holds {unknown.iloc[0]!r} in data row "
        f"{int(unknown.index[0]) + 1}{more}, a level that the fit did not see (it saw {known}): correct it, "
        "or count it as unknown with --unseen ignore."
    )
