"""A network with its weights held, which tells how large the function is somewhere, and how steep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cavity.model.activations import Activation, kernel_codes
from cavity.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Guide:
    """f(x) = Σ v_k s_k g_k(w_kᵀx) + v_0 at point estimates, for the columns ``columns`` of a design.

    ``mean`` and ``sd`` are those of f and of the log of its squared slope over the training rows, (2,) each;
    ``floor`` is what the squared slope counts as where the function is flat.
    """

    columns: IntArray
    w: FloatArray
    v: FloatArray
    activations: tuple[Activation, ...]
    activation_scale: FloatArray
    mean: FloatArray
    sd: FloatArray
    floor: float
    bias: bool = True

    @cached_property
    def kinds(self) -> IntArray:
        """Kernel codes of the activations, -1 where there is none."""
        return kernel_codes(self.activations)

    def among(self, columns: IntArray) -> Guide:
        """The same for a design in which the columns have these numbers."""
        return replace(self, columns=np.asarray(columns)[self.columns])
