"""The methods: where they are, what they need, and how much of each set they are given.

All get the first three splits of a set, one of a large one; slow methods fewer, or a part of many rows. Their
rows say so, and methods are compared on the splits that they share. All splits of all sets would take days of
two cores; `make bench-accuracy` has our own results on all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CAVITY = "cavity"
CPU_LIMIT = 240.0  # seconds of a task; what takes longer becomes a row that says so


class Peer(NamedTuple):
    """A module of `benchmarks.methods`, for numbers and, under ``classes``, for classes.

    ``splits`` are those of a set with less than 2000 rows, ``large_splits`` of a larger one, ``class_splits``
    at most those of a set of classes; ``most_train`` rows are used of each training part, None for all of
    them. The module rests on the files ``shared``; ``packages`` are those whose versions matter.
    """

    module: str | None
    classes: str | None = None
    both: bool = False  # one module that takes classes=True
    splits: int = 3
    large_splits: int = 1
    class_splits: int = 3
    most_train: int | None = None
    shared: tuple[str, ...] = ("gaussian",)
    packages: tuple[str, ...] = ()

    def module_for(self, classes: bool) -> tuple[str, dict[str, Any]] | None:
        """Module and its settings for numbers or classes, None where the method is for the other."""
        if not classes:
            return None if self.module is None else (self.module, {})
        if self.both and self.module is not None:
            return self.module, {"classes": True}
        return None if self.classes is None else (self.classes, {})

    def splits_of(self, large: bool, classes: bool) -> int:
        """How many splits of a set it is given."""
        some = self.large_splits if large else self.splits
        return min(some, self.class_splits) if classes else some

    def rows_of(self, n_rows: int) -> int | None:
        """Training rows that are used of a set with so many, None for all; a tenth is held out."""
        return self.most_train if self.most_train is not None and 0.9 * n_rows > self.most_train else None


class Selector(NamedTuple):
    """A module of `benchmarks.methods` that says which inputs are relevant; otherwise as `Peer`."""

    module: str
    settings: dict[str, Any] = {}
    splits: int = 3
    shared: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


WITH_SPREAD = ("gaussian", "classes", "residuals")
PEERS = {
    CAVITY: Peer("cavity_regressor", "cavity_classifier", shared=()),
    "bayesian_ridge": Peer("bayesian_ridge"),
    "ard_regression": Peer("ard_regression"),
    "logistic_cv": Peer(None, "logistic_cv", shared=("classes",)),
    "gp_ard": Peer("gp_ard", most_train=1000),
    "gp_classifier": Peer(None, "gp_classifier", shared=("classes",)),
    "mlp": Peer("mlp", both=True, shared=WITH_SPREAD),
    "lightgbm": Peer("light_gbm", both=True, shared=WITH_SPREAD, packages=("lightgbm",)),
    "ngboost": Peer("ng_boost", both=True, shared=WITH_SPREAD, packages=("ngboost",)),
    "deep_ensemble": Peer("deep_ensemble", both=True, shared=WITH_SPREAD, packages=("torch",)),
    "laplace_torch": Peer(
        "laplace_net",
        both=True,
        class_splits=1,
        shared=("gaussian", "classes"),
        packages=("laplace-torch", "torch"),
    ),
    "pymc_bart": Peer("bart", both=True, class_splits=1, shared=("classes",), packages=("pymc-bart", "pymc")),
    # Minutes a fit on some hundred rows: shown, not ranked.
    "ebm": Peer("ebm", both=True, splits=1, large_splits=0, shared=WITH_SPREAD, packages=("interpret-core",)),
}

SPIKE = "cavity_spike_and_slab"
SELECTORS = {
    CAVITY: Selector("select_cavity", shared=("cavity_regressor",)),
    SPIKE: Selector("select_cavity", {"prior": "spike-and-slab"}, shared=("cavity_regressor",)),
    "gp_ard": Selector("select_gp", shared=("gp_ard", "gaussian")),
    "lassonet": Selector("select_lassonet", splits=1, packages=("lassonet", "torch")),
    "ebm": Selector("select_ebm", splits=1, shared=("ebm", *WITH_SPREAD), packages=("interpret-core",)),
    "permuted_forest": Selector("select_permutation", shared=("mlp", *WITH_SPREAD)),
    "permuted_mlp": Selector("select_permutation", {"of": "mlp"}, shared=("mlp", *WITH_SPREAD)),
}
