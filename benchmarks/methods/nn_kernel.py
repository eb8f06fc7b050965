r"""Covariance of a network with infinitely many units (Williams, 1998), as a scikit-learn kernel.

.. math:: k(x, x') = s \, \frac{2}{\pi} \arcsin \frac{\tilde x^T \Sigma \tilde x'}
          {\sqrt{(1 + \tilde x^T \Sigma \tilde x)(1 + \tilde x'^T \Sigma \tilde x')}}, \qquad
          \tilde x = (x, 1),

is :math:`s\,E[g(w^T\tilde x) g(w^T\tilde x')]` for :math:`w \sim N(0, \Sigma)` and the units
:math:`g(h) = 2\Phi(h) - 1 = \operatorname{erf}(h/\sqrt 2)` of cavity, so that its weight variances are on the
scale of a network's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

LIMITS = (1e-6, 1e6)


class ArcsineKernel(Kernel):
    """The kernel above: ``output_var`` s, ``bias_var`` and ``weight_var`` (one, or one per input) on Σ."""

    def __init__(
        self,
        weight_var: Any = 1.0,
        bias_var: float = 1.0,
        output_var: float = 1.0,
        limits: tuple[float, float] = LIMITS,
    ) -> None:
        self.weight_var, self.bias_var, self.output_var = weight_var, bias_var, output_var
        self.limits = limits

    @property
    def hyperparameter_bias_var(self) -> Hyperparameter:
        return Hyperparameter("bias_var", "numeric", self.limits)

    @property
    def hyperparameter_output_var(self) -> Hyperparameter:
        return Hyperparameter("output_var", "numeric", self.limits)

    @property
    def hyperparameter_weight_var(self) -> Hyperparameter:
        count = np.size(self.weight_var)
        return Hyperparameter("weight_var", "numeric", self.limits, 1 if count == 1 else count)

    def is_stationary(self) -> bool:
        return False

    def diag(self, X: np.ndarray) -> np.ndarray:
        return self.output_var * (1.0 - (4.0 / np.pi) * np.arcsin(np.sqrt(0.5 / (1.0 + self._size(X)))))

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, eval_gradient: bool = False) -> Any:
        """K(X, Y); with ``eval_gradient`` also dK/dθ, an n × n × p array as scikit-learn wants it.

        The array is for small n: the optimiser of `gp_nn` asks for `with_sums` instead.
        """
        gap = self._gap(X, X if Y is None else Y)
        K = self._value(gap)
        if not eval_gradient:
            return K
        slope, z, U = self._slope(gap), 1.0 - gap, self._rows(X)
        columns = [
            slope * var * (np.outer(u, u) - 0.5 * z * (u[:, None] ** 2 + u**2))
            for var, u in zip(self._variances(X), U.T, strict=True)
        ]
        weights = columns[:-1] if np.size(self.weight_var) > 1 else [np.sum(columns[:-1], axis=0)]
        return K, np.stack([columns[-1], K, *weights], axis=2)

    def gradient_sums(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Σ_ij W_ij dK_ij/dθ_p for symmetric W, all p at once."""
        return self.with_sums(X)[1](W)

    def with_sums(self, X: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """K(X, X) and the function W ↦ Σ_ij W_ij dK_ij/dθ_p: n × n and n × d arrays, none larger."""
        gap, U = self._gap(X, X), self._rows(X)
        K = self._value(gap)

        def sums(W: np.ndarray) -> np.ndarray:
            G = self._slope(gap)
            G *= W
            cross = np.sum(U * (G @ U), axis=0)
            own = (G.sum(axis=1) - np.einsum("ij,ij->i", G, gap)) @ U**2
            per_weight = self._variances(X) * (cross - own)
            weights = per_weight[:-1] if np.size(self.weight_var) > 1 else [per_weight[:-1].sum()]
            return np.array([per_weight[-1], np.vdot(W, K), *weights])

        return K, sums

    def _design(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.ones(len(X))])

    def _variances(self, X: np.ndarray) -> np.ndarray:
        return np.append(np.broadcast_to(self.weight_var, X.shape[1]), self.bias_var)

    def _size(self, X: np.ndarray) -> np.ndarray:
        return self._design(X) ** 2 @ self._variances(X)

    def _rows(self, X: np.ndarray) -> np.ndarray:
        """x̃ / √(1 + x̃ᵀΣx̃)."""
        return self._design(X) / np.sqrt(1.0 + self._size(X))[:, None]

    def _gap(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """1 - z for the argument z of arcsin, from differences.

        With large variances z is within 1e-6 of 1, where arcsin has a square-root singularity: 1 - z from z
        itself would leave errors of 1e-8 in K, which a large ``output_var`` turns into visible noise.
        """
        root = np.sqrt(self._variances(X))
        gap = cdist(self._rows(X) * root, self._rows(Y) * root, "sqeuclidean")
        gap += 1.0 / (1.0 + self._size(X))[:, None]
        gap += 1.0 / (1.0 + self._size(Y))
        gap *= 0.5
        return gap

    def _value(self, gap: np.ndarray) -> np.ndarray:
        """s (2/π) arcsin(1 - gap) = s (1 - (4/π) arcsin √(gap/2))."""
        out = 0.5 * gap
        np.arcsin(np.sqrt(out, out=out), out=out)
        out *= -4.0 / np.pi
        out += 1.0
        out *= self.output_var
        return out

    def _slope(self, gap: np.ndarray) -> np.ndarray:
        """dK/dz = s (2/π) / √(gap (2 - gap))."""
        out = 2.0 - gap
        out *= gap
        np.sqrt(out, out=out)
        return np.divide(self.output_var * (2.0 / np.pi), out, out=out)
