"""Every pair of a prior, a likelihood and an activation fits without a warning, or is refused with a reason.

The full product is `benchmarks/structures/combinations.py`; here each prior meets each activation once, and
the likelihoods take turns so that each meets every prior and every activation.
"""

import numpy as np
import pytest
from benchmarks.structures.combinations import attempt

from cavity.model.activations import ACTIVATIONS
from cavity.model.likelihoods import LIKELIHOODS
from cavity.model.priors import PRIORS

TURNS = [
    (prior, list(LIKELIHOODS)[(i + j) % len(LIKELIHOODS)], activation)
    for i, prior in enumerate(PRIORS)
    for j, activation in enumerate(ACTIVATIONS)
]


def test_the_turns_cover_every_pair():
    for a, b, names in ((0, 1, (PRIORS, LIKELIHOODS)), (1, 2, (LIKELIHOODS, ACTIVATIONS))):
        assert {(turn[a], turn[b]) for turn in TURNS} == {(x, y) for x in names[0] for y in names[1]}


@pytest.mark.parametrize(
    ("prior", "likelihood", "activation"),
    [
        pytest.param(*turn, id="+".join(turn), marks=[pytest.mark.slow] if "poisson" in turn else [])
        for turn in TURNS
    ],
)
def test_combination(prior, likelihood, activation):
    found = attempt(prior, likelihood, activation)
    assert found["outcome"] in ("fitted", "refused"), found
    if found["outcome"] == "fitted":
        assert np.isfinite([found["loo"], found["mismatch"]]).all()
    else:
        assert len(found["why"]) > 20
