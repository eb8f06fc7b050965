"""Progress shows itself for long fits on a terminal only."""

import io
from types import SimpleNamespace

import pytest

from cavity import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


RECORD = SimpleNamespace(stage="converge", sweep=3, loo=-1.0, mismatch=0.1, seconds=4.0)


@pytest.mark.parametrize("after", [0.0, 60.0])
def test_a_short_fit_says_nothing(after):
    stream = Terminal()
    report = progress.SweepReporter(1, stream, after=after)
    report(RECORD)
    report.say("done")
    assert ("sweep 3" in stream.getvalue() and "done" in stream.getvalue()) == (after == 0.0)
    assert (stream.getvalue() == "") == (after > 0.0)


def test_auto_looks_at_the_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert progress.reporter("auto") is None
    monkeypatch.setattr("sys.stderr", Terminal())
    shown = progress.reporter("auto")
    assert isinstance(shown, progress.SweepReporter)
    assert shown.moving and shown.quiet_until > 0.0
