"""What EPClassifier answers for two classes and for more, and that the answers agree with each other."""

import pickle
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

import cavity
from cavity import EPClassifier

unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


@cache
def rows(n=150, classes=2, seed=0):
    """Two inputs of three matter: a curved border for two classes, three sectors for three."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if classes == 2:
        p = ndtr(2.0 * (X[:, 0] ** 2 - 1.0 + 0.5 * X[:, 1]))
        y = np.where(rng.random(n) < p, "yes", "no")
    else:
        angle = np.arctan2(X[:, 1], X[:, 0]) + 0.3 * rng.normal(size=n)
        y = np.array(["a", "b", "c"])[np.floor(3.0 * (angle % (2.0 * np.pi)) / (2.0 * np.pi)).astype(int)]
    return X, y


@cache
def fitted(classes=2, **params):
    """A fitted classifier; do not change it."""
    return EPClassifier(**{"n_hidden": 4, "n_starts": 1, "max_iter": 40, **params}).fit(
        *rows(classes=classes)
    )


both = pytest.mark.parametrize("classes", [2, 3])


@both
def test_predictions_agree_with_each_other(classes):
    model, (X, y) = fitted(classes), rows(classes=classes)
    p = model.predict_proba(X)
    assert p.shape == (len(y), classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    code = np.searchsorted(model.classes_, y)
    np.testing.assert_allclose(model.log_density(X, y), np.log(p[np.arange(len(y)), code]))
    decision = model.decision_function(X)
    if classes == 2:
        np.testing.assert_allclose(ndtr(decision), p[:, 1], atol=1e-12)
    else:
        np.testing.assert_array_equal(decision.argmax(axis=1), p.argmax(axis=1))


@both
def test_it_learns_what_a_straight_border_cannot(classes):
    model, (X, y) = fitted(classes), rows(400, classes, seed=9)
    assert model.score(X, y) > 0.75
    shares = np.unique(y, return_counts=True)[1] / len(y)
    assert model.log_density(X, y).mean() > shares @ np.log(shares) + 0.2  # nats over the shares alone


@both
def test_leave_one_out_is_between_the_fit_and_a_guess(classes):
    model, (X, y) = fitted(classes), rows(classes=classes)
    inside = model.log_density(X, y)
    assert model.loo_ == pytest.approx(model.loo_i_.mean())
    assert model.loo_ < inside.mean()
    p = model.loo_proba_
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    code = np.searchsorted(model.classes_, y)
    np.testing.assert_allclose(np.log(p[np.arange(len(y)), code]), model.loo_i_, atol=1e-9)
    held_out = model.log_density(*rows(2000, classes, seed=5)).mean()
    assert abs(model.loo_ - held_out) < 0.1  # a standard error of the 150 rows is 0.05


def test_probabilities_are_calibrated_on_new_rows():
    X, y = rows(4000, seed=5)
    p = fitted().predict_proba(X)[:, 1]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        inside = (p >= low) & (p < high)
        assert abs(np.mean(y[inside] == "yes") - p[inside].mean()) < 0.15


def test_probabilities_lean_to_one_half_far_from_the_data():
    """The posterior of f is averaged over: far out it is wide, and the plug-in probability more extreme."""
    model = fitted()
    far = np.array([[0.0, 0.0, 40.0], [0.0, 0.0, -40.0]])
    latent = model.posterior_.latent(far)
    p = model.predict_proba(far)[:, 1]
    assert (np.abs(p - 0.5) < np.abs(ndtr(latent.mean) - 0.5)).all()


@both
def test_fitted_attributes(classes):
    model = fitted(classes, prior="gaussian")
    networks = 1 if classes == 2 else classes
    assert model.input_weights_.mean.shape == (4 * networks, 3)
    assert model.output_weights_.mean.shape == (5 * networks,)
    assert np.isfinite(model.log_evidence_) and model.log_evidence_ < 0.0
    assert model.n_iter_ == len(model.history_)
    assert model.relevance_.probability[2] < model.relevance_.probability[:2].max()
    assert model.relevance_.effect[2] < 0.5 * model.relevance_.effect[0]
    assert model.status_.endswith(".") and model.notes_ == ()


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), (3, 7), ("b", "a"), (0.0, 2.0)])
def test_any_two_labels_mean_the_same(labels):
    X, y = rows()
    labels = np.array(sorted(labels))
    model = EPClassifier(n_hidden=4, n_starts=1, max_iter=40).fit(X, labels[(y == "yes").astype(int)])
    np.testing.assert_array_equal(model.classes_, labels)
    np.testing.assert_array_equal(model.predict_proba(X), fitted().predict_proba(X))
    assert model.predict(X).dtype == labels.dtype


@unconverged
def test_weights_are_copies_to_the_last_bit():
    X, y = rows(40)
    count = np.random.default_rng(3).integers(0, 4, 40)
    weighted = EPClassifier(n_hidden=2, max_iter=10).fit(X, y, count)
    copies = EPClassifier(n_hidden=2, max_iter=10).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.predict_proba(X), copies.predict_proba(X))
    np.testing.assert_array_equal(np.repeat(weighted.loo_i_, count), copies.loo_i_)


@unconverged
def test_class_weights_are_weights():
    X, y = rows(60)
    quick = {"n_hidden": 2, "max_iter": 10}
    by_class = EPClassifier(class_weight={"yes": 3.0, "no": 1.0}, **quick).fit(X, y)
    by_row = EPClassifier(**quick).fit(X, y, np.where(y == "yes", 3.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    plain = EPClassifier(**quick).fit(X, y)
    assert by_class.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    assert EPClassifier(class_weight="balanced", **quick).fit(X, y).loo_ < 0.0


@both
def test_saved_and_loaded(classes, tmp_path):
    model, (X, _) = fitted(classes), rows(classes=classes)
    path = tmp_path / "model.cavity"
    model.save(path)
    again = cavity.load(path)
    assert isinstance(again, EPClassifier)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.loo_proba_, model.loo_proba_)
    assert (again.loo_, again.log_evidence_, again.status_) == (
        model.loo_,
        model.log_evidence_,
        model.status_,
    )
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.predict_proba(X), model.predict_proba(X))


def test_object_labels_come_back_as_objects(tmp_path):
    X, y = rows()
    model = EPClassifier(n_hidden=4, n_starts=1, max_iter=40).fit(X, y.astype(object))
    model.save(tmp_path / "model.cavity")
    assert cavity.load(tmp_path / "model.cavity").classes_.dtype == object
    assert set(model.predict(X)) == {"yes", "no"}


@both
@unconverged
def test_warm_start_goes_on(classes):
    X, y = rows(60, classes)
    model = EPClassifier(n_hidden=2, max_iter=3, warm_start=True).fit(X, y)
    model.set_params(max_iter=1).fit(X, y)
    assert {r.stage for r in model.history_} == {"resume"}


def test_stacked_starts_answer_like_one():
    model, (X, _) = fitted(n_starts=3), rows()
    assert model.posterior_.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@unconverged
def test_other_fractions_are_close():
    X, y = rows(60)
    exact, other = (
        EPClassifier(n_hidden=2, n_starts=1, max_iter=30, fraction=f).fit(X, y).predict_proba(X)
        for f in (1.0, 0.9)
    )
    np.testing.assert_allclose(other, exact, atol=0.05)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(20), "one class only"),
        (np.linspace(0.0, 1.0, 20), "Unknown label type: continuous"),
        (np.full((20, 2), 1), "1d array"),
    ],
)
def test_targets_that_are_no_classes(y, message):
    with pytest.raises(ValueError, match=message):
        EPClassifier().fit(np.random.default_rng(0).normal(size=(20, 2)), y)


def test_unknown_classes_are_named():
    model, (X, _) = fitted(), rows()
    with pytest.raises(ValueError, match="'maybe'.*not in the training rows"):
        model.log_density(X[:2], ["yes", "maybe"])
