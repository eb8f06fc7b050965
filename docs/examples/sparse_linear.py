"""Ten of 500 inputs matter, 100 rows: which ones, how much, and how sure."""

import numpy as np

from cavity import EPLinearRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 500))
true = np.arange(0, 500, 50)
y = X[:, true].sum(axis=1) + rng.normal(size=100)

model = EPLinearRegressor().fit(X, y)
found = np.flatnonzero(model.inclusion_ > 0.5)
interval = model.coef_interval(0.95)[found]
for j, (low, high) in zip(found, interval, strict=True):
    print(f"x{j}: P = {model.inclusion_[j]:.2f}, coefficient {model.coef_[j]:.2f} ({low:.2f} to {high:.2f})")
print(f"noise sd {model.noise_sd_:.2f}, leave-one-out log density {model.loo_:.2f} per row")
