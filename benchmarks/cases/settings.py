"""What the paper sets in each case, which methods run, and the small form."""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

SEEDS = 10
PAPER, CAVITY, INFINITE = "ep_paper", "cavity", "gp"
MODULES = {PAPER: "ep_paper", CAVITY: "cavity_regressor"}


class Case(NamedTuple):
    """Rows, and the settings of each method; ``headline`` are the values shown on the command line."""

    n: int
    paper: dict[str, Any]
    infinite: str  # module of the infinite network
    infinite_settings: dict[str, Any]
    headline: tuple[str, ...]


CASE1_NOISE = (2 * log(0.05), 1.5**2)
CASES = {
    # Not standardised: the paper names observations "not being normalized to zero mean" in this case.
    "case1": Case(
        60,
        {
            "activation": "linear+erf",
            "scale_prior": (2 * log(0.1), 1.5**2),
            "noise": CASE1_NOISE,
            "standardise": False,
        },
        "gp_nn_ard",
        {"standardise": False, "noise_prior": CASE1_NOISE},
        ("weaker", "steepest", "n_active"),
    ),
    "case2": Case(
        200,
        {
            "prior": "ard",
            "groups": "input",
            "scale_prior": (2 * log(0.01), 2.5**2),
            "noise": (2 * log(0.05), 2.0**2),
            "weight_var": 0.4**2,
            "output_sd": 0.1,  # "sufficiently small" for them to stay positive; at 0.2 some do not
        },
        "gp_nn_ard",
        {},
        ("mse_f", "input1", "n_active"),
    ),
    "case3": Case(
        100,
        {"scale_prior": (2 * log(0.01), 2.5**2), "noise": (2 * log(0.05), 2.0**2)},
        "gp_nn",
        {},
        ("steepest", "excess", "mse_f"),
    ),
}
# The small form: everything runs, nothing is fitted well.
QUICK: dict[str, dict[str, Any]] = {
    PAPER: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3, "block_size": None},
    CAVITY: {"n_hidden": 3, "n_starts": 2, "max_iter": 3},
    INFINITE: {"restarts": 0},
}
QUICK_ROWS, QUICK_SEEDS = 30, 1
