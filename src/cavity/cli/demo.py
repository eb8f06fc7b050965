"""``cavity demo``: the paper's Case 2 and the diabetes data, fitted, described, drawn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cavity import datasets, plots
from cavity.cli.console import Console, number
from cavity.cli.models import described_fit, fit, judge
from cavity.estimators import EPRegressor
from cavity.report import write_report
from cavity.tables import TableEncoder
from cavity.tables.read import pandas

STARTS = 4
GRID = 200


def run(arguments: argparse.Namespace) -> int:
    """Fit both problems; write the pages and the figures."""
    console = Console(arguments.quiet)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    console.say(
        "Two problems, fitted here and now; the first run on a machine compiles for ten seconds or so.\n"
    )
    case2, problem = _case2(console)
    diabetes = _diabetes(console)
    try:
        written = _figures(case2, diabetes, problem, folder)
        console.say("Writing the reports …")
        fresh = datasets.case2(1000, random_state=1)
        X = pandas().DataFrame(fresh.X, columns=case2.feature_names_in_)
        title = "Case 2: ten effects, from none to strongly nonlinear"
        written.append(write_report(case2, folder / "report.html", X, fresh.y, title, first_row=1))
        title = "Diabetes: progression of the disease after one year"
        written.append(write_report(diabetes, folder / "diabetes.html", title=title, first_row=1))
    except ImportError as error:
        console.note(f"no figures and no reports: {error}")
        return 0
    console.show("Written", *(f"  {path}" for path in written))
    return 0


def _case2(console: Console) -> tuple[Any, datasets.Simulated]:
    problem = datasets.case2(200, random_state=0)
    names = [f"x{j + 1}" for j in range(problem.X.shape[1])]
    console.show(
        "Case 2 of the paper: 200 rows, ten inputs whose effects add up. x1 does nothing, x2 to x5 are ever",
        f"steeper lines, x6 and x7 are steps, x8 to x10 waves. Noise sd {problem.noise_sd:g}.",
        "",
    )
    model = _fitted(console, problem.X, problem.y, names, "Case 2")
    fresh = datasets.case2(1000, random_state=1)
    X = pandas().DataFrame(fresh.X, columns=names)
    judged = judge(model, X, fresh.y)
    console.show(
        f"On 1000 new rows: R² {number(judged.r2, 3)}, RMSE {number(judged.rmse, 3)}, "
        f"{100.0 * judged.coverage():.0f} % within their 95 % interval.",
        "\n",
    )
    return model, problem


def _diabetes(console: Console) -> Any:
    data = datasets.load_diabetes()
    console.show(
        "Diabetes (scikit-learn): 442 patients, ten measurements, and how the disease progressed in a year.",
        "",
    )
    model = _fitted(console, data.X, data.y, list(data.feature_names), "Diabetes")
    model.target_name_ = "progression"
    first = pandas().DataFrame(data.X[:1], columns=data.feature_names)
    ((lower, upper),) = model.predict_interval(first, 0.95)
    console.show(
        f"The first patient: predicted {model.predict(first)[0]:.0f}, 95 % interval {lower:.0f} to "
        f"{upper:.0f}; observed {data.y[0]:.0f}.",
        "\n",
    )
    return model


def _fitted(console: Console, X: Any, y: Any, names: list[str], what: str) -> Any:
    model = EPRegressor(n_starts=STARTS, random_state=0)
    if not fit(model, pandas().DataFrame(X, columns=names), y, None, console, what):
        raise KeyboardInterrupt
    _, lines = described_fit(model, TableEncoder.of_numbers(names))
    console.show(*lines, "")
    return model


def _figures(case2: Any, diabetes: Any, problem: datasets.Simulated, folder: Path) -> list[Path]:
    """Effects beside the truth, relevance, and observed against predicted."""
    axes = plots.effects(case2, columns=5)
    for j, ax in enumerate(axes):
        x = np.linspace(problem.X[:, j].min(), problem.X[:, j].max(), GRID)
        resting = np.tile(problem.X.mean(axis=0), (GRID, 1))
        resting[:, j] = x
        ax.plot(x, problem.f(resting), color="black", lw=0.9, ls=(0, (4, 2)))
    figures = {
        "case2-effects.svg": axes[0].figure,
        "case2-relevance.svg": plots.relevance(case2).figure,
        "diabetes-relevance.svg": plots.relevance(diabetes).figure,
        "diabetes-observed.svg": plots.observed(diabetes, first_row=1).figure,
    }
    from matplotlib import pyplot

    for name, figure in figures.items():
        figure.savefig(folder / name, bbox_inches="tight")
        pyplot.close(figure)
    return [folder / name for name in figures]
