"""Order and stages of Algorithm 1 as data: a `Schedule` is a tuple of `Stage`s, each a `Step` repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace

WEIGHT_PRIOR_UPDATES = ("hold", "sweep", "converge")


@dataclass(frozen=True)
class Step:
    """How one sweep moves. Dampings: new = (1 - δ)·old + δ·proposed; δ = 0 holds.

    Attributes
    ----------
    fraction : η of the likelihood sites *(paper, eq. EP_cavity)*; the paper's 0.95.
    damping, damping_output, damping_noise : δ of the sites of w, v and θ.
    block_size : rows between two refreshes of q(w): 1 is the paper's sequential scheme, None parallel.
    infer_noise : update θ, or hold it.
    weight_prior : prior sites of (w, φ): "hold", one inner "sweep", or "converge" (line 1).
    output_prior : run the prior sites of v to convergence after q(v) (line 8), or hold them.
    fraction_weight, damping_weight, fraction_output, damping_output_prior : η and δ of the prior sites.
    active_units : update only the first so many units (the incremental start), None for all.
    """

    fraction: float = 0.95
    damping: float = 0.5
    damping_output: float = 0.2
    damping_noise: float = 0.5
    block_size: int | None = None
    infer_noise: bool = True
    weight_prior: str = "sweep"
    output_prior: bool = True
    fraction_weight: float = 0.9
    damping_weight: float = 0.6
    fraction_output: float = 0.9
    damping_output_prior: float = 0.9
    active_units: int | None = None

    def __post_init__(self) -> None:
        for name in ("fraction", "fraction_weight", "fraction_output"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}.")
        for name in ("damping", "damping_output", "damping_noise", "damping_weight", "damping_output_prior"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}.")
        if self.block_size is not None and self.block_size < 1:
            raise ValueError(f"block_size must be at least 1 (or None for all rows), got {self.block_size}.")
        if self.weight_prior not in WEIGHT_PRIOR_UPDATES:
            raise ValueError(
                f"weight_prior must be one of {WEIGHT_PRIOR_UPDATES}, got {self.weight_prior!r}."
            )


SETTLE_SWEEPS = 3  # with the priors held, see `map_schedule`


@dataclass(frozen=True)
class Stage:
    """A step repeated until its mismatch falls below ``tol`` or ``max_sweeps`` are done.

    ``patience`` sweeps without progress in the mismatch cut all dampings by 0.7 (never below 0.05); a shorter
    patience takes the spikes of units being pruned for oscillation and stalls the fit. ``flat`` > 0 also ends
    it where the running leave-one-out density has moved by less over the last ``flat_sweeps`` sweeps.
    ``retreat`` goes back where that density falls by nats; not for stages that begin far from a fit, whose
    way may lead through worse. ``joint`` sweeps are followed by a `cavity.ep.joint` step; 0 for none.
    """

    name: str
    step: Step
    max_sweeps: int = 200
    tol: float = 1e-4
    patience: int = 60
    flat: float = 0.0
    flat_sweeps: int = 5
    retreat: bool = False
    joint: int = 0


@dataclass(frozen=True)
class Schedule:
    """The stages of a fit, in order; only the last one decides on convergence."""

    stages: tuple[Stage, ...]


def map_schedule(step: Step, max_iter: int, tol: float, flat: float = 0.0) -> Schedule:
    """After a start that knows the function: the noise, then it and the rows, then the priors too."""
    held = replace(step, weight_prior="hold")
    return Schedule(
        (
            Stage("noise alone", replace(held, damping=0.0, damping_output=0.0), 1, 0.0),
            Stage("settle", held, SETTLE_SWEEPS, 1e-2),
            Stage("converge", step, max_iter, tol, flat=flat, retreat=True),
        )
    )


def paper_schedule(
    step: Step | None = None,
    *,
    warm_sweeps: int = 20,
    noise_warm: float = 0.3**2,
    incremental: int | None = None,
    n_hidden: int | None = None,
    scheme: int = 2,
    max_sweeps: int = 300,
    tol: float = 1e-4,
    joint: int = 0,
) -> Schedule:
    """Stages of Section 3.3.1.

    Parameters
    ----------
    step : Step
        Fractions, dampings and block size used throughout.
    warm_sweeps : int
        Sweeps with θ and all priors held (10–20 in the paper).
    incremental : int, optional
        Sweeps between two units in the incremental start; None starts all units at once.
    n_hidden : int
        K, needed for the incremental start.
    scheme : {1, 2}
        Input-prior scheme: 1 runs its EP once and holds the result, 2 adds one inner iteration a sweep.
    joint : int
        Sweeps of the last stage between two joint steps (`cavity.ep.joint`), which the paper does not have.
    """
    step = step if step is not None else Step()
    if scheme not in (1, 2):
        raise ValueError(f"scheme must be 1 or 2, got {scheme}.")
    warm = replace(step, infer_noise=False, weight_prior="hold", output_prior=False)
    stages: list[Stage] = []
    if incremental is not None:
        if n_hidden is None:
            raise ValueError("the incremental start needs n_hidden.")
        for units in range(1, n_hidden + 1):
            stages.append(Stage(f"unit {units}", replace(warm, active_units=units), incremental, 1e-3))
    stages.append(Stage("fit, priors held", warm, warm_sweeps, 1e-3))
    stages.append(Stage("output prior", replace(warm, output_prior=True), warm_sweeps, 1e-3))
    noise_only = replace(warm, output_prior=True, infer_noise=True, damping=0.0, damping_output=0.0)
    stages.append(Stage("noise alone", noise_only, 1, 0.0))
    noise = replace(warm, output_prior=True, infer_noise=True)
    stages.append(Stage("noise", noise, 2 * warm_sweeps, 1e-3))
    stages.append(Stage("input prior", replace(noise, weight_prior="converge"), 1, 0.0))
    last = noise if scheme == 1 else replace(noise, weight_prior="sweep")
    stages.append(Stage("converge", last, max_sweeps, tol, joint=joint))
    return Schedule(tuple(stages))
