"""``cavity evaluate`` where the target is a class: a tuned logistic regression stands beside the network."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from cavity.cli.classes import class_folds, judged_rows, logistic
from cavity.cli.console import Console, number, table
from cavity.cli.models import Training, build, mismatch
from cavity.estimators.base import LARGE_MISMATCH
from cavity.result.calibration import mean_and_error
from cavity.result.classes import ClassRows
from cavity.types import FloatArray, IntArray

HEADER = ["log score", "right", "Brier"]
Fold = tuple[FloatArray, FloatArray, bool]  # probabilities of both models, and whether ours settled


def evaluate_classes(arguments: argparse.Namespace, training: Training, console: Console) -> int:
    """Fit every fold, score it, and print the scores beside those of the logistic regression."""
    classes = np.array(training.encoder.classes)
    code = np.searchsorted(classes, training.y)
    folds = class_folds(code, arguments.cv, arguments.seed)
    jobs = Parallel(n_jobs=arguments.jobs or 1, return_as="generator")
    results: list[Fold] = []
    with console.progress("Cross-validation") as progress:
        for found in jobs(delayed(_fold)(arguments, training, code, *fold) for fold in folds):
            results.append(found)
            progress.at(len(results) / len(folds), f"fold {len(results)} of {len(folds)}")
        progress.finish(f"{len(folds)} folds.")

    def judged(test: IntArray, p: FloatArray) -> ClassRows:
        weight = None if training.weight is None else training.weight[test]
        return judged_rows(classes, p, code[test], weight)

    tests = [test for _, test in folds]
    per_fold = [
        [_scores(judged(test, p)) for p in (ours, theirs)]
        for test, (ours, theirs, _) in zip(tests, results, strict=True)
    ]
    order = np.concatenate(tests)
    both = [
        judged(order, np.concatenate([ours for ours, _, _ in results])),
        judged(order, np.concatenate([theirs for _, theirs, _ in results])),
    ]
    overall = [_scores(rows) for rows in both]
    gain, error = _gain(both)
    unsettled = sum(not found[2] for found in results)
    console.deliver(
        {
            "data": training.table.name,
            "target": arguments.target,
            "task": "classification",
            "classes": list(classes),
            "n_rows": len(code),
            "folds": [
                {"rows": len(test), "cavity": a, "logistic": b}
                for test, (a, b) in zip(tests, per_fold, strict=True)
            ],
            "overall": {"cavity": overall[0], "logistic": overall[1]},
            "log_score_gain": {"mean": gain, "standard_error": error},
            "folds_unsettled": unsettled,
            "notes": training.notes,
        }
    )
    header = ["fold", "rows", *HEADER, "", *HEADER]
    rows = [
        [str(i + 1), str(len(test)), *_cells(a), "", *_cells(b)]
        for i, (test, (a, b)) in enumerate(zip(tests, per_fold, strict=True))
    ]
    rows.append(["all", str(len(code)), *_cells(overall[0]), "", *_cells(overall[1])])
    lines = table(header, rows, right=range(1, len(header)))
    first = lines[0].index(HEADER[0])
    cut = lines[0].index(HEADER[0], first + 1)
    verdict = "better" if gain > 2.0 * error else "worse" if gain < -2.0 * error else "no clear difference"
    console.show(
        "",
        " " * first + "cavity".ljust(cut - first) + "logistic regression",
        *lines,
        "",
        f"Log score of cavity minus that of logistic regression: {number(gain, 3)} ± {number(error, 2)} per "
        f"row ({verdict}; ± is one standard error).",
    )
    if unsettled:
        console.note(f"{unsettled} of {len(folds)} fits were far from converged; --max-iter may help.")
    return 0


def _fold(
    arguments: argparse.Namespace, training: Training, code: IntArray, train: IntArray, test: IntArray
) -> Fold:
    """Fit on the training rows, with fill values of their own, and predict the others."""
    X: Any = training.encoded(train)
    weight = None if training.weight is None else training.weight[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted instead
        model = build(arguments, training.encoder, verbose=0)
        model.fit(X.iloc[train], training.y[train], sample_weight=weight)
    values = X.to_numpy()
    linear = logistic(values[train], code[train], weight)
    ours, theirs = model.predict_proba(X.iloc[test]), linear.predict_proba(values[test])
    return ours, theirs, mismatch(model) <= LARGE_MISMATCH


def _scores(judged: ClassRows) -> dict[str, float]:
    return {"log_score": judged.log_score, "accuracy": judged.accuracy, "brier": judged.brier}


def _cells(found: dict[str, float]) -> list[str]:
    return [number(found["log_score"]), f"{found['accuracy']:.3f}", f"{found['brier']:.3f}"]


def _gain(both: list[ClassRows]) -> tuple[float, float]:
    """Mean difference of log scores and its standard error over rows."""
    ours, theirs = (np.log(np.maximum(rows.observed_probability, 1e-300)) for rows in both)
    return mean_and_error(ours - theirs, both[0].weight)
