"""How well class probabilities do: which classes are taken for which, and whether they can be believed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from cavity.plots.reading import Reading, read
from cavity.plots.style import INK, MAIN, MUTED, RULE, axis, finish, plain, strokes
from cavity.result.classes import ClassRows, Z
from cavity.result.relevance import Relevance, input_blocks, largest, relevance
from cavity.types import FloatArray


def networks(model: Any) -> list[Any]:
    """The networks behind a classifier: itself for two classes, one for each class with more."""
    return getattr(model, "estimators_", None) or [model]


def readings(model: Any) -> list[Reading]:
    """What figures need to know of each network; its target is the score of the class it is for."""
    if not hasattr(model, "classes_"):
        raise NotFittedError(f"This {type(model).__name__} is no fitted classifier: call fit first.")
    parts = networks(model)
    labels = model.classes_[1:] if len(parts) == 1 else model.classes_
    names = getattr(model, "feature_names_in_", None)
    rows = getattr(model, "table_rows_", None)
    return [
        read(part, names)._replace(target=f"score of {label}", table_rows=rows)
        for part, label in zip(parts, labels, strict=True)
    ]


def left_out_classes(model: Any) -> ClassRows:
    """Every training row with the probabilities that the fit without it gives."""
    parts = readings(model)
    seen = np.stack([part.observed for part in parts], axis=1)
    code = np.argmax(seen, axis=1) if len(parts) > 1 else (seen[:, 0] > 0.0).astype(int)
    fitted = np.flatnonzero(parts[0].prepared.row_of >= 0)
    return ClassRows(
        tuple(map(str, model.classes_)), parts[0].rows, parts[0].weights, code, model.loo_proba_[fitted]
    )


def class_relevance(model: Any, names: list[str], groups: Any = None) -> Relevance:
    """The relevance table of a classifier with one row per block of inputs; over networks, the largest."""
    blocks = input_blocks(names, groups)
    return largest([relevance(part.posterior_, blocks) for part in networks(model)])


def class_calibration(model: Any, ax: Any = None) -> Any:
    """Observed against predicted probability, leave-one-out, for rows of like predictions.

    Two classes: rows by the predicted probability of the last class, in tenths, and the share of them that
    has it. More classes: by the probability of the most probable class, and how often it was right. Bars
    are where a calibrated model's share falls 19 times in 20; a dot off the dashed line by more is not
    chance. The size of a dot shows how many rows it stands for.

    Parameters
    ----------
    model : EPClassifier, or ClassRows
    ax : matplotlib axis, optional

    Returns
    -------
    matplotlib axis
    """
    rows = model if isinstance(model, ClassRows) else left_out_classes(model)
    found = rows.bins()
    p, share, error, weight = (np.array(column) for column in zip(*found, strict=True))
    ax = axis(ax, 3.6, 3.2)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=INK, lw=0.8, ls=(0, (4, 3)))
    low, high = np.maximum(p - Z * error, 0.0), np.minimum(p + Z * error, 1.0)
    strokes(ax, (p, low), (p, high), color=RULE, lw=5.0, solid_capstyle="butt")
    ax.scatter(p, share, s=12.0 + 60.0 * weight / weight.max(), color=MAIN, lw=0, zorder=3)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    two = len(rows.classes) == 2
    what = f"probability of {plain(rows.classes[1])}" if two else "probability of the predicted class"
    y = f"share that is {plain(rows.classes[1])}" if two else "share that is right"
    return finish(ax, "Can the probabilities be believed?", what, y)


def confusion(model: Any, ax: Any = None, *, most: int = 12) -> Any:
    """Which classes are taken for which: rows by observed (down) and most probable (across) class.

    Leave-one-out; the colour of a cell is its share of the row of the figure, the number the count (or sum
    of weights). Of more than ``most`` classes the most frequent are shown.

    Parameters
    ----------
    model : EPClassifier, or ClassRows
    ax : matplotlib axis, optional
    most : int
        Classes shown.

    Returns
    -------
    matplotlib axis
    """
    rows = model if isinstance(model, ClassRows) else left_out_classes(model)
    shown = np.sort(np.argsort(-rows.shares, kind="stable")[:most])
    counts: FloatArray = rows.confusion
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    counts, share = counts[np.ix_(shown, shown)], share[np.ix_(shown, shown)]
    ax = axis(ax, 3.6, 3.2)
    size = len(shown)
    ax.set_xlim(-0.5, size - 0.5)
    ax.set_ylim(size - 0.5, -0.5)
    for i in range(size):
        for j in range(size):
            ax.fill_between(
                [j - 0.48, j + 0.48], i - 0.48, i + 0.48, color=MAIN, alpha=0.75 * float(share[i, j]), lw=0
            )
            ax.text(j, i, f"{counts[i, j]:.4g}", ha="center", va="center", color=INK, fontsize="small")
    labels = [plain(rows.classes[c], 14) for c in shown]
    ax.set_xticks(range(size), labels, rotation=0 if size <= 3 else 45, ha="center" if size <= 3 else "right")
    ax.set_yticks(range(size), labels)
    ax.tick_params(colors=MUTED, labelcolor=INK)
    note = "" if size == len(rows.classes) else f", {size} most frequent of {len(rows.classes)}"
    return finish(ax, f"Which class is taken for which{note}", "most probable class", "observed class")
