"""Sparse linear models: writes benchmarks/results/linear.json.

    python -m benchmarks.structures.linear [PART ...]

Parts: "simulated" (n = 100, d = 500, ten true inputs, 50 draws: do inclusion probabilities rank the true
inputs first, are they calibrated; beside them those of a sampler of the same model, and of one that knows
the true noise, slab and number of inputs), "nuts" (coefficients against a long NUTS run of the same model;
skipped without numpyro), "data" (leukemia, colon, riboflavin; needs CAVITY_DATA). Every fit is kept in
benchmarks/.cache/linear, so a run goes on where it was stopped; delete that folder to start afresh.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.structures import nuts, sampler
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from cavity import EPLinearClassifier, EPLinearRegressor, datasets
from cavity.estimators.wide import EXPECTED, NOISE, SLAB_VAR
from cavity.model.priors import PRIORS

RESULT = Path(__file__).parents[1] / "results" / "linear.json"
CACHE = Path(__file__).parents[1] / ".cache" / "linear"
DRAWS, ROWS, INPUTS, TRUE = 50, 100, 500, 10
EDGES = np.array([0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0])
SAMPLED = ("laplace", "horseshoe", "ard", "student-t", "gaussian")
NUTS_DRAWS = 5000


def cached(name: str, task: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a task, from its file or made now."""
    path = CACHE / f"{name}.json"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(task()), encoding="utf-8")
        print(name, path.read_text(encoding="utf-8")[:150], flush=True)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def timed(model: Any, X: Any, y: Any) -> float:
    """CPU seconds of a fit."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return time.process_time() - began


# ── simulated ───────────────────────────────────────────────────────────────────────────────────


def design(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """Independent inputs, noise sd 1; true weights of size 0.5 to 1.5 ("clear") or N(0, 1) ("gaussian")."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((ROWS, INPUTS)), np.zeros(INPUTS)
    size = rng.uniform(0.5, 1.5, TRUE) * rng.choice([-1.0, 1.0], TRUE)
    w[rng.choice(INPUTS, TRUE, replace=False)] = size if kind == "clear" else rng.standard_normal(TRUE)
    return X, X @ w + rng.standard_normal(ROWS), w


def judged(p: Any, w: Any) -> dict[str, Any]:
    """Ranks of the true inputs, and how often inputs of a given probability are true."""
    truth = w != 0.0
    ranking = np.argsort(-p)
    where = np.minimum(np.digitize(p, EDGES) - 1, len(EDGES) - 2)
    return {
        "found": int(truth[ranking[:TRUE]].sum()),
        "false above the last true": int(np.flatnonzero(truth[ranking])[-1] + 1 - TRUE),
        "count": np.bincount(where, minlength=len(EDGES) - 1).tolist(),
        "expected": np.bincount(where, p, len(EDGES) - 1).tolist(),
        "true": np.bincount(where, truth, len(EDGES) - 1).tolist(),
        "square": float(np.sum((p - truth) ** 2)),
    }


def fitted(kind: str, seed: int) -> dict[str, Any]:
    """One draw by the estimator's default."""
    X, y, w = design(kind, seed)
    model = EPLinearRegressor()
    seconds = timed(model, X, y)
    lower, upper = model.coef_interval(0.95).T
    covered = (w >= lower) & (w <= upper)
    return {
        **judged(model.inclusion_, w),
        "covered": float(np.mean(covered)),
        "covered true": float(np.mean(covered[w != 0.0])),
        "prior inclusion": model.prior_inclusion_,
        "noise sd": model.noise_sd_,
        "converged": bool(model.converged_),
        "CPU seconds": seconds,
    }


def sampled(kind: str, seed: int) -> dict[str, Any]:
    """One draw by the sampler, with the estimator's own priors."""
    X, y, w = design(kind, seed)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    slab = (-float(np.log(EXPECTED)), SLAB_VAR)
    return judged(sampler.inclusion(X, y, slab, (NOISE.mean, NOISE.var), EXPECTED / INPUTS), w)


