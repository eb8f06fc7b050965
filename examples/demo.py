"""The main job in one go: fit the additive problem of the paper's Case 2 and the diabetes data."""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_diabetes

import cavity
from cavity import datasets


def fit(X, y, K: int, names=None) -> cavity.FittedPosterior:
    """Zero start with Gaussian ARD priors, as in Section 3.3.1 of the paper; one line a stage."""
    prepared = cavity.prepare(X, y, names=names)
    spec = cavity.network(X.shape[1], K, prior="gaussian", groups="input")
    state, schedule = cavity.zero_start(
        spec, prepared.data, cavity.Step(damping=0.4), max_sweeps=100, tol=1e-3
    )
    seen: set[str] = set()

    def progress(record, _state) -> None:
        if record.stage not in seen:
            seen.add(record.stage)
            print(f"  {record.stage:18s} running LOO {record.loo:7.3f}   mismatch {record.mismatch:.1e}")

    started = time.perf_counter()
    solution = cavity.solve(spec, prepared.data, state, schedule, callback=progress)
    print(f"  {len(solution.history)} sweeps in {time.perf_counter() - started:.1f} s")
    return cavity.FittedPosterior(prepared, solution)


def relevance(posterior: cavity.FittedPosterior, names) -> None:
    """Print the prior scale of each input: E φ with its standard deviation, largest first."""
    scales = posterior.scales
    for j in np.argsort(-scales.mean[: len(names)]):
        print(f"  {names[j]:>10s}   log prior variance {scales.mean[j]:6.2f} ± {np.sqrt(scales.var[j]):.2f}")


def main() -> None:
    """Fit both problems, print what was learnt, and score Case 2 on fresh rows."""
    print("Case 2: ten additive effects, the first irrelevant (n = 200, K = 10)")
    train, test = datasets.case2(n=200, random_state=0), datasets.case2(n=1000, random_state=1)
    names = [f"x{j + 1}" for j in range(train.X.shape[1])]
    posterior = fit(train.X, train.y, 10, names)
    print(posterior.summary())
    relevance(posterior, names)
    prediction = posterior.predict(test.X)
    print(
        f"  test MSE {np.mean((prediction.mean - test.y) ** 2) / np.var(test.y):.3f} of the target's variance"
    )

    print("\nDiabetes (scikit-learn, n = 442, K = 4)")
    diabetes = load_diabetes(scaled=False)
    posterior = fit(diabetes.data, diabetes.target, 4, diabetes.feature_names)
    print(posterior.summary())
    relevance(posterior, diabetes.feature_names)
    lower, upper = posterior.quantiles(diabetes.data[:1], [0.025, 0.975])[0]
    print(f"  first patient: observed {diabetes.target[0]:.0f}, 95 % interval {lower:.0f} … {upper:.0f}")


if __name__ == "__main__":
    main()
