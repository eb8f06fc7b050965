"""Which units suit a target that is mostly linear? Leave-one-out says."""

import numpy as np

from cavity import EPRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
y = X @ [1.0, 0.6, -0.2, -0.6] + 0.8 * np.tanh(3.0 * X[:, 0]) + 0.2 * rng.normal(size=60)

loo = {}
for activation in ("linear", "erf", "linear+erf"):
    model = EPRegressor(n_hidden=3, activation=activation, n_starts=1).fit(X, y)
    loo[activation] = round(float(model.loo_), 2)

if __name__ == "__main__":
    print(loo)
