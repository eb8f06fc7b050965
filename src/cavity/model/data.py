"""From the user's X and y to what the engine sees, and back: checks, standardising, bias, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cavity.types import FloatArray, IntArray


class TrainingData(NamedTuple):
    """Rows as the engine sees them: standardised, bias column last where there is one.

    ``weight`` w means w copies of the row; ``row_var`` is the known noise variance of the row in
    standardised units, zero where none is known.
    """

    X: FloatArray
    y: FloatArray
    weight: FloatArray
    row_var: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return self.X.shape[0]


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x - x_mean)/x_scale with a bias column of ones, y ↦ (y - y_mean)/y_scale, and back."""

    x_mean: FloatArray
    x_scale: FloatArray
    y_mean: float
    y_scale: float
    bias: bool

    def inputs(self, X: FloatArray) -> FloatArray:
        """Design matrix of new rows."""
        Z = (X - self.x_mean) / self.x_scale
        return np.ascontiguousarray(np.column_stack([Z, np.ones(len(Z))]) if self.bias else Z)

    def restored(self, design: FloatArray) -> FloatArray:
        """Inputs of prepared rows in the user's units, rounded to what the `on_grid` values still know."""
        d = len(self.x_mean)
        X = self.x_mean + self.x_scale * design[:, :d]
        step = 10.0 ** np.ceil(np.log10(self.x_scale / GRID))
        return np.rint(X / step) * step

    def target(self, y: FloatArray) -> FloatArray:
        """Standardised target."""
        return (y - self.y_mean) / self.y_scale


GRID = 2.0**26
FARTHEST = 1e12  # standard deviations of the trusted rows: their squares, and those of noise, keep all digits


def on_grid(a: FloatArray) -> FloatArray:
    """Standardised values rounded to 1.5e-8 standard deviations.

    The optimiser of a MAP start enlarges the last bit of its data without limit. On a grid much coarser
    than that bit, data in other units or another order almost always become the same bits.
    """
    return np.rint(a * GRID) / GRID


CONSTANT_TARGET, FAR_OFF = "y is constant", "Far off:"  # how notes begin that are warnings too
MOST_COPIES = 1e15  # of a row: fits with 1e20 lose digits, with 1e50 their posterior
MOST_NAMED = 5  # of columns that repeat another, the rest is counted
FAR_AWAY = 1e6  # times the usual distance from the median; Gaussian noise sees no more of the other rows


def weighted_median(values: FloatArray, weight: FloatArray) -> float:
    """The median of w copies of each value; the mean of two values where either is one."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    either_side = 0.5 * below[-1] * np.array([1.0 - 1e-12, 1.0 + 1e-12])  # sums of weights are rounded
    return float(np.mean(values[order[np.searchsorted(below, either_side)]]))


class Prepared(NamedTuple):
    """Engine data, the way back, the rows used, and sentences about what was found.

    ``rows`` names for each row of ``data`` the (first) user's row it came from; ``row_of`` names for each
    of the user's rows its row of ``data``, -1 for rows of weight zero.
    """

    data: TrainingData
    scaling: Scaling
    rows: IntArray
    notes: tuple[str, ...]
    row_of: IntArray

    def with_target_of(self, trusted: FloatArray, y: FloatArray) -> Prepared:
        """The target in units of the mean and sd of the rows in ``trusted``, (n,) booleans.

        It is made anew from y, as given to fit: in units that wild rows have widened, the grid makes the
        others equal. Where some row is more than 1e12 such sds off, nothing changes.
        """
        y, weight = y[self.rows] + 0.0, self.data.weight
        if not trusted.any():
            return self
        size = max(float(np.abs(y[trusted]).max()), np.finfo(float).tiny)
        near = y[trusted] / size
        mean = float(np.average(near, weights=weight[trusted]))
        sd = float(np.sqrt(np.average((near - mean) ** 2, weights=weight[trusted])))
        largest = float(np.abs(y / FARTHEST).max()) / size
        if sd <= max(1e-13, largest):
            return self
        scaling = replace(self.scaling, y_mean=mean * size, y_scale=sd * size)
        row_var = self.data.row_var * (self.scaling.y_scale / scaling.y_scale) ** 2
        return self._replace(
            data=self.data._replace(y=on_grid(scaling.target(y)), row_var=row_var), scaling=scaling
        )


def _first_bad(mask: FloatArray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def column(names: Sequence[str] | None, j: int) -> str:
    """An input by its number, and its name if there are any."""
    return f"column {j}" + (f" ({names[j]!r})" if names is not None else "")


def _numbers(values: Any, what: str, names: Sequence[str] | None = None) -> FloatArray:
    """A float64 array, or an error of the kind NumPy raised that names the first cell that is no number."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        cells = np.asarray(values, dtype=object)
        for at in np.ndindex(cells.shape):
            where = f"row {at[0]}" + (f", {column(names, at[1])}" if len(at) == 2 else "") if at else "it"
            try:
                float(cells[at])
            except OverflowError:
                raise ValueError(
                    f"{what} holds an integer beyond the largest number (1.8e308) in {where}: use a larger "
                    "unit."
                ) from None
            except (TypeError, ValueError):
                if cells[at] is None or type(cells[at]).__name__ in ("NAType", "NaTType"):
                    raise ValueError(f"{what} is missing (NaN) in {where}: impute or drop it.") from None
                shown = repr(cells[at])[:60]
                kind = "text" if isinstance(cells[at], str) else f"{shown}, which is no number,"
                detail = f": {shown}" if kind == "text" else ""
                encode = "encode text columns first" if kind == "text" else "turn it into numbers first"
                cure = encode if what == "X" else "only numbers can be fitted"
                raise type(error)(f"{what} holds {kind} in {where}{detail}; {cure} ({error}).") from None
        raise type(error)(f"{what} must hold numbers only: {error}.") from None


