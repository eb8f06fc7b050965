"""Hand a fit to ArviZ: draws, pointwise log likelihood, data, and the leave-one-out densities.

ArviZ 0.x keeps an ``InferenceData``, ArviZ 1.x an xarray ``DataTree``; what is installed decides. The draws
are independent draws from q, so convergence diagnostics of chains say nothing about the approximation.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.ep.guide import NAMES
from cavity.ep.noise import prior as noise_prior
from cavity.result.draws import Draws, draw, functions, log_noise_vars, share_draws
from cavity.result.mixture import MixturePosterior
from cavity.types import FloatArray, IntArray

ATTRS = {
    "inference_library": "cavity",
    "note": (
        "Independent draws from an expectation propagation approximation; chains are arbitrary. Weights and "
        "scales are those of standardised data; log_likelihood and y are in the units of y. Units that a "
        "component of a mixture does not have are zero, and some components may see inputs drawn in."
    ),
}


def import_arviz() -> Any:
    """The arviz module, or an `ImportError` with the line that installs it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 0.23 announces its successor on import
            import arviz
    except ImportError:
        raise ImportError('ArviZ is not installed: pip install "cavity[arviz]"') from None
    return arviz


def _before_one(az: Any) -> bool:
    """Whether this is ArviZ 0.x; 1.x answers to the old names too, with a pointer to its migration guide."""
    return int(str(az.__version__).split(".", maxsplit=1)[0]) < 1


def fitted_rows(posterior: MixturePosterior) -> IntArray:
    """The user's rows that were fitted, those of positive weight."""
    return np.flatnonzero(posterior.components[0].prepared.row_of >= 0)


def to_arviz(
    posterior: MixturePosterior,
    names: Sequence[str],
    n_draws: int = 1000,
    n_chains: int = 4,
    seed: Any = 0,
) -> Any:
    """Groups posterior, log_likelihood, observed_data and constant_data; rows as the user gave them."""
    if n_draws < 1 or n_chains < 1:
        raise ValueError(f"n_draws and n_chains must be at least 1, got {n_draws} and {n_chains}.")
    az = import_arviz()
    rng = np.random.default_rng(seed)
    prepared = posterior.components[0].prepared
    scaling, data = prepared.scaling, prepared.data
    rows = fitted_rows(posterior)
    source = prepared.row_of[rows]
    drawn, log_likelihood = _draw_all(posterior, n_chains * n_draws, rng)
    K = drawn.w.shape[1]

    def chains(a: FloatArray) -> FloatArray:
        return a.reshape(n_chains, n_draws, *a.shape[1:])

    groups = {
        "posterior": {
            "input_weights": chains(drawn.w),
            "output_weights": chains(drawn.v[:, :K]),
            "output_bias": chains(drawn.v[:, -1]),
            "log_noise_var": chains(drawn.log_noise_var),
            "log_prior_var": chains(drawn.log_prior_var),
        },
        "log_likelihood": {"y": chains(log_likelihood[:, source])},
        "observed_data": {"y": scaling.y_mean + scaling.y_scale * data.y[source]},
        "constant_data": {
            "X": scaling.restored(data.X[source]),
            "loo_i": posterior.loo_log_density[source],
        },
    }
    pairs = posterior.main.spec.pairs
    if len(pairs):
        groups["posterior"]["product_weights"] = chains(drawn.v[:, K:-1])
    if drawn.noise_slopes is not None:
        d = len(scaling.x_mean)
        groups["posterior"]["noise_slopes"] = chains(drawn.noise_slopes[:, :d])
        if drawn.noise_slopes.shape[1] > d:
            groups["posterior"]["noise_function_slopes"] = chains(drawn.noise_slopes[:, d:])
    inputs = [str(n) for n in names]
    weights = [*inputs, "bias"] if scaling.bias else inputs
    coords = {
        "unit": np.arange(K),
        "weight": weights,
        "input": inputs,
        "product": [f"{a}·{b}" for a, b in pairs],
        "feature": list(NAMES),
        "scale": np.arange(drawn.log_prior_var.shape[1]),
        "row": rows,
    }
    dims = {
        "input_weights": ["unit", "weight"],
        "output_weights": ["unit"],
        "product_weights": ["product"],
        "noise_slopes": ["input"],
        "noise_function_slopes": ["feature"],
        "log_prior_var": ["scale"],
        "y": ["row"],
        "X": ["row", "input"],
        "loo_i": ["row"],
    }
    if _before_one(az):
        return az.from_dict(**groups, coords=coords, dims=dims, attrs=ATTRS)
    return az.from_dict(groups, coords=coords, dims=dims, attrs={"/": ATTRS})


