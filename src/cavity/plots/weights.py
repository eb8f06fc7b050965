"""Marginal intervals of input weights, prior scales and output weights *(paper, Figures 2c–d and 4)*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.ep.prune import UNUSED, unit_effects
from cavity.model.spec import ModelSpec
from cavity.plots.reading import Reading, read
from cavity.plots.style import MAIN, MUTED, RULE, Z95, axis, finish, intervals, plain, rows_on_y
from cavity.types import FloatArray, IntArray

MAX_ROWS = 20


def input_weights(
    model: Any,
    by: str = "input",
    ax: Any = None,
    *,
    component: int | None = None,
    bias: bool = False,
    names: Sequence[str] | None = None,
    max_groups: int = MAX_ROWS,
) -> Any:
    """95 % intervals (the middle 50 % thick) of all input weights w_kj, standardised inputs.

    Grey where the 95 % interval holds zero, faint for idle units, whose weights only repeat their prior.
    Weights that a mask holds at zero are left out. Shows one component of a mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    by : {"input", "unit"}
        What is grouped together: for each input the weights of all units *(paper, Figure 4a)*, or for
        each hidden unit the weights of all inputs *(Figure 2c)*, from the top in their own order.
    ax : matplotlib axis, optional
    component : int, optional
        Which component of a mixture; the heaviest by default.
    bias : bool
        Show the bias weights as well.
    names : sequence of str, optional
        Names of the inputs.
    max_groups : int
        With more inputs than this, only those of the largest weights, E[w²] summed over units, are shown.

    Returns
    -------
    matplotlib axis
    """
    if by not in ("input", "unit"):
        raise ValueError(f'by must be "input" or "unit", got {by!r}.')
    reading = read(model, names)
    fitted, phrase = reading.component(component)
    w = fitted.state.posterior.w
    labels = [plain(name) for name in reading.names]
    keep = _largest(w.mean**2 + w.var, reading.n_inputs, max_groups)
    note = "" if len(keep) == reading.n_inputs else f", {len(keep)} largest of {reading.n_inputs} inputs"
    labels = [labels[j] for j in keep]
    if bias and fitted.spec.bias:
        keep, labels = np.append(keep, reading.n_inputs), [*labels, "bias"]
    mean, sd = np.where(fitted.spec.held, np.nan, w.mean)[:, keep], np.sqrt(w.var[:, keep])
    idle = unit_effects(fitted.spec, fitted.data, fitted.state) < UNUSED
    colour = np.where(np.abs(mean) > Z95 * sd, MAIN, np.where(idle[:, None], RULE, MUTED))
    if by == "input":
        mean, sd, colour = mean.T, sd.T, colour.T
    else:
        labels = _unit_names(fitted.spec)
    groups, items = mean.shape
    ax = axis(ax, 4.2, weights_height(groups, items))
    place = np.arange(groups)[:, None] + 0.8 * ((np.arange(items) + 0.5) / items - 0.5)
    for g in range(0, groups, 2):
        ax.axhspan(g - 0.5, g + 0.5, color=RULE, alpha=0.3, lw=0)
    ax.axvline(0.0, color=MUTED, lw=0.7)
    thick = float(np.clip(40.0 / items, 1.2, 2.6))
    intervals(ax, place.ravel(), mean.ravel(), sd.ravel(), colour.ravel(), thick / 2.6, thick)
    rows_on_y(ax, labels, 0.5)
    return finish(ax, f"Input weights by {by}{note}{phrase}", "weight, standardised")


def scales(
    model: Any,
    ax: Any = None,
    *,
    component: int | None = None,
    names: Sequence[str] | None = None,
    max_groups: int = 2 * MAX_ROWS,
) -> Any:
    """95 % intervals of φ_l = log prior variance of each weight group *(paper, Figure 4b)*.

    The shaded band is the 95 % interval of the prior of φ. A group still within it and far to the left
    has been switched off; a hollow dot marks a scale that was held. Shows one component of a mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    ax : matplotlib axis, optional
    component : int, optional
        Which component of a mixture; the heaviest by default.
    names : sequence of str, optional
        Names of the inputs.
    max_groups : int
        With more groups, only those of largest E φ are shown.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model, names)
    fitted, phrase = reading.component(component)
    spec, q = fitted.spec, fitted.scales
    mean, sd = np.asarray(q.mean, float), np.sqrt(np.asarray(q.var, float))
    labels = group_names(spec, reading)
    keep = np.sort(np.argsort(-mean, kind="stable")[:max_groups])
    note = "" if len(keep) == len(mean) else f", {len(keep)} largest of {len(mean)}"
    free = spec.scale_inferred[keep]
    place = np.arange(len(keep))
    ax = axis(ax, 4.2, 0.9 + 0.2 * max(len(keep), 3))
    if free.any():
        l0 = keep[free][0]
        middle, half = spec.scale_prior.mean[l0], Z95 * np.sqrt(spec.scale_prior.var[l0])
        ax.axvspan(middle - half, middle + half, color=RULE, alpha=0.4, lw=0, label="prior, 95 %")
        intervals(ax, place[free], mean[keep][free], sd[keep][free], np.full(int(free.sum()), MAIN))
        above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.1}
        ax.legend(frameon=False, fontsize="small", handlelength=1.2, **above)
    if (~free).any():
        ax.plot(mean[keep][~free], place[~free], "o", ms=4, mfc="none", mec=MAIN)
    rows_on_y(ax, [labels[g] for g in keep])
    ax.locator_params(axis="x", nbins=6)
    return finish(ax, f"Prior scales{note}{phrase}", "φ, log prior variance")