def check_inputs(X: Any, names: Sequence[str] | None = None) -> FloatArray:
    """X as a float64 matrix, or a `ValueError` that names the row, the column and the cure."""
    X = _numbers(X, "X", names)
    if X.ndim == 1:
        raise ValueError(
            "X must have two dimensions (rows, inputs); reshape one input with X.reshape(-1, 1)."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, inputs), got {X.ndim}.")
    if X.shape[1] == 0:
        raise ValueError("X has 0 columns: at least one input is needed.")
    bad = ~np.isfinite(X)
    if bad.any():
        i, j = _first_bad(bad)
        kind = "missing (NaN)" if np.isnan(X[i, j]) else "infinite"
        raise ValueError(
            f"X is {kind} in row {i}, {column(names, j)} ({int(bad.sum())} such values): impute or drop them."
        )
    return X


def check_vector(values: Any, n: int, what: str) -> FloatArray:
    """A finite float64 vector of length n, or a `ValueError` naming the row."""
    v = _numbers(values, what)
    if v.ndim == 2 and v.shape[1] == 1:
        v = v[:, 0]
    if v.ndim != 1:
        raise ValueError(f"{what} must have one dimension, got shape {v.shape}.")
    if len(v) != n:
        raise ValueError(f"{what} has {len(v)} entries but X has {n} rows: they must match.")
    bad = ~np.isfinite(v)
    if bad.any():
        (i,) = _first_bad(bad)
        kind = "missing (NaN)" if np.isnan(v[i]) else "infinite"
        raise ValueError(f"{what} is {kind} in row {i} ({int(bad.sum())} such rows): drop them.")
    return v


def check_weights(weight: FloatArray) -> None:
    """Raise a `ValueError` where weights cannot be numbers of copies."""
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight is negative in row {_first_bad(weight < 0)[0]}: weights count copies."
        )
    if (weight > MOST_COPIES).any():
        row = _first_bad(weight > MOST_COPIES)[0]
        raise ValueError(
            f"sample_weight is {weight[row]:g} in row {row}: weights count copies, at most {MOST_COPIES:g}. "
            "Divide all weights by their mean."
        )
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero in every row: at least one weight must be positive.")


