"""A figure as inline SVG: text stays text, colours follow the page, ids differ between figures."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cavity.plots.style import ACCENT, INK, MAIN, MUTED, RULE

COLOURS = {INK: "--ink", MUTED: "--muted", RULE: "--rule", MAIN: "--main", ACCENT: "--accent"}
STYLE = {
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "text.usetex": False,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "path.simplify_threshold": 0.3,
}


class Drawing(NamedTuple):
    """A figure for the page: its heading, what it shows in a sentence, and the SVG."""

    title: str
    caption: str
    svg: Any


def drawing(
    name: str,
    draw: Callable[[Any], Any],
    caption: str = "",
    size: tuple[float, float] = (3.6, 2.7),
    font_size: float = 8.5,
    title: str | None = None,
) -> Drawing:
    """Draw on a fresh axis; the axis title becomes the heading unless one is given."""
    return drawings([(name, draw, caption, title)], size, font_size)[0]


def drawings(
    plans: Sequence[tuple[str, Callable[[Any], Any], str, str | None]],
    size: tuple[float, float],
    font_size: float = 8.5,
    together: Callable[[list[Any]], Any] | None = None,
) -> list[Drawing]:
    """Several figures of one size; ``together`` sees all axes before they are written."""
    from markupsafe import Markup

    style, figure_class = _matplotlib()
    out = []
    with style.context(["default", {**STYLE, "font.size": font_size}]), warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        axes = []
        for _, draw, _, _ in plans:
            ax = figure_class(figsize=size, layout="constrained").add_subplot()
            draw(ax)
            axes.append(ax)
        if together is not None:
            together(axes)
        for ax, (name, _, caption, title) in zip(axes, plans, strict=True):
            heading = title if title is not None else ax.get_title(loc="left").replace(r"\$", "$")
            ax.set_title("", loc="left")
            out.append(Drawing(heading, caption, Markup(_inline(ax.figure, name, heading))))
    return out


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Reports need jinja2 and matplotlib: pip install "cavity[report]"') from error
    return style, Figure


def _inline(figure: Any, name: str, label: str) -> str:
    """The SVG element alone, as wide as its place, with the page's colours."""
    from markupsafe import escape
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style type=\"text/css\">.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    # Only tags are touched: what stands between them may be a user's text.
    text = re.sub(r"<[^<>]*>", _lighter, text)
    view_box = re.search(r'viewBox="[^"]*"', text)
    assert view_box is not None
    opening = f'<svg {view_box.group()} role="img" aria-label="{escape(label)}">'
    text = opening + text[text.index(">", text.index("<svg")) + 1 :]
    text = re.sub(r"\n\s*", "\n", text).strip()
    return re.sub(r"<g([^<>]*)>\n((?:<use [^<>]*/>\n){2,})</g>", _one_style, text)


def _lighter(tag: re.Match[str]) -> str:
    """A tag with the page's colours, hundredths of a point, and no id that nothing refers to."""
    text = tag.group()
    text = re.sub(r" id=\"[A-Za-z.]+[A-Za-z0-9]*_\d+(?:_\d+)*\"", "", text)
    text = re.sub(r" transform=\"rotate\(-?0 [^\"]*\)\"", "", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    text = text.replace(" \nL ", "L").replace(" \n", " ").replace(" xlink:href=", " href=")
    for colour, variable in COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    return text


def _one_style(run: re.Match[str]) -> str:
    """A run of equal marks with their style written once."""
    styles = set(re.findall(r' style="([^"]*)"/>', run.group(2)))
    if len(styles) != 1 or "style=" in run.group(1):
        return run.group()
    style = styles.pop()
    return f'<g{run.group(1)} style="{style}">\n' + run.group(2).replace(f' style="{style}"', "") + "</g>"
