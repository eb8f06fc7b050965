"""What may be wrong with a fit, in sentences, the worst first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.ep.prune import UNUSED, unit_effects
from cavity.ep.solve import Status
from cavity.estimators.base import LARGE_MISMATCH
from cavity.plots.reading import Reading
from cavity.report.facts import SURPRISE, Judgement
from cavity.report.phrases import count, listing, percent, row_list

PROBLEM, CAUTION, NOTE = "problem", "caution", "note"
SURE = 3.0  # sds of a slope from zero


class Worry(NamedTuple):
    """A sentence and how serious it is."""

    level: str
    text: str


def worries(
    model: Any, reading: Reading, judged: Judgement, given: Judgement | None, first_row: int = 0
) -> list[Worry]:
    """What may be wrong with the fit, the worst first."""
    out = [
        *unsettled(reading),
        *_useless(judged),
        *improper(reading, first_row),
        *_miscalibrated(judged, ""),
        *([] if given is None else _miscalibrated(given, " on the given rows")),
        *_outliers(judged, first_row),
        *_set_aside(reading, first_row),
        *_uneven(reading),
        *units(model, reading),
        *(Worry(NOTE, note) for note in reading.prepared.notes),
    ]
    return ranked([*out, *stacked(reading)])


def unsettled(reading: Reading) -> list[Worry]:
    """Fits that stopped before the tolerance: those out of sweeps or time, and those that settled."""
    fits = reading.posterior.components
    out = []
    for settled in (False, True):
        found = [f for f in fits if f.solution.status is not Status.CONVERGED]
        found = [f for f in found if (f.solution.status is Status.SETTLED) == settled]
        if not found:
            continue
        worst = max(found, key=lambda fit: np.nan_to_num(fit.solution.mismatch, nan=np.inf))
        far = not settled and not reading.posterior.mismatch <= LARGE_MISMATCH
        # fits beside the heaviest may have few sweeps on purpose; what ran out of time did not
        light = reading.posterior.main.solution.status in (Status.CONVERGED, Status.SETTLED)
        light = light and {f.solution.status for f in found} <= {Status.MAX_SWEEPS}
        said = worst.solution.status.value
        if len(fits) > 1:
            some = f"{len(found)} of {len(fits)} stacked fits"
            said = f"{some}. {said}" if settled or not light else f"{some} stopped before the heaviest did."
        out.append(
            Worry(
                PROBLEM if far else NOTE if settled or light else CAUTION,
                f"{said} Largest disagreement of a moment with its marginal, in "
                f"sds: {worst.solution.mismatch:.1e}.",
            )
        )
    return out


def _useless(judged: Judgement) -> list[Worry]:
    if judged.r2 <= 0.0 or judged.mean(judged.log_density) < judged.baseline:
        text = (
            "Leave-one-out predictions are no better than the mean and sd of the target: the inputs may "
            "not help."
        )
        return [Worry(PROBLEM, text)]
    return []


def improper(reading: Reading, first_row: int) -> list[Worry]:
    """Rows whose leave-one-out prediction flatters."""
    found = np.any([c.loo.improper for c in reading.posterior.components], axis=0)[reading.engine_rows]
    if not found.any():
        return []
    return [
        Worry(
            CAUTION,
            f"Leave-one-out is optimistic for {count(int(found.sum()), 'row')}, whose influence could be "
            f"removed only in part: {row_list(reading.rows[found], first_row)}.",
        )
    ]


def _miscalibrated(judged: Judgement, where: str) -> list[Worry]:
    off = judged.coverage_is_off()
    if off:
        kind = "too wide" if off > 0 else "too narrow"
        text = f"The 95 % intervals are {kind}{where}: they hold {percent(judged.coverage())} of the rows."
        return [Worry(CAUTION, text)]
    if not judged.calibrated:
        text = (
            f"Predicted and observed distributions differ{where} by more than chance, although the 95 % "
            "intervals hold about the right share of the rows"
            # the figure shows the rows of the fit
            + ("." if where else "; see the figure on calibration.")
        )
        return [Worry(CAUTION, text)]
    return []


def _outliers(judged: Judgement, first_row: int) -> list[Worry]:
    found = judged.outliers
    if not len(found):
        return []
    return [
        Worry(
            CAUTION,
            f"{count(len(found), 'row')} too far from the leave-one-out prediction for chance (well "
            f"calibrated predictions give {SURPRISE:g} such rows in a table of this length): "
            f"{row_list(judged.rows[found], first_row)}. Look for errors in them.",
        )
    ]


def _set_aside(reading: Reading, first_row: int) -> list[Worry]:
    """Rows that robust noise took for outliers."""
    found = reading.posterior.outlier_probability[reading.engine_rows] > 0.5
    if not found.any():
        return []
    return [
        Worry(
            NOTE,
            f"Outliers to the noise model, with a probability above one half: "
            f"{count(int(found.sum()), 'row')} that hardly shaped the fit, "
            f"{row_list(reading.rows[found], first_row)}. Look for errors there.",
        )
    ]


def _uneven(reading: Reading) -> list[Worry]:
    """Inputs that the noise surely depends on."""
    slopes, function = reading.posterior.noise_slopes, reading.posterior.noise_guided
    names = [*map(str, reading.names), "the prediction", "the distance of the prediction from its mean"]
    names.append("the steepness of the function")
    mean, sd = np.append(slopes.mean, function.mean), np.sqrt(np.append(slopes.var, function.var))
    sure = np.flatnonzero(np.abs(mean) > SURE * sd)
    if not len(sure):
        return []
    order = sure[np.argsort(-np.abs(mean[sure]))]
    parts = [f"{names[j]} ({100.0 * np.expm1(0.5 * mean[j]):+.0f} %)" for j in order]
    text = (
        f"The noise is not the same for all rows. Its sd changes with {listing(parts)}, in brackets the "
        "change for one sd of each; the noise sd above is a mean over the rows."
    )
    return [Worry(NOTE, text)]


def units(model: Any, reading: Reading) -> list[Worry]:
    """Hidden units that are idle, pruned, or all in use."""
    main, phrase = reading.component()
    asked = getattr(model, "n_hidden", None)
    now = main.spec.n_hidden
    idle = int(np.sum(unit_effects(main.spec, main.data, main.state) < UNUSED))
    out = []
    if isinstance(asked, int) and asked > now:
        out.append(
            Worry(NOTE, f"{count(asked - now, 'hidden unit')} of {asked} pruned: the data do not use more.")
        )
    if idle:
        out.append(
            Worry(
                NOTE,
                f"{count(idle, 'hidden unit')} of {now} idle{phrase}: fewer would do. This is harmless, "
                "and how the network finds its size.",
            )
        )
    elif now > 1 and len(out) == 0:
        out.append(
            Worry(NOTE, f"All {now} hidden units are in use{phrase}: a larger n_hidden may predict better.")
        )
    return out


def stacked(reading: Reading) -> list[Worry]:
    """Stacking looked at the rows that its leave-one-out score is taken on."""
    if len(reading.posterior.components) == 1:
        return []
    chosen = "The weights of the stacked fits were chosen by leave-one-out"
    if reading.posterior.on_folds:
        chosen += " within each kind of model, and those of the kinds on folds that were fitted again"
    text = (
        f"{chosen}, so the leave-one-out score is a little optimistic; a test set or cross-validation is not."
    )
    return [Worry(NOTE, text)]


def ranked(found: list[Worry]) -> list[Worry]:
    """The worst first."""
    return sorted(found, key=lambda worry: (PROBLEM, CAUTION, NOTE).index(worry.level))
