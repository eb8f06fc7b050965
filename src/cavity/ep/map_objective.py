r"""What a MAP fit minimises, with its gradient: the negative log posterior at a held noise variance s².

.. math:: -\sum_i w_i \log p(y_i \mid f_i, \log s^2) + \sum_{kj} \frac{w_{kj}^2}{2\lambda_j}
          - \sum_k \log p(v_k) + \frac{v_0^2}{2\sigma_{v_0}^2},\qquad v_k \ge 0 .

L-BFGS asks for it thousands of times, on tables so small that the calls around the arithmetic count: what
does not change between two of them is made once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity.ep.guide import fill_unit_values, unit_values
from cavity.ep.state import exact_output_precisions
from cavity.model.data import TrainingData
from cavity.model.interactions import with_products
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, IntArray

CHUNK = 1024  # rows of one pass: what it works on stays in the processor's cache


def output_inputs(spec: ModelSpec, h: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the output layer sees, (n, J), and ∂f/∂h, (n, K), at output weights v."""
    return through_output(spec, *unit_values(spec, h), v)


def through_output(
    spec: ModelSpec, g: FloatArray, slope: FloatArray, v: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same from the outputs of the units and their slopes, (n, K) each; ``slope`` is written over."""
    along = np.broadcast_to(v[: spec.n_hidden], g.shape)
    for p, (a, b) in enumerate(spec.pairs):
        size = spec.pair_scale[p] * v[spec.n_hidden + p]
        along = along.copy() if p == 0 else along
        along[:, a] += size * g[:, b]
        along[:, b] += size * g[:, a]
    seen = np.ones((len(g), spec.n_outputs))
    seen[:, :-1] = with_products(g, spec.pairs, spec.pair_scale)
    return seen, np.multiply(slope, along, out=slope)


def output_prior(spec: ModelSpec, v: FloatArray) -> tuple[float, FloatArray]:
    """-log p(v) of the output prior and its derivative."""
    prior, log_var = spec.output.prior, math.log(spec.output.scale_var)
    return -float(np.sum(prior.log_density(v, log_var))), -prior.slope(v, log_var)


class _Rows(NamedTuple):
    """Some rows, what the likelihood is at most there, and room, shared, for what a pass makes of them."""

    X: FloatArray
    y: FloatArray
    weight: FloatArray
    row_var: FloatArray
    top: FloatArray
    h: FloatArray
    g: FloatArray
    slope: FloatArray
    pulled: FloatArray


class MapObjective:
    """The objective and its gradient at z = (w of the inputs ``on``, v); without v where that is fixed.

    Of the likelihood the value at its peak is taken off, so that the objective is not negative but for what
    the output prior adds.
    """

    def __init__(
        self, spec: ModelSpec, data: TrainingData, on: IntArray, log_scale: float, weight_var: FloatArray
    ) -> None:
        self.spec, self.log_scale, self.precision = spec, log_scale, 1.0 / weight_var[on]
        self.exact = exact_output_precisions(spec)
        top = spec.likelihood.peak(data.y, log_scale, data.row_var).log_density
        most = min(CHUNK, data.n_rows)
        room, pulled = np.empty((3, most, spec.n_hidden)), np.empty((most, len(on)))
        self.rows: list[_Rows] = []
        for first in range(0, data.n_rows, CHUNK):
            part = slice(first, first + CHUNK)
            X = np.ascontiguousarray(data.X[part][:, on])
            h, g, slope = room[:, : len(X)]
            self.rows.append(
                _Rows(
                    X, data.y[part], data.weight[part], data.row_var[part], top[part],
                    h, g, slope, pulled[: len(X)],
                )
            )  # fmt: skip

    def __call__(self, z: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient."""
        spec, fixed = self.spec, self.spec.output.fixed
        K, m = spec.n_hidden, len(self.precision)
        w = z[: K * m].reshape(K, m)
        v = z[K * m :] if fixed is None else fixed
        grad_w, grad_v = w * self.precision, v * self.exact
        value = 0.5 * float(np.vdot(w, grad_w) + v @ grad_v)
        for rows in self.rows:
            value += self._of_rows(rows, w, v, grad_w, grad_v)
        if fixed is not None:
            return value, grad_w.ravel()
        prior, prior_grad = output_prior(spec, v[:K])
        grad_v[:K] += prior_grad
        return value + prior, np.concatenate([grad_w.ravel(), grad_v])

    def _of_rows(
        self, rows: _Rows, w: FloatArray, v: FloatArray, grad_w: FloatArray, grad_v: FloatArray
    ) -> float:
        """What some rows add to the objective; their gradients are added to those that are given."""
        spec, K = self.spec, self.spec.n_hidden
        np.dot(rows.X, w.T, out=rows.h)
        products = len(spec.pairs) > 0
        if products:
            seen, slope = output_inputs(spec, rows.h, v)
            f = seen @ v
        else:
            fill_unit_values(spec, rows.h, rows.g, rows.slope)
            f = rows.g @ v[:K] + v[K]
        fit = spec.likelihood.derivatives(rows.y, f, self.log_scale, rows.row_var)
        pull = rows.weight * fit.d1
        np.multiply(rows.X, pull[:, None], out=rows.pulled)
        if products:
            grad_w -= slope.T @ rows.pulled
            grad_v -= pull @ seen
        else:
            grad_w -= v[:K, None] * (rows.slope.T @ rows.pulled)
            grad_v[:K] -= pull @ rows.g
            grad_v[K] -= pull.sum()
        return float(rows.weight @ (rows.top - fit.value))