def informed(kind: str, seed: int) -> dict[str, Any]:
    """One draw by the sampler, told the true share of inputs, variance of their weights and noise."""
    X, y, w = design(kind, seed)
    slab = 0.0 if kind == "gaussian" else float(np.log(13.0 / 12.0))  # mean square of a size of 0.5 to 1.5
    return judged(sampler.inclusion(X, y, (slab, 0.0), (0.0, 0.0), TRUE / INPUTS), w)


HOW = {"cavity": fitted, "sampler of the same model": sampled, "sampler, true values known": informed}
FACTS = {
    "covered": "95 % intervals that hold the coefficient",
    "covered true": "the same of true inputs",
    "prior inclusion": "prior inclusion, mean",
    "noise sd": "noise sd, mean",
    "CPU seconds": "CPU seconds, mean",
}


def summarise_simulated(kind: str, how: str) -> dict[str, Any]:
    """Averages over the draws, and the calibration table."""
    task = HOW[how]
    rows = [
        cached(f"simulated-{kind}-{task.__name__}-{seed}", lambda s=seed: task(kind, s))
        for seed in range(DRAWS)
    ]
    count, expected, true = (
        np.sum([r[name] for r in rows], axis=0) for name in ("count", "expected", "true")
    )
    table = [
        {
            "probability": f"{low:g} to {high:g}",
            "inputs": int(n),
            "mean probability": round(float(e / n), 4) if n else None,
            "share true": round(float(t / n), 4) if n else None,
            "standard error": round(float(np.sqrt(max(e / n * (1 - e / n), 0.0) / n)), 4) if n else None,
        }
        for low, high, n, e, t in zip(EDGES, EDGES[1:], count, expected, true, strict=False)
    ]
    facts = {
        text: round(float(np.mean([r[name] for r in rows])), 4)
        for name, text in FACTS.items()
        if name in rows[0]
    }
    converged = {"converged": int(sum(r["converged"] for r in rows))} if "converged" in rows[0] else {}
    return {
        "draws": len(rows),
        "true inputs among the first ten, mean": float(np.mean([r["found"] for r in rows])),
        "draws with all true inputs first": int(sum(r["false above the last true"] == 0 for r in rows)),
        "squared error of the probabilities, sum over the inputs": round(
            float(np.mean([r["square"] for r in rows])), 3
        ),
        "inputs expected in, mean": round(float(expected.sum() / len(rows)), 2),
        "calibration": table,
        **facts,
        **converged,
    }


# ── against NUTS ────────────────────────────────────────────────────────────────────────────────


