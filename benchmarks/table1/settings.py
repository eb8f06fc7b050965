"""Sets, methods and their settings; where a method is too slow, fewer splits, rows, starts or draws."""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

from benchmarks.accuracy import sets as accuracy
from benchmarks.table1.published import CAVITY, EP_ANEW, EP_ARD, EP_LA, EP_MAP, EP_UNITS, GP, GP_ARD, MC

MODULES = {
    EP_LA: "ep_paper",
    EP_ARD: "ep_paper",
    EP_UNITS: "ep_paper",
    EP_ANEW: "ep_paper",
    EP_MAP: "ep_paper",
    MC: "nn_mc",
    GP: "gp_nn",
    GP_ARD: "gp_nn_ard",
    CAVITY: "cavity_regressor",
}
NEEDS = {MC: "numpyro"}  # beyond what cavity needs

# Section 4 of the paper: priors of the log variances of weights and noise, as (mean, variance).
PRIORS: dict[str, Any] = {"scale_prior": (2 * log(0.01), 2.5**2), "noise": (2 * log(0.01), 2.0**2)}
LAPLACE = PRIORS | {"prior": "laplace", "groups": "common"}
# One scale per input, "including the input bias terms".
ARD = PRIORS | {"prior": "ard", "groups": "input", "bias_prior": "group"}
UNITS = ARD | {"incremental": 5}  # the paper's other start (Section 3.3.1): a unit more every few sweeps
ANEW = ARD | {"start": "anew", "output_sd": 0.05, "tol": 0.005}  # chosen on other random rows of Kin40k
MAP = ARD | {"start": "map"}  # the start that its Section 4.4 found to be better and left out


class Plan(NamedTuple):
    """How a method runs on a set: first so many splits, settings, and what is laid over the protocol."""

    n_splits: int
    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}


class Set(NamedTuple):
    """A set as the accuracy benchmark has it, and the plans of the methods; ``title`` heads its table."""

    title: str
    params: dict[str, Any]
    plans: dict[str, Plan]
    quick: dict[str, Any]


def _plans(
    n_splits: int,
    n_hidden: int = 10,
    mc: Plan | None = None,
    gp: Plan | None = None,
    gp_ard: Plan | None = None,
    other_starts: bool = False,
    sweeps: dict[str, int] | None = None,
    map_iter: int | None = None,
) -> dict[str, Plan]:
    """The paper's networks and cavity on all splits, the others as they are given."""
    k = {"n_hidden": n_hidden}
    found = {
        EP_LA: Plan(n_splits, LAPLACE | k),
        EP_ARD: Plan(n_splits, ARD | k | (sweeps or {})),
        EP_UNITS: Plan(n_splits, UNITS | k | (sweeps or {})) if other_starts else None,
        EP_ANEW: Plan(n_splits, ANEW | k | (sweeps or {})) if other_starts else None,
        EP_MAP: Plan(n_splits, MAP | k | ({"map_iter": map_iter} if map_iter else {}))
        if other_starts
        else None,
        MC: None if mc is None else mc._replace(settings=PRIORS | {"n_hidden": n_hidden} | mc.settings),
        GP: gp,
        GP_ARD: gp_ard,
        CAVITY: Plan(n_splits),
    }
    return {method: plan for method, plan in found.items() if plan is not None}


def _set(title: str, name: str, plans: dict[str, Plan], **more: Any) -> Set:
    of = accuracy.SETS[name]
    params = {key: value for key, value in (of.params | more).items() if value is not None}
    return Set(title, params, plans, of.quick | QUICK_ROWS)


QUICK_ROWS = {"most_train": 60, "most_test": 100}
# The small form: everything runs, nothing is fitted well.
QUICK: dict[str, dict[str, Any]] = {
    EP_LA: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3},
    EP_ARD: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3},
    EP_UNITS: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3, "incremental": 1},
    EP_ANEW: {"n_hidden": 3, "warm_sweeps": 2, "max_sweeps": 3, "units_anew": 2},
    EP_MAP: {"n_hidden": 3, "max_sweeps": 3, "map_iter": 5},
    CAVITY: {"n_hidden": 3, "n_starts": 2, "max_iter": 3},
    GP: {"restarts": 0, "max_iter": 5},
    GP_ARD: {"restarts": 0, "max_iter": 5},
    MC: {"n_hidden": 3, "chains": 2, "warmup": 20, "draws": 20, "max_depth": 4},
}

# Of a sampler: 500 draws after 500 left R-hat of f at 1.8 on Housing, so there it gets five times as many.
LONG = {"chains": 4, "warmup": 2500, "draws": 2500, "thin": 5}
FEW = {"chains": 2, "warmup": 500, "draws": 500}
SETS = {
    "housing": _set(
        "Housing",
        "housing",
        _plans(10, mc=Plan(3, LONG), gp=Plan(10), gp_ard=Plan(10), other_starts=True),
    ),
    "crime": _set(
        "Crime, target √y",
        "crime",
        _plans(10, mc=Plan(1, FEW), gp=Plan(10, {"restarts": 1}), gp_ard=Plan(2, {"restarts": 0})),
    ),
    "crime_raw": _set("Crime, target y", "crime", _plans(3, gp=Plan(3, {"restarts": 1})), target=None),
    "kin40k": _set(
        "Kin40k with 92 noise inputs",
        "kin40k",
        _plans(
            1,
            n_hidden=30,
            # 2000 draws left R-hat of the noise at 1.6, and the densities of their halves apart by 0.03.
            mc=Plan(1, {"chains": 1, "warmup": 2000, "draws": 6000, "thin": 12}),
            gp=Plan(1, {"restarts": 0}),
            gp_ard=Plan(1, {"restarts": 0, "max_iter": 200}),
            other_starts=True,
            # At the paper's 0.2 some output weights turn negative in the first sweeps, and their units die.
            sweeps={"max_sweeps": 400, "output_sd": 0.05},
            map_iter=20_000,  # after the 1000 of a start of `EPRegressor` thirty units are far from settled
        ),
    ),
    **{
        name: _set(f"{name.capitalize()} (UCI)", name, _plans(3, mc=Plan(1, FEW), gp=Plan(3), gp_ard=Plan(3)))
        for name in ("concrete", "energy", "yacht")
    },
    "kin8nm": _set(
        "Kin8nm (UCI)",
        "kin8nm",
        _plans(
            1,
            n_hidden=30,
            mc=Plan(1, {"chains": 1, "warmup": 400, "draws": 400}, {"most_train": 2000}),
            gp=Plan(1, {"restarts": 0}, {"most_train": 2000}),
            gp_ard=Plan(1, {"restarts": 0}, {"most_train": 2000}),
        ),
    ),
}
