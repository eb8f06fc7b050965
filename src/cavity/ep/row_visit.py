"""What a visit of rows takes and gives, shared by the compiled and the NumPy form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cavity.ep.schedule import Step
from cavity.ep.state import RowSites
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian


class HeldPosterior(NamedTuple):
    """What a row sees of the rest of the model: q(v) and q(θ) (variance 0: held).

    Where the noise depends on the inputs, ``noise`` holds the marginals of its rows, (n,).
    """

    v_mean: FloatArray
    v_cov: FloatArray
    noise: Gaussian

    def of_rows(self, rows: slice) -> HeldPosterior:
        """The same for some of the rows only."""
        if np.ndim(self.noise.mean) == 0:
            return self
        return self._replace(noise=Gaussian(self.noise.mean[rows], self.noise.var[rows]))


class RowVisit(NamedTuple):
    """New (damped) sites of the visited rows and their diagnostics.

    log_z : (n,) log Ẑ_i; partition : (n,) Ψ(cavity) - Ψ(q) over h, v and θ;
    mismatch : (n, 3) of h, v, θ; skipped : (n,) sites left alone for an improper cavity;
    nodes : (n,) quadrature nodes used.
    """

    sites: RowSites
    log_z: FloatArray
    partition: FloatArray
    mismatch: FloatArray
    skipped: FloatArray
    nodes: FloatArray

    @staticmethod
    def concatenate(parts: Sequence[RowVisit]) -> RowVisit:
        """Join the visits of consecutive rows."""
        if len(parts) == 1:
            return parts[0]
        s = [p.sites for p in parts]
        return RowVisit(
            RowSites(
                np.concatenate([p.h for p in s], axis=1),
                np.concatenate([p.v_dir for p in s]),
                np.concatenate([p.v_tau for p in s]),
                np.concatenate([p.v_nu for p in s]),
                np.concatenate([p.noise for p in s], axis=1),
            ),
            np.concatenate([p.log_z for p in parts]),
            np.concatenate([p.partition for p in parts]),
            np.concatenate([p.mismatch for p in parts]),
            np.concatenate([p.skipped for p in parts]),
            np.concatenate([p.nodes for p in parts]),
        )


def dampings(spec: ModelSpec, step: Step) -> FloatArray:
    """(δ_h, δ_v, δ_θ) of a step; held parts get zero."""
    output = 0.0 if spec.output.fixed is not None else step.damping_output
    return np.array([step.damping, output, step.damping_noise])
