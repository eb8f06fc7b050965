r"""One-dimensional integrals that follow their density.

Smooth densities on the whole line are integrated by the trapezoid rule: for an analytic integrand its error
falls like :math:`e^{-c/h}` in the spacing :math:`h`, so halving :math:`h` squares the error, and comparing
two spacings tells what the finer one is worth. What has to be found is where the density lives; a grid laid
by the cavity alone misses it when the factor pulls far away, which is what a shared, well-known scale does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from cavity.types import FloatArray, Gaussian, IntArray, Moments, TiltedMoments

# Nodes further than this many nats below the top are left out: exp(-40) = 4e-18, under the rounding of the
# sum. With 20 instead the tails cost 2e-9 of the mass and more of the variance.
DROP = 40.0
# While the interval is still moving the grid is coarse and its top node may lie below a second mode's top:
# keep 60 nats, so that a mode is lost only when the coarse grid missed its peak by 20.
_KEEP_WHILE_COARSE = 60.0
# Two spacings that agree to 1e-6 leave the finer one at 1e-12 (error squared). Over 3000 Laplace weights with
# scales of sd 1e-3 to 5 the worst error is 2e-12 so; it is 1e-9 at 1e-5 and 4e-8 at 1e-4, where two coarse
# grids may agree by chance, for at most a tenth fewer nodes.
AGREEMENT = 1e-6
# An interval is laid anew only if that makes it shorter than this share: a new grid costs what a doubling
# does and gains as much at one half. Accuracy does not depend on it.
_WORTH_TRIMMING = 0.6
_MAX_MOVES = 80  # 2^80 widths away: the density does not fall off
_MAX_DOUBLINGS = 8
# Elements per evaluation: 2^15 doubles are 256 kB, so the temporaries of one block stay in cache.
_BLOCK = 1 << 15

ConditionalMoments = Callable[[FloatArray, IntArray], Moments]


class Rule(NamedTuple):
    """Nodes and weights of a quadrature rule; read-only arrays."""

    nodes: FloatArray
    weights: FloatArray


def _frozen(nodes: FloatArray, weights: FloatArray) -> Rule:
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return Rule(nodes, weights)


@cache
def gauss_hermite(n: int) -> Rule:
    r"""Nodes, weights with :math:`\mathrm E f(x) \approx \sum_i w_i f(x_i)`, :math:`x\sim\mathcal N(0,1)`.

    Parameters
    ----------
    n : int
        Number of nodes; exact for polynomials of degree ``2n - 1``.

    Returns
    -------
    Rule
        ``weights`` sum to one. Cached and read-only.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return _frozen(nodes, weights / weights.sum())


@cache
def gauss_legendre(n: int) -> Rule:
    r"""Nodes and weights with :math:`\int_{-1}^1 f(x)\,dx \approx \sum_i w_i f(x_i)`.

    Parameters
    ----------
    n : int
        Number of nodes; exact for polynomials of degree ``2n - 1``.

    Returns
    -------
    Rule
        Cached and read-only.
    """
    return _frozen(*np.polynomial.legendre.leggauss(n))


def trapezoid_mixture(x: FloatArray, conditional: Moments) -> TiltedMoments:
    r"""Moments of a pair :math:`(w, x)` from those of :math:`w\mid x` on a uniform grid of :math:`x`.

    .. math:: \log Z = \log\int e^{\psi(x)}dx,\quad \mathrm E\,x,\ \mathrm E(x-\bar x)^2,\quad
              \mathrm E\,w,\quad
              \mathrm{Var}\,w = \mathrm E[\mathrm{Var}(w\mid x)] + \mathrm E(\mathrm E(w\mid x)-\bar w)^2

    by the trapezoid rule in log space. Variances are centred: :math:`\mathrm E x^2-\bar x^2` has no digit
    left when the sd is 1e-8 of the mean.

    Parameters
    ----------
    x : ndarray, shape (..., Q)
        Uniform nodes.
    conditional : Moments of ndarray, shape (..., Q)
        ``log_z`` is the log density :math:`\psi` of ``x`` (any constant), ``mean`` and ``var`` those of
        :math:`w\mid x`.

    Returns
    -------
    TiltedMoments, shape (...)
        ``value`` are the moments of :math:`w`, ``scale`` those of :math:`x`.
    """
    psi = np.asarray(conditional.log_z)
    top = psi.max(axis=-1, keepdims=True)
    p = np.exp(psi - top)
    p[..., 0] *= 0.5
    p[..., -1] *= 0.5
    total = p.sum(axis=-1)
    spacing = (x[..., -1] - x[..., 0]) / (x.shape[-1] - 1)
    log_z = top[..., 0] + np.log(total * spacing)
    p /= total[..., None]
    scale = _weighted(p, x, None)
    return TiltedMoments(log_z, _weighted(p, conditional.mean, conditional.var), scale)


