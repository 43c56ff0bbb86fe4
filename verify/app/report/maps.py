"""Memory maps: which bytes of a pool belong to which buffer, over time (specs/verify.md).

x is the execution order, y the bytes of one pool. A buffer is a rectangle for each interval of its life.

    Path("map.svg").write_text(plan_picture(problem, plan))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.semantics.errors import Invalid
from assay.semantics.memory import Interval, Plan, Problem, pressure
from assay.verify.app.report.plot import (
    LEFT,
    LETTER,
    RIGHT,
    STYLE,
    WIDTH,
    PlotWindow,
    areas,
    bytes_text,
    cut,
    html_escaped,
    plot,
    ticks,
)

MAP_HEIGHT, PRESSURE_HEIGHT = 440, 200


@dataclass(frozen=True)
class MapBox:
    """A buffer on a map, or a step in a lane: its name, a class that says its colour, a title of several lines; a name
    of its own in the page and where a click leads, where it has them."""

    name: str
    kind: str
    title: str
    offset: int
    nbytes: int
    live: tuple[Interval, ...]
    ident: str = ""
    link: str = ""


@dataclass(frozen=True)
class Axis:
    """The execution order: positions from `start` to `stop`, what their ticks are called, and where a step begins."""

    start: int
    stop: int
    title: str = "position in execution order"
    steps: Sequence[int] = ()

    def ticks(self, low: int, high: int) -> list[tuple[int, str]]:
        """Positions with their labels: the numbers of steps where steps are known."""
        if not self.steps:
            return [(at, str(at)) for at in ticks(low, high, 10)]
        inside = [i for i, at in enumerate(self.steps) if low <= at <= high]
        if not inside:
            return []
        return [(self.steps[i], str(i)) for i in ticks(inside[0], inside[-1], 10)]


def memory_map(boxes: Iterable[MapBox], nbytes: int, axis: Axis, about: str) -> str:
    """The map of a pool of so many bytes."""
    w = PlotWindow(axis.start, max(axis.stop, axis.start + 1), 0, max(nbytes, 1), MAP_HEIGHT)
    return boxes_plot(boxes, w, axis, about, byte_ticks(w.y0, w.y1, 6), "map")


def boxes_plot(
    boxes: Iterable[MapBox], w: PlotWindow, axis: Axis, about: str, y_ticks: Sequence[tuple[int, str]], kind: str
) -> str:
    """Boxes over time, with names in those that are large enough."""
    shown = [b for b in boxes if b.nbytes and any(a < z for a, z in b.live)]
    return plot(
        "".join(_box(b) for b in shown), w, about=about, x_ticks=axis.ticks(w.x0, w.x1), x_title=axis.title,
        y_ticks=y_ticks, over=f'<g class="names">{"".join(box_names(shown, w))}</g>', kind=kind,
        count=len(shown),
    )  # fmt: skip


def byte_ticks(low: int, high: int, most: int) -> list[tuple[int, str]]:
    """Round numbers of bytes, with their labels."""
    return [(at, bytes_text(at)) for at in ticks(low, high, most)]


def _box(b: MapBox) -> str:
    ident = f' id="{b.ident}"' if b.ident else ""
    path = (
        f'<path{ident} class="{b.kind}"'
        f' d="{areas(b.live, b.offset, b.offset + b.nbytes)}"><title>{html_escaped(b.title, 1000)}</title></path>'
    )
    # not a stop of the tab key: ten thousand of them would be a wall; the tables have the same links
    return f'<a href="{b.link}" tabindex="-1">{path}</a>' if b.link else path


def box_names(boxes: Iterable[MapBox], w: PlotWindow) -> Iterable[str]:
    """The names of the boxes that are large enough for some of theirs."""
    for b in boxes:
        start, stop = max(b.live, key=lambda life: life[1] - life[0])
        left, right, top, bottom = w.x(start), w.x(stop), w.y(b.offset + b.nbytes), w.y(b.offset)
        most = int((right - left - 6) / LETTER)
        if bottom - top >= 13 and most >= 4:
            yield f'<text x="{left + 4}" y="{round((top + bottom) / 2 + 4, 2)}">{shortened(b.name, most)}</text>'


def shortened(name: str, most: int) -> str:
    """A name in so many letters at most; its end is cut."""
    return html_escaped(name if len(name) <= most else name[: most - 1] + "…")


def pressure_plot(changes: Sequence[tuple[int, int]], bound: int, nbytes: int | None, axis: Axis, about: str) -> str:
    """The bytes live over time, below the size of the pool and the most bytes live at once."""
    top = max(bound, nbytes or 0, 1)
    w = PlotWindow(axis.start, max(axis.stop, axis.start + 1), 0, -(-top * 23 // 20), PRESSURE_HEIGHT)
    path = f"M{w.x0} 0"
    for at, live in changes:
        path += f"H{at}V{live}"
    inside = f'<path class="area" d="{path}H{w.x1}V0z"/><path class="bound" d="M{w.x0} {bound}H{w.x1}"/>'
    # above its line, where the line of the pool is not just there
    down = 15 if nbytes is not None and 0 < w.y(bound) - w.y(nbytes) < 20 else -5
    words = f"lower bound {bound:,} bytes: the most live at once"
    over = f'<text class="bound-text" x="{WIDTH - RIGHT - 6}" y="{w.y(bound) + down}" text-anchor="end">{words}</text>'
    if nbytes is not None:
        inside += f'<path class="size" d="M{w.x0} {nbytes}H{w.x1}"/>'
        over += f'<text class="size-text" x="{LEFT + 6}" y="{w.y(nbytes) - 5}">pool size {nbytes:,} bytes</text>'
    return plot(
        inside, w, about=about, x_ticks=axis.ticks(w.x0, w.x1), x_title=axis.title, y_ticks=byte_ticks(0, w.y1, 4),
        over=over, kind="pressure", count=len(changes),
    )  # fmt: skip


# --- a picture that stands alone ----------------------------------------------------------------------------------


def plan_picture(problem: Problem, plan: Plan) -> str:
    """The maps of all pools of a plan that hold something, as the text of one SVG file.

    Invalid: a size or an offset is not a number.
    """
    parts: list[str] = []
    y = 0
    for pool in problem.pools:
        boxes = list(_boxes(problem, plan, pool.name))
        if not boxes:
            continue
        nbytes = _number(plan.sizes.get(pool.name, 0))
        inside = [b for b in problem.buffers if plan.places[b.name].pool == pool.name]
        changes = pressure(inside)
        bound = max((live for _, live in changes), default=0)
        start = min((b.live[0][0] for b in inside if b.live), default=0)
        axis = Axis(start, max((b.live[-1][1] for b in inside if b.live), default=1))
        head = f"pool {pool.name}: {len(boxes)} buffers in {nbytes} bytes, at least {bound}"
        drawn = (
            (memory_map(boxes, nbytes, axis, f"memory map of {head}"), MAP_HEIGHT),
            (pressure_plot(changes, bound, nbytes, axis, f"memory pressure of {head}"), PRESSURE_HEIGHT),
        )
        parts.append(f'<text x="80" y="{y + 18}" style="font-weight:600">{html_escaped(head)}</text>')
        y += 26
        for picture, height in drawn:
            parts.append(picture.replace("<svg ", f'<svg y="{y}" width="{WIDTH}" height="{height}" ', 1))
            y += height + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {max(y, 1)}" width="{WIDTH}"'
        f' height="{max(y, 1)}">'
    )
    paper = '<rect width="100%" height="100%" style="fill:var(--paper)"/>'
    return f"{head}<style>{STYLE}</style>{paper}{''.join(parts)}</svg>\n"


def _boxes(problem: Problem, plan: Plan, pool: str) -> Iterable[MapBox]:
    for b in problem.buffers:
        place = plan.places[b.name]
        if place.pool == pool:
            nbytes, offset = _number(b.nbytes), _number(place.offset)
            title = f"{cut(b.name)}\n{nbytes:,} bytes at offset {offset:,}\nlive in {lives_text(b.live)}"
            if b.producer:
                title += f"\nproduced by {cut(b.producer)}"
            kind = "constant" if b.kind == "constant" else "tensor"
            yield MapBox(b.name, kind, title, offset, nbytes, b.live)


def lives_text(live: Iterable[Interval]) -> str:
    """Positions for people, in the notation of half-open intervals."""
    return " ".join(f"[{a}, {z})" for a, z in live)


def _number(given: object) -> int:
    if not isinstance(given, int):
        raise Invalid(f"a memory map needs numbers, and {given} is none; give its symbols values", label="report.C3")
    return given