def prepare(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    noise_var: Any = None,
    *,
    bias: bool = True,
    standardise: bool = True,
    names: Sequence[str] | None = None,
    canonical: bool = False,
    standardise_target: bool = True,
) -> Prepared:
    """Check and standardise the training rows; rows of weight zero are dropped.

    Means and scales are weighted, so w copies of a row and weight w give the same data. A constant
    column becomes zeros (its weights stay at their prior) and is reported in ``notes``; so are
    duplicated columns, which share their effect.

    Without ``standardise_target`` y stays as it is (classes, counts).

    With ``canonical`` identical rows are merged into one of their summed weight, and the order of the rows
    depends on their contents alone: w copies, weight w and any order of the rows then give the same bits.
    Standardised values are put `on_grid`, so that other units almost always do.
    """
    X = check_inputs(X, names)
    n = X.shape[0]
    if n == 0:
        raise ValueError("X has 0 rows: nothing to fit.")
    y = check_vector(y, n, "y")
    weight = np.ones(n) if sample_weight is None else check_vector(sample_weight, n, "sample_weight")
    check_weights(weight)
    row_var = np.zeros(n) if noise_var is None else check_vector(noise_var, n, "noise_var")
    if (row_var < 0).any():
        raise ValueError(
            f"noise_var is negative in row {_first_bad(row_var < 0)[0]}: variances are positive."
        )
    rows = np.flatnonzero(weight > 0)
    row_of = np.full(n, -1)
    if canonical:
        first, distinct, weight = _canonical_rows(X[rows], y[rows], weight[rows], row_var[rows], rows)
        row_of[rows], rows = distinct, first
        X, y = X + 0.0, y + 0.0  # -0.0 and 0.0 are one value
    else:
        row_of[rows], weight = np.arange(len(rows)), weight[rows]
    X, y, row_var = X[rows], y[rows], row_var[rows]
    notes: list[str] = []
    # divide by the largest magnitude first: columns of 1e200 must not overflow in the variance
    size = np.abs(X).max(axis=0)
    size = np.where(size > 0.0, size, 1.0)  # zeros now may be something else where predictions are made
    y_size = max(float(np.abs(y).max()), np.finfo(float).tiny)
    if standardise:
        Z = X / size
        mean = np.average(Z, axis=0, weights=weight)
        sd = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=weight))
        constant = sd <= 1e-13
        x_mean, x_scale = mean * size, np.where(constant, 1.0, sd) * size
        x_mean[constant] = X[0, constant]
        u = y / y_size
        y_mean_u = float(np.average(u, weights=weight))
        y_sd = float(np.sqrt(np.average((u - y_mean_u) ** 2, weights=weight)))
        y_mean, y_scale = y_mean_u * y_size, (y_sd * y_size if y_sd > 1e-13 else 1.0)
        if not standardise_target:
            y_mean, y_scale = 0.0, 1.0
        elif y_sd <= 1e-13:
            notes.append(f"{CONSTANT_TARGET}: there is nothing to explain, predictions are that constant.")
            y_mean = float(y[0])
        else:
            notes.extend(_far_off(u, weight, rows))
    else:
        constant = np.ptp(X, axis=0) == 0 if n > 1 else np.zeros(X.shape[1], bool)
        x_mean, x_scale, y_mean, y_scale = np.zeros(X.shape[1]), np.ones(X.shape[1]), 0.0, 1.0
    if constant.any() and len(rows) > 1:
        listed = ", ".join(column(names, int(j)) for j in np.flatnonzero(constant)[:5])
        notes.append(f"{int(constant.sum())} constant input(s) carry no information: {listed}.")
    scaling = Scaling(x_mean, x_scale, y_mean, y_scale, bias)
    design = scaling.inputs(X)
    notes.extend(_duplicated_columns(design[:, : X.shape[1]], constant, names))
    if row_var.any():
        row_var = row_var / scaling.y_scale**2
    target = scaling.target(y)
    if canonical and standardise:
        design, target = on_grid(design), on_grid(target)
    data = TrainingData(
        design,
        np.ascontiguousarray(target),
        np.ascontiguousarray(weight),
        np.ascontiguousarray(row_var),
    )
    return Prepared(data, scaling, rows, tuple(notes), row_of)


def _far_off(y: FloatArray, weight: FloatArray, rows: IntArray) -> list[str]:
    """A sentence on rows that lie a million times farther from the middle of y than half of the rows."""
    away = np.abs(y - weighted_median(y, weight))
    usual = weighted_median(away, weight)
    wild = rows[away > FAR_AWAY * usual]
    if usual == 0.0 or not len(wild):
        return []
    listed = ", ".join(str(row) for row in np.sort(wild)[:5]) + (", …" if len(wild) > 5 else "")
    return [
        f"{FAR_OFF} y in {len(wild)} row(s) lies {away.max() / usual:.0e} times farther from its median than "
        f"in half of the rows: {listed}. Correct or drop them, or fit the logarithm of y if they are right."
    ]


def _canonical_rows(
    X: FloatArray, y: FloatArray, weight: FloatArray, row_var: FloatArray, rows: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """First user's row of each distinct row, distinct row of each given row, summed weights.

    Rows are sorted by X, y and noise variance, weights last so that their sum is rounded alike in every
    order; then a fixed shuffle parts neighbours again, which sweeps in blocks would otherwise meet together.
    """
    order = np.lexsort((weight, row_var, y, *X.T[::-1]))
    table = np.column_stack([X, y, row_var])[order]
    new = np.ones(len(order), bool)
    new[1:] = (table[1:] != table[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    shuffle = np.random.default_rng(0).permutation(len(starts))
    place = np.empty_like(shuffle)
    place[shuffle] = np.arange(len(shuffle))
    distinct = np.empty_like(order)
    distinct[order] = place[np.cumsum(new) - 1]
    first = np.minimum.reduceat(rows[order], starts)[shuffle]
    return first, distinct, np.add.reduceat(weight[order], starts)[shuffle]


def _duplicated_columns(Z: FloatArray, constant: FloatArray, names: Sequence[str] | None) -> list[str]:
    """One sentence per group of equal columns (after standardising), constant ones aside."""
    alike: dict[bytes, list[int]] = {}
    for j in np.flatnonzero(~constant):
        alike.setdefault((np.round(Z[:, j], 12) + 0.0).tobytes(), []).append(int(j))
    notes = []
    for first, *others in alike.values():
        if others:
            named = [column(names, j) for j in others[:MOST_NAMED]]
            if len(others) > MOST_NAMED:
                named.append(f"{len(others) - MOST_NAMED} more")
            who = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
            verb = "repeats" if len(others) == 1 else "repeat"
            notes.append(f"{who} {verb} {column(names, first)}: their effect is shared between them.")
    return notes
