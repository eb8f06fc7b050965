"""One fit for each of several likelihoods, all within one time limit; the best by leave-one-out is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cavity.ep.countdown import Countdown
from cavity.ep.solve import Status
from cavity.model.likelihoods import Likelihood
from cavity.model.spec import ModelSpec
from cavity.result.mixture import MixturePosterior

LEFT_OUT = "Not compared"
Fitted = tuple[MixturePosterior, ModelSpec]


class Choice:
    """Fits to choose from; ``left_out`` are likelihoods for which a fit that was cut short had no time."""

    def __init__(self, fit: Callable[[Likelihood, Countdown], Fitted], clock: Countdown) -> None:
        self.fit, self.clock = fit, clock
        self.fits: list[Fitted] = []
        self.left_out: list[Likelihood] = []

    def consider(self, likelihoods: list[Likelihood]) -> None:
        """Fit each; what remains of the time is shared evenly among those still to come.

        The first fit always counts, whatever it came to. A later one must have finished a sweep: where EP has
        not yet changed what a start overfitted, its leave-one-out density flatters it.
        """
        for m, likelihood in enumerate(likelihoods):
            if self.fits and (self.clock.over or self.interrupted):
                self.left_out.append(likelihood)
                continue
            found = self.fit(likelihood, self.clock.share(len(likelihoods) - m))
            if self.fits and not np.isfinite(found[0].mismatch):
                self.left_out.append(likelihood)
            else:
                self.fits.append(found)

    @property
    def interrupted(self) -> bool:
        """Whether the last fit was stopped from outside."""
        return any(c.solution.status is Status.INTERRUPTED for c in self.fits[-1][0].components)

    def best(self) -> Fitted:
        """The fit of the largest leave-one-out density; its notes name the likelihoods left out."""
        posterior, spec = self.fits[int(np.argmax([found.mean_loo for found, _ in self.fits]))]
        note = self.note()
        return (posterior.with_note(note), spec) if note else (posterior, spec)

    def note(self) -> str:
        """A sentence on the likelihoods left out; empty where there are none."""
        if not self.left_out:
            return ""
        names = ", ".join(type(likelihood).__name__ for likelihood in self.left_out)
        return f"{LEFT_OUT}, as the fit was cut short: {names}. Allow more time (time_limit) to compare."
