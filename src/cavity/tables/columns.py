"""One column at a time: what kind it is, its values as numbers or levels, and sentences for what is wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from cavity.tables.read import TableError, pandas
from cavity.types import FloatArray

NUMBER, BOOLEAN, CATEGORY = "number", "boolean", "category"
KINDS = (NUMBER, BOOLEAN, CATEGORY)

MOSTLY = 0.5  # a text column with at least this share of numbers is a numeric column with text in it
DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period", "interval"}
DATE_SHARE = 0.9
MANY_LEVELS = 20  # up to here, a text column may have as many levels as it likes, short of one per row

_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}([./-])\d{1,2}\2\d{2,4}( .*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|[+-]?\d+")
_TRUTH = {"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0}


def kind_of(values: Any, name: str, table: str) -> str:
    """Kind of an input column; dates, lists and the like are refused."""
    api = pandas().api.types
    if api.is_bool_dtype(values.dtype):
        return BOOLEAN
    if api.is_complex_dtype(values.dtype):
        raise TableError(f"Column {name!r} of {table} holds complex numbers: split them into real ones.")
    if api.is_numeric_dtype(values.dtype):
        return NUMBER
    if api.is_datetime64_any_dtype(values.dtype) or values.dtype.kind in "mM":
        raise _dates(values, name, table)
    if isinstance(values.dtype, pandas().CategoricalDtype):
        return CATEGORY
    present = values[~missing(values)]
    inferred = api.infer_dtype(present, skipna=True)
    if inferred == "boolean":
        return BOOLEAN
    if inferred in DATES:
        raise _dates(present, name, table)
    odd = None
    if inferred in {"mixed", "bytes"}:
        odd = next((v for v in present if not isinstance(v, str | int | float)), None)
    if odd is not None:
        raise TableError(
            f"Column {name!r} of {table} holds {type(odd).__name__} values, neither numbers nor text: "
            f"leave it out with --ignore {name}, or turn it into columns first."
        )
    # the distinct values decide; there are often few
    counts = present.value_counts()
    distinct, share = _text(counts.index.to_series()), counts.to_numpy() / max(len(present), 1)
    if share[distinct.map(lambda v: bool(_DATE.fullmatch(v))).to_numpy()].sum() >= DATE_SHARE:
        raise _dates(_text(present), name, table)
    if share[parsed_text(distinct).notna().to_numpy()].sum() >= MOSTLY:
        text = _text(present)
        bad = text[parsed_text(text).isna()]
        if len(bad):
            raise _not_a_number(bad, len(text) - len(bad), name, table, "--categorical")
        return NUMBER
    return CATEGORY


def missing(values: Any) -> Any:
    """Mask of missing values; blank text counts."""
    mask = values.isna()
    if values.dtype.kind == "O" or values.dtype.name in {"str", "string"}:
        try:
            distinct = values.unique()
        except TypeError:  # lists and the like have no hash, and are not blank
            return mask
        blank = [v for v in distinct if isinstance(v, str) and not v.strip()]
        mask = mask | values.isin(blank) if blank else mask
    return mask


def numbers(values: Any, name: str, table: str) -> FloatArray:
    """Values as float64 with NaN where missing; text and infinite values are refused by row."""
    pd = pandas()
    api = pd.api.types
    if api.is_datetime64_any_dtype(values.dtype) or values.dtype.kind in "mM":
        raise _dates(values, name, table)
    if api.is_numeric_dtype(values.dtype) or api.is_bool_dtype(values.dtype):
        out = values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    else:
        absent = missing(values)
        text = _text(values[~absent])
        parsed = parsed_text(text)
        if parsed.isna().any():
            raise _not_a_number(text[parsed.isna()], int(parsed.notna().sum()), name, table)
        out = np.full(len(values), np.nan)
        out[~absent.to_numpy()] = parsed.to_numpy(dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(out))
    if len(infinite):
        more = f" ({len(infinite)} such rows)" if len(infinite) > 1 else ""
        raise TableError(
            f"Column {name!r} of {table} is infinite in {_row(values, infinite[0])}{more}: "
            "correct the value, or leave it empty and treat it as missing."
        )
    return out


def booleans(values: Any, name: str, table: str) -> FloatArray:
    """True as 1, False as 0, NaN where missing."""
    absent = missing(values).to_numpy()
    text = values[~absent].map(str).str.strip().str.lower()
    truth = text.map(_TRUTH)
    if truth.isna().any():
        bad = values[~absent][truth.isna().to_numpy()]
        raise TableError(
            f"Column {name!r} of {table} was true or false when the model was fitted, "
            f"but is {bad.iloc[0]!r} in data row {_label(bad.index[0])}."
        )
    out = np.full(len(values), np.nan)
    out[~absent] = truth.to_numpy(dtype=np.float64)
    return out


def targets(frame: Any, target: str, table: str) -> FloatArray:
    """The target as numbers, NaN where missing."""
    if pandas().api.types.is_bool_dtype(frame[target].dtype):
        raise TableError(
            f"The target {target!r} of {table} is true or false, which is no number: leave --task regression "
            "out, or write it as 0 and 1 if a regression on them is what you want."
        )
    return numbers(frame[target], target, table)


def weights(frame: Any, name: str, table: str) -> FloatArray:
    """The weights as numbers, NaN where missing; negative ones are refused by row."""
    values = numbers(frame[name], name, table)
    negative = np.flatnonzero(values < 0.0)
    if len(negative):
        raise TableError(
            f"The weight in column {name!r} of {table} is negative ({values[negative[0]]:g}) in data row "
            f"{_label(frame.index[negative[0]])}: a weight counts copies of its row."
        )
    if not np.nansum(values) > 0.0:
        raise TableError(f"The weights in column {name!r} of {table} are all zero: no row would count.")
    return values


def levels(values: Any) -> Any:
    """Values as stripped text, None where missing; whole numbers are written without a point."""
    pd = pandas()
    codes, distinct = pd.factorize(values)
    text = np.array([*(_level(v) or None for v in distinct), None], dtype=object)
    return pd.Series(text[codes], index=values.index, dtype=object)


def check_levels(present: Any, distinct: int, name: str, table: str) -> None:
    """Refuse text that differs in (nearly) every row: it names rows and cannot be generalised."""
    n = len(present)
    if distinct <= 2 or not (distinct == n or (distinct > MANY_LEVELS and distinct > n / 2)):
        return
    few = ", ".join(repr(v) for v in present.iloc[:2])
    raise TableError(
        f"Column {name!r} of {table} holds text with {distinct} different values in {n} rows ({few}, …), "
        f"so it looks like a name or number of the row: leave it out with --ignore {name}, or turn it "
        f"into numbers or fewer levels first (--categorical {name} insists)."
    )


def parsed_text(text: Any) -> Any:
    """Numbers written as text, NaN where they are not; decimal commas are read if all are written so."""
    pd = pandas()
    parsed = pd.to_numeric(text, errors="coerce")
    if len(text) and parsed.isna().any() and text.map(lambda v: bool(_DECIMAL_COMMA.fullmatch(v))).all():
        parsed = pd.to_numeric(text.str.replace(",", "."), errors="coerce")
    return parsed


def _text(values: Any) -> Any:
    return values.map(str).astype(object).str.strip()


def _level(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _label(index: Any) -> int:
    """Row number for people: from 1, the header not counted (frames are indexed from 0)."""
    return int(index) + 1


def _row(values: Any, position: int) -> str:
    return f"data row {_label(values.index[position])}"


def _not_a_number(bad: Any, n_numbers: int, name: str, table: str, cure: str = "") -> TableError:
    value, row = bad.iloc[0], _label(bad.index[0])
    more = f" and in {len(bad) - 1} more rows" if len(bad) > 1 else ""
    also = f", or treat the whole column as levels with {cure} {name}" if cure else ""
    return TableError(
        f"Column {name!r} of {table} should hold numbers ({n_numbers} of its values are) but holds the "
        f"text {value!r} in data row {row}{more}: correct it, or read it as missing with "
        f"--missing {_quoted(value)}{also}."
    )


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.+-]+", value) and not value.startswith("-") else f"'{value}'"


def _dates(values: Any, name: str, table: str) -> TableError:
    present = values.dropna()
    example = (
        f" ({str(present.iloc[0])[:19]!r} in data row {_label(present.index[0])})" if len(present) else ""
    )
    return TableError(
        f"Column {name!r} of {table} holds dates or times{example}, which have no scale of their own: turn "
        f"them into numbers (a year, a month, days since a start), or leave them out with --ignore {name}."
    )
