"""Every activation: moments against dense panels, slopes against differences, kernels against NumPy."""

import pickle

import numpy as np
import pytest

from cavity.model.activations import (
    ACTIVATIONS,
    Custom,
    Erf,
    Linear,
    described_units,
    unit_activations,
    unit_signs,
)
from cavity.numerics import kernel_units
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import Gaussian

PIECES = [*(family() for family in ACTIVATIONS.values()), Custom(np.arctan)]
MEANS = np.array([-20.0, -3.0, -0.4, 0.0, 0.7, 5.0, 30.0])
VARS = np.array([1e-8, 1e-3, 0.3, 4.0, 100.0, 900.0])
WORK = np.empty((2, kernel_units.MOMENT_NODES))


def dense(activation, mean, var):
    """E and centred Var of g on 2400 panels of 16 nodes over ±12 sds, one edge at zero."""
    x, w = gauss_legendre(16)
    sd = np.sqrt(var)
    edges = np.unique(np.append(np.linspace(mean - 12.0 * sd, mean + 12.0 * sd, 2401), 0.0))
    edges = edges[(edges >= mean - 12.0 * sd) & (edges <= mean + 12.0 * sd)]
    half = 0.5 * np.diff(edges)[:, None]
    h = (edges[:-1, None] + half + half * x).ravel()
    p = (half * w).ravel() * np.exp(-0.5 * (h - mean) ** 2 / var)
    p /= p.sum()
    g = activation(h)
    return p @ g, p @ (g - p @ g) ** 2


@pytest.mark.parametrize("activation", PIECES, ids=lambda a: type(a).__name__)
def test_moments(activation):
    mean, var = (a.ravel() for a in np.meshgrid(MEANS, VARS, indexing="ij"))
    found = activation.moments(Gaussian(mean, var))
    truth = np.array([dense(activation, m, v) for m, v in zip(mean, var, strict=True)])
    rounding = 1e-14 * (1.0 + np.abs(truth[:, 0]))
    np.testing.assert_array_less(np.abs(found.mean - truth[:, 0]), 1e-7 * np.sqrt(truth[:, 1]) + rounding)
    # a variance of 1e-20 beside a mean of 20 has its digits from the difference of two numbers near 20
    np.testing.assert_allclose(found.var, truth[:, 1], rtol=1e-7, atol=1e-17)
    assert np.all(found.var >= 0.0)
    one = activation.moments(Gaussian(np.array(0.3), np.array(0.7)))
    assert np.shape(one.mean) == () and np.shape(one.var) == ()


@pytest.mark.parametrize("activation", PIECES, ids=lambda a: type(a).__name__)
def test_kernel_is_the_twin(activation):
    if activation.kernel_code is None:
        assert isinstance(activation, Custom)
        return
    h = np.linspace(-9.0, 9.0, 41)
    g, slope = np.empty((41, 1)), np.empty((41, 1))
    kernel_units.unit_outputs(h[:, None], np.array([activation.kernel_code]), np.array([-0.5]), g, slope)
    np.testing.assert_allclose(g[:, 0], -0.5 * activation(h), atol=2e-15, rtol=1e-14)
    np.testing.assert_allclose(slope[:, 0], -0.5 * activation.slope(h), atol=2e-15, rtol=1e-14)
    for m in MEANS:
        for v in VARS:
            mean, var = kernel_units.unit_moments(activation.kernel_code, m, v, WORK)
            twin = activation.moments(Gaussian(np.array(m), np.array(v)))
            assert mean == pytest.approx(float(twin.mean), rel=1e-9, abs=1e-13)
            assert var == pytest.approx(float(twin.var), rel=1e-7, abs=1e-17)
    target = float(activation(np.array(0.8)))
    back = kernel_units.unit_inverse(activation.kernel_code, target)
    assert np.isnan(back) if activation.kernel_code >= kernel_units.SINE else back == pytest.approx(0.8)


@pytest.mark.parametrize("activation", PIECES, ids=lambda a: type(a).__name__)
def test_slope(activation):
    h = np.linspace(-8.0, 8.0, 98)  # not at zero, where ReLU has none
    difference = (activation(h + 1e-6) - activation(h - 1e-6)) / 2e-6
    np.testing.assert_allclose(activation.slope(h), difference, atol=1e-7)
    assert np.max(np.abs(activation.slope(h))) <= activation.max_slope * (1.0 + 1e-9)


def test_signs():
    """A unit that cannot make -g of itself takes turns with its likes; the others keep a plus."""
    names = ("relu", "erf", "relu", "softplus", "relu", "cosine", "sine", "softplus")
    signs = unit_signs(unit_activations(names, 8))
    assert signs.tolist() == [1, 1, -1, 1, 1, 1, 1, -1]
    assert Custom(np.tanh).mirrored and not Custom(np.exp).mirrored


@pytest.mark.parametrize("activation", PIECES, ids=lambda a: type(a).__name__)
def test_mirrored_units_can_be_turned_round(activation):
    h = np.linspace(-3.0, 3.0, 31)
    if activation.mirrored:
        turned = activation(h + np.pi) if activation == ACTIVATIONS["cosine"]() else activation(-h)
        np.testing.assert_allclose(turned, -activation(h), atol=1e-14)
    else:
        assert np.all(activation(h) >= 0.0)


def test_words_for_mixed_units():
    linear, erf = Linear(), Erf()
    assert unit_activations("linear+erf", 4) == (linear, erf, erf, erf)
    assert unit_activations("linear + sine+erf", 4) == (linear, ACTIVATIONS["sine"](), erf, erf)
    assert unit_activations({"linear": 1, "erf": 3}, 4) == (linear, erf, erf, erf)
    assert unit_activations({"erf": None, "linear": 2}, 4) == (erf, erf, linear, linear)
    assert unit_activations(("linear", Erf(), np.tanh), 3) == (linear, erf, Custom(np.tanh))
    assert unit_activations(np.tanh, 2) == (Custom(np.tanh),) * 2
    assert described_units("linear+erf") is None and described_units({"erf": None, "linear": 2}) is None
    assert described_units({"linear": 1, "erf": 10}) == 11 and described_units(["erf"] * 3) == 3


@pytest.mark.parametrize(
    ("activation", "message"),
    [
        ("sinus", "'sinus' is unknown"),
        ("linear+", "'' is unknown"),
        ("linear+sine+erf", "more than 2 hidden"),
        ({"linear": None, "erf": None}, "open twice"),
        ({"linear": 1, "erf": 3}, "4 entries"),
        (["erf"], "1 entries"),
        ([3.0, "erf"], "3.0 is unknown"),
    ],
)
def test_refused_in_words(activation, message):
    with pytest.raises(ValueError, match=message):
        unit_activations(activation, 2)


@pytest.mark.parametrize("activation", PIECES, ids=lambda a: type(a).__name__)
def test_pickles(activation):
    assert pickle.loads(pickle.dumps(activation)) == activation
