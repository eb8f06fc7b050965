"""Run one task of the accuracy benchmark: fit, predict, score."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.accuracy.protocols import Problem, problem
from benchmarks.harness import Meter, Task
from benchmarks.methods import method

LEVEL = 0.95


def run(task: Task) -> dict[str, Any]:
    """Scores of a method on a split.

    ``lpd`` and ``rmse`` are in the units of y; ``mlpd`` and ``mse`` in standard deviations of the training
    target, where a log density is larger by log sd.
    """
    data = problem(task.params, task.split)
    module = method(task.params["module"])
    getattr(module, "warm_up", lambda: None)()
    with Meter() as fitting:
        model = module.fit(data.X, data.y, **task.params.get("settings", {}))
    with Meter() as predicting:
        mean = model.mean(data.X_test)
        log_density = model.log_density(data.X_test, data.y_test)
        interval = model.interval(data.X_test, LEVEL)
    sd = float(np.std(data.y))
    error = data.y_test - mean
    inside = (interval[:, 0] <= data.y_test) & (data.y_test <= interval[:, 1])
    lpd = float(np.mean(log_density))
    row = {
        "lpd": lpd,
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mlpd": lpd + np.log(sd),
        "mse": float(np.mean(error**2)) / sd**2,
        "coverage95": float(np.mean(inside)),
        "lpd_p01": float(np.percentile(log_density, 1)),
        "y_sd": sd,
        "n_train": len(data.y),
        "n_test": len(data.y_test),
        "n_inputs": data.X.shape[1],
        "fit_cpu": fitting.cpu,
        "predict_cpu": predicting.cpu,
        **model.facts(),
        **({"fold": task.params["inner"]} if "inner" in task.params else {}),
        **truth(data, mean),
        **relevance(data, model),
    }
    if "loo" in row:
        row["loo_bias"] = row["loo"] - lpd
    return {**row, "detail": {"log_density": log_density, "error": error}}


def truth(data: Problem, mean: np.ndarray) -> dict[str, Any]:
    """Errors against the true function and the noisy target, where the noise is known."""
    out: dict[str, Any] = {}
    if data.noise_var is not None:
        mse_y = float(np.mean((data.y_test - mean) ** 2))
        out |= {"mse_y": mse_y, "mse_y_by_noise": mse_y / data.noise_var}
    if data.f_test is not None:
        out["mse_f"] = float(np.mean((data.f_test - mean) ** 2))
    return out


def relevance(data: Problem, model: Any) -> dict[str, Any]:
    """Ranks of the inputs that matter and calls of those that do not, where the truth is known."""
    if data.relevant is None or not hasattr(model, "relevance"):
        return {}
    effect, probability = model.relevance()
    rank = np.empty(len(effect), dtype=int)
    rank[np.argsort(-effect, kind="stable")] = np.arange(1, len(effect) + 1)
    real = data.relevant
    return {
        "ranks": rank[real],
        "real_first": bool(np.max(rank[real]) <= np.sum(real)),
        "found": float(np.mean(probability[real] > 0.5)),
        "false_alarms": int(np.sum(probability[~real] > 0.5)),
        "irrelevant_called": bool(np.all(probability[~real] < 0.5)),
        "largest_irrelevant_probability": float(np.max(probability[~real])),
    }
