"""The only loop: run a schedule's sweeps, stop, time, interrupt, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.evidence import log_evidence
from cavity.ep.joint import CAUTION, joint_step
from cavity.ep.posterior import RowMap
from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.state import EPState
from cavity.ep.sweep import SweepInfo, sweep
from cavity.model.data import TrainingData
from cavity.model.draw_in import DrawIn
from cavity.model.spec import ModelSpec
from cavity.numerics.threads import one_thread


class Status(Enum):
    """How a fit ended; the value is the sentence the user reads."""

    CONVERGED = "Converged: every tilted moment agrees with its marginal."
    SETTLED = "Predictions have settled: their density no longer changes, though some moments still move."
    MAX_SWEEPS = "Not converged: the sweeps ran out. The last state is kept; allow more (max_iter)."
    OSCILLATING = (
        "Not converged: the moments keep oscillating although the damping was cut. The last state is kept; "
        "lower the fraction or try another start."
    )
    TIME_LIMIT = "Not converged: the time limit was reached. The last state is kept and can be resumed."
    INTERRUPTED = "Interrupted: the state of the last finished sweep is kept and can be resumed."


class Record(NamedTuple):
    """One line of the history.

    ``loo`` is the running mean of log Ẑ_i; ``log_evidence`` that of the last sweep at which it was
    computed: the first and each tenth, or every one where asked for. Callbacks of a fit with several starts
    see in ``part`` which of how many it is, and in ``view`` whether inputs are as they are (1, 2) or drawn in
    (2, 2) where there are both.
    """

    stage: str
    sweep: int
    loo: float
    log_evidence: float
    mismatch: float
    log_noise_var: float
    skipped: int
    shortened: int
    damping: float
    seconds: float
    part: tuple[int, int] | None = None
    view: tuple[int, int] | None = None


class Solution(NamedTuple):
    """The last state, how it ended, and what happened on the way; ``spec`` may have fewer units if pruned.

    Predictions rest on q to the power 1/``temperature`` (`cavity.ep.temper`). With ``drawn`` the network was
    fitted to inputs drawn in, and sees all rows so.
    """

    spec: ModelSpec
    state: EPState
    status: Status
    history: tuple[Record, ...]
    step: Step
    mismatch: float
    temperature: float = 1.0
    drawn: DrawIn | None = None

    @property
    def converged(self) -> bool:
        """True where the last stage reached its tolerance."""
        return self.status is Status.CONVERGED

    def sees(self, data: TrainingData) -> TrainingData:
        """The rows as this network sees them."""
        return data if self.drawn is None else data._replace(X=self.drawn(data.X))


EVIDENCE_EVERY = 10  # sweeps between two evaluations of log Z_EP for the history
DAMPING_CUT = 0.7
DAMPING_FLOOR = 0.05
FALL, MOST_FALLS = 3.0, 6  # see `_StageRunner`


def _slower(step: Step, factor: float) -> Step:
    """All likelihood and input-prior dampings multiplied by a factor, at most down to the floor."""

    def cut(d: float) -> float:
        return 0.0 if d == 0.0 else min(d, max(d * factor, DAMPING_FLOOR))

    return replace(
        step,
        damping=cut(step.damping),
        damping_output=cut(step.damping_output),
        damping_noise=cut(step.damping_noise),
        damping_weight=cut(step.damping_weight),
    )


def solve(
    spec: ModelSpec,
    data: TrainingData,
    state: EPState,
    schedule: Schedule,
    *,
    n_threads: int = 1,
    time_limit: float | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
    track_evidence: bool = False,
) -> Solution:
    """Run the stages; always returns the state of a finished sweep, whatever happened.

    Parameters
    ----------
    state : EPState
        From `cavity.ep.starts`, or of an earlier solution to resume.
    n_threads : int
        Threads over row blocks; the numbers do not depend on it.
    time_limit : float, optional
        Seconds of wall time; checked between sweeps.
    callback : callable, optional
        Called as callback(record, state) after each sweep; returning True stops the fit.
    track_evidence : bool
        Compute log Z_EP after each sweep (about half a sweep more) instead of each tenth.
    """
    history: list[Record] = []
    started = time.perf_counter()
    status = Status.MAX_SWEEPS
    gap = np.inf
    evidence = np.nan  # the first sweep sets it
    step = schedule.stages[-1].step
    pool: AbstractContextManager[Any] = ThreadPoolExecutor(n_threads) if n_threads > 1 else nullcontext()
    with one_thread(), pool as executor:
        row_map: RowMap = executor.map if executor is not None else map
        try:
            for stage in schedule.stages:
                last = stage is schedule.stages[-1]
                runner, caution = _StageRunner(stage), CAUTION
                while not runner.finished:
                    if time_limit is not None and time.perf_counter() - started > time_limit:
                        return Solution(spec, state, Status.TIME_LIMIT, tuple(history), runner.step, gap)
                    before = state
                    state, info = sweep(spec, data, before, runner.step, row_map)
                    gap, step = info.mismatch, runner.step
                    if track_evidence or len(history) % EVIDENCE_EVERY == 0:
                        evidence = log_evidence(spec, data, state, step, row_map)
                    history.append(_record(stage, runner, info, evidence, time.perf_counter() - started))
                    state = runner.observe(info, before, state)
                    if stage.joint > 0 and runner.sweeps % stage.joint == 0 and not runner.finished:
                        state, caution = joint_step(spec, data, state, runner.step, caution, row_map)
                    if callback is not None and callback(history[-1], state):
                        return Solution(spec, state, Status.INTERRUPTED, tuple(history), step, gap)
                if last:
                    status = runner.status
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    return Solution(spec, state, status, tuple(history), step, gap)


def _record(stage: Stage, runner: _StageRunner, info: SweepInfo, evidence: float, seconds: float) -> Record:
    return Record(
        stage.name,
        runner.sweeps + 1,
        info.log_z,
        evidence,
        info.mismatch,
        info.log_noise_var,
        info.skipped,
        info.shortened,
        runner.step.damping,
        seconds,
    )


class _StageRunner:
    """Counts the sweeps of a stage, watches its mismatch, and cuts the damping when it stalls.

    Where the stage may retreat and the leave-one-out density falls by three nats a row, EP has left the
    region that it can follow: it goes on from the best state it has seen, with half the step. Smaller falls
    are often for the better: an overfitted start flatters itself, and what EP makes of it does not.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage, self.step = stage, stage.step
        self.sweeps, self.best, self.stalled, self.cuts = 0, np.inf, 0, 0
        self.densities: list[float] = []
        self.safe: tuple[float, EPState] | None = None
        self.falls = 0
        self.status = Status.MAX_SWEEPS
        self.finished = stage.max_sweeps < 1

    def observe(self, info: SweepInfo, before: EPState, after: EPState) -> EPState:
        """Take note of a sweep; the state to go on from. Its density is that of the state ``before`` it."""
        self.sweeps += 1
        if np.isfinite(info.log_z) and (self.safe is None or info.log_z > self.safe[0]):
            self.safe = info.log_z, before
        back = self.safe if self.stage.retreat and self.falls < MOST_FALLS else None
        if back is not None and not info.log_z >= back[0] - FALL:
            self.falls += 1
            self.step, self.stalled, self.best = _slower(self.step, 0.5), 0, np.inf
            self.densities.clear()
            self.finished = self.sweeps >= self.stage.max_sweeps
            return back[1]
        self._judge(info)
        return after

    def _judge(self, info: SweepInfo) -> None:
        """Decide whether the stage ends, or goes on more slowly."""
        if info.mismatch <= self.stage.tol:
            self.status, self.finished = Status.CONVERGED, True
            return
        self.densities.append(info.log_z)
        recent = self.densities[-self.stage.flat_sweeps - 1 :]
        if len(recent) > self.stage.flat_sweeps and max(recent) - min(recent) < self.stage.flat:
            self.status, self.finished = Status.SETTLED, True
            return
        if info.mismatch < 0.98 * self.best:
            self.best, self.stalled = min(self.best, info.mismatch), 0
        else:
            self.stalled += 1
        if self.stalled >= self.stage.patience:
            self.step, self.stalled, self.cuts = _slower(self.step, DAMPING_CUT), 0, self.cuts + 1
            self.best = info.mismatch
        if self.sweeps >= self.stage.max_sweeps:
            self.finished = True
            self.status = Status.OSCILLATING if self.cuts >= 2 else Status.MAX_SWEEPS
