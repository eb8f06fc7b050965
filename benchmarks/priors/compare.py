"""Every prior by its name on four kinds of simulated data: writes benchmarks/results/priors.json.

    python benchmarks/priors/compare.py

For each kind of data and prior, averages over a few draws: held-out mean squared error in units of the
target's variance, held-out and leave-one-out log density per row, CPU seconds, and how many fits ended far
from converged. Then CPU milliseconds of the tilted moments of 1000 weights with an inferred scale.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from cavity import EPRegressor
from cavity.ep.tilted import scaled_tilted_moments
from cavity.model.priors import PRIORS
from cavity.types import Gaussian

RESULT = Path(__file__).parents[1] / "results" / "priors.json"
HELD_OUT = 1000


def curved(n, d, seed):
    """Five of d inputs matter, two of them by their product."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, size=(n, d))
    f = np.sin(X[:, 0] * X[:, 1]) + 0.8 * X[:, 2] ** 2 + 0.7 * X[:, 3] + 0.4 * X[:, 4]
    return X, f + 0.3 * rng.standard_normal(n)


def straight(n, d, seed):
    """Two of d inputs matter, linearly."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] - 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)


KINDS = {
    "5 of 10 inputs, 200 rows": (curved, 200, 10, 5),
    "5 of 40 inputs, 400 rows": (curved, 400, 40, 3),
    "5 of 6 inputs, 60 rows": (curved, 60, 6, 5),
    "2 of 30 inputs, linear, 100 rows": (straight, 100, 30, 5),
}


def compare(make, n, d, seeds, prior) -> dict[str, float]:
    """Averages over the draws."""
    rows = []
    for seed in range(seeds):
        X, y = make(n + HELD_OUT, d, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.process_time()
            model = EPRegressor(n_hidden=8, prior=prior, n_starts=1).fit(X[:n], y[:n])
            seconds = time.process_time() - began
        far = any(issubclass(w.category, ConvergenceWarning) for w in caught)
        error = np.mean((model.predict(X[n:]) - y[n:]) ** 2) / np.var(y[n:])
        rows.append([error, model.log_density(X[n:], y[n:]).mean(), model.loo_, seconds, far])
    mean = np.mean(np.array(rows, dtype=float), axis=0)
    names = ("held-out MSE", "held-out log density", "leave-one-out", "CPU seconds")
    out = {name: round(float(value), 4) for name, value in zip(names, mean, strict=False)}
    return {**out, "far from converged": int(round(mean[4] * seeds)), "fits": seeds}


def moments_ms(prior) -> float:
    """1000 weights, a fifth of them large, under a scale known to half a nat, at the sweeps' fraction."""
    rng = np.random.default_rng(0)
    var = np.exp(rng.normal(-4.0, 1.5, 1000))
    mean = rng.standard_normal(1000) * np.sqrt(var) * np.where(rng.random(1000) < 0.2, 10.0, 1.0)
    scale = Gaussian(rng.normal(-3.0, 0.3, 1000), np.full(1000, 0.25))
    times = []
    for _ in range(7):
        began = time.process_time()
        scaled_tilted_moments(prior, Gaussian(mean, var), scale, 0.9)
        times.append(time.process_time() - began)
    return round(1e3 * float(np.median(times)), 1)


def main() -> None:
    """Run everything and write the result."""
    with threadpool_limits(1):
        kinds = {
            kind: {prior: compare(make, n, d, seeds, prior) for prior in PRIORS}
            for kind, (make, n, d, seeds) in KINDS.items()
        }
        moments = {name: moments_ms(named.family()) for name, named in PRIORS.items()}
    result = {
        "what": "EPRegressor(n_hidden=8, n_starts=1) with each prior; averages over draws of data",
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "data": kinds,
        "tilted moments of 1000 weights, CPU ms": moments,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for kind, priors in kinds.items():
        print(kind)
        for prior, row in priors.items():
            print(f"  {prior:22s}", row)
    print(moments)


if __name__ == "__main__":
    main()
