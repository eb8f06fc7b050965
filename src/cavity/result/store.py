"""Model files: one npz archive with a JSON manifest, versioned, checked, written whole or not at all.

A file is a zip of ``cavity.json`` (what there is), ``cavity.sha256`` (its checksum) and one ``.npy`` per
distinct array, so `numpy.load` opens it too. Nothing in it is code and reading it runs none: classes are
looked up by name in `cavity.result.codec`, arrays are read without pickle. The checksums find files that
were torn or edited; they do not prove who wrote them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from cavity.result.codec import ARRAY_KINDS, Decoder, Encoder
from cavity.types import FloatArray

FORMAT = "cavity model"
FORMAT_VERSION = 1
MANIFEST, CHECKSUM = "cavity.json", "cavity.sha256"
_STAMP = (1980, 1, 1, 0, 0, 0)  # one date for all: the same model makes the same bytes


class ModelFileError(ValueError):
    """A file that is not, or no longer, a model this version can read; the text is for the user."""


class StoredModel(NamedTuple):
    """What a model file holds: the estimator's class by name, its parameters, what was fitted, and extras."""

    estimator: str
    params: dict[str, Any]
    fitted: dict[str, Any]
    extra: dict[str, Any]


def write_model(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Write a model file under a temporary name beside it, then rename: readers never see half of it."""
    encoder = Encoder()
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "cavity_version": str(getattr(sys.modules.get("cavity"), "__version__", "unknown")),
        "estimator": model.estimator,
        "params": encoder.encode(model.params),
        "fitted": encoder.encode(model.fitted),
        "extra": _checked_extra(model.extra),
    }
    blobs = {key: _npy(array) for key, array in encoder.arrays.items()}
    manifest["arrays"] = {key: hashlib.sha256(blob).hexdigest() for key, blob in blobs.items()}
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":")).encode()
    members = {MANIFEST: text, CHECKSUM: hashlib.sha256(text).hexdigest().encode()}
    members |= {f"{key}.npy": blob for key, blob in blobs.items()}
    with replacing(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in members.items():
            archive.writestr(zipfile.ZipInfo(name, _STAMP), blob)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` when it is complete, and is gone if it never is."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _checked_extra(extra: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict of JSON values, got {type(extra).__name__}.")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(extra, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"extra must hold JSON values only: {error}.") from None
    return copied


def _npy(array: FloatArray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def read_model(path: str | os.PathLike[str]) -> StoredModel:
    """Read a model file, or say in a `ModelFileError` why not."""
    shown = os.fspath(path)
    with open(path, "rb") as file:
        start = file.read(4)
    if not start:
        raise ModelFileError(f"{shown} is empty (0 bytes): it was never written to its end.")
    if not start.startswith(b"PK"):
        raise ModelFileError(f"{shown} is not a cavity model: it is no npz archive.")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(archive, shown)
            arrays = {key: _read_array(archive, key, sha, shown) for key, sha in manifest["arrays"].items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelFileError(f"{shown} is damaged, perhaps only partly copied: {error}.") from None
    try:
        decoder = Decoder(arrays)
        params, fitted = decoder.decode(manifest["params"]), decoder.decode(manifest["fitted"])
        return StoredModel(str(manifest["estimator"]), dict(params), dict(fitted), dict(manifest["extra"]))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise ModelFileError(
            f"{shown} was written by cavity {manifest.get('cavity_version')} and holds something this "
            f"version does not know ({type(error).__name__}: {error}): use that version, or fit again."
        ) from None


def _read_manifest(archive: zipfile.ZipFile, shown: str) -> dict[str, Any]:
    names = set(archive.namelist())
    if MANIFEST not in names:
        raise ModelFileError(f"{shown} is not a cavity model: it is an archive without {MANIFEST}.")
    text = archive.read(MANIFEST)
    try:
        manifest = json.loads(text)
        known = isinstance(manifest, dict) and manifest.get("format") == FORMAT
        version = int(manifest["format_version"]) if known else 0
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelFileError(f"{shown} was changed after it was saved: its {MANIFEST} is broken.") from None
    if not known:
        raise ModelFileError(f"{shown} is not a cavity model: its {MANIFEST} says so.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{shown} was written by a newer cavity ({manifest.get('cavity_version')}, format {version}); "
            f"this one reads formats up to {FORMAT_VERSION}: upgrade cavity."
        )
    stated = archive.read(CHECKSUM).decode("ascii", "replace") if CHECKSUM in names else ""
    if stated != hashlib.sha256(text).hexdigest():
        raise ModelFileError(
            f"{shown} was changed after it was saved: its {MANIFEST} does not match its checksum."
        )
    return manifest


def _read_array(archive: zipfile.ZipFile, key: str, sha: str, shown: str) -> FloatArray:
    """One array whose bytes match the manifest; anything else was torn or edited."""
    try:
        blob = archive.read(f"{key}.npy")
        if hashlib.sha256(blob).hexdigest() != sha:
            raise ValueError("checksum")
        array = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
        if array.dtype.kind not in ARRAY_KINDS:
            raise ValueError("dtype")
    except (KeyError, ValueError, MemoryError):
        raise ModelFileError(f"{shown} was changed after it was saved: array {key} does not match.") from None
    return np.asarray(array)
