"""scikit-learn's exact Gaussian process: squared exponential with one length-scale per input, plus noise."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.gaussian import GaussianPredictions
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

RESTARTS = 4  # beside the start at length-scales of sqrt(d); they are drawn log-uniformly within the bounds


def fit(X: np.ndarray, y: np.ndarray) -> GaussianPredictions:
    """Marginal-likelihood optimum over several starts, standardised inputs and target."""
    d = X.shape[1]
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.full(d, np.sqrt(d)), (1e-1, 1e4))
    kernel += WhiteKernel(0.1, (1e-5, 1e1))
    gp = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0)
    model = make_pipeline(StandardScaler(), gp).fit(X, y)
    return GaussianPredictions(model, {"log_evidence": float(gp.log_marginal_likelihood_value_)})
