"""The page about a classifier: the same questions, answered for classes and their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity import plots
from cavity.plots.classes import readings
from cavity.plots.reading import Reading
from cavity.report import words
from cavity.report.figures import Section, effect_section, inside, ranking, sweeps
from cavity.report.phrases import count, figure, percent, row_list
from cavity.report.svg import drawing
from cavity.report.words import Summary, Tile
from cavity.report.worries import CAUTION, NOTE, PROBLEM, Worry, improper, ranked, stacked, units, unsettled
from cavity.result.classes import ClassRows
from cavity.result.relevance import Relevance

SURPRISE = 0.01  # rows are named whose observed class was given less than this share of one by n
OPEN = 0.7  # below this probability of the likeliest class a prediction is called open


def judge_given_classes(model: Any, X: Any, y: Any) -> ClassRows:
    """Rows that the model was not fitted on; y holds labels."""
    labels = np.asarray(y)
    code = np.minimum(np.searchsorted(model.classes_, labels), len(model.classes_) - 1)
    if (model.classes_[code] != labels).any():
        raise ValueError("y holds classes that were not in the training rows.")
    rows = np.arange(len(code))
    return ClassRows(tuple(map(str, model.classes_)), rows, np.ones(len(code)), code, model.predict_proba(X))


def class_summary(
    model: Any, judged: ClassRows, given: ClassRows | None, table: Relevance, first_row: int = 0
) -> Summary:
    """Put the facts about a classifier into sentences."""
    parts, table = readings(model), table.sorted()
    main, _ = parts[0].component()
    fits = sum(len(part.posterior.components) for part in parts)
    kinds = count(len(judged.classes), "class").replace("classs", "classes")
    many = f", {len(parts)} networks" if len(parts) > 1 else ""
    lead = (
        f"{count(len(judged.rows), 'row')}, {kinds}, {count(parts[0].n_inputs, 'input')}{many}, "
        f"{count(main.spec.n_hidden, 'hidden unit')} in the heaviest fit of {fits}. "
        + words.how_ended([part.posterior for part in parts])
    )
    tiles = [
        Tile(percent(judged.accuracy), "right, leave-one-out"),
        Tile(percent(float(judged.shares.max())), "right if one always said the most frequent class"),
        Tile(figure(judged.log_score), "log score per row, leave-one-out"),
        Tile(percent(judged.confidence), "probability of the predicted class, on average"),
    ]
    return Summary(
        lead,
        tiles,
        how_well(judged),
        [] if given is None else on_given_rows(given),
        how_sure(judged),
        what_matters(table),
        words.top(table),
        max(len(table) - 2 * words.LISTED, 0),
        class_worries(model, parts, judged, given, first_row),
    )


def how_well(judged: ClassRows) -> list[str]:
    """Accuracy, log score, and the commonest confusion."""
    n = len(judged.rows)
    first = (
        f"Each of the {n} rows was predicted by the fit without it. So judged, the most probable class is "
        f"right in {percent(judged.accuracy)} of the rows; always saying {_frequent(judged)!r}, the most "
        f"frequent class, would be right in {percent(float(judged.shares.max()))}."
    )
    second = f"The log score (mean log probability of what happened) is {figure(judged.log_score)} per row"
    if np.isfinite(judged.baseline):
        second += f"; the shares of the classes alone, without inputs, get {figure(judged.baseline)}"
    return [first, f"{second}. {confused(judged)}"]


def confused(judged: ClassRows) -> str:
    """The commonest error in words."""
    errors = judged.confusion.copy()
    np.fill_diagonal(errors, 0.0)
    if not errors.any():
        return "No row is taken for another class."
    i, j = np.unravel_index(int(np.argmax(errors)), errors.shape)
    whole = judged.confusion[i].sum()
    return (
        f"The commonest error is to take {judged.classes[i]!r} for {judged.classes[j]!r}: "
        f"{errors[i, j]:.6g} of {whole:.6g} rows."
    )


def on_given_rows(given: ClassRows) -> list[str]:
    """How the model does on rows the caller brought."""
    return [
        f"On the {count(len(given.rows), 'row')} given besides, {percent(given.accuracy)} are right and the "
        f"log score is {figure(given.log_score)} per row. {belief(given)}"
    ]


def how_sure(judged: ClassRows) -> list[str]:
    """Whether the probabilities mean what they say, and how many predictions are open."""
    top = judged.probability.max(axis=1)
    return [
        f"{belief(judged)} For {percent(judged.mean(top < OPEN))} of the rows no class has a probability of "
        f"{OPEN:g} or more: these are open, and the probabilities say so."
    ]


def belief(judged: ClassRows) -> str:
    """Expected against observed accuracy."""
    verdict = {
        0: "it is about as sure as it should be",
        1: "it is surer than it should be",
        -1: "it could be surer",
    }
    return (
        f"The predicted class is given a probability of {percent(judged.confidence)} on average and is right "
        f"in {percent(judged.accuracy)}: {verdict[judged.misjudged()]}."
    )


def what_matters(table: Relevance) -> list[str]:
    """The inputs that matter, and what an effect is for classes."""
    meaning = (
        "An effect is the root mean square change of the score f when the input is put at its mean; the "
        "probability is Φ(f), so that a change of 1 moves it from 50 to 84 %. It is called relevant if it "
        f"exceeds {table.threshold:g}, which moves 50 to {50.0 + 40.0 * table.threshold:.0f} %. Inputs that "
        "carry the same information can stand in for each other."
    )
    return [*words.named_inputs(table), meaning]


def class_worries(
    model: Any, parts: list[Reading], judged: ClassRows, given: ClassRows | None, first_row: int = 0
) -> list[Worry]:
    """What may be wrong with a classifier, the worst first."""
    out: list[Worry] = []
    for part in parts:
        which = "" if len(parts) == 1 else f"Network for the {part.target}: "
        found = [*unsettled(part), *improper(part, first_row)]
        out += [Worry(worry.level, which + worry.text) for worry in found]
    if judged.log_score <= judged.baseline:
        text = "Leave-one-out is no better than the shares of the classes: the inputs may not help."
        out.append(Worry(PROBLEM, text))
    for rows, where in ((judged, ""), (given, " on the given rows")):
        if rows is not None and rows.misjudged():
            kind = "too sure" if rows.misjudged() > 0 else "not sure enough"
            text = (
                f"The model is {kind}{where}: it expects {percent(rows.confidence)} of its predictions to be "
                f"right, and {percent(rows.accuracy)} are."
            )
            out.append(Worry(CAUTION, text))
    out += _surprises(judged, first_row)
    if len(parts) == 1:
        out += units(model, parts[0])
    out += [Worry(NOTE, note) for note in parts[0].prepared.notes]
    return ranked([*out, *stacked(parts[0])])


def _surprises(judged: ClassRows, first_row: int) -> list[Worry]:
    p = judged.observed_probability
    found = np.flatnonzero(p < min(SURPRISE, 1.0 / len(p)))
    if not len(found):
        return []
    rows = judged.rows[found[np.argsort(p[found], kind="stable")]]
    text = (
        f"{count(len(found), 'row')} of a class that was thought all but impossible there: "
        f"{row_list(rows, first_row)}. Look for errors in their labels."
    )
    return [Worry(CAUTION, text)]


def class_figures(model: Any, judged: ClassRows, table: Relevance) -> list[Section]:
    """Sections of figures; those that make no sense for classes are left out, and the notes say so."""
    well = Section(
        "How well it predicts",
        [
            drawing(
                "class-calibration",
                lambda ax: plots.class_calibration(judged, ax),
                "Each row predicted without it. Dots should lie on the dashed line, within the grey bars 19 "
                "times in 20; large dots stand for many rows.",
            ),
            drawing(
                "confusion",
                lambda ax: plots.confusion(judged, ax),
                "Numbers of rows, each predicted without it. Off the diagonal are the errors.",
            ),
        ],
        note="Observed against predicted values and intervals are left out: a class has neither.",
    )
    parts = readings(model)
    if len(parts) > 1:
        note = (
            f"One network for each of {len(parts)} classes; the largest effect over them. Their curves and "
            "weights are left out here: cavity.plots draws those of each of model.estimators_."
        )
        first = parts[0]._replace(target="the scores")
        return [well, Section("What matters", [ranking(first, table)], note=note)]
    return [
        well,
        effect_section(parts[0], table),
        Section("Inside the network, and how the fit went", [*inside(parts[0]), *sweeps(parts[0])]),
    ]


def _frequent(judged: ClassRows) -> str:
    return judged.classes[int(np.argmax(judged.shares))]