def _weighted(p: FloatArray, mean: FloatArray, var: FloatArray | None) -> Gaussian:
    """Mean and centred variance of a mixture with weights ``p``, summing over the last axis."""
    origin = mean[..., :1]  # sums of deviations: the rounding is that of the spread, not of the location
    offset = mean - origin
    centre = np.einsum("...q,...q->...", p, offset)
    offset -= centre[..., None]
    spread = np.einsum("...q,...q,...q->...", p, offset, offset)
    if var is not None:
        spread = spread + np.einsum("...q,...q->...", p, var)
    return Gaussian(origin[..., 0] + centre, spread)


def log_trapezoid_moments(x: FloatArray, log_density: FloatArray) -> Moments:
    r"""Log normaliser, mean and centred variance of a density given by its log on a uniform grid.

    .. math:: \log\int e^{\psi(x)}\,dx,\qquad \bar x,\qquad \mathrm E(x-\bar x)^2

    Parameters
    ----------
    x : ndarray, shape (..., Q)
        Uniform nodes.
    log_density : ndarray, shape (..., Q)
        :math:`\psi` at the nodes, any constant.

    Returns
    -------
    Moments, shape (...)
    """
    both = trapezoid_mixture(x, Moments(log_density, x, np.zeros_like(x)))
    return Moments(both.log_z, both.scale.mean, both.scale.var)


