"""Read a table: CSV or Parquet, compressed or not, from a file or standard input.

A file is recognised by what it holds, not by its name, so a pipe works like a file and a wrong file is
refused in a sentence that says what it is. Rows count from 1, the header not counted.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DELIMITERS = (",", ";", "\t")
SNIFFED_LINES = 50
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None")

# How files that are no tables begin, and what to do about them.
FOREIGN = (
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "save the sheet as CSV"),
    (b"%PDF", "a PDF document", "give the table as CSV or Parquet"),
    (b"\x89HDF", "an HDF5 file", "convert the table to CSV or Parquet"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"ARROW1", "an Arrow/Feather file", "convert the table to CSV or Parquet"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it first: zstd -d"),
    (b"\x80\x04", "a Python pickle", "convert the table to CSV or Parquet; pickles are never opened"),
    (b"\x80\x05", "a Python pickle", "convert the table to CSV or Parquet; pickles are never opened"),
    (b"\x89PNG", "a picture", "give the table as CSV or Parquet"),
)


class TableError(ValueError):
    """Something about a table that its owner can mend; the text is one sentence."""


class Table(NamedTuple):
    """A data frame, the name to call it by in messages, and sentences about how it was read."""

    frame: Any
    name: str
    notes: tuple[str, ...]


def listed(names: Sequence[str], most: int) -> str:
    """The first few names, with a sign where there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def pandas() -> Any:
    """The pandas module, or a sentence with the line that installs it."""
    try:
        import pandas
    except ImportError:
        raise TableError('Reading tables needs pandas: pip install "cavity[cli]".') from None
    return pandas


def read_table(
    source: str,
    *,
    text_columns: Iterable[str] = (),
    missing: Iterable[str] = (),
    encoding: str | None = None,
) -> Table:
    """Read a table.

    Parameters
    ----------
    source : str
        Path of a file, or "-" for standard input.
    text_columns : iterable of str
        Columns whose values stay as they are written, even if they look like numbers.
    missing : iterable of str
        Signs of a missing value besides the usual ones (empty, NA, NaN, null, None).
    encoding : str, optional
        Encoding of a CSV file; found out by default.

    Raises
    ------
    TableError
        If there is no readable table.
    """
    pd = pandas()
    name, raw = _bytes(source)
    raw = _decompressed(raw, name)
    if not raw.strip():
        raise TableError(f"{name} is empty: it should hold a line of column names and rows below it.")
    notes: list[str] = []
    if raw.startswith(b"PAR1"):
        frame = _parquet(pd, raw, name)
    else:
        frame, notes = _csv(pd, raw, name, list(text_columns), [*MISSING, *missing], encoding)
    return Table(_named_columns(frame, name, notes), name, tuple(notes))


def _bytes(source: str) -> tuple[str, bytes]:
    if source == "-":
        if sys.stdin.isatty():
            print("Reading the table from the terminal; end it with Ctrl-D.", file=sys.stderr)
        return "standard input", sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise TableError(f"{source} is a folder: name one CSV or Parquet file in it.")
    try:
        return path.name, path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"There is no file {source}.") from None
    except OSError as error:
        raise TableError(f"{source} cannot be read: {error.strerror}.") from None


def _decompressed(raw: bytes, name: str) -> bytes:
    """The content of a compressed file, by its first bytes; other files as they are."""
    try:
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        elif raw.startswith(b"BZh"):
            raw = bz2.decompress(raw)
        elif raw.startswith(b"\xfd7zXZ\x00"):
            raw = lzma.decompress(raw)
        elif raw.startswith(b"PK\x03\x04"):
            raw = _unzipped(raw, name)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name} is compressed but damaged ({error}): copy or download it again.") from None
    for start, what, cure in FOREIGN:
        if raw.startswith(start):
            raise TableError(f"{name} is {what}, not a CSV or Parquet table: {cure}.")
    return raw


