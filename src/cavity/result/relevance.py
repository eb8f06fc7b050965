r"""Which inputs matter: prior scales, sizes of effects, and the probability that an effect is not small.

The effect of an input (or a block of inputs) is the root mean square, over the training rows, of the change
of f when the input is put at its mean,

.. math:: e_j = \Big(\tfrac1n\sum_i \big(f(x_i) - f(x_i^{(j)})\big)^2\Big)^{1/2},\qquad
          x^{(j)}_{ij} = \bar x_j ,

in the units of y. ``effect`` is the posterior median of e_j. It, its interval and the probability of being
relevant, P(e_j > threshold · sd(y)), come from the same seeded draws of the weights, so they agree: the
median lies inside the interval, and exceeds the threshold where the probability exceeds one half.
``mean_effect`` is e_j of the posterior mean of f, in closed form. Drawn functions wiggle where their mean is
flat, so of an input that does little it is smaller than any likely e_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from cavity.ep.dual import rotation
from cavity.ep.inclusion import has_inclusion, inclusion_probabilities
from cavity.ep.prune import UNUSED, unit_effects
from cavity.ep.state import WeightPosterior
from cavity.model.activations import Linear
from cavity.model.interactions import with_products
from cavity.model.spec import ModelSpec
from cavity.result.draws import draw, is_diagonal, output_inputs
from cavity.result.mixture import MixturePosterior
from cavity.result.posterior import FittedPosterior
from cavity.types import FloatArray, Gaussian, IntArray

THRESHOLD = 0.1  # of sd(y): an input that passes it explains more than 1 % of the variance of y
EFFECT_ROWS = 2000  # at most so many rows, evenly spaced, make the mean effect
DRAWS = 200
DRAW_ROWS = 200
DRAW_WORK = 2e8  # activations evaluated for the draws, about two seconds
LEVELS = (0.025, 0.5, 0.975)

Block = tuple[str, Sequence[int]]


@dataclass(frozen=True)
class Relevance:
    """A table with one row per input, or per block of inputs.

    Attributes
    ----------
    name : names of the inputs or blocks.
    scale_mean, scale_sd, scale_lower, scale_upper : E, sd and 95 % interval of the log prior variance φ of
        the weights, for standardised inputs. Inputs that share a scale share these numbers; where the units
        have scales of their own, all units count alike; NaN for inputs that no unit sees.
    effect, effect_lower, effect_upper : size of the effect in the units of y: root mean square over the rows
        of the change of f when the input is put at its mean; posterior median and 95 % interval. An effect is
        never negative, so even of an input that does nothing it is above zero.
    mean_effect : the same of the mean of f alone, without what is uncertain about f.
    probability : posterior probability that the effect exceeds ``threshold`` · sd(y).
    threshold : that threshold; 0.1, or 1 % of the variance of y, unless another was asked for.
    inclusion : probability that some weight of the input, in a unit that is in use, is not in the spike of
        its prior; None where the prior has no spike. See `input_inclusion`.
    """

    name: tuple[str, ...]
    scale_mean: FloatArray
    scale_sd: FloatArray
    scale_lower: FloatArray
    scale_upper: FloatArray
    effect: FloatArray
    effect_lower: FloatArray
    effect_upper: FloatArray
    mean_effect: FloatArray
    probability: FloatArray
    threshold: float = THRESHOLD
    inclusion: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.name)

    def sorted(self) -> Relevance:
        """The same table, largest effect first."""
        order = np.argsort(-self.effect, kind="stable")
        columns: dict[str, Any] = {k: v[order] for k, v in self.to_dict().items() if k != "name"}
        return Relevance(tuple(self.name[i] for i in order), **columns, threshold=self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Columns by name; ``inclusion`` only where the prior has a spike."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "threshold"}
        return {name: column for name, column in columns.items() if column is not None}

    def to_pandas(self) -> Any:
        """A data frame, one row per input in the order of the inputs; needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError('to_pandas() needs pandas: pip install "pandas>=2.2"') from None
        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        width = max([5, *(len(n) for n in self.name)])
        title = f"{'input':>{width}}  {'P(relevant)':>11}  {'effect':>9}  {'95 % interval':>21}"
        spike = f"  {'P(included)':>11}" if self.inclusion is not None else ""
        lines = [f"{title}  {'log prior variance':>18}{spike}"]
        for i, name in enumerate(self.name):
            interval = f"{self.effect_lower[i]:.4g} … {self.effect_upper[i]:.4g}"
            lines.append(
                f"{name:>{width}}  {self.probability[i]:11.2f}  {self.effect[i]:9.4g}  {interval:>21}"
                f"  {f'{self.scale_mean[i]:.2f} ± {self.scale_sd[i]:.2f}':>18}"
                + (f"  {self.inclusion[i]:11.2f}" if self.inclusion is not None else "")
            )
        lines.append(
            "effect: rms change of f, in units of y, when the input is put at its mean; "
            f"relevant: effect > {self.threshold:g} sd(y)."
        )
        return "\n".join(lines)


