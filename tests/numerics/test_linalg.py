"""Thin QR factors, whatever the matrix; quadratic forms."""

import numpy as np
import pytest

from cavity.numerics.linalg import ROWS, WIDE, squared_lengths, thin_qr


def tall(condition, rows=200, columns=12):
    """A matrix with singular values from 1 down to 1/condition."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(rows, columns)))
    right, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    return left * np.geomspace(1.0, 1.0 / condition, columns) @ right


# by two Cholesky factors up to about 1e6, by reflections beyond
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e9, 1e14])
def test_thin_qr_is_exact_at_any_condition(condition):
    A = tall(condition)
    Q, U = thin_qr(A)
    np.testing.assert_allclose(Q.T @ Q, np.eye(12), atol=1e-14)
    np.testing.assert_allclose(Q @ U, A, atol=1e-15)
    np.testing.assert_allclose(np.tril(U, -1), 0.0, atol=1e-15)


@pytest.mark.parametrize("A", [np.ones((6, 3)), np.zeros((5, 2)), np.ones((2, 4)), np.ones((0, 3))])
def test_thin_qr_of_matrices_without_full_rank(A):
    Q, U = thin_qr(A)
    reference, _ = np.linalg.qr(A)
    assert Q.shape == reference.shape
    np.testing.assert_allclose(Q @ U, A, atol=1e-14)


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