def _unzipped(raw: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [m for m in archive.namelist() if not m.endswith("/") and not m.startswith("__MACOSX/")]
        if any(m.endswith(".npy") for m in members):
            raise TableError(
                f"{name} holds arrays (a saved model or an npz file), not a CSV or Parquet table."
            )
        if any(m.startswith(("xl/", "content.xml")) for m in members):
            raise TableError(f"{name} is a spreadsheet, not a CSV or Parquet table: save the sheet as CSV.")
        if len(members) != 1:
            raise TableError(
                f"{name} holds {len(members)} files ({listed(members, 4)}) where one table is expected: "
                "unpack it and name one."
            )
        return archive.read(members[0])


def _parquet(pd: Any, raw: bytes, name: str) -> Any:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise TableError(
            f'{name} is a Parquet file, and reading it needs pyarrow: pip install "cavity[parquet]".'
        ) from None
    try:
        frame = pd.read_parquet(io.BytesIO(raw), engine="pyarrow")
    except (OSError, ValueError) as error:
        text = str(error).split("\n")[0].rstrip(".")
        raise TableError(f"{name} is a damaged Parquet file ({text}): write or copy it again.") from None
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(drop=True)


def _csv(
    pd: Any, raw: bytes, name: str, text_columns: list[str], missing: list[str], encoding: str | None
) -> tuple[Any, list[str]]:
    text, notes = decoded(raw, name, encoding)
    start = text.lstrip()[:1]
    if start in {"{", "["}:
        raise TableError(f"{name} looks like JSON, not a CSV or Parquet table: convert it first.")
    if start == "<":
        raise TableError(f"{name} looks like HTML or XML, not a CSV or Parquet table.")
    delimiter = sniffed_delimiter(text)
    header = [field.strip() for field in _first_row(text, delimiter)]
    if not any(header) or all(_is_number(field) for field in header if field):
        raise TableError(
            f"The first line of {name} holds {', '.join(map(repr, header[:3]))} where the column names "
            "should be: add a line of names above the rows."
        )
    twice = sorted({field for field in header if field and header.count(field) > 1})
    if twice:
        raise TableError(f"{name} has more than one column called {twice[0]!r}: rename or remove one.")
    names = [field or f"Unnamed: {j}" for j, field in enumerate(header)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                header=0,
                names=names,
                index_col=False,
                dtype={column: str for column in text_columns if column in names},
                keep_default_na=False,
                na_values=missing,
                skipinitialspace=True,
                low_memory=False,
            )
    except pd.errors.ParserWarning:
        raise TableError(
            f"The rows of {name} hold more values than its first line holds names ({len(names)})."
        ) from None
    except (pd.errors.ParserError, ValueError) as error:
        raise TableError(f"{name} is not a well-formed CSV file: {_parser_complaint(error)}.") from None
    return frame, notes


def _parser_complaint(error: Exception) -> str:
    text = str(error).strip().split("\n")[-1].rstrip(".")
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if found:
        return f"line {found[2]} holds {found[3]} values, but there are {found[1]} columns"
    found = re.search(r"EOF inside string starting at row (\d+)", text)
    if found:
        return f"a quotation mark opened in data row {found[1]} is never closed"
    return text


def decoded(raw: bytes, name: str, encoding: str | None = None) -> tuple[str, list[str]]:
    """Text of a CSV file and a note where its encoding had to be guessed.

    UTF-8 and UTF-16 with a byte-order mark, plain UTF-8, and files whose non-ASCII bytes are all single
    (Windows-1252, the superset of Latin-1) are read. A file with both kinds is refused.
    """
    if encoding is not None:
        try:
            return raw.decode(encoding), []
        except LookupError:
            raise TableError(f"{encoding!r} is no encoding that Python knows.") from None
        except UnicodeDecodeError as error:
            where = _where(raw, error.start)
            raise TableError(f"{name} is not written in {encoding}: see {where}.") from None
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return raw.decode("utf-16"), []
        except UnicodeDecodeError as error:
            raise TableError(f"{name} begins like UTF-16 but is damaged at byte {error.start}.") from None
    if b"\0" in raw:
        raise TableError(
            f"{name} is a binary file (a zero byte at position {raw.index(0)}), not a CSV or Parquet table."
        )
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        first = error.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
    loose = raw.decode("utf-8", "surrogateescape")
    where = _where(raw, first)
    if re.search("[^\x00-\x7f\udc80-\udcff]", loose):
        raise TableError(
            f"{name} mixes encodings: most of it is UTF-8, but {where} is not. Correct that place, or "
            "choose how to read the whole file with --encoding latin-1."
        )
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError as error:
        where = _where(raw, error.start)
        raise TableError(
            f"{name} is neither UTF-8 nor Latin-1 text ({where}): name its encoding with --encoding."
        ) from None
    return text, [f"{name} is not UTF-8 ({where}); it was read as Latin-1 (Windows-1252)."]


def _where(raw: bytes, position: int) -> str:
    line = raw.count(b"\n", 0, position) + 1
    return f"byte 0x{raw[position]:02x} in line {line}"


def sniffed_delimiter(text: str) -> str:
    """The separator that cuts the first lines into the most columns of equal number."""
    lines = text.splitlines(keepends=True)[:SNIFFED_LINES]
    best, best_score = DELIMITERS[0], (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        score = (sum(w == widths[0] for w in widths) / len(widths), widths[0])
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _first_row(text: str, delimiter: str) -> list[str]:
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    return next((row for row in rows if row), [])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named_columns(frame: Any, name: str, notes: list[str]) -> Any:
    """Names as stripped text; columns without a name are left out where that is harmless."""
    frame.columns = [str(column).strip() for column in frame.columns]
    for j, column in enumerate(list(frame.columns)):
        if column and not re.fullmatch(r"Unnamed: \d+", column):
            continue
        values = frame[column]
        if values.isna().all():
            notes.append(f"column {j + 1} has neither name nor values; left out.")
        elif _counts_rows(values):
            notes.append(f"column {j + 1} has no name and counts the rows; left out.")
        else:
            raise TableError(f"Column {j + 1} of {name} has no name: give it one in the first line.")
        frame = frame.drop(columns=column)
    if not len(frame.columns):
        raise TableError(f"{name} has no columns.")
    return frame


def _counts_rows(values: Any) -> bool:
    """Whether a column is 0, 1, 2, … or 1, 2, 3, …."""
    if values.dtype.kind not in "iu" or not len(values):
        return False
    first = int(values.iloc[0])
    return first in {0, 1} and bool((values.diff().dropna() == 1).all())