def input_blocks(names: Sequence[str], groups: Any = None) -> list[Block]:
    """Rows of the table: one block per label where ``groups`` labels the inputs, else one per input."""
    labels = None if groups is None or isinstance(groups, str) else np.asarray(groups)
    if labels is None or labels.shape != (len(names),):
        return [(str(name), [j]) for j, name in enumerate(names)]
    blocks: list[Block] = []
    for label in dict.fromkeys(labels.tolist()):
        columns = np.flatnonzero(labels == label).tolist()
        if isinstance(label, str):
            name = label
        else:
            name = str(names[columns[0]]) if len(columns) == 1 else f"group {label}"
        blocks.append((name, columns))
    return blocks


def relevance(
    posterior: MixturePosterior, blocks: Sequence[Block], threshold: float = THRESHOLD, seed: int = 0
) -> Relevance:
    """The table of a fitted mixture; ``blocks`` as from `input_blocks`."""
    if not threshold >= 0.0:
        raise ValueError(f"threshold must not be negative, got {threshold}.")
    prepared = posterior.components[0].prepared
    y_scale = prepared.scaling.y_scale
    columns = [np.asarray(c, dtype=np.int64) for _, c in blocks]
    scale = _scales(posterior, columns)
    rows = spaced(prepared.data.n_rows, EFFECT_ROWS)
    weight = prepared.data.weight[rows]
    change = np.zeros((len(columns), len(rows)))
    for share, component in zip(posterior.weights, posterior.components, strict=True):
        change += share * mean_changes(component, component.data.X[rows], columns)
    mean_effect = np.sqrt(np.average(change**2, axis=1, weights=weight))
    drawn = _drawn_effects(posterior, columns, seed)
    share_of_draws = np.repeat(posterior.weights / DRAWS, DRAWS)
    lower, effect, upper = (_weighted_quantile(drawn, share_of_draws, level) for level in LEVELS)
    return Relevance(
        tuple(name for name, _ in blocks),
        scale[0],
        scale[1],
        scale[2],
        scale[3],
        y_scale * effect,
        y_scale * lower,
        y_scale * upper,
        y_scale * mean_effect,
        np.clip((drawn > threshold) @ share_of_draws, 0.0, 1.0),
        float(threshold),
        input_inclusion(posterior, columns),
    )


def largest(tables: Sequence[Relevance]) -> Relevance:
    """One table for networks that see the same inputs: of each input the largest effect and probability."""
    names = ("effect", "effect_lower", "effect_upper", "mean_effect", "probability")
    return replace(tables[0], **{name: np.max([getattr(t, name) for t in tables], axis=0) for name in names})


