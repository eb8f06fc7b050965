"""The tables at the end of the page: model, settings, stages of the fit, versions."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any, NamedTuple

from cavity.model.spec import Noise
from cavity.plots.reading import Reading
from cavity.report.phrases import figure
from cavity.report.words import noise_name
from cavity.result.classes import ClassRows

PACKAGES = ("cavity", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")


class Table(NamedTuple):
    """A table of texts."""

    title: str
    header: list[str]
    rows: list[list[str]]


def details(model: Any, reading: Reading, classes: ClassRows | None = None) -> list[Table]:
    """All tables, those with nothing in them left out."""
    counted = [] if classes is None else _classes(classes)
    tables = [_model(model, reading), *counted, _fits(reading), _stages(reading), _settings(model)]
    return [table for table in [*tables, _versions()] if table.rows]


def noise_kind(noise: Noise) -> str:
    """What the noise depends on, if on anything."""
    parts = ["the inputs"] if noise.varies else []
    parts += ["the function, its size and its slope"] if noise.guide is not None else []
    return f", linear in {' and in '.join(parts)}" if parts else ""


def _model(model: Any, reading: Reading) -> Table:
    main, _ = reading.component()
    spec, data = main.spec, main.prepared.data
    priors = list(dict.fromkeys(type(block.prior).__name__ for block in spec.blocks if len(block.entries)))
    activations = list(dict.fromkeys(type(a).__name__ for a in spec.activations))
    noise = (
        f"inferred, log variance N({figure(spec.noise.mean)}, {figure(spec.noise.var)}), standardised target"
        + noise_kind(spec.noise)
        if spec.noise.inferred
        else "held"
        if spec.likelihood.has_scale
        else "none"
    )
    rows = [
        ["kind", type(model).__name__],
        ["rows", f"{len(reading.rows)} ({data.n_rows} distinct)"],
        ["inputs", f"{reading.n_inputs}" + (" and a bias" if spec.bias else "")],
        ["hidden units", f"{spec.n_hidden}, {', '.join(activations)}"],
        ["products of units", ", ".join(f"{a + 1} × {b + 1}" for a, b in spec.pairs) or "none"],
        ["prior of the input weights", ", ".join(priors)],
        ["scales", f"{int(spec.scale_inferred.sum())} inferred, {int((~spec.scale_inferred).sum())} held"],
        ["prior of the output weights", type(spec.output.prior).__name__],
        ["likelihood", type(spec.likelihood).__name__],
        ["noise", noise],
        ["form of q(w)", spec.resolved_form(data.n_rows)],
        ["log evidence", figure(reading.posterior.log_evidence, 5)],
    ]
    return Table("Model", [], rows)


def _classes(judged: ClassRows) -> list[Table]:
    confusion = [
        [label, *(f"{value:.6g}" for value in row)]
        for label, row in zip(judged.classes, judged.confusion, strict=True)
    ]
    bins = [[figure(b.predicted, 2), figure(b.observed, 2), f"{b.weight:.6g}"] for b in judged.bins()]
    what = "of the last class" if len(judged.classes) == 2 else "of the predicted class"
    return [
        Table(
            "Observed (down) and predicted (across) class, leave-one-out", ["", *judged.classes], confusion
        ),
        Table(f"Probability {what} and what came of it", ["predicted", "observed", "rows"], bins),
    ]


def _fits(reading: Reading) -> Table:
    mixture = reading.posterior
    noisy = mixture.main.spec.likelihood.has_scale
    rows = [
        [
            str(m + 1),
            f"{mixture.weights[m]:.2f}",
            figure(c.loo.mean),
            figure(c.log_evidence, 5),
            *([figure(c.noise_sd)] if noisy else []),
            type(c.spec.likelihood).__name__.removesuffix("Likelihood"),
            c.solution.status.name.lower().replace("_", " "),
        ]
        for m, c in enumerate(mixture.components)
    ]
    noise = [noise_name(mixture)] if noisy else []
    if len({row[-2] for row in rows}) > 1:
        noise = ["noise sd or scale"] if noisy else []
    header = ["fit", "weight", "LOO per row", "log evidence", *noise, "likelihood", "ended"]
    return Table("Fits", header, rows if len(rows) > 1 else [])


def _stages(reading: Reading) -> Table:
    main, phrase = reading.component()
    rows: list[list[str]] = []
    for record in main.solution.history:
        line = [
            record.stage,
            "1",
            figure(record.loo),
            f"{record.mismatch:.1e}",
            str(record.skipped),
            str(record.shortened),
            f"{record.damping:.2f}",
            f"{record.seconds:.1f}",
        ]
        if rows and rows[-1][0] == record.stage:
            line[1] = str(int(rows[-1][1]) + 1)
            rows[-1] = line
        else:
            rows.append(line)
    header = ["stage", "sweeps", "running LOO", "mismatch", "skipped", "shortened", "damping", "seconds"]
    return Table(f"Stages of the fit{phrase}: how each ended, standardised target", header, rows)


def _settings(model: Any) -> Table:
    get = getattr(model, "get_params", None)
    settings = get(deep=False) if callable(get) else {}
    return Table("Settings", [], [[str(k), _short(v)] for k, v in sorted(settings.items())])


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:119]}…"


def _versions() -> Table:
    rows = []
    for package in PACKAGES:
        try:
            rows.append([package, metadata.version(package)])
        except metadata.PackageNotFoundError:
            continue
    rows.append(["Python", platform.python_version()])
    return Table("Versions", [], rows)
