"""Inputs with a long tail drawn in by a power about the median, and what must not matter to it."""

import numpy as np
import pytest
from scipy.stats import yeojohnson, yeojohnson_llf

from cavity.model.data import prepare
from cavity.model.draw_in import ALIKE, POWERS, DrawIn, _powers, _slope, long_tails

ROUNDING = 1.5e-8  # of the grid that standardised values are put on


def rows(n=300, seed=0):
    """A long tail to the right, one to the left, a normal input, one of two values, and a constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            np.exp(1.5 * rng.normal(size=n)),
            -rng.gamma(0.5, size=n),
            rng.normal(size=n),
            rng.random(n) < 0.03,
            np.full(n, 7.0),
        ]
    )
    return X, rng.normal(size=n)


def drawn_of(X, y, **options):
    data = prepare(X, y, **options).data
    found = long_tails(data, X.shape[1])
    assert found is not None
    return found, data


@pytest.mark.parametrize("power", [0.0, 0.35, 1.0, 1.7, 2.0])
def test_the_power_is_that_of_yeo_and_johnson(power):
    u = np.linspace(-30.0, 30.0, 241)
    np.testing.assert_allclose(_powers(u, power), yeojohnson(u, lmbda=power), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.35, 1.0, 1.7, 2.0])
def test_the_slope_is_its_derivative(power):
    u, step = np.linspace(-30.0, 30.0, 242), 1e-5  # not at 0, where the second derivative jumps
    differences = (_powers(u + step, power) - _powers(u - step, power)) / (2.0 * step)
    np.testing.assert_allclose(_slope(u, power), differences, rtol=1e-6)


def test_the_power_chosen_is_the_most_likely_one():
    X, y = rows()
    drawn, _ = drawn_of(X, y)
    for j in (0, 1, 2):
        away = X[:, j] - np.median(X[:, j])
        u = away / np.abs(away).mean()
        likelihoods = [yeojohnson_llf(power, u) for power in POWERS]
        assert drawn.power[j] == POWERS[int(np.argmax(likelihoods))]
    assert drawn.power[0] < 0.2 and drawn.power[1] > 1.8 and abs(drawn.power[2] - 1.0) < 0.2


def test_what_comes_out_is_standardised_and_the_rest_stays():
    X, y = rows()
    drawn, data = drawn_of(X, y)
    out = drawn(data.X)
    np.testing.assert_allclose(out[:, :4].mean(axis=0), 0.0, atol=ROUNDING)
    np.testing.assert_allclose(out[:, :4].std(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(out[:, 4:], data.X[:, 4:])  # a constant and the bias
    np.testing.assert_allclose(out[:, 3], data.X[:, 3], atol=2 * ROUNDING)  # two values have no tail
    assert drawn.long_tailed == sorted([0, 1], key=lambda j: drawn.alike[j])
    for j in range(4):
        assert drawn.alike[j] == pytest.approx(np.corrcoef(data.X[:, j], out[:, j])[0, 1], rel=1e-9)
    assert np.abs(out[:, 0]).max() < 0.5 * np.abs(data.X[:, 0]).max()


def test_beyond_the_training_rows_it_goes_on_straight():
    X, y = rows()
    drawn, data = drawn_of(X, y)
    beyond = data.X[:3].copy()
    top = data.X[:, 0].max()
    beyond[:, 0] = top + np.array([0.0, 10.0, 20.0])
    out = drawn(beyond)[:, 0]
    steps = np.diff(out)
    assert steps[0] > 0.0 and steps[1] == pytest.approx(steps[0], rel=1e-7)
    inside = drawn(np.where(np.arange(6) == 0, top - 1e-3, data.X[:1]))[0, 0]
    assert (out[0] - inside) / 1e-3 == pytest.approx(steps[0] / 10.0, rel=1e-3)  # with the slope it has there


@pytest.mark.parametrize("factor, shift", [(1e6, 0.0), (1e-6, 0.0), (3.0, 500.0), (-1.0, 0.0), (-2e3, 1e3)])
def test_unit_origin_and_sign_do_not_matter(factor, shift):
    X, y = rows()
    plain, data = drawn_of(X, y)
    changed, again = drawn_of(factor * X + shift, y)
    sign = np.ones(6)
    sign[:5] = np.sign(factor)
    np.testing.assert_allclose(changed(again.X), sign * plain(data.X), atol=1e-7)
    assert changed.long_tailed == plain.long_tailed


def test_weights_are_copies():
    X, y = rows(60)
    weight = np.random.default_rng(1).integers(0, 4, 60)
    weighted, _ = drawn_of(X, y, sample_weight=weight)
    copied, _ = drawn_of(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for name in ("centre", "size", "power", "low", "high", "mean", "sd", "alike"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(copied, name), rtol=1e-12, atol=1e-14)


def test_the_order_of_the_rows_does_not_matter():
    X, y = rows()
    order = np.random.default_rng(2).permutation(len(y))
    one, _ = drawn_of(X, y)
    other, _ = drawn_of(X[order], y[order])
    np.testing.assert_array_equal(one.power, other.power)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-12)


def test_without_a_long_tail_there_is_nothing_to_draw_in():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=200), rng.random(200), np.repeat([0.0, 1.0], 100), np.zeros(200)])
    assert long_tails(prepare(X, rng.normal(size=200)).data, 4) is None


def test_an_input_counts_from_the_likeness_on():
    rng = np.random.default_rng(4)
    z = rng.normal(size=400)
    tails = [np.exp(s * z) for s in (0.3, 0.5, 0.8, 1.2)]
    drawn, _ = drawn_of(np.column_stack(tails), rng.normal(size=400))
    assert isinstance(drawn, DrawIn)
    assert np.all(np.diff(drawn.alike) < 0.0)  # the longer the tail the less alike
    assert drawn.long_tailed == [j for j in (3, 2, 1, 0) if drawn.alike[j] < ALIKE]
    assert set(drawn.inputs) >= set(drawn.long_tailed)
