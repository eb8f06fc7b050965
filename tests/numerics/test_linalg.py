"""Factors of Gram matrices and of symmetric ones, whatever the matrix; quadratic forms."""

import numpy as np
import pytest

from cavity.numerics.linalg import ROWS, WIDE, gram_factor, signed_factor, squared_lengths


def wide(condition, rows=12, columns=200):
    """A matrix with singular values from 1 down to 1/condition."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(rows, rows)))
    right, _ = np.linalg.qr(rng.normal(size=(columns, rows)))
    return left * np.geomspace(1.0, 1.0 / condition, rows) @ right.T


# by Cholesky up to about 1e3, by eigenvectors beyond; from 1e8 on some of them are rounding
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4, 1e6, 1e14])
def test_gram_factor_makes_the_gram_matrix(condition):
    A = wide(condition)
    lower, inverse = gram_factor(A @ A.T)
    np.testing.assert_allclose(lower @ lower.T, A @ A.T, atol=1e-14)
    np.testing.assert_allclose(
        inverse @ lower @ inverse, inverse, rtol=1e-9, atol=1e-9 * np.abs(inverse).max()
    )
    rows = inverse @ A
    kept = np.any(inverse != 0.0, axis=1)
    assert kept.sum() == (12 if condition < 1e7 else 6)
    error = max(1e-15 * condition**2, 1e-14) if condition < 1e7 else 0.2
    np.testing.assert_allclose(rows @ rows.T, np.diag(kept.astype(float)), atol=error)


@pytest.mark.parametrize("gram", [np.ones((3, 3)), np.zeros((2, 2)), np.diag([4.0, 0.0])])
def test_gram_factor_of_matrices_without_full_rank(gram):
    lower, inverse = gram_factor(gram)
    np.testing.assert_allclose(lower @ lower.T, gram, atol=1e-14)
    rank = np.linalg.matrix_rank(gram)
    assert np.sum(np.diag(inverse @ gram @ inverse.T) > 0.5) == rank
    assert np.sum(np.any(inverse != 0.0, axis=1)) == rank


@pytest.mark.parametrize("values", [(3.0, 2.0, 1e-3), (3.0, 0.0, -2.0), (-1.0, -2.0, -3.0), (0.0, 0.0, 0.0)])
def test_signed_factor_of_any_symmetric_matrix(values):
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))
    A = turn * np.array(values) @ turn.T
    factor, sign = signed_factor(A)
    np.testing.assert_allclose(factor.T * sign @ factor, A, atol=1e-14)


@pytest.mark.parametrize("width", [3, WIDE, 70])
@pytest.mark.parametrize("rows", [0, 5, 2 * ROWS + 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_squared_lengths_are_quadratic_forms(width, rows, order):
    rng = np.random.default_rng(1)
    Z, factor = (
        np.asarray(rng.normal(size=(rows, width)), order=order),
        np.triu(rng.normal(size=(width, width))),
    )
    expected = np.sum((Z @ factor @ factor.T) * Z, axis=1)
    np.testing.assert_allclose(squared_lengths(Z, factor), expected, rtol=1e-12)
