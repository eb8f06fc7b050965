"""Draw docs/figures/case2.svg: the effects of Case 2 with 95 % bands, and the relevance of its inputs."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity import EPRegressor, datasets, plots

HERE = Path(__file__).parent


def main() -> None:
    """Fit the paper's additive problem (n = 200) and draw six of its effects beside the relevance ranking."""
    case = datasets.case2(n=200, random_state=0)
    model = EPRegressor(prior="ard", n_hidden=15, n_starts=4, random_state=0)
    model.fit(pd.DataFrame(case.X, columns=[f"x{j + 1}" for j in range(10)]), case.y)
    plt.rcParams.update({"svg.hashsalt": "cavity", "svg.fonttype": "none", "font.size": 7})
    figure, axes = plt.subplots(2, 4, figsize=(9.0, 3.6), layout="constrained")
    inputs = [0, 3, 5, 7, 8, 9]
    rest = case.X.mean(axis=0)
    grid = np.linspace(-np.pi, np.pi, 101)
    for ax, j in zip(axes[:, :3].ravel(), inputs, strict=True):
        plots.effect(model, j, ax=ax)
        truth = case.effects[j](grid)
        low, high = ax.get_ylim()
        at_rest = model.posterior_.latent(rest[None]).mean[0]
        shift = at_rest - case.effects[j](rest[j : j + 1])[0]  # the level is not part of an effect
        ax.plot(grid, truth + shift, color="black", linewidth=0.8, linestyle=":", label="truth")
        ax.set_ylim(min(low, (truth + shift).min()), max(high, (truth + shift).max()))
        ax.set_title(f"effect of x{j + 1}", fontsize=7, loc="left")
    right = figure.add_subplot(axes[0, 3].get_gridspec()[:, 3])
    for ax in axes[:, 3]:
        ax.remove()
    plots.relevance(model, ax=right)
    figure.savefig(HERE / "case2.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
