"""``cavity evaluate``: cross-validation, with a Bayesian linear model beside it."""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cavity.cli.console import Console, number, table
from cavity.cli.evaluate_classes import evaluate_classes
from cavity.cli.models import Training, build, mismatch
from cavity.estimators.base import LARGE_MISMATCH
from cavity.result.calibration import mean_and_error
from cavity.tables import TableError
from cavity.types import FloatArray, IntArray

LEVEL = 0.95
LARGE_BIAS = 0.1  # nats a row between leave-one-out and held-out densities that are worth a word
HEADER = ["MLPD", "RMSE", "R²", "in 95 %"]


class Held(NamedTuple):
    """Predictions of held-out rows."""

    mean: FloatArray
    log_density: FloatArray
    inside: FloatArray
    settled: bool = True
    loo: FloatArray | None = None  # leave-one-out log densities of the training rows


def run(arguments: argparse.Namespace) -> int:
    """Fit every fold, score it, and print the scores beside those of the linear model."""
    console = Console(arguments.quiet, arguments.json)
    training = Training(arguments, console)
    if training.classes:
        return evaluate_classes(arguments, training, console)
    y, weight = training.y, training.weight
    n, cv = len(y), arguments.cv
    if n < 2 * cv:
        cure = f"ask for --cv {n // 2}" if n >= 4 else "cross-validation needs at least 4"
        raise TableError(f"{n} rows are too few for {cv} folds of at least two: {cure}.")
    folds = list(KFold(cv, shuffle=True, random_state=arguments.seed).split(y))
    jobs = Parallel(n_jobs=arguments.jobs or 1, return_as="generator")
    results: list[tuple[Held, Held]] = []
    with console.progress("Cross-validation") as progress:
        for found in jobs(delayed(_fold)(arguments, training, *fold) for fold in folds):
            results.append(found)
            progress.at(len(results) / cv, f"fold {len(results)} of {cv}")
        progress.finish(f"{cv} folds.")
    per_fold = []
    for (_, test), both in zip(folds, results, strict=True):
        w = None if weight is None else weight[test]
        per_fold.append([_scores(y[test], held.mean, held.log_density, held.inside, w) for held in both])
    order = np.concatenate([test for _, test in folds])
    w = None if weight is None else weight[order]
    overall = []
    for m in range(2):
        mean, log_density, inside = (np.concatenate([both[m][i] for both in results]) for i in range(3))
        overall.append(_scores(y[order], mean, log_density, inside, w))
    gain, error = mean_and_error(
        np.concatenate([a.log_density - b.log_density for a, b in results]), np.ones(n) if w is None else w
    )
    bias, bias_error = mean_and_error(*_loo_bias(folds, results, weight))
    unsettled = sum(not both[0].settled for both in results)
    console.deliver(
        {
            "data": training.table.name,
            "target": arguments.target,
            "n_rows": n,
            "folds": [
                {"rows": len(test), "cavity": a, "linear": b}
                for (_, test), (a, b) in zip(folds, per_fold, strict=True)
            ],
            "overall": {"cavity": overall[0], "linear": overall[1]},
            "mlpd_gain": {"mean": gain, "standard_error": error},
            "loo_bias": {"mean": bias, "standard_error": bias_error},
            "folds_unsettled": unsettled,
            "notes": training.notes,
        }
    )
    header = ["fold", "rows", *HEADER, "", *HEADER]
    rows = [
        [str(i + 1), str(len(test)), *_cells(a), "", *_cells(b)]
        for i, ((_, test), (a, b)) in enumerate(zip(folds, per_fold, strict=True))
    ]
    rows.append(["all", str(n), *_cells(overall[0]), "", *_cells(overall[1])])
    lines = table(header, rows, right=range(1, len(header)))
    cut = lines[0].index(HEADER[0], lines[0].index(HEADER[-1]))
    first = lines[0].index(HEADER[0])
    title = " " * first + "cavity".ljust(cut - first) + "Bayesian linear model"
    verdict = "better" if gain > 2.0 * error else "worse" if gain < -2.0 * error else "no clear difference"
    console.show(
        "",
        title,
        *lines,
        "",
        f"MLPD of cavity minus that of the linear model: {number(gain, 3)} ± {number(error, 2)} per row "
        f"({verdict}; ± is one standard error).",
    )
    if abs(bias) > max(LARGE_BIAS, 2.0 * bias_error):
        console.note(
            f"The fits' own leave-one-out densities are {'higher' if bias > 0.0 else 'lower'} than these, by "
            f"{number(abs(bias), 2)} ± {number(bias_error, 2)} per row: believe the folds rather than them."
        )
    if unsettled:
        console.note(f"{unsettled} of {cv} fits were far from converged; --max-iter or --starts may help.")
    return 0


def _cells(found: dict[str, float]) -> list[str]:
    return [number(found["mlpd"]), number(found["rmse"]), number(found["r2"], 3), f"{found['coverage']:.3f}"]


def _fold(
    arguments: argparse.Namespace, training: Training, train: IntArray, test: IntArray
) -> tuple[Held, Held]:
    """Fit on the training rows, with fill values of their own, and predict the others."""
    X, y = training.encoded(train), training.y
    weight = None if training.weight is None else training.weight[train]
    if np.ptp(y[train]) == 0.0:
        raise TableError("The target is constant in the training rows of a fold: use fewer folds.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted instead
        model = build(arguments, training.encoder, verbose=0).fit(
            X.iloc[train], y[train], sample_weight=weight
        )
    lower, upper = np.transpose(model.predict_interval(X.iloc[test], LEVEL))
    network = Held(
        model.predict(X.iloc[test]),
        model.log_density(X.iloc[test], y[test]),
        (y[test] >= lower) & (y[test] <= upper),
        mismatch(model) <= LARGE_MISMATCH,
        model.loo_i_,
    )
    values = X.to_numpy()
    linear = make_pipeline(StandardScaler(), BayesianRidge())
    linear.fit(values[train], y[train], bayesianridge__sample_weight=weight)
    mean, sd = linear.predict(values[test], return_std=True)
    z = (y[test] - mean) / sd
    return network, Held(mean, norm.logpdf(z) - np.log(sd), np.abs(z) <= norm.ppf(0.5 + LEVEL / 2.0))


def _scores(
    y: FloatArray,
    mean: FloatArray,
    log_density: FloatArray,
    inside: FloatArray,
    weight: FloatArray | None = None,
) -> dict[str, float]:
    """MLPD, RMSE, R² and the share of targets within their interval, weighted."""
    w = np.ones(len(y)) if weight is None else weight
    spread = float(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    error = float(np.average((y - mean) ** 2, weights=w))
    return {
        "mlpd": float(np.average(log_density, weights=w)),
        "rmse": error**0.5,
        "r2": 1.0 - error / spread if spread > 0.0 else float("nan"),
        "coverage": float(np.average(inside, weights=w)),
    }


def _loo_bias(
    folds: list[tuple[IntArray, IntArray]], results: list[tuple[Held, Held]], weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Leave-one-out less held-out log density of each row, the former averaged over the fits it trained."""
    n = sum(len(test) for _, test in folds)
    held_out, total, count = np.empty(n), np.zeros(n), np.zeros(n)
    for (train, test), (network, _) in zip(folds, results, strict=True):
        held_out[test] = network.log_density
        assert network.loo is not None
        total[train] += network.loo
        count[train] += 1.0
    return total / count - held_out, np.ones(n) if weight is None else weight
