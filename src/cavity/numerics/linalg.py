"""Cholesky factors and log-partitions; a matrix that is not positive definite is an answer, not an error."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from cavity.numerics.normal import LOG_2PI
from cavity.types import FloatArray, Floats

WIDE, ROWS = 32, 1024  # columns from which half of a product pays, and rows of it that stay in the cache
WELL_CONDITIONED = 1e8  # product of the squared norms of a Cholesky factor and its inverse, see `gram_factor`


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


def gram_factor(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """L with LLᵀ = G for a positive semidefinite G = AAᵀ, and its inverse.

    The Cholesky factor; where G is singular or nearly so, L = V√D of its eigenvectors, and of those that
    rounding alone keeps from zero both L and the inverse know nothing. Between the two only digits differ:
    L⁻¹A has rows that are orthonormal to eps·cond(G).
    """
    lower, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info == 0:
        inverse, info = lapack.dtrtri(lower, lower=1)
        if info == 0 and np.sum(lower**2) * np.sum(inverse**2) < WELL_CONDITIONED:
            return lower, inverse
    values, vectors = np.linalg.eigh(gram)
    some = values > len(gram) * np.finfo(float).eps * values[-1]
    root = np.sqrt(np.where(some, values, 1.0))
    return np.where(some, vectors * root, 0.0), np.where(some, vectors / root, 0.0).T


def signed_factor(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F and signs s with A = Fᵀ diag(s) F for a symmetric A: Cholesky, or where that fails eigenvectors."""
    upper, info = lapack.dpotrf(A, lower=0, clean=1)
    if info == 0:
        return upper, np.ones(len(A))
    values, vectors = np.linalg.eigh(A)
    return np.sqrt(np.abs(values))[:, None] * vectors.T, np.sign(values)


def gaussian_log_partition(mean: FloatArray, location: FloatArray, factor: FloatArray) -> float:
    """Ψ = ½ μᵀν + ½ log|Σ| + (d/2) log 2π for Σ = factor factorᵀ, triangular *(paper, App. G)*."""
    log_det = 2.0 * float(np.log(factor.diagonal()).sum())
    return 0.5 * (float(mean @ location) + log_det + len(mean) * LOG_2PI)


def scalar_log_partition(mean: Floats, var: Floats) -> Floats:
    """Ψ of scalar Gaussians."""
    return 0.5 * (mean * mean / var + np.log(2.0 * np.pi * var))