def input_inclusion(posterior: MixturePosterior, columns: Sequence[IntArray]) -> FloatArray | None:
    r"""P(some weight of a block of inputs is not in the spike), (blocks,); None where there is no spike.

    .. math:: 1 - \prod_{k,\,j\in\text{block}}(1 - p_{kj})

    with the probabilities :math:`p_{kj}` of `inclusion_probabilities`, as if the weights were independent:
    between units they are under q, within one they are not quite. The product runs over the units in use
    (effect of at least 1 % of sd(y)): an idle unit's weights go back to the prior, and f does not see them.
    Stacked fits are averaged.
    """
    if not all(has_inclusion(component.spec) for component in posterior.components):
        return None
    out = np.zeros(len(columns))
    for share, component in zip(posterior.weights, posterior.components, strict=True):
        spec, state = component.spec, component.solution.state  # as EP made it: a temperature is for f
        in_use = unit_effects(spec, component.data, state) >= UNUSED
        outside = 1.0 - np.nan_to_num(inclusion_probabilities(spec, state)[in_use])
        out += share * np.array([1.0 - np.prod(outside[:, block]) for block in columns])
    return out


def spaced(n: int, most: int) -> IntArray:
    """At most so many row numbers, evenly spaced."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.int64)


def _scales(posterior: MixturePosterior, columns: list[IntArray]) -> tuple[FloatArray, ...]:
    """E, sd and interval of φ over components, units and the block's inputs."""
    out = np.empty((4, len(columns)))
    seen = [np.where(c.spec.held, -1, c.spec.group_of) for c in posterior.components]
    known: dict[tuple[bytes, ...], int] = {}  # of many inputs most have the scales of another
    for b, block in enumerate(columns):
        same = known.setdefault(tuple(groups[:, block].tobytes() for groups in seen), b)
        if same != b:
            out[:, b] = out[:, same]
            continue
        shares, means, variances = [], [], []
        for share, component in zip(posterior.weights, posterior.components, strict=True):
            spec = component.spec
            groups, counts = np.unique(spec.group_of[:, block][~spec.held[:, block]], return_counts=True)
            if not len(groups):
                continue
            shares.append(share * counts / counts.sum())
            means.append(np.asarray(component.scales.mean)[groups])
            variances.append(np.asarray(component.scales.var)[groups])
        if not shares:  # no unit sees these inputs
            out[:, b] = np.nan
            continue
        p, mean, var = (np.concatenate(a) for a in (shares, means, variances))
        p = p / p.sum()
        centre = p @ mean
        sd = np.sqrt(var)
        out[:2, b] = centre, np.sqrt(p @ (var + (mean - centre) ** 2))
        out[2:, b] = [_mixture_quantile(p, mean, sd, level) for level in (LEVELS[0], LEVELS[-1])]
    return tuple(out)


def _mixture_quantile(p: FloatArray, mean: FloatArray, sd: FloatArray, level: float) -> float:
    """Quantile of a mixture of Gaussians (sd 0 is a point), by bisection to 1e-12."""
    sd = np.maximum(sd, 1e-12)
    lo, hi = float(np.min(mean - 9.0 * sd)), float(np.max(mean + 9.0 * sd))
    for _ in range(80):
        middle = 0.5 * (lo + hi)
        below = p @ ndtr((middle - mean) / sd) < level
        lo, hi = (middle, hi) if below else (lo, middle)
    return 0.5 * (lo + hi)


def is_straight(spec: ModelSpec) -> bool:
    """True where f is linear in the inputs, so that what one of them does is its slope times it."""
    return not len(spec.pairs) and all(isinstance(a, Linear) for a in spec.activations)


def slopes(spec: ModelSpec, w: FloatArray, v: FloatArray) -> FloatArray:
    """(..., d) slopes of straight networks with weights w (..., K, d) and v (..., J)."""
    return np.einsum("...k,...kd->...d", v[..., :-1] * spec.activation_scale, w)


