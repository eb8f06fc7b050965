"""The examples of the page on structures: the page shows the files, and the files run."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE, OUTPUTS = (DOCS / "examples" / name for name in ("mixed_units.py", "several_outputs.py"))


@pytest.mark.parametrize("file", [EXAMPLE, OUTPUTS], ids=lambda file: file.stem)
def test_page_shows_the_file(file):
    shown = re.findall(r"```python\n(.*?)```", (DOCS / "structures.md").read_text("utf-8"), re.DOTALL)
    assert file.read_text("utf-8") in shown


def test_the_file_runs_and_bent_units_are_better():
    loo = runpy.run_path(str(EXAMPLE))["loo"]
    assert set(loo) == {"linear", "erf", "linear+erf"}
    assert min(loo["erf"], loo["linear+erf"]) > loo["linear"] + 0.2


def test_several_outputs():
    found = runpy.run_path(str(OUTPUTS))
    mean, sd, y = found["mean"], found["sd"], found["y"]
    assert mean.shape == sd.shape == y.shape
    # squared residuals over their variances average to one, somewhat less on rows that were fitted
    assert np.mean(((y - mean) / sd) ** 2) == pytest.approx(1.0, abs=0.5)
    one = found["model"].estimators_
    assert [model.relevance_.sorted().name[0] for model in one] == ["age", "dose", "weight"]
    assert all(list(model.feature_names_in_) == ["age", "dose", "weight"] for model in one)