def against_nuts(prior: str, rows: int = 60, inputs: int = 30) -> dict[str, Any]:
    """Distance of EP from NUTS: means in posterior sds, sds relative."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((rows, inputs)), np.zeros(inputs)
    w[:5] = [1.5, -1.0, 0.8, -0.5, 0.3]
    model = EPLinearRegressor(prior=prior, max_iter=1000, tol=1e-5)
    timed(model, X, X @ w + rng.standard_normal(rows))
    main = model.posterior_.main
    q = main.state.posterior.w
    scale = PRIORS[prior].family.scale_prior
    began = time.process_time()
    found = nuts.posterior(main.prepared.data, prior, scale, (NOISE.mean, NOISE.var), NUTS_DRAWS)
    gap = np.abs(q.mean[0] - found["mean"]) / found["sd"]
    ratio = np.abs(np.sqrt(q.var[0]) / found["sd"] - 1.0)
    return {
        "rows": rows,
        "inputs": inputs,
        "means, largest difference in sds": round(float(gap.max()), 4),
        "means, root mean square": round(float(np.sqrt(np.mean(gap**2))), 4),
        "sds, largest relative difference": round(float(ratio.max()), 4),
        "sds, root mean square": round(float(np.sqrt(np.mean(ratio**2))), 4),
        "NUTS draws": 4 * NUTS_DRAWS,
        "worst R-hat": round(float(found["worst R-hat"]), 4),
        "NUTS CPU seconds": round(time.process_time() - began, 1),
    }


# ── data with d >> n ────────────────────────────────────────────────────────────────────────────


def leukemia() -> dict[str, Any]:
    """The published split: 38 rows to train, 34 to test."""
    table = datasets.load("leukemia")
    train, test = table.splits["train"], table.splits["test"]
    model = EPLinearClassifier()
    seconds = timed(model, table.X[train], table.y[train])
    wrong = int(np.sum(model.predict(table.X[test]) != table.y[test]))
    density = float(model.log_density(table.X[test], table.y[test]).mean())
    return {"errors of 34": wrong, "log density": round(density, 3), "CPU seconds": round(seconds, 1)}


def colon() -> dict[str, Any]:
    """Ten folds."""
    table = datasets.load("colon")
    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(table.X, table.y)
    wrong, other, seconds = 0, 0, []
    for train, test in folds:
        model = EPLinearClassifier()
        seconds.append(timed(model, table.X[train], table.y[train]))
        wrong += int(np.sum(model.predict(table.X[test]) != table.y[test]))
        lasso = make_pipeline(
            StandardScaler(), LogisticRegressionCV(Cs=10, cv=5, solver="liblinear", penalty="l1")
        )
        timed(lasso, table.X[train], table.y[train])
        other += int(np.sum(lasso.predict(table.X[test]) != table.y[test]))
    return {
        "errors of 62": wrong,
        "errors of LogisticRegressionCV (l1)": other,
        "CPU seconds a fit": round(max(seconds), 1),
    }


def riboflavin() -> dict[str, Any]:
    """Ten folds, against LassoCV."""
    table = datasets.load("riboflavin")
    squares: dict[str, list[Any]] = {"cavity": [], "LassoCV": []}
    seconds = []
    for train, test in KFold(10, shuffle=True, random_state=0).split(table.X):
        models = {
            "cavity": EPLinearRegressor(),
            "LassoCV": make_pipeline(StandardScaler(), LassoCV()),
        }
        for name, model in models.items():
            spent = timed(model, table.X[train], table.y[train])
            squares[name].append((model.predict(table.X[test]) - table.y[test]) ** 2)
            if name == "cavity":
                seconds.append(spent)
    mse = {f"MSE, {name}": round(float(np.concatenate(v).mean()), 4) for name, v in squares.items()}
    return {**mse, "CPU seconds a fit": round(max(seconds), 1)}


def parts(chosen: list[str]) -> dict[str, Any]:
    """The chosen parts, each with what could not be run and why."""
    out: dict[str, Any] = {}
    if "simulated" in chosen:
        out["simulated"] = {
            kind: {how: summarise_simulated(kind, how) for how in HOW} for kind in ("clear", "gaussian")
        }
    if "nuts" in chosen:
        if nuts.numpyro is None:
            print("nuts: skipped,", nuts.MISSING)
        else:
            out["against NUTS"] = {p: cached(f"nuts-{p}", lambda p=p: against_nuts(p)) for p in SAMPLED}
    if "data" in chosen:
        if not os.environ.get(datasets.DATA_VARIABLE):
            print("data: skipped, the environment variable CAVITY_DATA is not set")
        else:
            out["more inputs than rows"] = {
                f.__name__: cached(f.__name__, f) for f in (leukemia, colon, riboflavin)
            }
    return out


def main(arguments: list[str]) -> None:
    """Run the parts and write them into the result, leaving the others as they are."""
    known = ["simulated", "nuts", "data"]
    unknown = set(arguments) - set(known)
    if unknown:
        raise SystemExit(f"unknown part {sorted(unknown)}: use some of {known}.")
    with threadpool_limits(1):
        found = parts(arguments or known)
    old = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    what = "EPLinearRegressor and EPLinearClassifier with their defaults, unless a prior is named"
    old.pop("what", None), old.pop("machine", None)
    result = {"what": what, "machine": machine, **old, **found}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