def output_weights(model: Any, ax: Any = None, *, component: int | None = None, bias: bool = False) -> Any:
    """95 % intervals (the middle 50 % thick) of the output weights v_k *(paper, Figures 2d and 4c)*.

    Their prior allows no negative values, so an interval that reaches zero means a unit that the data may do
    without; a unit whose input weights are all small can be idle with a larger one. Shows one component of
    a mixture.

    Parameters
    ----------
    model : estimator, MixturePosterior or FittedPosterior
    ax : matplotlib axis, optional
    component : int, optional
        Which component of a mixture; the heaviest by default.
    bias : bool
        Show the output bias v_0 as well.

    Returns
    -------
    matplotlib axis
    """
    reading = read(model)
    fitted, phrase = reading.component(component)
    v = fitted.state.posterior.v
    products = [f"units {a + 1} × {b + 1}" for a, b in fitted.spec.pairs]
    count = fitted.spec.n_hidden + len(products) + bool(bias)
    labels = [*_unit_names(fitted.spec), *products, "bias"][:count]
    mean, sd = v.mean[:count], np.sqrt(np.maximum(np.diag(v.cov)[:count], 0.0))
    ax = axis(ax, 4.2, 0.9 + 0.2 * max(count, 3))
    ax.axvline(0.0, color=MUTED, lw=0.7)
    intervals(ax, np.arange(count), mean, sd)
    if not sd.any():
        ax.plot(mean, np.arange(count), "o", ms=4, mfc="none", mec=MAIN)
    rows_on_y(ax, labels)
    return finish(ax, f"Output weights{phrase}", "weight, standardised")


def weights_height(groups: int, items: int) -> float:
    """Inches of a figure of input weights with so many groups of so many intervals."""
    return 0.8 + max(groups, 3) * max(0.17, min(0.045 * items, 0.6))


def group_names(spec: ModelSpec, reading: Reading) -> list[str]:
    """What each scale φ_l governs: an input, several of them, a unit, all weights, or the bias."""
    names = []
    for group in range(spec.n_groups):
        units, columns = (np.unique(index) for index in np.nonzero(spec.group_of == group))
        inputs = [j for j in columns if j < reading.n_inputs]
        if not len(columns):
            name = "(no weight)"
        elif not inputs:
            name = "bias"
        elif len(units) < spec.n_hidden and len(inputs) == reading.n_inputs:
            name = "unit " + ", ".join(str(k + 1) for k in units)
        elif len(inputs) == reading.n_inputs > 1:
            name = "all inputs"
        else:
            name = ", ".join(reading.names[j] for j in inputs)
        names.append(plain(name))
    return names


def _unit_names(spec: ModelSpec) -> list[str]:
    return [f"unit {k + 1}" for k in range(spec.n_hidden)]


def _largest(size: FloatArray, n_inputs: int, limit: int) -> IntArray:
    """Columns of the largest weights, in their own order, at most ``limit``."""
    total = size[:, :n_inputs].sum(axis=0)
    return np.sort(np.argsort(-total, kind="stable")[:limit])
