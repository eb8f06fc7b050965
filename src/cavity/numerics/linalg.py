"""Cholesky factors and log-partitions; a matrix that is not positive definite is an answer, not an error."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from cavity.numerics.normal import LOG_2PI
from cavity.types import FloatArray, Floats


def inverse_factor(precision: FloatArray) -> FloatArray | None:
    """C, upper triangular, with C Cᵀ = P⁻¹; None where P is not positive definite (or not finite)."""
    lower, info = lapack.dpotrf(precision, lower=1, clean=1)
    if info != 0 or not math.isfinite(lower.sum()):
        return None
    inverse, info = lapack.dtrtri(lower, lower=1)
    return np.ascontiguousarray(inverse.T) if info == 0 else None


def gaussian_log_partition(mean: FloatArray, location: FloatArray, factor: FloatArray) -> float:
    """Ψ = ½ μᵀν + ½ log|Σ| + (d/2) log 2π for Σ = factor factorᵀ, triangular *(paper, App. G)*."""
    log_det = 2.0 * float(np.log(factor.diagonal()).sum())
    return 0.5 * (float(mean @ location) + log_det + len(mean) * LOG_2PI)


def scalar_log_partition(mean: Floats, var: Floats) -> Floats:
    """Ψ of scalar Gaussians."""
    return 0.5 * (mean * mean / var + np.log(2.0 * np.pi * var))
