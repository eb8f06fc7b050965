"""One table whose target scatters in four ways, and which noise predicts each row best without that row."""

import numpy as np

from cavity import EPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(150, 2))
f = np.tanh(2.0 * X[:, 0]) + 0.5 * X[:, 1]
targets = {
    "the same everywhere": f + 0.2 * rng.normal(size=150),
    "a few rows far off": f + 0.2 * rng.normal(size=150) + 5.0 * (np.arange(150) % 15 == 0),
    "more with larger inputs": f + 0.2 * np.exp(0.6 * X[:, 1]) * rng.normal(size=150),
    "where the function is steep": f + 0.4 / np.cosh(2.0 * X[:, 0]) ** 2 * rng.normal(size=150),
}
kinds = {
    "one level": {"likelihood": "gaussian", "noise": None},
    "outliers": {"likelihood": "outliers", "noise": None},
    "linear": {"likelihood": "gaussian", "noise": "linear"},
    "varying": {"likelihood": "gaussian", "noise": "varying"},
}

best, loo = {}, {}
for name, y in targets.items():
    fits = {kind: EPRegressor(n_hidden=4, n_starts=1, **how).fit(X, y) for kind, how in kinds.items()}
    loo[name] = {kind: round(float(fit.loo_), 2) for kind, fit in fits.items()}
    best[name] = max(fits, key=lambda kind: fits[kind].loo_)

counts = rng.poisson(np.exp(f))
rate = EPRegressor(n_hidden=2, n_starts=1, likelihood="poisson").fit(X[:60], counts[:60]).predict(X[60:])

if __name__ == "__main__":
    for name, scores in loo.items():
        print(f"{name}: {scores}, best: {best[name]}")
    print("counts: rms error of the rate", round(float(np.sqrt(np.mean((rate - np.exp(f[60:])) ** 2))), 2))
