r"""Grids for Gaussian × bounded factor, many at once: where such a density lives is known beforehand.

With a factor of at most :math:`e^u` whose value at the cavity mean is :math:`e^{l}`, every point whose
density is within :math:`e^{-28}` of that at the mean lies inside :math:`m \pm \sqrt{2v(28 + u - l)}`, however
many modes there are. The grids are those of the compiled kernels, node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from cavity.numerics.kernel_grids import DIRECT, MAX_GAIN, MAX_NODES, TAIL
from cavity.numerics.kernel_tilted import PANEL
from cavity.numerics.quadrature import gauss_legendre
from cavity.types import FloatArray, Gaussian, IntArray

LogFactor = Callable[[FloatArray, IntArray], FloatArray]

# Elements per evaluation: 2^15 doubles are 256 kB, so the temporaries of one block stay in cache.
_BLOCK = 1 << 15
# Without a known second mode the coarse look is this much closer.
_CLOSER = 16


class Grid(NamedTuple):
    """Nodes of some items, shape (I, Q), and the log density there; -inf where a shorter item has none.

    Where the nodes are not even, the log density contains their weights in units of ``spacing``.
    """

    items: IntArray
    x: FloatArray
    log_p: FloatArray
    spacing: FloatArray


def chunks(count: IntArray) -> Iterator[IntArray]:
    """Indices of items of like count, as many at once as a block holds."""
    order = np.argsort(count, kind="stable")
    start = 0
    while start < len(order):
        some = count[order[start : start + max(1, _BLOCK // count[order[start]])]]
        stop = start + max(1, int(np.sum(some * np.arange(1, len(some) + 1) <= _BLOCK)))
        yield order[start:stop]
        start = stop


def bounded_grids(
    log_factor: LogFactor,
    cavity: Gaussian,
    gain: FloatArray,
    step: FloatArray,
    mode: FloatArray | None,
    most: int = MAX_NODES,
    kink: float | None = None,
) -> Iterator[Grid]:
    """Uniform grids that hold all of N(x | cavity) · factor(x), in blocks of items.

    Parameters
    ----------
    log_factor : callable
        ``log_factor(x, items)`` for nodes of shape (I, Q).
    cavity : Gaussian, shape (J,)
    gain : (J,) array
        Upper bound of the log factor less its value at the cavity mean.
    step : (J,) array
        Spacing that resolves the density.
    mode : (J,) array, optional
        Where the factor peaks, NaN where it does so nowhere; None where that is not known.
    most : int
        Nodes of a grid at most.
    kink : float, optional
        Where the factor has a kink: there Gauss–Legendre panels meet, since a uniform grid across it would
        be good to its spacing squared only.
    """
    mean, var = cavity

    def log_density(x: FloatArray, items: IntArray) -> FloatArray:
        out = x - mean[items, None]
        out *= out
        out *= -0.5 / var[items, None]
        out += log_factor(x, items)
        return out

    half = np.sqrt(var * 2.0 * (TAIL + gain))
    lo, hi = mean - half, mean + half
    count = ((hi - lo) / step).astype(np.int64) + 2
    large = np.flatnonzero((count > DIRECT) | (gain > MAX_GAIN))
    coarse = DIRECT if mode is not None else _CLOSER * DIRECT
    for chunk in chunks(np.full(len(large), coarse)):
        items = large[chunk]
        at = np.full(len(items), np.nan) if mode is None else mode[items]
        lo[items], hi[items] = _trim(log_density, items, lo[items], hi[items], step[items], at, coarse)
    if kink is not None:
        yield from _panels(log_density, lo, hi, step, kink, most)
        return
    count = np.minimum(((hi - lo) / step).astype(np.int64) + 2, most)
    spacing = (hi - lo) / (count - 1)
    for items in chunks(count):
        node = np.arange(count[items[-1]])
        x = lo[items, None] + spacing[items, None] * node
        log_p = log_density(x, items)
        log_p[node >= count[items, None]] = -np.inf
        yield Grid(items, x, log_p, spacing[items])


def _panels(
    log_density: LogFactor, lo: FloatArray, hi: FloatArray, step: FloatArray, kink: float, most: int
) -> Iterator[Grid]:
    """Panels of ten Gauss–Legendre nodes that end at the kink; `kernel_tilted.panel_nodes` is the same."""
    nodes, weights = gauss_legendre(10)
    wide = np.maximum(PANEL * step, (hi - lo) * 10 / (most - 20))
    cut = np.clip(kink, lo, hi)
    left, right = np.ceil((cut - lo) / wide).astype(np.int64), np.ceil((hi - cut) / wide).astype(np.int64)
    half = 0.5 * np.stack([(cut - lo) / np.maximum(left, 1), (hi - cut) / np.maximum(right, 1)])
    for items in chunks(10 * (left + right)):
        panel = np.arange(int((left + right)[items].max()))
        first = panel < left[items, None]
        width = np.where(first, half[0, items, None], half[1, items, None])
        place = np.where(first, panel, panel - left[items, None])
        start = np.where(first, lo[items, None], cut[items, None])
        x = (start + width * (2.0 * place + 1.0))[..., None] + width[..., None] * nodes
        x, share = x.reshape(len(items), -1), (width[..., None] * weights).reshape(len(items), -1)
        used = np.repeat(panel < (left + right)[items, None], 10, axis=1)
        x = np.where(used, x, cut[items, None])
        spacing = half.max(axis=0)[items]
        with np.errstate(divide="ignore"):
            log_p = log_density(x, items) + np.log(np.where(used, share / spacing[:, None], 0.0))
        yield Grid(items, x, log_p, spacing)


def _trim(
    log_density: LogFactor,
    items: IntArray,
    lo: FloatArray,
    hi: FloatArray,
    step: FloatArray,
    mode: FloatArray,
    count: int,
) -> tuple[FloatArray, FloatArray]:
    """Shrink each interval to where the density is within e^-28 of its top."""
    lo, hi = lo.copy(), hi.copy()
    todo = np.arange(len(items))
    for _ in range(6):
        width = (hi[todo] - lo[todo]) / (count - 1)
        x = lo[todo, None] + width[:, None] * np.arange(count)
        p = log_density(x, items[todo])
        inside = (lo[todo] <= mode[todo]) & (mode[todo] <= hi[todo])
        at = np.where(inside, mode[todo], lo[todo])
        at_mode = np.where(inside, log_density(at[:, None], items[todo])[:, 0], -np.inf)
        best = np.maximum(p.max(axis=1), at_mode)
        keep = p > (best - TAIL)[:, None]
        some = keep.any(axis=1)
        first, last = keep.argmax(axis=1), count - 1 - keep[:, ::-1].argmax(axis=1)
        left = np.where(some, lo[todo] + width * (first - 1), np.inf)
        right = np.where(some, lo[todo] + width * (last + 1), -np.inf)
        near = at_mode > best - TAIL
        left, right = (
            np.where(near, np.minimum(left, at - width), left),
            np.where(near, np.maximum(right, at + width), right),
        )
        lo[todo], hi[todo] = np.maximum(lo[todo], left), np.minimum(hi[todo], right)
        todo = todo[((hi[todo] - lo[todo]) / step[todo]).astype(np.int64) + 2 > DIRECT]
        if not len(todo):
            break
    return lo, hi


def log_normaliser(grid: Grid) -> FloatArray:
    """Log of the integral of each item."""
    top = grid.log_p.max(axis=1)
    return top + np.log(np.exp(grid.log_p - top[:, None]).sum(axis=1) * grid.spacing)


def grid_moments(grid: Grid, mean: FloatArray) -> tuple[Gaussian, FloatArray]:
    """Mean and centred variance of each item, and the normalised weights of its nodes.

    ``mean`` is the cavity's, from which sums of deviations are taken.
    """
    w = np.exp(grid.log_p - grid.log_p.max(axis=1)[:, None])
    w /= w.sum(axis=1)[:, None]
    z = grid.x - mean[grid.items, None]
    shift = np.sum(w * z, axis=1)
    var = np.sum(w * (z - shift[:, None]) ** 2, axis=1)
    return Gaussian(mean[grid.items] + shift, var), w
