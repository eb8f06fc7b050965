"""Small tables written to disk in the ways people have them."""

import io

import numpy as np
import pandas as pd

from cavity.tables import TableEncoder, read_table


def frame(n=24, seed=0):
    """Numbers, a boolean, a colour of three levels, a sex of two, and a target that depends on some."""
    rng = np.random.default_rng(seed)
    colour = np.resize(["red", "green", "blue"], n)
    out = pd.DataFrame(
        {
            "size": rng.normal(5.0, 2.0, n).round(3),
            "colour": colour,
            "sex": np.resize(["m", "f"], n),
            "paid": np.resize([True, True, False, False], n),
            "count": rng.integers(0, 9, n),
        }
    )
    out["y"] = (0.5 * out["size"] + (out["colour"] == "red") + 0.1 * rng.normal(size=n)).round(3)
    return out


def write(path, table, **options):
    """A data frame as CSV, or text, or bytes; returns the path as text."""
    if isinstance(table, bytes):
        path.write_bytes(table)
    elif isinstance(table, str):
        path.write_text(table, encoding="utf-8")
    else:
        buffer = io.StringIO()
        table.to_csv(buffer, index=False, **options)
        path.write_text(buffer.getvalue(), encoding="utf-8")
    return str(path)


def fitted(path, table, target="y", **options):
    """Encoder, rows and notes of a table that goes through a file."""
    read = read_table(write(path, table), text_columns=options.get("categorical", ()))
    return TableEncoder.fit(read, target, **options)
