"""Figures 2 to 5 in the paper's layout, as small SVG files, from the cached curves of one seed."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cases.settings import CAVITY, INFINITE, PAPER

from cavity import datasets
from cavity.plots.style import ACCENT, INK, MAIN, MUTED, Z95

SHADE = "#c9ced4"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cases",
    "font.size": 7.5,
    "font.family": "DejaVu Sans",
    "axes.linewidth": 0.6,
}
Records = Mapping[tuple[str, str], Mapping[str, Any]]  # (case, method) → what the cache holds of it


def draw(records: Records, folder: Path) -> list[str]:
    """Write every figure whose curves are there; the names of the files."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with rc_context(STYLE):
        for name, (needs, make) in FIGURES.items():
            if all(key in records for key in needs):
                text = lighter(make(*(records[key] for key in needs)))
                (folder / f"{name}.svg").write_text(text, encoding="utf-8")
                written.append(name)
    return written


def figure2(gp: Any, ep: Any, ours: Any) -> Any:
    """Case 1: means of the GP, of the network, its weights; and EPRegressor's mean."""
    figure = blank(7.2, 4.2)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.2, 1.0))
    named = (("(a) GP-ARD", gp), ("(b) NN-EP as in the paper", ep), ("EPRegressor()", ours))
    for ax, (title, record) in zip(top.subplots(1, 3, sharey=True), named, strict=True):
        at, mean = np.array(record["at"]), np.array(record["mean"])
        levels = np.round(np.arange(-0.2, 1.21, 0.2), 1)
        filled = ax.contourf(at, at, mean.T, levels, cmap="cividis", extend="both")
        X = np.array(record["X"])
        ax.plot(X[:, 0], X[:, 1], ".", color="white", markeredgecolor=INK, markeredgewidth=0.4, markersize=4)
        label(ax, title, "x1", "x2" if record is gp else "")
    top.colorbar(filled, ax=top.axes, label="mean of f", shrink=0.9)
    left, right = bottom.subplots(1, 2, gridspec_kw={"width_ratios": (2.4, 1.0)})
    network = ep["network"]
    w, sd = (np.array(network[name]) for name in ("w", "w_sd"))
    bars(left, np.arange(w.size) + 1, w.ravel(), sd.ravel())
    for edge in np.arange(1, len(w)) * w.shape[1] + 0.5:
        left.axvline(edge, color=MUTED, linewidth=0.4, linestyle=":")
    label(left, "(c) input weights by unit: x1, x2, bias (unit 1 is linear)", "weight", "")
    output_weights(right, network, "(d) output weights")
    return figure


def effects(record: Any, title: str) -> Any:
    """Case 2: ten effects with 95 % intervals of f and the truth."""
    figure = blank(7.2, 2.9)
    truth = datasets.case2(n=1, random_state=0).effects
    at = np.array(record["at"])[::2]
    for j, ax in enumerate(figure.subplots(2, 5, sharex=True, sharey=True).ravel()):
        mean, sd = (np.array(record[name][j])[::2] for name in ("mean", "sd"))
        band(ax, at, mean, sd)
        ax.plot(at, truth[j](at), color=INK, linewidth=0.8)
        ax.set_ylim(-3, 3)
        label(ax, f"input {j + 1}", "", "")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def figure4(record: Any) -> Any:
    """Case 2: input weights grouped by input, scales, output weights of the ARD network."""
    figure = blank(7.2, 2.5)
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"width_ratios": (2.6, 1.0, 1.0)})
    network = record["network"]
    w, sd = (np.array(network[name])[:, :10].T for name in ("w", "w_sd"))
    times = np.where(np.arange(10) < 5, 40.0, 1.0)[:, None]
    bars(left, np.arange(w.size) + 1, (times * w).ravel(), (times * sd).ravel())
    for edge in np.arange(1, 10) * w.shape[1] + 0.5:
        left.axvline(edge, color=MUTED, linewidth=0.4, linestyle=":")
    left.set_xticks(np.arange(10) * w.shape[1] + 0.5 * (w.shape[1] + 1), range(1, 11))
    label(left, "(a) input weights by input (1–5 times 40)", "input", "")
    bars(middle, np.arange(1, 11), *(np.array(network[name])[:10] for name in ("phi", "phi_sd")))
    label(middle, "(b) scales φ", "input", "")
    output_weights(right, network, "(c) output weights")
    return figure


