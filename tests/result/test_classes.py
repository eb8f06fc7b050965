"""Scores of class probabilities, against sums done by hand."""

import numpy as np
import pytest

from cavity.result.classes import ClassRows


def rows(p, code, weight=None):
    p = np.asarray(p, float)
    p = np.stack([1.0 - p, p], axis=1) if p.ndim == 1 else p
    weight = np.ones(len(p)) if weight is None else np.asarray(weight, float)
    return ClassRows(("no", "yes", "maybe")[: p.shape[1]], np.arange(len(p)), weight, np.asarray(code), p)


def test_scores_of_a_few_rows():
    found = rows([0.9, 0.2, 0.6], [1, 0, 0])
    assert found.accuracy == pytest.approx(2.0 / 3.0)
    assert found.log_score == pytest.approx(np.log([0.9, 0.8, 0.4]).mean())
    assert found.brier == pytest.approx(np.mean([0.01, 0.04, 0.36]))
    assert found.confidence == pytest.approx(np.mean([0.9, 0.8, 0.6]))
    assert found.confusion.tolist() == [[1.0, 1.0], [0.0, 1.0]]
    # each class predicted by its share among the other two rows: yes has none there
    assert found.baseline == -np.inf
    assert rows([0.5] * 4, [0, 0, 1, 1]).baseline == pytest.approx(np.log(1.0 / 3.0))


def test_weights_count_copies():
    once = rows([0.9, 0.9, 0.2, 0.6], [1, 1, 0, 0])
    twice = rows([0.9, 0.2, 0.6], [1, 0, 0], [2.0, 1.0, 1.0])
    for name in ("accuracy", "log_score", "brier", "confidence"):
        assert getattr(twice, name) == pytest.approx(getattr(once, name))
    assert np.array_equal(twice.confusion, once.confusion)
    assert twice.bins()[-1].weight == 2.0


def test_calibration_in_tenths():
    found = rows([0.82, 0.88, 0.31, 1.0], [1, 0, 0, 1]).bins()
    assert [b.weight for b in found] == [1.0, 2.0, 1.0]
    assert found[1].predicted == pytest.approx(0.85) and found[1].observed == 0.5
    # two rows of variances 0.82 · 0.18 and 0.88 · 0.12
    assert found[1].error == pytest.approx(np.sqrt(0.82 * 0.18 + 0.88 * 0.12) / 2.0)
    three = rows([[0.7, 0.2, 0.1], [0.1, 0.75, 0.15]], [0, 2]).bins()
    assert len(three) == 1 and three[0].observed == 0.5  # the likeliest class, and whether it was right


def test_who_is_too_sure():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.0, 1.0, 2000)
    code = (rng.random(2000) < p).astype(int)
    assert rows(p, code).misjudged() == 0
    surer = p**3 / (p**3 + (1.0 - p) ** 3)
    assert rows(surer, code).misjudged() == 1
    assert rows(0.5 + 0.3 * (p - 0.5), code).misjudged() == -1
