"""A time limit is for the whole of a fit, however many models it makes."""

import numpy as np
import pytest

from cavity import EPClassifier, EPRegressor, load
from cavity.ep import countdown
from cavity.ep.countdown import Countdown
from cavity.ep.solve import Status
from cavity.estimators import base
from cavity.estimators.choice import Choice
from cavity.model.likelihoods import GaussianLikelihood, OutlierLikelihood, StudentTLikelihood

QUICK = {"n_hidden": 2, "n_starts": 1, "max_iter": 3}
unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


def table(n=40, gross=0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=n)
    y[:gross] += 50.0 * rng.choice([-1.0, 1.0], gross)
    return X, y


@pytest.fixture
def limits(monkeypatch):
    """Time limits of the fits that were made."""
    seen, fit = [], base.fit_members

    def spy(members, *rest):
        seen.append(members[0][1].time_limit)
        return fit(members, *rest)

    monkeypatch.setattr(base, "fit_members", spy)
    return seen


@unconverged
def test_a_list_shares_the_time(limits):
    EPRegressor(**QUICK, likelihood=["gaussian", "student-t"], time_limit=1000.0).fit(*table())
    first, second = limits
    assert first <= 500.0 and second < 1000.0
    assert first + second < 1500.0, "the second has what the first left over"


@unconverged
def test_what_auto_tries_too_has_the_rest_of_the_time(limits):
    EPRegressor(**QUICK, time_limit=1000.0).fit(*table(gross=4))
    first, second = limits
    assert second < first <= 1000.0


@unconverged
def test_classes_share_the_time(limits):
    X, y = table()
    EPClassifier(**QUICK, prior="gaussian", time_limit=900.0).fit(X, np.digitize(y, [-0.5, 0.5]))
    assert len(limits) == 3 and limits[0] <= 300.0 and limits[1] <= 450.0 and limits[2] < 900.0


@unconverged
def test_without_a_limit_there_is_none(limits):
    EPRegressor(**QUICK, likelihood=["gaussian", "student-t"]).fit(*table())
    assert limits == [None, None]


@unconverged
def test_no_time_for_the_others_is_said(tmp_path):
    X, y = table()
    with pytest.warns(UserWarning, match="Not compared.*StudentTLikelihood, OutlierLikelihood") as seen:
        model = EPRegressor(likelihood=["gaussian", "student-t", "outliers"], time_limit=1e-9).fit(X, y)
    assert any(w.filename == __file__ for w in seen)
    assert isinstance(model.likelihood_, GaussianLikelihood) and np.isfinite(model.predict(X)).all()
    assert any("Not compared" in note for note in model.notes_)
    model.save(tmp_path / "m.cavity")
    assert load(tmp_path / "m.cavity").notes_ == model.notes_
    with pytest.warns(UserWarning, match="Not compared.*: OutlierLikelihood"):
        EPRegressor(**QUICK, time_limit=1e-9).fit(*table(gross=4))


class Fit:
    """Stands in for a posterior."""

    def __init__(self, mean_loo, mismatch=0.1, status=Status.CONVERGED):
        solution = type("Solution", (), {"status": status})
        self.components = [type("Component", (), {"solution": solution})]
        self.mean_loo, self.mismatch, self.notes = mean_loo, mismatch, []

    def with_note(self, note):
        self.notes.append(note)
        return self


def chosen(fits, likelihoods, seconds=1.0):
    """The choice among prepared fits; each takes the seconds given with it."""
    now = [0.0]
    clock = Countdown(10.0, began=0.0)

    def fit(likelihood, own):
        assert own.seconds > 0.0
        now[0] += seconds
        return fits[type(likelihood)], None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(countdown.time, "perf_counter", lambda: now[0])
        choice = Choice(fit, clock)
        choice.consider(likelihoods)
    return choice


KINDS = [GaussianLikelihood(), StudentTLikelihood(), OutlierLikelihood()]


def test_the_best_of_those_that_had_time_is_kept():
    fits = {GaussianLikelihood: Fit(-2.0), StudentTLikelihood: Fit(-1.0), OutlierLikelihood: Fit(5.0)}
    assert chosen(fits, KINDS).best()[0] is fits[OutlierLikelihood]
    cut = chosen(fits, KINDS, seconds=6.0)
    assert cut.best()[0] is fits[StudentTLikelihood] and cut.left_out == [OutlierLikelihood()]
    assert fits[StudentTLikelihood].notes == [cut.note()]


def test_a_start_that_was_never_swept_does_not_win():
    fits = {GaussianLikelihood: Fit(-2.0), StudentTLikelihood: Fit(9.0, np.inf, Status.TIME_LIMIT)}
    choice = chosen(fits, KINDS[:2])
    assert choice.best()[0] is fits[GaussianLikelihood] and choice.left_out == [StudentTLikelihood()]
    alone = chosen({GaussianLikelihood: Fit(-2.0, np.inf, Status.TIME_LIMIT)}, KINDS[:1])
    assert len(alone.fits) == 1 and not alone.note()


def test_nothing_is_begun_after_an_interrupt():
    fits = {GaussianLikelihood: Fit(-2.0, 0.1, Status.INTERRUPTED)}
    assert chosen(fits, KINDS).left_out == KINDS[1:]
