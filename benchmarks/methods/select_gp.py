"""Relevance by the Gaussian process of `gp_ard`: inverse length-scales of standardised inputs."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.gp_ard import fit
from benchmarks.methods.selection import Selection, above_mean


def select(X: np.ndarray, y: np.ndarray) -> Selection:
    """Length-scales at the optimum of the marginal likelihood."""
    kernel = fit(X, y).model[-1].kernel_  # constant * squared exponential + noise
    return above_mean(1.0 / np.asarray(kernel.k1.k2.length_scale))
