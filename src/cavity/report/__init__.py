"""One page about a fitted model: a summary in plain words, the figures, the details; nothing remote."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from cavity.estimators import EPClassifier, EPEstimator
from cavity.estimators.inputs import new_table
from cavity.plots.classes import left_out_classes, readings
from cavity.plots.ranking import relevance_table
from cavity.plots.reading import read
from cavity.report.classes import class_figures, class_summary, judge_given_classes
from cavity.report.details import details
from cavity.report.facts import judge_given, judge_left_out
from cavity.report.figures import figures
from cavity.report.phrases import figure
from cavity.report.words import summary
from cavity.result.relevance import Relevance
from cavity.result.store import replacing

__all__ = ["render_report", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    title: str | None = None,
    *,
    relevance: Relevance | None = None,
    first_row: int = 0,
) -> Path:
    """Write a self-contained HTML page about a fitted model.

    The page says in plain words how well the model predicts (leave-one-out), how sure it is, what matters
    and what to worry about, then shows the figures of `cavity.plots` and the details of the fit. It holds
    everything it shows, asks for nothing from any network and runs no script; names of columns and other
    texts are escaped.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
        A fitted model.
    path : path
        The HTML file to write. An older file is replaced only when the new page is complete.
    X, y : arrays, optional
        Rows that the model was not fitted on. The summary then says how it does on them.
    title : str, optional
        Heading of the page.
    relevance : Relevance, optional
        The table of what matters, where it is not to be that of the model, say with one row for each
        column of a raw table; the model's ``relevance_``, or that of its inputs, by default.
    first_row : int
        The number of the first row where rows are named: 0 as in Python, 1 as in a table.

    Returns
    -------
    Path
        The path that was written.

    Raises
    ------
    ImportError
        Without matplotlib or jinja2, with the line that installs them.
    """
    page = render_report(model, X, y, title, relevance=relevance, first_row=first_row)
    path = Path(path)
    with replacing(path) as file:
        file.write(page.encode())
    return path


def render_report(
    model: Any,
    X: Any = None,
    y: Any = None,
    title: str | None = None,
    *,
    relevance: Relevance | None = None,
    first_row: int = 0,
) -> str:
    """The page of `write_report` as text."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError('Reports need jinja2 and matplotlib: pip install "cavity[report]"') from error
    if (X is None) != (y is None):
        raise ValueError("Rows to judge the model on need both X and y.")
    if isinstance(model, EPClassifier):
        parts = _of_classes(model, X, y, relevance, first_row)
    else:
        parts = _of_numbers(model, X, y, relevance, first_row)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"keep": _keep_together, "figure": figure}
    source = resources.files("cavity.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        title=title if title is not None else f"What the model makes of {parts.pop('target')}",
        **parts,
    )


def _of_numbers(model: Any, X: Any, y: Any, relevance: Relevance | None, first_row: int) -> dict[str, Any]:
    reading = read(model)
    judged = judge_left_out(reading)
    given = None
    if X is not None:
        given = judge_given(reading, new_table(model, X) if isinstance(model, EPEstimator) else X, y)
    table = relevance if relevance is not None else relevance_table(model)
    return {
        "target": reading.target,
        "words": summary(model, reading, judged, given, table, first_row),
        "sections": figures(reading, table, first_row),
        "details": details(model, reading),
    }


def _of_classes(
    model: EPClassifier, X: Any, y: Any, relevance: Relevance | None, first_row: int
) -> dict[str, Any]:
    judged = left_out_classes(model)
    given = None if X is None else judge_given_classes(model, X, y)
    table = relevance if relevance is not None else model.relevance_
    return {
        "target": str(getattr(model, "target_name_", "y")),
        "words": class_summary(model, judged, given, table, first_row),
        "sections": class_figures(model, judged, table),
        "details": details(model, readings(model)[0], judged),
    }


def _keep_together(text: str) -> str:
    """No line break between a number and what belongs to it."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace("± ", "±\N{NO-BREAK SPACE}")