def follow_mixture(
    conditional: ConditionalMoments, lo: FloatArray, hi: FloatArray, *, n_panels: int = 36
) -> TiltedMoments:
    r"""Moments of pairs :math:`(w, x)` by a grid over :math:`x` that finds and resolves each item's density.

    The same integrals as `trapezoid_mixture`. An interval whose end is still within 40 nats of the top is
    pushed outwards by its own length; one that is mostly empty is cut down to what it covers, for the
    density itself and for density times :math:`\mathrm E(w^2\mid x)`, whose tails the variance of a pruned
    weight needs. Then the spacing is halved, item by item, until two spacings agree to 1e-6, which leaves
    the finer one at about 1e-12.

    Parameters
    ----------
    conditional : callable
        ``conditional(x, items)`` returns `Moments` at nodes ``x`` of shape (I, Q): ``log_z`` the log
        density of ``x``, ``mean`` and ``var`` those of :math:`w` given ``x``. Row ``i`` belongs to item
        ``items[i]``. Analytic in ``x``: for a density with a kink, halving divides the error by 4 instead
        of squaring it.
    lo, hi : ndarray, shape (J,)
        Where to look first. A mode far outside is found only if the density at an end still points to it.
    n_panels : int, even
        Panels of the first grid. 36 over ±9 sd resolve a Gaussian, and every second node of them still to
        1e-6: it is accepted at once. 24 would resolve it too, but not be seen to.

    Returns
    -------
    TiltedMoments, shape (J,)
        NaN for an item whose density is not a number, does not fall off, or is unresolved after
        eight doublings: never a silent guess.
    """
    lo, hi = np.atleast_1d(np.asarray(lo, dtype=float)), np.atleast_1d(np.asarray(hi, dtype=float))
    out = np.full((5, lo.size), np.nan)
    rows = max(1, _BLOCK // (n_panels + 1))
    with np.errstate(all="ignore"):  # a density that is no number, or too steep, ends as NaN
        for start in range(0, lo.size, rows):
            _cover(conditional, np.arange(start, min(start + rows, lo.size)), lo, hi, n_panels, out)
    return TiltedMoments(out[0], Gaussian(out[1], out[2]), Gaussian(out[3], out[4]))


def _cover(
    conditional: ConditionalMoments,
    items: IntArray,
    lo: FloatArray,
    hi: FloatArray,
    n_panels: int,
    out: FloatArray,
) -> None:
    """Move the interval of each item until it covers the density tightly, then hand it to `_resolve`."""
    steps = np.arange(n_panels + 1) / n_panels
    lo, hi = lo[items], hi[items]
    for _ in range(_MAX_MOVES):
        x = lo[:, None] + (hi - lo)[:, None] * steps
        node = conditional(x, items)
        density = node.log_z - node.log_z.max(axis=-1, keepdims=True)
        square = node.log_z + np.log(np.square(node.mean) + node.var)
        level = np.fmax(density, square - square.max(axis=-1, keepdims=True))
        alive = level > -_KEEP_WHILE_COARSE
        first = np.maximum(alive.argmax(axis=-1) - 1, 0)
        last = np.minimum(n_panels + 1 - alive[:, ::-1].argmax(axis=-1), n_panels)
        row = np.arange(items.size)
        width = hi - lo
        push_lo, push_hi = level[:, 0] > -DROP, level[:, -1] > -DROP
        pushed = push_lo | push_hi  # and not cut at the other end, so that the interval doubles each time
        new_lo = np.where(pushed, lo - width * push_lo, x[row, first])
        new_hi = np.where(pushed, hi + width * push_hi, x[row, last])
        moving = pushed | (new_hi - new_lo < _WORTH_TRIMMING * width)
        settled = ~moving
        if settled.all():
            _resolve(conditional, items, x, node, out)
            return
        if settled.any():
            _resolve(conditional, items[settled], x[settled], _take(node, settled), out)
        items, lo, hi = items[moving], new_lo[moving], new_hi[moving]


def _resolve(
    conditional: ConditionalMoments, items: IntArray, x: FloatArray, node: Moments, out: FloatArray
) -> None:
    """Halve the spacing of each item until its moments stop changing; write them into ``out``."""
    coarse = _rows(trapezoid_mixture(x[:, ::2], Moments(*(field[:, ::2] for field in node))))
    for doubling in range(_MAX_DOUBLINGS + 1):
        fine = _rows(trapezoid_mixture(x, node))
        unit = np.stack([np.ones_like(fine[0]), np.sqrt(fine[2]), fine[2], np.sqrt(fine[4]), fine[4]])
        # a log density of size L is itself rounded by L·eps: no finer grid agrees better than that
        tolerance = AGREEMENT + 4.0 * np.finfo(float).eps * np.abs(fine[0])
        unresolved = (np.abs(fine - coarse) > tolerance * unit).any(axis=0)
        out[:, items[~unresolved]] = fine[:, ~unresolved]
        if doubling == _MAX_DOUBLINGS or not unresolved.any():
            return
        items, x, node, coarse = (
            items[unresolved],
            x[unresolved],
            _take(node, unresolved),
            fine[:, unresolved],
        )
        middle = 0.5 * (x[:, :-1] + x[:, 1:])
        between = conditional(middle, items)
        x = _interleave(x, middle)
        node = Moments(*(_interleave(*pair) for pair in zip(node, between, strict=True)))


def _rows(moments: TiltedMoments) -> FloatArray:
    return np.stack([moments.log_z, *moments.value, *moments.scale])


def _take(node: Moments, rows: FloatArray) -> Moments:
    return Moments(*(field[rows] for field in node))


def _interleave(outer: FloatArray, inner: FloatArray) -> FloatArray:
    """Put the columns of ``inner`` between those of ``outer``."""
    both = np.empty((outer.shape[0], outer.shape[1] + inner.shape[1]))
    both[:, ::2], both[:, 1::2] = outer, inner
    return both
