"""The page about a classifier: its figures, its words, and what it leaves out."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.report import browser
from tests.report.browser import STRAY, WIDE
from tests.report.test_page import check_harmless

from cavity import EPClassifier, plots
from cavity.plots.classes import left_out_classes, readings
from cavity.report import render_report
from cavity.report.classes import belief, confused, judge_given_classes
from cavity.result.classes import ClassRows


@cache
def fitted(classes=2):
    """Two inputs of three matter; labels with a sign that HTML would take for its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    score = X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=80)
    y = np.array(["<no>", "yes", "very"])[np.digitize(score, [0.0, 1.0][: classes - 1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return EPClassifier(n_hidden=2, n_starts=1, max_iter=5).fit(X, y), X, y


@pytest.mark.parametrize("classes", [2, 3])
def test_left_out_rows_are_those_of_the_fit(classes):
    model, _, y = fitted(classes)
    judged = left_out_classes(model)
    assert [judged.classes[c] for c in judged.code] == y.tolist()
    assert judged.log_score == pytest.approx(model.loo_, abs=1e-9)
    assert len(readings(model)) == (1 if classes == 2 else 3)


@pytest.mark.parametrize(("classes", "figures"), [(2, 2 + 1 + 3 + 4 + 3), (3, 2 + 1)])
def test_the_page(classes, figures):
    model, X, y = fitted(classes)
    text = render_report(model, X[:20], y[:20])
    page = check_harmless(text)
    assert text.count("<svg") == figures
    assert "Can the probabilities be believed?" in page.text and "Which class is taken for which" in page.text
    assert "intervals are left out: a class has neither" in page.text
    assert "On the 20 rows given besides" in page.text
    assert ("weights are left out here" in page.text) == (classes == 3)
    assert "R²" not in page.text and "noise sd" not in page.text


def test_words_follow_the_numbers():
    p = np.array([[0.9, 0.1]] * 8 + [[0.2, 0.8]] * 2)
    rows = ClassRows(("a", "b"), np.arange(10), np.ones(10), np.array([0] * 5 + [1] * 5), p)
    assert "take 'b' for 'a': 3 of 5 rows" in confused(rows)
    assert "88 %" in belief(rows) and "70 %" in belief(rows)
    sure = rows._replace(probability=np.where(p > 0.5, 0.999, 0.001))
    assert "surer than it should be" in belief(sure)
    right = rows._replace(code=p.argmax(axis=1))
    assert confused(right) == "No row is taken for another class."


def test_given_rows_of_a_strange_class_are_refused():
    model, X, _ = fitted()
    with pytest.raises(ValueError, match="classes that were not in the training rows"):
        judge_given_classes(model, X[:2], ["yes", "other"])


def test_figures_take_a_model():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    model, _, y = fitted(3)
    ax = plots.confusion(model)
    counts = [float(text.get_text()) for text in ax.texts]
    assert len(counts) == 9 and sum(counts) == len(y)
    assert plots.class_calibration(model).get_xlim()[1] > 1.0
    plt.close("all")


@pytest.mark.skipif(browser.find() is None, reason="no browser found")
@pytest.mark.parametrize("classes", [2, 3])
def test_the_page_fits_a_phone(classes, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render_report(fitted(classes)[0]), encoding="utf-8")
    chromium = browser.Browser(browser.find())
    try:
        assert chromium.open(path.as_uri(), 390) == [] and chromium.messages() == []
        assert chromium.evaluate(WIDE % 390) == [] and chromium.evaluate(STRAY) == []
    finally:
        chromium.close()
