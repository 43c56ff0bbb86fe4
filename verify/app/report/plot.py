"""Drawing as SVG text: a plot with axes over numbers, and the colours that all pictures share (specs/verify.md).

A plot is an outer `svg` of a fixed width with ticks and texts, and an inner one whose unit is the data's own, so that
what is drawn inside has exact numbers and a zoom is another `viewBox`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1000, 80, 12, 8, 40
LETTER = 6.6
"""The width of a letter in the plots' font of 12 units."""
DENSE = 300
"""From so many shapes on outlines are pale: they would cover what they are around."""


def cut(given: str, most: int = 160) -> str:
    """A text from outside; what is very long is cut in the middle."""
    return given if len(given) <= most else f"{given[: most // 2]}…{given[-(most // 2 - 1) :]}"


def html_escaped(given: str, most: int = 160) -> str:
    """A text from outside for HTML and SVG: cut, escaped, and what cannot be printed replaced."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in cut(given, most)))


@dataclass(frozen=True)
class PlotWindow:
    """The part of the data that a plot shows: x from `x0` to `x1`, y from `y0` to `y1`, at a height in units."""

    x0: int
    x1: int
    y0: int
    y1: int
    height: int

    @property
    def inner(self) -> tuple[int, int]:
        """Width and height of the area inside the axes, in units."""
        return WIDTH - LEFT - RIGHT, self.height - TOP - BOTTOM

    def x(self, at: float) -> float:
        """The horizontal place of a value, in units of the picture."""
        return round(LEFT + (at - self.x0) / (self.x1 - self.x0) * self.inner[0], 2)

    def y(self, at: float) -> float:
        """The vertical place of a value, in units of the picture from the top."""
        return round(TOP + (self.y1 - at) / (self.y1 - self.y0) * self.inner[1], 2)


def bytes_text(count: int) -> str:
    """A round number of bytes for an axis."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} B"


def ticks(low: int, high: int, most: int) -> list[int]:
    """Round numbers in a range, at most so many and one more: multiples of 1, 2 or 5 times a power of ten."""
    least = max(1, (high - low) / most)
    power = 10 ** max(0, len(str(int(least))) - 1)
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= least)
    return list(range(-(-low // step) * step, high + 1, step))


def plot(
    inside: str,
    window: PlotWindow,
    *,
    about: str,
    x_ticks: Sequence[tuple[int, str]],
    x_title: str,
    y_ticks: Sequence[tuple[int, str]],
    over: str = "",
    kind: str = "",
    count: int = 0,
) -> str:
    """A plot. `inside` is in the data's own units, upwards; `over` lies on it, in the units of the outer `svg`.

    `about` says what is shown to whoever cannot see it. `kind` is a class of the outer `svg`, `count` the number of
    shapes.
    """
    w = window
    width, height = w.inner
    marks: list[str] = []
    for at, label in x_ticks:
        x = w.x(at)
        marks.append(
            f'<path d="M{x} {TOP}v{height}"/><text x="{x}" y="{TOP + height + 15}">{html_escaped(label, 30)}</text>'
        )
    x_axis = "".join(marks)
    y_axis = "".join(
        f'<path d="M{LEFT} {w.y(at)}h{width}"/><text x="{LEFT - 6}" y="{w.y(at) + 4}">{html_escaped(label, 30)}</text>'
        for at, label in y_ticks
    )
    kind += " dense" if count > DENSE else ""
    return (
        f'<svg class="plot {kind}" viewBox="0 0 {WIDTH} {w.height}" role="img" aria-label="{html_escaped(about)}"'
        f' data-window="{w.x0} {w.x1} {w.y0} {w.y1}" data-height="{w.height}" data-count="{count}">'
        f'<g class="grid x">{x_axis}</g><g class="grid y">{y_axis}</g>'
        f'<svg class="inner" x="{LEFT}" y="{TOP}" width="{width}" height="{height}" preserveAspectRatio="none"'
        f' viewBox="{w.x0} {-w.y1} {w.x1 - w.x0} {w.y1 - w.y0}"><g transform="scale(1 -1)">{inside}</g></svg>'
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{width}" height="{height}"/>'
        f'<g class="over">{over}</g>'
        f'<text class="title" x="{LEFT + width / 2}" y="{w.height - 6}">{html_escaped(x_title)}</text></svg>'
    )


def areas(live: Iterable[tuple[int, int]], low: int, high: int) -> str:
    """The path of rectangles: intervals of x, from `low` up to `high`."""
    return "".join(f"M{a} {low}h{z - a}v{high - low}h{a - z}z" for a, z in live)


COLOURS = """
--paper:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--panel:#f6f8fa;--link:#0b5cad;--bad:#b3001b;--bad-fill:#ffd7db;
--good:#1a6d35;--tensor:#c3daf7;--tensor-line:#2764ad;--scratch:#fbdcae;--scratch-line:#9a5b00;--input:#c4e6cd;
--input-line:#23723b;--output:#e4d0f2;--output-line:#74389b;--constant:#dfe2e6;--constant-line:#5c6570;
"""
DARK = """
--paper:#0f1318;--ink:#e6eaef;--soft:#a3adb8;--line:#323a44;--panel:#181e25;--link:#7ab8ff;--bad:#ff8a93;--bad-fill:#5a1a22;
--good:#7bd192;--tensor:#1d4270;--tensor-line:#7fb2f0;--scratch:#5a3d0e;--scratch-line:#eab35c;--input:#1c4a2b;
--input-line:#74c98f;--output:#48295f;--output-line:#c99be6;--constant:#3a424c;--constant-line:#a9b3be;
"""

STYLE = f"""
:root{{{COLOURS}color-scheme:light dark}}
@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}
svg{{font:12px system-ui,sans-serif;fill:var(--ink)}}
.grid path{{stroke:var(--line);fill:none}}
.grid text{{fill:var(--soft)}}
.grid.x text,.title{{text-anchor:middle}}
.grid.y text{{text-anchor:end}}
.frame{{fill:none;stroke:var(--soft);pointer-events:none}}
.over{{pointer-events:none}}
.inner path{{vector-effect:non-scaling-stroke;stroke-width:1}}
.tensor{{fill:var(--tensor);stroke:var(--tensor-line)}}
.scratch{{fill:var(--scratch);stroke:var(--scratch-line)}}
.input{{fill:var(--input);stroke:var(--input-line)}}
.output{{fill:var(--output);stroke:var(--output-line)}}
.constant{{fill:var(--constant);stroke:var(--constant-line)}}
.area{{fill:var(--tensor);stroke:var(--tensor-line)}}
.inner .size{{stroke:var(--ink);stroke-width:1.5;stroke-opacity:1}}
.inner .bound{{stroke:var(--bad);stroke-width:1.5;stroke-opacity:1;stroke-dasharray:6 4}}
.size-text,.bound-text{{paint-order:stroke;stroke:var(--paper);stroke-width:4px}}
.bound-text{{fill:var(--bad)}}
.dense .inner path:not(.size,.bound){{stroke-width:.5;stroke-opacity:.4}}
.faded{{opacity:.35}}
.inner .first,.inner .second{{stroke:var(--ink);stroke-width:2}}
.inner .shared{{fill:var(--bad);fill-opacity:.45;stroke:var(--bad);stroke-width:2}}
.when{{fill:var(--bad);fill-opacity:.08;stroke:var(--bad);stroke-dasharray:3 3}}
.bad-text{{fill:var(--bad);font-weight:600;paint-order:stroke;stroke:var(--paper);stroke-width:4px}}
"""
"""The style of every picture, of the page and of a picture that stands alone."""
