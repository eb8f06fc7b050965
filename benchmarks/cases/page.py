"""docs/cases.md: every claim with what was measured, from the summary of the benchmark alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.cases.claims import ENOUGH, Found, find, spread
from benchmarks.cases.settings import CAVITY, INFINITE, PAPER, SEEDS
from benchmarks.harness.summary import how_it_was_run

NAMES = {PAPER: "as in the paper", CAVITY: "`EPRegressor()`", INFINITE: "infinite network"}
TITLES = {
    "case1": "Case 1: overfitting of the ARD",
    "case2": "Case 2: additive effects, sparse priors",
    "case3": "Case 3: a jump, finite against infinite network",
}
NO = "**no**"
SCORES = {
    "mse_f": "squared error of f, fresh rows",
    "lpd": "log predictive density, fresh rows",
    "noise_sd": "noise sd",
    "fit_cpu": "CPU seconds of a fit",
}
CAPTIONS = {
    "figure2": (
        "case1",
        "Figure 2: (a) the infinite network, (b) the network as the paper fits it, (c, d) 95 % intervals of "
        "its weights; those without zero in colour.",
    ),
    "figure3a": (
        "case2",
        "Figure 3a: effects of the inputs, the others at zero, with 95 % intervals of f; black: the truth. "
        "Fixed Gaussian prior.",
    ),
    "figure3b": ("case2", "Figure 3b: the same after switching to Gaussian ARD priors."),
    "figure3-default": ("case2", "The same for the defaults."),
    "figure4": ("case2", "Figure 4: 95 % intervals of the weights and scales of the network of Figure 3b."),
    "figure5": ("case3", "Figure 5: the jump, with 95 % intervals of f."),
}
INTRO = """# The cases of the paper

Section 4 of the paper shows its method on three simulated problems. `make bench-cases` repeats them over
{seeds} seeds and turns each statement of the text into a number. Three methods run on the same rows:

- *as in the paper*: ten units, the paper's priors, zero start, sequential sweeps, one network. Output weights
  are held at first with variance 0.2², in Case 2 with 0.1²: the paper asks for a variance so small that they
  stay positive, and at 0.2² some do not there, and their units die (seen on other seeds);
- `EPRegressor()`: the defaults, which start several networks elsewhere and stack them;
- *infinite network*: an exact Gaussian process with the neural-network covariance, its variances (one per
  input in Cases 1 and 2) and noise at the best of five marginal-likelihood optima.

A statement counts as reproduced where it holds in at least {enough:.0%} of the seeds. Thresholds were fixed
before the runs over seeds. The paper shows its functions in figures only: ours, in `cavity.datasets`, follow
its words. Inputs and target are standardised in Cases 2 and 3; in
Case 1 they are not, as the paper's text implies, and the noise has the paper's prior in both models.
"""


def page(summary: dict[str, Any], figures: Sequence[str] = (), where: str = "figures/cases") -> str:
    """The page; ``figures`` are the names of those that were drawn."""
    found = find(summary["rows"])
    lines = [INTRO.format(seeds=SEEDS, enough=ENOUGH)]
    if summary["n_missing"]:
        done = summary["n_tasks"] - summary["n_missing"]
        lines += [
            f"**Not complete yet**: {done} of {summary['n_tasks']} fits are in; see the seeds of each table.",
            "",
        ]
    lines += ["## What does not reproduce", "", *failures(found)]
    for case, title in TITLES.items():
        mine = [one for one in found if one.claim.case == case]
        lines += ["", f"## {title}", "", *claims_table(mine), "", *scores_table(summary, case)]
        for name in figures:
            if CAPTIONS[name][0] == case:
                lines += [
                    "",
                    f"![{CAPTIONS[name][1]}]({where}/{name}.svg)",
                    "",
                    f"*{CAPTIONS[name][1]} Seed 0.*",
                ]
    lines += how_it_was_run(summary, "cases")
    return "\n".join(lines) + "\n"


def failures(found: Sequence[Found]) -> list[str]:
    """One line for each statement and method that does not hold often enough."""
    out = [
        f"- {one.claim.case.replace('case', 'Case ')}, {NAMES[one.method]}: “{one.claim.paper}” holds in "
        f"{one.count} of {len(one.values)} seeds ({one.claim.number}: median {shown(spread(one)['median'])}, "
        f"wanted {one.claim.wanted})."
        for one in found
        if verdict(one) == NO
    ]
    return out or ["Everything that was measured does."]


def verdict(one: Found) -> str:
    """Open until all seeds are there."""
    if len(one.values) < SEEDS:
        return "open"
    return "yes" if one.reproduced else NO


def claims_table(found: Sequence[Found]) -> list[str]:
    lines = [
        "| the paper says | measured | holds if | method | median (range) | seeds | reproduced |",
        "|" + "---|" * 7,
    ]
    for one in found:
        claim = one.claim
        cells = [claim.paper, claim.number, claim.wanted, NAMES[one.method]]
        if one.values:
            s = spread(one)
            cells += [
                f"{shown(s['median'])} ({shown(s['min'])} … {shown(s['max'])})",
                f"{one.count} of {len(one.values)}",
                verdict(one),
            ]
        else:
            cells += ["not run yet", "–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def scores_table(summary: dict[str, Any], case: str) -> list[str]:
    """Mean and standard error of what is scored for every method."""
    by_method = summary["sets"].get(case, {})
    lines = ["| mean ± standard error | " + " | ".join(SCORES.values()) + " | seeds |", "|" + "---|" * 6]
    for method, values in by_method.items():
        cells = [cell(values.get(name)) for name in SCORES]
        lines.append(f"| {NAMES[method]} | " + " | ".join(cells) + f" | {values['n_splits']} |")
        if "gaussian_mse_f" in values:
            fixed = [cell(values.get(f"gaussian_{name}")) for name in SCORES]
            lines.append("| its fixed Gaussian prior | " + " | ".join(fixed) + f" | {values['n_splits']} |")
    return lines if by_method else ["No rows yet."]


def cell(value: dict[str, Any] | None) -> str:
    if value is None:
        return "–"
    return " ± ".join(shown(float(value[name])) for name in ("mean", "se") if value[name] is not None)


def shown(value: float) -> str:
    """Three figures, no exponent for common sizes."""
    if value == int(value) and abs(value) < 1e4:
        return str(int(value))
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e4 else f"{value:.1e}"