def figure5(ep: Any, gp: Any, ours: Any) -> Any:
    """Case 3: the jump, by the network, the GP and EPRegressor."""
    figure = blank(7.2, 2.4)
    named = (("(a) NN-EP as in the paper", ep), ("(b) GP", gp), ("EPRegressor()", ours))
    jump = datasets.case3(n=1, random_state=0).effects[0]
    for ax, (title, record) in zip(figure.subplots(1, 3, sharey=True), named, strict=True):
        at, mean, sd = (np.array(record[name]) for name in ("at", "mean", "sd"))
        band(ax, at, mean, sd)
        for part in (at[at < 0], at[at > 0]):
            ax.plot(part[::4], jump(part[::4]), color=INK, linewidth=0.8)
        ax.plot(np.array(record["X"])[:, 0], record["y"], ".", color=INK, markersize=1.8)
        label(ax, title, "x", "")
    return figure


def figure3a(record: Any) -> Any:
    return effects(record["gaussian"], "(a) NN-EP, fixed Gaussian prior")


def figure3b(record: Any) -> Any:
    return effects(record, "(b) NN-EP, Gaussian ARD prior")


def figure3_default(record: Any) -> Any:
    return effects(record, "EPRegressor()")


FIGURES = {
    "figure2": ((("case1", INFINITE), ("case1", PAPER), ("case1", CAVITY)), figure2),
    "figure3a": ((("case2", PAPER),), figure3a),
    "figure3b": ((("case2", PAPER),), figure3b),
    "figure3-default": ((("case2", CAVITY),), figure3_default),
    "figure4": ((("case2", PAPER),), figure4),
    "figure5": ((("case3", PAPER), ("case3", INFINITE), ("case3", CAVITY)), figure5),
}


def blank(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def label(ax: Any, title: str, xlabel: str, ylabel: str) -> None:
    ax.set_title(title, loc="left", fontsize="medium")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.tick_params(length=2, width=0.5)


def band(ax: Any, at: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    """A mean and its 95 % interval."""
    ax.fill_between(at, mean - Z95 * sd, mean + Z95 * sd, color=SHADE, linewidth=0)
    ax.plot(at, mean, color=MAIN, linewidth=1.1)


def bars(ax: Any, at: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    """95 % intervals; those without zero stand out."""
    for chosen, colour in ((np.abs(mean) <= Z95 * sd, MUTED), (np.abs(mean) > Z95 * sd, ACCENT)):
        ax.vlines(at[chosen], (mean - Z95 * sd)[chosen], (mean + Z95 * sd)[chosen], colour, linewidth=1.0)
        ax.plot(at[chosen], mean[chosen], ".", color=colour, markersize=3)
    ax.axhline(0.0, color=MUTED, linewidth=0.5)
    ax.set_xlim(at[0] - 0.7, at[-1] + 0.7)


def output_weights(ax: Any, network: Any, title: str) -> None:
    v, sd = (np.array(network[name])[:-1] for name in ("v", "v_sd"))
    bars(ax, np.arange(len(v)) + 1, v, sd)
    label(ax, title, "unit", "")


def lighter(figure: Any) -> str:
    """The SVG with coordinates in tenths of a point and no metadata."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None})
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r' (?:d|points|x|y|transform)="[^"]*"', _rounded, text)
    text = re.sub(r' id="[A-Za-z.]+\w*_\d+"| transform="rotate\(-0[^"]*"', "", text)
    text = re.sub(r"\n\s*", "\n", text).strip() + "\n"
    for name, style in re.findall(r'<path id="(\w+)" [^<>]*( style="[^"]*")', text):
        text = re.sub(rf'(<use xlink:href="#{name}"[^<>]*?){re.escape(style)}', r"\1", text)
    return re.sub(r"<g([^<>]*)>\n((?:<use [^<>]*/>\n){2,})</g>", _one_style, text)


def _rounded(attribute: re.Match[str]) -> str:
    text = re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda m: f"{float(m.group()):.1f}", attribute.group())
    return text.replace(" \nL ", "L").replace("\n", " ").replace(".0 ", " ")


def _one_style(run: re.Match[str]) -> str:
    """Equal marks with their style written once."""
    styles = re.findall(r' style="[^"]*"', run.group(2))
    if len(set(styles)) != 1 or "style=" in run.group(1):
        return run.group()
    return f"<g{run.group(1)}{styles[0]}>\n{run.group(2).replace(styles[0], '')}</g>"
