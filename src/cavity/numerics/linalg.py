"""Cholesky factors and log-partitions; a matrix that is not positive definite is an answer, not an error."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from cavity.numerics.normal import LOG_2PI
from cavity.types import FloatArray, Floats

WIDE, ROWS = 32, 1024  # columns from which half of a product pays, and rows of it that stay in the cache
NEARLY_ORTHOGONAL = 1e-3  # largest entry of QᵀQ - I from which one more pass leads to rounding


def inverse_factor(precision: FloatArray) -> FloatArray | None:
    """C, upper triangular, with C Cᵀ = P⁻¹; None where P is not positive definite (or not finite)."""
    lower, info = lapack.dpotrf(precision, lower=1, clean=1)
    if info != 0 or not math.isfinite(lower.sum()):
        return None
    inverse, info = lapack.dtrtri(lower, lower=1)
    return np.ascontiguousarray(inverse.T) if info == 0 else None


def squared_lengths(Z: FloatArray, factor: FloatArray) -> FloatArray:
    """zᵀ C Cᵀ z of the rows of Z, (n,), for an upper triangular C: the variances of zᵀw, w ~ N(·, C Cᵀ)."""
    if len(factor) < WIDE or not Z.flags.c_contiguous:
        image = Z @ factor
        return np.einsum("nr,nr->n", image, image)
    out, upper = np.empty(len(Z)), np.asfortranarray(factor)
    for first in range(0, len(Z), ROWS):
        rows = slice(first, first + ROWS)
        image = blas.dtrmm(1.0, upper, Z[rows].T, lower=0, trans_a=1)
        np.einsum("rn,rn->n", image, image, out=out[rows])
    return out


def thin_qr(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q and upper triangular U of a tall matrix, A = QU, to rounding.

    By Cholesky factors of the Gram matrix, twice: products of matrices take a third of the time that
    Householder reflections do. The first pass leaves Q orthogonal to eps·cond(A)², the second to eps as long
    as that is small (Yamamoto et al., 2015); where it is not, reflections it is.
    """
    if A.shape[0] >= A.shape[1]:
        try:
            first = np.linalg.cholesky(A.T @ A)
            Q = A @ np.linalg.inv(first).T
            gram = Q.T @ Q
            if np.max(np.abs(gram - np.eye(len(gram))), initial=0.0) < NEARLY_ORTHOGONAL:
                second = np.linalg.cholesky(gram)
                return Q @ np.linalg.inv(second).T, (first @ second).T
        except np.linalg.LinAlgError:  # rows that depend on each other
            pass
    Q, U = np.linalg.qr(A)
    return Q, U


def gaussian_log_partition(mean: FloatArray, location: FloatArray, factor: FloatArray) -> float:
    """Ψ = ½ μᵀν + ½ log|Σ| + (d/2) log 2π for Σ = factor factorᵀ, triangular *(paper, App. G)*."""
    log_det = 2.0 * float(np.log(factor.diagonal()).sum())
    return 0.5 * (float(mean @ location) + log_det + len(mean) * LOG_2PI)


def scalar_log_partition(mean: Floats, var: Floats) -> Floats:
    """Ψ of scalar Gaussians."""
    return 0.5 * (mean * mean / var + np.log(2.0 * np.pi * var))
