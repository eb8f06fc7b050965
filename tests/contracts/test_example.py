"""The prior of the documentation: the page shows the file, and the file works."""

import importlib.util
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.pieces import moderate_cavities
from tests.estimators.problems import rows

from cavity import EPRegressor
from cavity.model.priors import WeightPrior
from cavity.types import Gaussian

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "logistic_prior.py"


@pytest.fixture(scope="module")
def logistic():
    spec = importlib.util.spec_from_file_location("logistic_prior", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LogisticPrior()


def test_page_shows_the_file():
    shown = re.findall(r"```python\n(.*?)```", (DOCS / "priors.md").read_text("utf-8"), re.DOTALL)
    assert EXAMPLE.read_text("utf-8") in shown


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("classification.md", DOCS / "examples" / "classes.py"),
        ("likelihoods.md", DOCS / "examples" / "noises.py"),
        ("likelihoods.md", DOCS.parent / "src" / "cavity" / "model" / "likelihoods" / "poisson.py"),
    ],
)
def test_other_pages_show_their_files(page, file):
    shown = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert file.read_text("utf-8") in shown


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_the_example_of_classes_runs():
    found = runpy.run_path(str(DOCS / "examples" / "classes.py"))
    assert found["probability"].shape == (75, 3) and found["accuracy"] > 0.9
    assert found["confusion"].sum() == 75.0 and abs(found["expected"] - found["right"]) < 0.1


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_the_example_of_noises_runs_and_says_what_the_page_says():
    found = runpy.run_path(str(DOCS / "examples" / "noises.py"))
    same, far, larger, steep = found["loo"].values()
    assert max(same.values()) - min(same.values()) < 0.1
    for scores, best in ((far, "outliers"), (larger, "linear"), (steep, "varying")):
        assert max(scores, key=scores.get) == best and scores[best] > scores["one level"] + 0.2
    assert np.corrcoef(found["rate"], np.exp(found["f"][60:]))[0, 1] > 0.9


def test_it_is_a_density_of_the_stated_variance(logistic):
    assert isinstance(logistic, WeightPrior)
    wide = logistic.conditional_moments(Gaussian(0.0, 1e10), 0.7)
    assert wide.log_z == pytest.approx(-0.5 * np.log(2.0 * np.pi * 1e10), abs=1e-8)
    assert wide.var == pytest.approx(np.exp(0.7), rel=1e-8)


def test_its_moments_shrink(logistic):
    cavity, log_var, fraction = moderate_cavities()
    found = logistic.conditional_moments(cavity, log_var, fraction)
    assert np.all(found.var <= cavity.var) and np.all(np.abs(found.mean) <= np.abs(cavity.mean) + 1e-12)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_it_can_be_used_at_once(logistic):
    X, y = rows(30, 2)
    model = EPRegressor(n_hidden=2, max_iter=2, n_starts=1, prior=logistic).fit(X, y)
    assert model.score(X, y) > 0.8
