"""The example of the page on structures: the page shows the file, and the file runs."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "mixed_units.py"


def test_page_shows_the_file():
    shown = re.findall(r"```python\n(.*?)```", (DOCS / "structures.md").read_text("utf-8"), re.DOTALL)
    assert EXAMPLE.read_text("utf-8") in shown


def test_the_file_runs_and_bent_units_are_better():
    loo = runpy.run_path(str(EXAMPLE))["loo"]
    assert set(loo) == {"linear", "erf", "linear+erf"}
    assert min(loo["erf"], loo["linear+erf"]) > loo["linear"] + 0.2