def mean_changes(component: FittedPosterior, X: FloatArray, columns: list[IntArray]) -> FloatArray:
    """E f(x) - E f(x with a block at its mean), (blocks, n), standardised; X a design of n rows.

    A block at its mean is a block of zeros, so h loses X_B w_B and everything else stays.
    """
    spec, q = component.spec, component.state.posterior
    if is_straight(spec):
        slope = slopes(spec, q.w.mean, q.v.mean)
        return np.array([X[:, block] @ slope[block] for block in columns]).reshape(len(columns), len(X))
    units = [(X @ q.w.mean[k], _variances(q.w, k, X)) for k in range(spec.n_hidden)]

    def mean(block: IntArray) -> FloatArray:
        g = np.empty((len(X), spec.n_hidden))
        for k, (activation, (h_mean, h_var)) in enumerate(zip(spec.activations, units, strict=True)):
            rest = Gaussian(h_mean - X[:, block] @ q.w.mean[k, block], h_var(block))
            g[:, k] = spec.activation_scale[k] * activation.moments(rest).mean
        return with_products(g, spec.pairs, spec.pair_scale) @ q.v.mean[:-1]

    f = mean(np.empty(0, dtype=np.int64))
    return np.stack([f - mean(block) for block in columns]) if columns else np.zeros((0, len(X)))


def _variances(w: WeightPosterior, k: int, X: FloatArray) -> Callable[[IntArray], FloatArray]:
    """Variance of h_k at the rows of X as a function of the block that is put at zero.

    With w = E w + Aε + (what the training rows do not see) it is |XA - X_B A_B|² and the like of the rest,
    so a block costs no more than its own columns.
    """
    tiny = np.finfo(float).tiny
    if is_diagonal(w):
        whole = X**2 @ w.var[k]
        return lambda block: np.maximum(whole - X[:, block] ** 2 @ w.var[k, block], tiny)
    if w.basis.inputs is None:
        image = X @ w.factor[k]
        return lambda block: np.maximum(np.sum((image - X[:, block] @ w.factor[k][block]) ** 2, axis=1), tiny)
    assert w.basis.root is not None
    span = w.basis.root[k][:, None] * rotation(w.basis, k)
    A = span @ w.factor[k]
    image, inside, white = X @ A, X @ span, (X * w.basis.root[k]) ** 2

    def dual(block: IntArray) -> FloatArray:
        seen = np.sum((inside - X[:, block] @ span[block]) ** 2, axis=1)
        outside = np.sum(white, axis=1) - np.sum(white[:, block], axis=1) - seen
        within = np.sum((image - X[:, block] @ A[block]) ** 2, axis=1)
        return np.maximum(outside + within, tiny)

    return dual


def _drawn_effects(posterior: MixturePosterior, columns: list[IntArray], seed: int) -> FloatArray:
    """Effects of drawn networks, (blocks, components · DRAWS), standardised."""
    data = posterior.components[0].prepared.data
    out = np.empty((len(columns), len(posterior.components), DRAWS))
    units = sum(c.spec.n_hidden for c in posterior.components)
    most = int(np.clip(DRAW_WORK / (DRAWS * units * max(len(columns), 1)), 20, DRAW_ROWS))
    rows = spaced(data.n_rows, most)
    weight = data.weight[rows]
    for m, component in enumerate(posterior.components):
        X = component.data.X[rows]
        draws = draw(component, DRAWS, np.random.default_rng([seed, m]))
        if is_straight(component.spec):
            slope = slopes(component.spec, draws.w, draws.v)
            for b, block in enumerate(columns):
                out[b, m] = np.sqrt(weight @ (X[:, block] @ slope[:, block].T) ** 2 / weight.sum())
            continue
        v = draws.v[:, None, :-1]
        h = np.einsum("nd,skd->snk", X, draws.w, optimize=True)
        f = np.sum(output_inputs(component.spec, h) * v, axis=2)
        for b, block in enumerate(columns):
            rest = h - np.einsum("nb,skb->snk", X[:, block], draws.w[:, :, block], optimize=True)
            change = f - np.sum(output_inputs(component.spec, rest) * v, axis=2)
            out[b, m] = np.sqrt(np.average(change**2, axis=1, weights=weight))
    return out.reshape(len(columns), -1)


def _weighted_quantile(values: FloatArray, share: FloatArray, level: float) -> FloatArray:
    """Quantile of each row of values (blocks, S) with the draws' shares."""
    order = np.argsort(values, axis=1)
    mass = np.cumsum(share[order], axis=1)
    at = np.argmax(mass >= level * mass[:, -1:], axis=1)
    return np.take_along_axis(np.take_along_axis(values, order, 1), at[:, None], 1)[:, 0]
