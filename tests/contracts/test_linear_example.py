"""The example of docs/linear.md: the page shows the file, and the file finds what it should."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "sparse_linear.py"


def test_page_shows_the_file():
    shown = re.findall(r"```python\n(.*?)```", (DOCS / "linear.md").read_text("utf-8"), re.DOTALL)
    assert EXAMPLE.read_text("utf-8") in shown


def test_the_example_finds_its_inputs(capsys):
    found = runpy.run_path(str(EXAMPLE))
    inclusion, true = found["model"].inclusion_, found["true"]
    assert set(inclusion.argsort()[-10:]) == set(true)
    assert f"x{true[0]}: P = 1.00" in capsys.readouterr().out
