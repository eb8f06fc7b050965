"""Every prior with every likelihood and every activation: writes benchmarks/results/combinations.json.

    python benchmarks/structures/combinations.py

Each combination fits 30 rows (12 of counts, whose likelihood has no compiled form) of 2 inputs with 2 hidden
units from one start of 20 sweeps, and is "fitted", "warned" (with the warning) or "refused" (with the
reason). Beside it: leave-one-out density, the largest moment mismatch and CPU seconds.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cavity import EPClassifier, EPRegressor
from cavity.model.activations import ACTIVATIONS
from cavity.model.likelihoods import LIKELIHOODS
from cavity.model.priors import PRIORS

RESULT = Path(__file__).parents[1] / "results" / "combinations.json"
ROWS, COUNT_ROWS, INPUTS, UNITS, SWEEPS, TOL = 30, 12, 2, 2, 20, 0.1


def target(likelihood: str, rng: np.random.Generator, X: Any) -> Any:
    """A tanh and a slope, as numbers, counts or classes."""
    f = np.tanh(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    if likelihood == "poisson":
        return rng.poisson(np.exp(1.0 + f)).astype(float)
    y = f + 0.2 * rng.standard_normal(len(X))
    return y > 0.0 if likelihood == "probit" else y


def attempt(prior: str, likelihood: str, activation: str) -> dict[str, Any]:
    """Fit one combination and say how it went."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((COUNT_ROWS if likelihood == "poisson" else ROWS, INPUTS))
    y = target(likelihood, rng, X)
    options = {
        "n_hidden": UNITS,
        "n_starts": 1,
        "max_iter": SWEEPS,
        "tol": TOL,
        "prior": prior,
        "activation": activation,
        "verbose": 0,
    }
    model = (
        EPClassifier(**options) if likelihood == "probit" else EPRegressor(**options, likelihood=likelihood)
    )
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except ValueError as error:
            return {"outcome": "refused", "why": str(error)}
    mismatch = max(c.solution.mismatch for c in model.posterior_.components)
    out: dict[str, Any] = {
        "outcome": "warned" if caught else "fitted",
        "loo": round(float(model.loo_), 3),
        "mismatch": round(float(mismatch), 3),
        "seconds": round(time.process_time() - began, 2),
    }
    return {**out, "why": str(caught[0].message)} if caught else out


def main() -> None:
    """Run the full product and write what came of it."""
    found: dict[str, dict[str, Any]] = {}
    began = time.process_time()
    with threadpool_limits(1):
        for likelihood in sorted(LIKELIHOODS, key=lambda name: name == "poisson"):
            for prior in PRIORS:
                for activation in ACTIVATIONS:
                    name = f"{prior}, {likelihood}, {activation}"
                    found[name] = attempt(prior, likelihood, activation)
                    if found[name]["outcome"] != "fitted":
                        print(name, found[name], flush=True)
                write(found, time.process_time() - began)


def write(found: dict[str, dict[str, Any]], seconds: float) -> None:
    """What is known so far, with its counts."""
    outcomes = ("fitted", "warned", "refused")
    result = {
        "machine": platform.machine(),
        "rows": ROWS,
        "rows of counts": COUNT_ROWS,
        "units": UNITS,
        "sweeps": SWEEPS,
        "counts": {what: sum(v["outcome"] == what for v in found.values()) for what in outcomes},
        "CPU seconds": round(seconds, 1),
        "combinations": found,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(result["counts"], result["CPU seconds"], flush=True)


if __name__ == "__main__":
    main()
