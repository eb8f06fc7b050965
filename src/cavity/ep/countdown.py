"""The clock of a fit: what remains of its time limit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Countdown:
    """Seconds of wall time from the moment this is made; None for as many as it takes."""

    seconds: float | None
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float | None:
        """Seconds that remain, negative once they are over; None without a limit."""
        return None if self.seconds is None else self.seconds - (time.perf_counter() - self.began)

    @property
    def over(self) -> bool:
        """Whether none remain."""
        left = self.left
        return left is not None and left <= 0.0

    def share(self, jobs: int) -> Countdown:
        """A countdown of its own for the next of so many jobs that have to fit into what remains."""
        left = self.left
        return Countdown(None if left is None else left / jobs)
