"""Fitted pieces as JSON and arrays, and back: nothing but names on the list below is ever built."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from enum import Enum
from typing import Any

import numpy as np

from cavity import types
from cavity.ep import state
from cavity.ep.schedule import Step
from cavity.ep.solve import Record, Solution, Status
from cavity.model import data, draw_in, guide, spec
from cavity.model.activations import ACTIVATIONS
from cavity.model.likelihoods import LIKELIHOODS
from cavity.model.priors import OUTPUT_PRIORS, PRIORS
from cavity.types import FloatArray

#: Tuples and frozen dataclasses that a file may hold; a new piece joins by being in its registry.
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(types.Gaussian, types.Natural),
        *(data.TrainingData, data.Scaling, data.Prepared),
        *(spec.ModelSpec, spec.WeightBlock, spec.Output, spec.Noise, guide.Guide),
        *(state.EPState, state.RowSites, state.PriorSites),
        *(state.Posterior, state.WeightPosterior, state.OutputPosterior, state.Basis, state.LogVariance),
        *(Solution, Record, Step, draw_in.DrawIn),
        *(*(named.family for named in PRIORS.values()), *map(type, OUTPUT_PRIORS.values())),
        *(*LIKELIHOODS.values(), *ACTIVATIONS.values()),
    )
}
ENUMS: dict[str, type[Enum]] = {"Status": Status}
ARRAY_KINDS = "biufU"
SCALARS = {"float64": np.float64, "int64": np.int64, "bool": np.bool_}


def _fields(value: Any) -> list[str]:
    """Names of the fields of a named tuple or a dataclass."""
    if hasattr(value, "_fields"):
        return list(value._fields)
    return [f.name for f in dataclasses.fields(value)]


class Encoder:
    """Turns values into JSON; arrays go to ``arrays``, equal ones once."""

    def __init__(self) -> None:
        self.arrays: dict[str, FloatArray] = {}

    def encode(self, value: Any, where: str = "") -> Any:
        """JSON of a value; a `TypeError` says what cannot be saved, and where it stands."""
        if value is None or isinstance(value, bool | int | str) and not isinstance(value, Enum | np.generic):
            return value
        if isinstance(value, np.generic):
            plain = self.encode(value.item(), where)
            return {"@scalar": [value.dtype.name, plain]} if value.dtype.name in SCALARS else plain
        if isinstance(value, float):
            return value if math.isfinite(value) else {"@float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, Enum) and ENUMS.get(type(value).__name__) is type(value):
            return {"@enum": [type(value).__name__, value.name]}
        name = type(value).__name__
        if CLASSES.get(name) is type(value):
            inner = {
                f: self.encode(getattr(value, f), f"{where}.{f}" if where else f) for f in _fields(value)
            }
            return {"@is": name, "fields": inner}
        if type(value) is tuple:
            return {"@tuple": [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if type(value) is list:
            return [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
        if type(value) is dict and all(isinstance(k, str) and not k.startswith("@") for k in value):
            return {k: self.encode(v, f"{where}.{k}" if where else k) for k, v in value.items()}
        raise TypeError(
            f"cannot save {where or 'this'}: a model file holds numbers and named pieces only, never code, "
            f"and {name} is neither. Use a named piece, or pickle the estimator."
        )

    def _array(self, value: FloatArray, where: str) -> Any:
        if value.dtype.kind not in ARRAY_KINDS:
            raise TypeError(f"cannot save {where}: an array of {value.dtype} is not made of numbers or text.")
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        stored = np.array(value.T if turned else value, order="C", copy=None)
        key = hashlib.sha256(stored.dtype.str.encode() + stored.tobytes()).hexdigest()[:24]
        self.arrays.setdefault(key, stored)
        return {"@array": key, "shape": list(stored.shape), "turned": turned}


class Decoder:
    """Turns JSON back into values; anything that is not on the lists is a `ValueError`."""

    def __init__(self, arrays: dict[str, FloatArray]) -> None:
        self.arrays = arrays

    def decode(self, value: Any) -> Any:
        """The value behind some JSON."""
        if isinstance(value, list):
            return [self.decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        kind = next((k for k in value if k.startswith("@")), None)
        if kind is None:
            return {k: self.decode(v) for k, v in value.items()}
        body = value[kind]
        if kind == "@array":
            array = self.arrays[body].reshape(tuple(int(i) for i in value["shape"]))
            return array.T if value["turned"] else array
        if kind == "@float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body]
        if kind == "@scalar":
            return SCALARS[body[0]](self.decode(body[1]))
        if kind == "@tuple":
            return tuple(self.decode(v) for v in body)
        if kind == "@enum":
            return ENUMS[body[0]][body[1]]
        if kind == "@is":
            return CLASSES[body](**{k: self.decode(v) for k, v in value["fields"].items()})
        raise ValueError(f"unknown mark {kind!r}")


def same(a: Any, b: Any) -> bool:
    """Whether two values would be saved alike, array contents included."""
    return bool(Encoder().encode(a) == Encoder().encode(b))
