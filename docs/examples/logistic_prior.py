"""A prior in one small file: the logistic density, between Gaussian and Laplace."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cavity.model.priors import WeightPrior

SCALE = np.sqrt(3.0) / np.pi  # of a logistic density of variance one


@dataclass(frozen=True)
class LogisticPrior(WeightPrior):
    r"""Logistic weight of variance :math:`e^\varphi`, :math:`p(w\mid\varphi) = \mathrm{sech}^2(w/2s)/4s`."""

    log_concave: ClassVar[bool] = True

    def log_density(self, w, log_var):
        """Log-density; 2 log cosh(x) = 2|x| + 2 log(1 + e^(-2|x|)) - 2 log 2."""
        s = SCALE * np.exp(0.5 * np.asarray(log_var, dtype=float))
        x = 0.5 * np.abs(w) / s
        return -np.log(s) - 2.0 * x - 2.0 * np.log1p(np.exp(-2.0 * x))
