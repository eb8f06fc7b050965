"""The clock of a fit."""

from cavity.ep import countdown
from cavity.ep.countdown import Countdown


def test_what_remains_and_how_it_is_shared(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(countdown.time, "perf_counter", lambda: now[0])
    clock = Countdown(8.0, began=100.0)
    now[0] = 102.0
    assert clock.left == 6.0 and not clock.over
    assert clock.share(2).seconds == 3.0
    now[0] = 108.0
    assert clock.left == 0.0 and clock.over and clock.share(2).seconds == 0.0
    now[0] = 110.0
    assert clock.left == -2.0 and clock.over


def test_without_a_limit_it_is_never_over():
    clock = Countdown(None, began=-1e9)
    assert clock.left is None and not clock.over and clock.share(3).seconds is None
