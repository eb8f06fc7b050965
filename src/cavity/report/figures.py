"""Which figures the page shows, in which section, and what to read off them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cavity import plots
from cavity.plots.effects import share_height
from cavity.plots.reading import Reading
from cavity.plots.style import plain
from cavity.plots.weights import MAX_ROWS, weights_height
from cavity.report.svg import Drawing, drawing, drawings
from cavity.result.relevance import Relevance, mean_changes, spaced
from cavity.types import IntArray

EFFECTS = 12
WIDTH = 3.6


class Section(NamedTuple):
    """A heading with its figures; small ones stand side by side even on a phone."""

    title: str
    drawings: list[Drawing]
    small: bool = False
    note: str = ""


def figures(reading: Reading, table: Relevance, first_row: int = 0) -> list[Section]:
    """All sections of figures."""
    return [
        _predictions(reading, first_row),
        effect_section(reading, table),
        Section("Inside the network, and how the fit went", [*inside(reading), *sweeps(reading)]),
    ]


def _predictions(reading: Reading, first_row: int) -> Section:
    out = []
    if reading.n_inputs == 1:
        out.append(
            drawing(
                "prediction-1d",
                lambda ax: plots.prediction_1d(reading, 0, ax),
                "The line is the predicted mean; the bands hold the function and new observations with "
                "probability 95 %.",
            )
        )
    if reading.n_inputs == 2:
        out.append(
            drawing(
                "prediction-2d",
                lambda ax: plots.prediction_2d(reading, (0, 1), ax),
                "Colour is the predicted mean; a dot has the colour of its observation: a good fit hides it.",
            )
        )
    return Section(
        "How well it predicts",
        [
            *out,
            drawing(
                "observed",
                lambda ax: plots.observed(reading, ax, first_row=first_row),
                "Each row predicted without it, with its 95 % interval. Triangles are misses; one in twenty "
                "should be.",
            ),
            drawing(
                "calibration",
                lambda ax: plots.calibration(reading, ax),
                "A calibrated model stays in the band. Up on the left and down on the right means too narrow "
                "predictions, the other way round too wide ones.",
            ),
        ],
    )


def ranking(reading: Reading, table: Relevance) -> Drawing:
    """Sizes of effects, the largest first."""
    rows = min(len(table), MAX_ROWS)
    return drawing(
        "relevance",
        lambda ax: plots.relevance(reading, ax, table=table),
        "Size of each effect with its 95 % interval, and the probability P that it is relevant, which begins "
        "at the dashed line.",
        (WIDTH, max(0.8 + 0.2 * rows, 1.6)),
    )


def effect_section(reading: Reading, table: Relevance) -> Section:
    """What matters: the ranking, and the curve of each of the strongest inputs."""
    order = strongest(reading)[:EFFECTS]
    plans = [
        (f"effect-{j}", partial(_effect, reading, int(j)), "", f"Effect of {reading.names[j]}") for j in order
    ]
    small = drawings(plans, (1.8, 1.45), 8.0, share_height)
    note = (
        "What the function does along each input, with its 95 % band, while the other inputs rest at their "
        "mean. All on one vertical scale; ticks at the bottom show where the rows are."
    )
    if len(order) < reading.n_inputs:
        note += f" The {len(order)} strongest of {reading.n_inputs} inputs."
    return Section("What matters", [ranking(reading, table), *small], True, note)


def _effect(reading: Reading, j: int, ax: Any) -> None:
    plots.effect(reading, j, ax)
    ax.set_ylabel("")
    ax.set_xlabel(plain(ax.get_xlabel().replace(r"\$", "$"), 20))
    ax.locator_params(axis="y", nbins=4)
    if len(ax.get_xticks()) > 6:
        ax.locator_params(axis="x", nbins=4)


def inside(reading: Reading) -> list[Drawing]:
    """Weights and scales of the heaviest fit."""
    fitted, _ = reading.component()
    d, K = min(reading.n_inputs, MAX_ROWS), fitted.spec.n_hidden
    out = [
        drawing(
            f"weights-{by}",
            partial(plots.input_weights, reading, by),
            caption,
            (WIDTH, weights_height(groups, items)),
        )
        for by, groups, items, caption in (
            (
                "input",
                d,
                K,
                "For each input the weights of all hidden units: 95 % intervals, the middle 50 % thick, grey "
                "where zero is inside, faint for idle units.",
            ),
            ("unit", K, d, "The same weights by hidden unit, inputs from top to bottom in their own order."),
        )
    ]
    groups = min(fitted.spec.n_groups, MAX_ROWS)
    out += [
        drawing(
            "scales",
            lambda ax: plots.scales(reading, ax, max_groups=MAX_ROWS),
            "Log prior variances of the weights, 95 % intervals. Far left: switched off. Hollow: held.",
            (WIDTH, 0.8 + 0.18 * max(groups, 4)),
        ),
        drawing(
            "output-weights",
            lambda ax: plots.output_weights(reading, ax),
            "How much each hidden unit counts in the sum, 95 % intervals, the middle 50 % thick.",
            (WIDTH, 0.8 + 0.18 * max(K, 4)),
        ),
    ]
    return out


def sweeps(reading: Reading) -> list[Drawing]:
    """How the heaviest fit went."""
    main, _ = reading.component()
    records = main.solution.history
    if not records:
        return []
    captions = {
        "loo": "Should rise and level off. Lines mark where a stage of the fit begins.",
        "mismatch": "Largest disagreement between a moment and its marginal; falls as the fit settles.",
        "log_evidence": "Log evidence, computed every ten sweeps.",
    }
    return [
        drawing(f"history-{what}", partial(plots.history, reading, what), text)
        for what, text in captions.items()
    ]


def strongest(reading: Reading) -> IntArray:
    """Inputs by the size of their mean effect, the strongest first."""
    X = reading.prepared.data.X
    rows = spaced(len(X), 500)
    columns = [np.array([j]) for j in range(reading.n_inputs)]
    change = np.zeros((reading.n_inputs, len(rows)))
    for share, component in zip(reading.posterior.weights, reading.posterior.components, strict=True):
        change += share * mean_changes(component, X[rows], columns)
    return np.argsort(-np.sum(change**2, axis=1), kind="stable")
