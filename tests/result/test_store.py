"""Model files: what comes back is what went in, and everything else is refused in a sentence."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from tests.estimators.problems import fitted, rows

import cavity
from cavity import EPRegressor, ModelFileError
from cavity.model.activations import Custom
from cavity.model.priors import LaplacePrior
from cavity.result import store

unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
CASES = [
    {},
    {"prior": "ard", "groups": ("a", "b", "b"), "noise": 0.2},
    {"n_starts": 3},
    {"n": 20, "d": 30, "max_iter": 2, "n_hidden": 2},  # more inputs than rows
    {"prior": LaplacePrior(), "activation": "linear", "n_hidden": 1, "time_limit": 60.0},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cavity"


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, blob in members.items():
            archive.writestr(name, blob)


def edited(path, change, checksum=True):
    """The file with another manifest, its checksum made to match or not."""
    import hashlib

    members = contents(path)
    manifest = json.loads(members[store.MANIFEST])
    change(manifest)
    members[store.MANIFEST] = json.dumps(manifest).encode()
    if checksum:
        members[store.CHECKSUM] = hashlib.sha256(members[store.MANIFEST]).hexdigest().encode()
    rewrite(path, members)


@unconverged
@pytest.mark.parametrize("case", CASES, ids=str)
def test_everything_comes_back_to_the_last_bit(case, path):
    model = fitted(**case)
    model.save(path)
    copy = cavity.load(path)
    X, y = rows(case.get("n", 60), case.get("d", 3))
    assert type(copy) is EPRegressor
    assert copy.get_params() == model.get_params()
    for method, arguments in (("predict_interval", ()), ("log_density", (y,)), ("sample_y", (3,))):
        np.testing.assert_array_equal(
            getattr(copy, method)(X, *arguments), getattr(model, method)(X, *arguments)
        )
    for name in (
        "loo_",
        "log_evidence_",
        "noise_sd_",
        "n_iter_",
        "converged_",
        "status_",
        "history_",
        "notes_",
    ):
        assert repr(getattr(copy, name)) == repr(getattr(model, name))
    np.testing.assert_array_equal(copy.loo_i_, model.loo_i_)
    np.testing.assert_array_equal(copy.relevance_.probability, model.relevance_.probability)
    assert copy.extra_ == {}


def test_names_and_extras_come_back(path):
    pd = pytest.importorskip("pandas")
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b", "naïve £"])
    model = EPRegressor(n_hidden=3, max_iter=40).fit(table, y)
    model.save(path, extra={"table": {"levels": ["x", "y"], "n": 3}})
    copy = cavity.load(path)
    assert list(copy.feature_names_in_) == ["a", "b", "naïve £"]
    assert copy.extra_ == {"table": {"levels": ["x", "y"], "n": 3}}
    copy.save(path)  # extras stay unless others are given
    assert cavity.load(path).extra_ == copy.extra_
    with pytest.raises(ValueError, match="same order"):
        copy.predict(table[["b", "a", "naïve £"]])
    for wrong in ({"f": print}, {"x": float("nan")}, [1]):
        with pytest.raises(TypeError, match="extra must"):
            model.save(path, extra=wrong)


@unconverged
def test_a_loaded_fit_goes_on(path):
    X, y = rows()
    model = EPRegressor(n_hidden=3, max_iter=3).fit(X, y)
    model.save(path)
    ahead = model.set_params(warm_start=True, max_iter=2).fit(X, y)
    loaded = cavity.load(path).set_params(warm_start=True, max_iter=2).fit(X, y)
    assert [r.stage for r in loaded.history_] == ["resume"] * len(ahead.history_)
    np.testing.assert_array_equal(loaded.predict(X), ahead.predict(X))


def test_a_file_is_an_npz_without_pickles_and_always_the_same(path):
    model = fitted()
    model.save(path)
    first = path.read_bytes()
    model.save(path)
    assert path.read_bytes() == first
    with np.load(path, allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if not name.startswith("cavity.")]
    assert arrays and all(a.dtype.kind in "biufU" for a in arrays)
    # the training rows stand in the file once, though the state refers to them too
    X = model.posterior_.main.prepared.data.X
    assert sum(a.size == X.size and np.array_equal(a.ravel(), X.ravel()) for a in arrays) == 1


def test_writing_is_all_or_nothing(path, monkeypatch):
    fitted().save(path)
    before = path.read_bytes()

    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        fitted(prior="ard").save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.999])
def test_a_torn_file_is_refused(path, share):
    fitted().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="model.cavity is damaged, perhaps only partly copied"):
        cavity.load(path)


def test_flipped_bytes_are_refused(path):
    fitted().save(path)
    whole = bytearray(path.read_bytes())
    for place in np.linspace(100, len(whole) - 500, 40).astype(int):
        flipped = whole.copy()
        flipped[place] ^= 0x55
        path.write_bytes(bytes(flipped))
        try:
            loaded = cavity.load(path)
        except ModelFileError:
            continue
        # only names in the archive's own headers are not covered; what was read is what was written
        np.testing.assert_array_equal(loaded.loo_i_, fitted().loo_i_)


def test_files_that_are_no_models(path):
    with pytest.raises(FileNotFoundError):
        cavity.load(path)
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"is empty \(0 bytes\): it was never written to its end"):
        cavity.load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="is not a cavity model: it is no npz archive"):
        cavity.load(path)
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    with pytest.raises(ModelFileError, match="is not a cavity model: it is an archive without cavity.json"):
        cavity.load(path.with_suffix(".npz"))
    rewrite(path, {store.MANIFEST: b'{"format": "recipe"}'})
    with pytest.raises(ModelFileError, match="is not a cavity model"):
        cavity.load(path)
    rewrite(path, {store.MANIFEST: b"{"})
    with pytest.raises(ModelFileError, match="was changed after it was saved"):
        cavity.load(path)


def test_a_newer_file_is_refused(path):
    fitted().save(path)
    edited(path, lambda m: m.update(format_version=99, cavity_version="9.9"))
    with pytest.raises(ModelFileError, match=r"written by a newer cavity \(9.9, format 99\).*upgrade cavity"):
        cavity.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["params"].update(n_hiden=3), "does not describe a EPRegressor of this version"),
        (lambda m: m["fitted"].pop("weights"), "does not describe a EPRegressor of this version"),
        (lambda m: m.update(estimator="Popen"), "holds a Popen, which this version of cavity does not know"),
        (lambda m: m["params"].update(prior={"@is": "Popen", "fields": {"args": "ls"}}), "does not know"),
        (lambda m: m["params"].update(prior={"@call": "os.system"}), "does not know"),
        (lambda m: m["fitted"]["model"]["fields"].update(colour="red"), "does not know"),
        (lambda m: m["arrays"].update(nothing="0"), "was changed after it was saved"),
    ],
)
def test_manifests_that_make_no_sense_are_refused_and_run_nothing(path, change, message):
    fitted().save(path)
    edited(path, change)
    with pytest.raises(ModelFileError, match=message):
        cavity.load(path)


def test_an_edited_file_is_refused(path):
    fitted().save(path)
    edited(path, lambda m: m["params"].update(tol=1.0), checksum=False)
    with pytest.raises(ModelFileError, match="was changed after it was saved: its cavity.json"):
        cavity.load(path)
    fitted().save(path)
    members = contents(path)
    name = next(n for n in members if n.endswith(".npy"))
    array = np.load(io.BytesIO(members[name]))
    buffer = io.BytesIO()
    np.save(buffer, array + 1)
    rewrite(path, {**members, name: buffer.getvalue()})
    with pytest.raises(ModelFileError, match="was changed after it was saved: array"):
        cavity.load(path)
    del members[name]
    rewrite(path, members)
    with pytest.raises(ModelFileError, match="was changed after it was saved: array"):
        cavity.load(path)


class Loud:
    def __reduce__(self):
        return (pytest.fail, ("a file ran code",))


def test_pickles_inside_are_never_opened(path):
    import hashlib

    fitted().save(path)
    members = contents(path)
    manifest = json.loads(members[store.MANIFEST])
    buffer = io.BytesIO()
    np.save(buffer, np.array([Loud()], dtype=object), allow_pickle=True)
    key = next(iter(manifest["arrays"]))
    members[f"{key}.npy"] = buffer.getvalue()
    rewrite(path, members)
    edited(path, lambda m: m["arrays"].update({key: hashlib.sha256(buffer.getvalue()).hexdigest()}))
    with pytest.raises(ModelFileError, match="was changed after it was saved"):
        cavity.load(path)
    path.write_bytes(pickle.dumps(Loud()))
    with pytest.raises(ModelFileError, match="no npz archive"):
        cavity.load(path)


def soft(h):
    return h / (1.0 + np.abs(h))


@unconverged
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"activation": Custom(soft)}, "cannot save activation: .*never code, and Custom is neither"),
        ({"random_state": np.random.RandomState(0)}, "cannot save random_state"),
    ],
)
def test_code_cannot_be_saved(path, params, message):
    X, y = rows(10)
    model = EPRegressor(n_hidden=1, max_iter=1, time_limit=1e-3, **params).fit(X, y)
    with pytest.raises(TypeError, match=message):
        model.save(path)
    assert not path.exists()


@unconverged
def test_a_progress_function_is_left_behind(path):
    X, y = rows(20)
    EPRegressor(n_hidden=1, max_iter=2, verbose=lambda record, state: None).fit(X, y).save(path)
    assert cavity.load(path).verbose == 0


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(ValueError, match="not fitted yet"):
        EPRegressor().save(path)
