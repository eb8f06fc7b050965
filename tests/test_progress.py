"""Progress shows itself for long fits on a terminal only, and leaves the terminal as it was."""

import io
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from tests.estimators.problems import rows

from cavity import EPRegressor, progress
from cavity.estimators import base

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """A standard error that calls itself a terminal; a fixture would come too early for pytest's own."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    return sys.stderr


@pytest.fixture(params=["rich", "plain"])
def kind(request, monkeypatch):
    """With rich, and as if it were not installed."""
    if request.param == "rich":
        pytest.importorskip("rich")
    else:
        for name in ("rich", "rich.console", "rich.progress"):
            monkeypatch.setitem(sys.modules, name, None)
    return request.param


def record(stage="converge", sweep=3, part=None, view=None):
    return SimpleNamespace(stage=stage, sweep=sweep, loo=-1.0, mismatch=0.1, part=part, view=view)


FIT = """
import sys
if {without_rich}:
    sys.modules["rich"] = None
import numpy as np
from cavity import EPRegressor, progress
progress.LONG = progress.REFRESH = 0.0
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
model = EPRegressor(n_hidden=3, n_starts=2, max_iter=20)
model.fit(X, np.tanh(X[:, 0]) + 0.1 * rng.normal(size=80))
print("fitted")
"""


def fit_in_a_process(stderr, without_rich=False):
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-c", FIT.format(without_rich=without_rich)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment)


def seen_on_a_terminal(**how):
    """What a person is sent whose terminal is the standard error of a fit; standard output is a pipe."""
    pty = pytest.importorskip("pty", reason="terminals of this kind are Unix's")
    ours, theirs = pty.openpty()
    with fit_in_a_process(theirs, **how) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            text += part
        assert process.stdout.read() == b"fitted\n"
    os.close(ours)
    assert process.returncode == 0
    return text.decode()


def test_a_long_fit_draws_a_bar_on_a_terminal():
    pytest.importorskip("rich")
    text = seen_on_a_terminal()
    assert "━━━" in text
    assert "start 2/2, converge" in text
    assert ", LOO " in text
    assert ", mismatch " in text
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert "Fitting took" in text.split(SHOW)[1]


def test_without_rich_a_line_moves():
    text = seen_on_a_terminal(without_rich=True)
    assert "━" not in text
    assert "\r\x1b[KFitting: start 2/2, converge" in text
    assert "\r\x1b[KFitting took" in text


def test_a_fit_into_a_pipe_is_silent():
    with fit_in_a_process(subprocess.PIPE) as process:
        out, err = process.communicate()
    assert out == b"fitted\n"
    assert b"Fitting" not in err  # the kernels may say that they compile


@pytest.mark.parametrize("stream", [None, io.StringIO(), object()])
def test_auto_is_silent_where_there_is_no_terminal(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    assert type(progress.progress_of("auto")) is progress.Progress


def test_auto_is_silent_where_others_move_things(monkeypatch):
    terminal(monkeypatch)
    with progress.progress_of("auto") as shown:
        assert isinstance(shown, progress.Late)
    assert type(progress.progress_of("auto", callbacks=True)) is progress.Progress
    found = []
    thread = threading.Thread(target=lambda: found.append(progress.progress_of("auto")))
    thread.start()
    thread.join()
    assert type(found[0]) is progress.Progress
    pytest.importorskip("rich")
    with progress.moving("Other work"):
        assert type(progress.progress_of("auto")) is progress.Progress
        assert type(progress.progress_of(1)) is progress.LineProgress
    with progress.progress_of(1) as shown:
        assert type(shown) is progress.Bar


@pytest.mark.parametrize("verbose", [0, False, None, print])
def test_silence_on_request(monkeypatch, verbose):
    terminal(monkeypatch)
    assert type(progress.progress_of(verbose)) is progress.Progress


def test_a_short_job_says_nothing(monkeypatch):
    stream = terminal(monkeypatch)
    with progress.Late(60.0, lambda: progress.moving("Work")) as shown:
        shown.at(0.5, "half")
        shown.finish("Done.")
    assert stream.getvalue() == ""


def test_a_long_job_shows_itself_even_when_it_has_nothing_to_tell(monkeypatch, kind):
    stream = terminal(monkeypatch)
    opened = threading.Event()

    def work():
        try:
            return progress.moving("Work", time.monotonic() - 60.0)
        finally:
            opened.set()

    with progress.Late(0.0, work) as shown:
        assert opened.wait(30.0)
        shown.at(0.5, "half")
        shown.finish("Done.")
    text = stream.getvalue()
    assert "Work took 60." in text
    assert " s. Done.\n" in text
    assert ("━" in text) == (kind == "rich")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.usefixtures("kind")
def test_a_fit_that_breaks_off_leaves_the_terminal_as_it_was(monkeypatch, error):
    def broken(members, data, callback):
        callback(record("settle", 1), None)
        raise error

    monkeypatch.setattr(base, "fit_members", broken)
    out, stream = sys.stdout, terminal(monkeypatch)
    with pytest.raises(error):
        EPRegressor(verbose=1).fit(*rows())
    text = stream.getvalue()
    assert (sys.stdout, sys.stderr) == (out, stream)
    assert text.count(HIDE) == text.count(SHOW)
    assert text.endswith("\x1b[2K") or text.endswith("\r\x1b[K"), "the line is wiped, the traceback has room"


def test_what_is_printed_meanwhile_appears_above_the_bar(monkeypatch):
    pytest.importorskip("rich")
    stream = terminal(monkeypatch)
    with progress.moving("Work") as shown:
        shown.at(0.5, "half")
        print("UserWarning: look here", file=sys.stderr)
        shown.finish("Done.")
    assert "\x1b[2KUserWarning: look here\n" in stream.getvalue()


@pytest.mark.parametrize(
    ("verbose", "told"), [(1, ["settle 1", "converge 1"]), (2, ["settle 1", "settle 2", "converge 1"])]
)
def test_lines_where_there_is_no_terminal(capsys, verbose, told):
    with progress.progress_of(verbose) as shown:
        sweeps = progress.Sweeps(shown, 10)
        for stage, sweep in (("settle", 1), ("settle", 2), ("converge", 1)):
            sweeps(record(stage, sweep))
        shown.finish("Converged.")
    *lines, last = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"Fitting: {what}" for what in told]
    assert last.startswith("Fitting took ")
    assert last.endswith(" s. Converged.")


def test_sweeps_count_the_starts():
    told = []
    shown = SimpleNamespace(at=lambda share, detail: told.append((share, detail)), each_sweep=True)
    sweeps = progress.Sweeps(shown, 12)
    for part in ((1, 3), (2, 3), (3, 3)):
        for stage, count in (("settle", 2), ("converge", 3)):
            for sweep in range(1, count + 1):
                sweeps(record(stage, sweep, part))
    assert [detail.split(",")[0] for _, detail in told] == [
        f"start {m}/3" for m in (1, 2, 3) for _ in range(5)
    ]
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[4] == pytest.approx(0.6 * 5 / 20 / 3)
    assert shares[-1] == pytest.approx(0.6 * (2 + 5 / 20) / 3)
    sweeps(record("polish", 1, (1, 2)))
    assert told[-1][0] == pytest.approx(0.6 + 0.4 * 1 / 20 / 2)


def test_each_view_of_the_inputs_has_half_of_the_way():
    told = []
    shown = SimpleNamespace(at=lambda share, detail: told.append((share, detail)), each_sweep=True)
    sweeps = progress.Sweeps(shown, 12)
    for view in (1, 2):
        for part in ((1, 2), (2, 2)):
            for sweep in range(1, 4):
                sweeps(record("settle", sweep, part, (view, 2)))
        sweeps(record("polish", 1, None, (view, 2)))
    shares, details = zip(*told, strict=True)
    assert list(shares) == sorted(shares)
    assert shares[6] < 0.5 < shares[7] and shares[2] == pytest.approx(0.5 * 0.6 * 3 / 20 / 2)
    assert [detail.startswith("inputs drawn in, ") for detail in details] == [False] * 7 + [True] * 7


def test_starts_in_other_processes_are_announced(capsys):
    X, y = rows()
    EPRegressor(n_hidden=2, n_starts=2, n_jobs=2, tol=9.0, max_iter=2, verbose=1).fit(X, y)
    assert "Fitting: 2 starts in 2 processes" in capsys.readouterr().err
