"""What commands say about a classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cavity.cli.console import number, table, wrapped
from cavity.plots.classes import left_out_classes, readings
from cavity.report.classes import belief, class_worries, confused
from cavity.result.classes import ClassRows
from cavity.tables import TableError
from cavity.types import FloatArray, IntArray

SHOWN = 8  # classes in a confusion table on the screen


def described_classes(model: Any) -> tuple[dict[str, Any], list[str], list[str]]:
    """A fitted classifier in numbers for programs, and lines for people, before and after what matters."""
    judged = left_out_classes(model)
    worth = class_worries(model, readings(model), judged, None, first_row=1)
    numbers = {
        "converged": bool(model.converged_),
        "status": str(model.status_),
        "n_iter": int(model.n_iter_),
        "classes": list(judged.classes),
        "loo": float(model.loo_),
        "loo_without_inputs": judged.baseline,
        "loo_accuracy": judged.accuracy,
        "loo_brier": judged.brier,
        "loo_confusion": judged.confusion.tolist(),
        "loo_calibration": [b._asdict() for b in judged.bins()],
        "log_evidence": float(model.log_evidence_),
        "worries": [{"level": worry.level, "text": worry.text} for worry in worth],
    }
    lines = [
        "Rows predicted by the fit without them (leave-one-out)",
        f"  right        {number(judged.accuracy, 3)} "
        f"({number(float(judged.shares.max()), 3)} by always saying the most frequent class)",
        f"  log score    {number(judged.log_score)} per row "
        f"({number(judged.baseline)} for the shares of the classes)",
        f"  Brier score  {number(judged.brier, 3)}",
        *(f"  {line}" for line in wrapped(f"{belief(judged)} {confused(judged)}")),
        "",
        *confusion_lines(judged),
    ]
    closing = ["", "Worth knowing", *(f"  {line}" for worry in worth for line in wrapped(worry.text))]
    return numbers, lines, closing


def confusion_lines(judged: ClassRows) -> list[str]:
    """A table of observed and predicted classes; with many classes only a word on them."""
    if len(judged.classes) > SHOWN:
        return [f"{len(judged.classes)} classes: --json and `cavity report` have the table of confusions."]
    rows = [
        [label, *(f"{value:.6g}" for value in row)]
        for label, row in zip(judged.classes, judged.confusion, strict=True)
    ]
    header = ["observed (down), predicted (across)", *judged.classes]
    return table(header, rows, right=range(1, len(header)))


def class_columns(model: Any, X: Any) -> dict[str, Any]:
    """The most probable class of each row and the probability of every class."""
    p = model.predict_proba(X)
    labels = [str(label) for label in model.classes_]
    chosen = np.array(labels, dtype=object)[p.argmax(axis=1)]
    return {"prediction": chosen, **{f"p({label})": p[:, c] for c, label in enumerate(labels)}}


def score_line(model: Any, X: Any, code: FloatArray, target: str) -> str:
    """How predictions did on rows whose class is known."""
    judged = judged_rows(model.classes_, model.predict_proba(X), code.astype(int))
    return (
        f"the table holds {target!r} too; on its {len(code)} rows: {100.0 * judged.accuracy:.1f} % right, "
        f"log score {number(judged.log_score)} per row."
    )


def judged_rows(
    classes: Any, probability: FloatArray, code: IntArray, weight: FloatArray | None = None
) -> ClassRows:
    """Predicted probabilities beside the classes that were observed."""
    rows = np.arange(len(code))
    weight = np.ones(len(code)) if weight is None else weight
    return ClassRows(tuple(map(str, classes)), rows, weight, code, probability)


def class_folds(code: IntArray, cv: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Folds that hold their share of every class."""
    fewest = int(np.bincount(code).min())
    if fewest < cv:
        cure = f"ask for --cv {fewest}" if fewest >= 2 else "join it with another"
        raise TableError(f"The rarest class has {fewest} row(s), fewer than {cv} folds: {cure}.")
    return list(StratifiedKFold(cv, shuffle=True, random_state=seed).split(code, code))


def logistic(X: FloatArray, code: IntArray, weight: FloatArray | None) -> Any:
    """Logistic regression with a tuned penalty, the model to beat."""
    folds = max(2, min(5, int(np.bincount(code).min())))
    tuned = LogisticRegressionCV(Cs=10, cv=folds, scoring="neg_log_loss", max_iter=5000)
    with warnings.catch_warnings():  # names of its parameters change between versions
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), tuned)
        return model.fit(X, code, logisticregressioncv__sample_weight=weight)
