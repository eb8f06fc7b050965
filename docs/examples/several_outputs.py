"""Three outputs: one network each, with standard deviations, leave-one-out densities and relevant inputs."""

import numpy as np
import pandas as pd
from sklearn.multioutput import MultiOutputRegressor

from cavity import EPRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["age", "dose", "weight"])
noise = rng.normal(size=(80, 3)) * [0.1, 0.2, 0.3]
y = np.column_stack([np.tanh(2.0 * X["age"]), X["dose"] - 0.5 * X["age"], X["weight"] ** 2]) + noise

model = MultiOutputRegressor(EPRegressor(n_hidden=4, n_starts=1)).fit(X, y)
mean = model.predict(X)  # (80, 3)
sd = np.column_stack([one.predict(X, return_std=True)[1] for one in model.estimators_])
loo = sum(one.loo_ for one in model.estimators_)  # of all outputs together

if __name__ == "__main__":
    for number, one in enumerate(model.estimators_):
        first = one.relevance_.sorted().name[0]
        print(f"output {number}: noise sd {one.noise_sd_:.2f}, {first} matters most")
    print(f"leave-one-out log density {loo:.2f} per row")
