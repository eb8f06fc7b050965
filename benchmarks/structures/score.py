"""Run one task of the structures benchmark: fit, predict, score."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.accuracy.protocols import Problem
from benchmarks.harness import Meter, Task
from benchmarks.methods import method
from benchmarks.structures.protocols import problem
from sklearn.metrics import roc_auc_score

LEVEL = 0.95


def run(task: Task) -> dict[str, Any]:
    """Scores of a method on a split."""
    params = task.params
    data = problem(params, task.split)
    module = method(params["module"])
    getattr(module, "warm_up", lambda: None)()
    with Meter() as fitting:
        model = module.fit(data.X, data.y, **params.get("settings", {}))
    with Meter() as predicting:
        found = of_classes(data, model) if params.get("classes") else of_numbers(data, model)
    row = {
        **found,
        "n_train": len(data.y),
        "n_test": len(data.y_test),
        "n_inputs": data.X.shape[1],
        "fit_cpu": fitting.cpu,
        "predict_cpu": predicting.cpu,
        **model.facts(),
        **({"fold": params["inner"]} if "inner" in params else {}),
    }
    if "loo" in row:
        row["loo_bias"] = row["loo"] - row["lpd"]
    return row


def of_classes(data: Problem, model: Any) -> dict[str, Any]:
    """Mean log probability of the observed classes 0 and 1, accuracy, errors, Brier score, and AUC."""
    log_p = model.log_proba(data.X_test)
    truth = data.y_test.astype(int)
    observed = log_p[np.arange(len(truth)), truth]
    wrong = np.argmax(log_p, axis=1) != truth
    return {
        "lpd": float(np.mean(observed)),
        "accuracy": float(np.mean(~wrong)),
        "errors": int(np.sum(wrong)),
        "brier": float(np.mean((1.0 - np.exp(observed)) ** 2)),
        "auc": float(roc_auc_score(truth, log_p[:, 1] - log_p[:, 0]))
        if 0 < truth.sum() < len(truth)
        else 1.0,
        "detail": {"log_density": observed},
    }


def of_numbers(data: Problem, model: Any) -> dict[str, Any]:
    """As `benchmarks.accuracy`: ``mlpd`` and ``mse`` are in units of the training target's robust scale.

    That is its interquartile range over that of a normal density, so that outliers do not set the unit.
    """
    mean = model.mean(data.X_test)
    log_density = model.log_density(data.X_test, data.y_test)
    low, high = model.interval(data.X_test, LEVEL).T
    sd = float(np.subtract(*np.percentile(data.y, (75, 25)))) / 1.349
    error = data.y_test - mean
    lpd = float(np.mean(log_density))
    truth = {} if data.f_test is None else {"mse_f": float(np.mean((data.f_test - mean) ** 2))}
    return {
        "lpd": lpd,
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mlpd": lpd + np.log(sd),
        "mse": float(np.mean(error**2)),
        "coverage95": float(np.mean((low <= data.y_test) & (data.y_test <= high))),
        **truth,
        "detail": {"log_density": log_density, "error": error},
    }
