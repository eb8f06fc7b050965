r"""What a fitted function says of its own noise: how large it is at x, and how steep.

Noise often grows with what is measured; and where inputs are not known exactly, or the network is not quite
the truth, the noise is larger where f is steep: an error :math:`\epsilon` of x moves y by
:math:`\nabla f^T \epsilon`. With :math:`\hat f` the network at the posterior means of its weights, held, and
:math:`t` and :math:`g` its standardised value and log squared slope :math:`\log |\nabla \hat f|^2`,

.. math:: s(x) = \theta + b^T x + c_1 t + c_2 (t^2 - 1) + c_3 g .

The network is held so that the features of a row are numbers like its inputs, and EP stays what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from cavity.ep.state import EPState
from cavity.model.activations import Activation
from cavity.model.data import TrainingData
from cavity.model.guide import Guide
from cavity.model.spec import ModelSpec, Noise
from cavity.numerics.compilation import announced
from cavity.numerics.kernel_units import unit_outputs
from cavity.types import FloatArray, IntArray

NAMES = ("value", "its square", "log squared slope")
FEATURES = len(NAMES)
FLAT = 1e-3  # of the mean squared slope: flatter places count as that flat
SAME = 1e-9  # sd of a feature, relative to that of the target, below which it says nothing


class Units(Protocol):
    """Hidden units: of a model or of a guide."""

    @property
    def activations(self) -> tuple[Activation, ...]: ...
    @property
    def activation_scale(self) -> FloatArray: ...
    @property
    def kinds(self) -> IntArray: ...


def unit_values(units: Units, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scaled unit outputs and their derivatives, (n, K) each."""
    g, slope = np.empty_like(h), np.empty_like(h)
    fill_unit_values(units, h, g, slope)
    return g, slope


def fill_unit_values(units: Units, h: FloatArray, g: FloatArray, slope: FloatArray) -> None:
    """The same into ``g`` and ``slope``."""
    if (units.kinds >= 0).all():
        with announced(unit_outputs):
            unit_outputs(h, units.kinds, units.activation_scale, g, slope)
        return
    for k, activation in enumerate(units.activations):
        g[:, k] = units.activation_scale[k] * activation(h[:, k])
        slope[:, k] = units.activation_scale[k] * activation.slope(h[:, k])


def guided(noise: Noise, spec: ModelSpec, data: TrainingData, state: EPState) -> Noise:
    """The noise with the function that a state has found, where it asks for one.

    Without it where units are multiplied or weights are fixed: these have no such simple function.
    """
    if not noise.guide_var > 0.0:
        return noise
    if len(spec.pairs) or spec.output.fixed is not None:
        return replace(noise, guide_var=0.0)
    q = state.posterior
    d = spec.n_inputs
    raw = Guide(
        np.arange(d), q.w.mean, q.v.mean, spec.activations, spec.activation_scale,
        np.zeros(2), np.ones(2), 0.0, spec.bias,
    )  # fmt: skip
    f, square = value_and_slope(raw, data.X)
    floor = max(FLAT * float(np.average(square, weights=data.weight)), np.finfo(float).tiny)
    said = np.stack([f, np.log(square + floor)])
    mean = np.average(said, axis=1, weights=data.weight)
    sd = np.sqrt(np.average((said - mean[:, None]) ** 2, axis=1, weights=data.weight))
    return replace(noise, guide=replace(raw, mean=mean, sd=np.where(sd > SAME, sd, np.inf), floor=floor))


def value_and_slope(guide: Guide, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f and |∇f|² at the rows of a design, (n,) each."""
    seen = X[:, guide.columns]
    g, slope = unit_values(guide, seen @ guide.w.T)
    K = len(guide.activations)
    gradient = (slope * guide.v[:K]) @ guide.w[:, : guide.w.shape[1] - guide.bias]
    return g @ guide.v[:K] + guide.v[-1], np.einsum("nd,nd->n", gradient, gradient)


def guide_features(guide: Guide, X: FloatArray) -> FloatArray:
    """(n, 3) t, t² - 1 and g of the rows of a design."""
    f, square = value_and_slope(guide, X)
    t = (f - guide.mean[0]) / guide.sd[0]
    return np.column_stack([t, t * t - 1.0, (np.log(square + guide.floor) - guide.mean[1]) / guide.sd[1]])