def _draw_all(
    posterior: MixturePosterior, n_draws: int, rng: np.random.Generator
) -> tuple[Draws, FloatArray]:
    """Draws of a mixture, units padded with zeros, and log p(y_i | draw) of each distinct row."""
    prepared = posterior.components[0].prepared
    data = prepared.data
    component_of = share_draws(posterior.weights, n_draws, rng)
    K = max(c.spec.n_hidden for c in posterior.components)
    slopes = max(
        len(noise_prior(c.spec).mean) - 1 if c.spec.noise.varies else 0 for c in posterior.components
    )
    out = Draws(
        np.zeros((n_draws, K, data.X.shape[1])),
        np.zeros((n_draws, K + len(posterior.main.spec.pairs) + 1)),
        np.empty(n_draws),
        np.empty((n_draws, posterior.main.spec.n_groups)),
        np.zeros((n_draws, slopes)) if slopes else None,
    )
    log_likelihood = np.empty((n_draws, data.n_rows))
    for m, component in enumerate(posterior.components):
        mine = np.flatnonzero(component_of == m)
        if not len(mine):
            continue
        drawn, units = draw(component, len(mine), rng), component.spec.n_hidden
        out.w[mine, :units], out.v[mine, :units] = drawn.w, drawn.v[:, :units]
        out.v[mine, K:] = drawn.v[:, units:]
        out.log_noise_var[mine], out.log_prior_var[mine] = drawn.log_noise_var, drawn.log_prior_var
        if out.noise_slopes is not None and drawn.noise_slopes is not None:
            out.noise_slopes[mine, : drawn.noise_slopes.shape[1]] = drawn.noise_slopes
        f = functions(component.spec, drawn, component.data.X)
        log_var = log_noise_vars(component.spec, drawn, component.data.X)
        density = component.spec.likelihood.log_density(data.y, f, log_var, data.row_var)
        log_likelihood[mine] = density - np.log(prepared.scaling.y_scale)
    return out, log_likelihood


def elpd_loo(posterior: MixturePosterior) -> Any:
    """The leave-one-out densities as what ``az.loo`` returns, for ``az.compare``.

    They come from the cavities, not from importance sampling: there is no Pareto k. ``p_loo`` is the sum of
    log p(y_i | y) - log p(y_i | y_-i). Every fitted row counts once, whatever its weight.
    """
    az = import_arviz()
    import xarray as xr

    prepared = posterior.components[0].prepared
    scaling, data = prepared.scaling, prepared.data
    rows = fitted_rows(posterior)
    source = prepared.row_of[rows]
    loo = posterior.loo_log_density[source]
    X = scaling.restored(data.X)
    y = scaling.y_mean + scaling.y_scale * data.y
    inside = posterior.log_density(X, y, data.row_var * scaling.y_scale**2)[source]
    pointwise = xr.DataArray(loo, dims=["row"], coords={"row": rows}, name="loo_i")
    elpd, se = float(loo.sum()), float(np.sqrt(len(loo) * np.var(loo)))
    p = float(inside.sum() - loo.sum())
    if _before_one(az):
        from arviz.stats.stats_utils import ELPDData

        index = ["elpd_loo", "se", "p_loo", "n_samples", "n_data_points", "warning", "loo_i", "scale"]
        return ELPDData([elpd, se, p, 0, len(loo), False, pointwise, "log"], index)
    return az.ELPDDataLOO(
        elpd=elpd,
        se=se,
        p=p,
        n_samples=0,
        n_data_points=len(loo),
        scale="log",
        warning=False,
        good_k=None,
        elpd_i=pointwise,
        pareto_k=None,
    )
