"""The numbers of the paper's Table 1, for the sets that are public.

Columns: log predictive density (mean, sd, 1 % percentile), squared error (mean, sd, 99 % percentile), CPU
time relative to NN-EP-LA. Its folds are its own, and so are its rows of Kin40k.
"""

from __future__ import annotations

from typing import NamedTuple

EP_LA, EP_ARD, MC, GP, GP_ARD = "ep_la", "ep_ard", "nn_mc", "gp", "gp_ard"
EP_UNITS, EP_ANEW, EP_MAP, CAVITY = "ep_units", "ep_anew", "ep_map", "cavity"  # not in the paper's table


class Numbers(NamedTuple):
    """A row of the table."""

    lpd: float
    lpd_sd: float
    lpd_p01: float
    se: float
    se_sd: float
    se_p99: float
    cpu: float


PAPER = {
    "housing": {
        EP_LA: Numbers(-0.44, 1.64, -7.55, 0.15, 0.45, 2.42, 1.0),
        EP_ARD: Numbers(-0.50, 1.66, -6.31, 0.17, 0.49, 1.60, 1.0),
        MC: Numbers(-0.08, 1.17, -4.54, 0.11, 0.50, 1.18, 110.5),
        GP: Numbers(-0.29, 2.35, -7.57, 0.13, 0.53, 1.98, 0.3),
        GP_ARD: Numbers(-0.20, 2.00, -10.71, 0.10, 0.37, 1.53, 1.0),
    },
    "crime": {
        EP_LA: Numbers(-0.83, 0.89, -4.64, 0.31, 0.55, 2.60, 1.0),
        EP_ARD: Numbers(-0.84, 0.89, -4.81, 0.31, 0.55, 2.75, 0.2),
        MC: Numbers(-0.80, 0.93, -4.81, 0.29, 0.53, 2.60, 19.8),
        GP: Numbers(-0.81, 0.91, -4.80, 0.30, 0.54, 2.69, 0.2),
        GP_ARD: Numbers(-0.81, 1.01, -5.49, 0.30, 0.55, 2.75, 4.4),
    },
    "kin40k": {
        EP_LA: Numbers(-0.59, 0.89, -4.27, 0.19, 0.29, 1.38, 1.0),
        EP_ARD: Numbers(0.27, 1.19, -4.63, 0.03, 0.08, 0.37, 0.9),
        MC: Numbers(0.49, 1.51, -5.37, 0.02, 0.07, 0.26, 48.7),
        GP: Numbers(-1.15, 0.72, -4.18, 0.58, 0.83, 4.06, 0.5),
        GP_ARD: Numbers(0.64, 1.11, -3.90, 0.02, 0.05, 0.24, 32.3),
    },
}
