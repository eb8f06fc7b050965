"""The page as text: complete, self-contained, harmless whatever the columns are called."""

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.plots.models import fit, fitted, mixture, table

import cavity
from cavity.report import render_report, write_report
from cavity.report.svg import drawing
from cavity.result.relevance import input_blocks, relevance

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{ 7 * 7 }} {% raw %} $x^2$ &lt; </svg><iframe>",
]
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags, attributes, texts, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ").split())


@pytest.fixture(scope="module")
def page_text():
    return render_report(fitted())


def check_harmless(text):
    page = Page(text)
    assert not page.open
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not re.search(r"https?://|//\w", text)
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("href", "xlink:href", "src"):
            assert value.startswith(("#", "data:")), (tag, name, value)
        assert not re.search(r"url\((?!#)", value), (tag, name, value)
        assert "javascript:" not in value
    return page


def test_the_page_is_whole_and_asks_for_nothing(page_text):
    page = check_harmless(page_text)
    assert "default-src 'none'" in page_text
    assert len(page.ids) == len(set(page.ids)), "ids of the figures must not meet"
    referred = set(re.findall(r"(?:href=\"|url\()#([\w-]+)", page_text))
    assert referred <= set(page.ids)
    for words in (
        "How well does it predict?",
        "How sure is it?",
        "What matters?",
        "What should one worry about?",
    ):
        assert words in page.text
    assert {"EPRegressor", "numpy", "n_hidden", "converge"} <= set(page.texts)


def test_the_page_holds_every_figure(page_text):
    labels = re.findall(r'<svg [^>]*role="img" aria-label="([^"]*)"', page_text)
    assert len(labels) == page_text.count("<svg") == 10 + 3
    assert all(labels)
    assert sum("Effect of" in label for label in labels) == 3
    sizes = [len(svg) for svg in re.findall(r"<svg.*?</svg>", page_text, flags=re.DOTALL)]
    assert max(sizes) < 45_000
    assert len(page_text) < 300_000


@pytest.mark.parametrize(("d", "label"), [(1, "Predictions"), (2, "Predicted mean")])
def test_few_inputs_get_a_picture_of_the_predictions(d, label):
    assert f'aria-label="{label}"' in render_report(fitted(d))


def test_names_of_columns_are_harmless():
    pd = pytest.importorskip("pandas", reason="named columns come as a data frame")
    X, y = table(30, 3, seed=1)
    model = fit(2, pd.DataFrame(X, columns=HOSTILE), y, prior="ard", max_iter=8)
    model.target_name_ = "<script>y</script>"
    page = check_harmless(render_report(model, title="<script>title</script>"))
    for name in (*HOSTILE, "<script>y</script>", "<script>title</script>"):
        assert " ".join(name.split()) in page.text
    assert "49" not in page.text.split("What matters?")[1].split("effect")[0]


def test_a_colour_as_a_name_stays_a_name():
    shown = drawing("x", lambda ax: ax.set_xlabel("#0072b2 1.23456"))
    assert ">#0072b2 1.23456</text>" in shown.svg
    assert "var(--ink)" in shown.svg


def test_names_in_any_script_warn_of_no_missing_glyph():
    pd = pytest.importorskip("pandas", reason="named columns come as a data frame")
    X, y = table(25, 2, seed=1)
    model = fit(2, pd.DataFrame(X, columns=["年齢", "🙂 weight"]), y, max_iter=5)
    assert "年齢" in render_report(model)


def test_the_same_model_gives_the_same_page(page_text, tmp_path):
    assert render_report(fitted()) == page_text
    fitted().save(tmp_path / "model.cavity")
    assert render_report(cavity.load(tmp_path / "model.cavity")) == page_text


def test_posteriors_and_mixtures_have_a_page_too():
    single = check_harmless(render_report(fitted().posterior_.main))
    assert "FittedPosterior" in single.texts
    page = check_harmless(render_report(mixture()))
    assert "2 fits stacked" in page.text
    assert "Input weights by input (fit 2 of 2, weight 0.70)" in page.text


def test_given_rows_are_judged_in_the_order_of_the_names():
    pd = pytest.importorskip("pandas", reason="named columns come as a data frame")
    X, y = table(30, 3, seed=1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fit(2, frame, y, max_iter=8)
    with pytest.raises(ValueError, match="feature names should match"):
        render_report(model, frame[["c", "b", "a"]], y)
    new, target = table(40, 3, seed=2)
    page = Page(render_report(model, pd.DataFrame(new, columns=["a", "b", "c"]), target))
    assert "On the 40 rows given besides" in page.text
    with pytest.raises(ValueError, match="both X and y"):
        render_report(model, new)


def test_a_table_of_blocks_can_stand_in_for_that_of_the_inputs():
    table_ = relevance(fitted().posterior_, input_blocks(["x0", "x1", "x2"], ["size", "colour", "colour"]))
    page = Page(render_report(fitted(), relevance=table_))
    assert "colour" in page.texts
    assert "Surely relevant: size" in page.text


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    assert write_report(fitted(), path, title="Première") == path
    assert "Première" in path.read_text(encoding="utf-8")
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("cavity.report.render_report", lambda *_, **__: "new")
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(fitted(), str(path))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_constant_target_and_two_rows_still_have_a_page():
    X, _ = table(12, 2, seed=1)
    with pytest.warns(UserWarning, match="y is constant"):
        constant = fit(2, X, np.full(12, 3.0), max_iter=5)
    assert "y is constant" in check_harmless(render_report(constant)).text
    two = fit(1, X[:2], np.array([1.0, 2.0]), max_iter=5)
    check_harmless(render_report(two))


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_the_extras_the_line_that_installs_them_is_named(missing, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r'pip install "cavity\[report\]"'):
        render_report(fitted())
