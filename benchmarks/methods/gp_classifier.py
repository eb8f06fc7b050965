"""scikit-learn's Gaussian process classifier: Laplace's method, squared exponential of one length-scale."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fit(X: np.ndarray, y: np.ndarray) -> ClassPredictions:
    """Marginal-likelihood optimum from a length-scale of sqrt(d), standardised inputs."""
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))
    gp = GaussianProcessClassifier(kernel, random_state=0)
    model = make_pipeline(StandardScaler(), gp).fit(X, y)
    return ClassPredictions(model, {"log_evidence": float(gp.log_marginal_likelihood_value_)})
