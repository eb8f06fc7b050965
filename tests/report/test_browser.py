"""The page in a real browser: nothing sticks out, nothing is fetched, text is large enough to read."""

import pytest
from tests.plots.models import fit, mixture, table
from tests.report import browser
from tests.report.browser import STRAY, WIDE

from cavity.report import write_report

if browser.find() is None:
    pytest.skip(f"no browser found under any of the names {browser.NAMES}", allow_module_level=True)

NAMES = ["a_name_without_any_place_to_break_it_" * 3, "<script>document.title='gone'</script>", "$\\alpha$"]
WIDTHS = [1280, 390]

SMALLEST = """Math.min(...[...document.querySelectorAll('figure svg text')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a || 99))"""


@pytest.fixture(scope="module")
def chromium():
    browser_ = browser.Browser(browser.find())
    yield browser_
    browser_.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    pd = pytest.importorskip("pandas", reason="named columns come as a data frame")
    X, y = table(60, 3, seed=1)
    y[7] += 500.0
    model = fit(3, pd.DataFrame(X, columns=NAMES), y, prior="ard", max_iter=10)
    folder = tmp_path_factory.mktemp("pages")
    return {
        "names": write_report(model, folder / "names.html", title="<b>" + "W" * 200),
        "mixture": write_report(mixture(), folder / "mixture.html"),
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["names", "mixture"])
def test_the_page_fits_and_fetches_nothing(chromium, pages, name, width):
    asked = chromium.open(pages[name].as_uri(), width)
    assert asked == []
    assert chromium.messages() == []
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    assert chromium.evaluate(WIDE % width) == []
    assert chromium.evaluate(STRAY) == []
    assert chromium.evaluate(SMALLEST) > 7.0
    assert chromium.evaluate("document.title") != "gone"
    assert chromium.evaluate("document.querySelectorAll('figure svg').length") == 13


def test_the_page_follows_the_dark_scheme(chromium, pages):
    look = "[['body', 'backgroundColor'], ['svg text', 'fill']].map(([where, what]) =>"
    look += " getComputedStyle(document.querySelector(where))[what])"
    chromium.open(pages["mixture"].as_uri(), 1280)
    light = chromium.evaluate(look)
    chromium.open(pages["mixture"].as_uri(), 1280, dark=True)
    dark = chromium.evaluate(look)
    assert light[0] != dark[0]
    assert light[1] != dark[1], "the ink of the figures turns with the page"


def test_the_check_sees_what_a_page_asks_for(chromium, tmp_path):
    page = tmp_path / "asks.html"
    page.write_text('<img src="missing.png"><div style="width: 3000px">wide</div>')
    assert len(chromium.open(page.as_uri(), 390)) == 1
    assert chromium.evaluate("document.documentElement.scrollWidth") > 390
    assert len(chromium.evaluate(WIDE.replace("main *", "div") % 390)) == 1
