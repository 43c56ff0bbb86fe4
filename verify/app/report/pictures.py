"""The pictures of a report that are more than a map: what is wrong with a plan, and what runs where
(specs/verify.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.memory import Interval, overlap
from assay.verify.app.report.maps import Axis, MapBox, boxes_plot, byte_ticks, shortened
from assay.verify.app.report.model import CheckReport, Refutation, StepLine
from assay.verify.app.report.plot import BOTTOM, LETTER, TOP, PlotWindow, areas, cut, html_escaped, plot

WRONG = {
    "apart": "shared bytes",
    "inside": "outside the pool",
    "aligned": "not aligned",
    "placed": "without a place",
    "life": "needed here, and not live",
}
"""What the marked area of a refutation is."""


def refutation_picture(report: CheckReport, found: Refutation, axis: Axis) -> str:
    """The part of the map in which the plan is wrong: the buffers, the bytes and the positions marked."""
    marked = [report.buffers[i] for i in found.buffers]
    size = next((p.nbytes or 0 for p in report.pools if p.name == found.pool), 0)
    times = _near([t for b in marked for life in b.live for t in life], *found.positions)
    places = _near([x for b in marked for x in (b.offset or 0, (b.offset or 0) + b.nbytes)], found.low, found.high)
    x_room, y_room = (max(1, (max(v) - min(v)) // 6) for v in (times, places))
    low = min(places) - y_room
    w = PlotWindow(
        max(axis.start, min(times) - x_room), min(max(axis.stop, found.positions[1]), max(times) + x_room),
        low if min(places) < 0 else max(0, low), max(places) + y_room, 320,
    )  # fmt: skip
    inside, over = [], []
    for b in report.buffers:
        offset = b.offset or 0
        near = b.pool == found.pool and b.nbytes and b.offset is not None and offset < w.y1 and offset + b.nbytes > w.y0
        if near and b.number not in found.buffers and overlap(b.live, ((w.x0, w.x1),)):
            inside.append(f'<path class="{b.kind} faded" d="{areas(b.live, offset, offset + b.nbytes)}"/>')
    for b, order in zip(marked, ("first", "second"), strict=False):
        offset = b.offset or 0
        title = f"<title>{html_escaped(b.name)}, {b.nbytes:,} bytes at offset {offset:,}</title>"
        inside.append(
            f'<path class="{b.kind} {order}" data-buffer="{b.number}"'
            f' d="{areas(b.live, offset, offset + b.nbytes)}">{title}</path>'
        )
    start, stop = found.positions
    bad_low, bad_high = found.low, found.high
    if found.claim == "inside":
        bad_low, bad_high = (max(bad_low, size), bad_high) if bad_low >= 0 else (bad_low, min(bad_high, 0))
    inside.append(f'<path class="shared" d="{areas([found.positions], bad_low, max(bad_high, bad_low + 1))}"/>')
    left, right = w.x(start), w.x(stop)
    over.append(f'<rect class="when" x="{left}" y="{TOP}" width="{round(right - left, 2)}" height="{w.inner[1]}"/>')
    for b in marked:
        over.append(_label(b.name, (b.live or (found.positions,))[0], b.offset or 0, b.nbytes, w, found))
    words = f"{WRONG.get(found.claim, found.claim)}: {report.steps_at(found.positions)}"
    over.append(f'<text class="bad-text" x="{min(left + 4, 990 - len(words) * LETTER)}" y="{TOP + 14}">{words}</text>')
    if w.y0 <= size <= w.y1:
        inside.append(f'<path class="size" d="M{w.x0} {size}H{w.x1}"/>')
        over.append(f'<text class="size-text" x="980" y="{w.y(size) - 5}" text-anchor="end">end of the pool</text>')
    return plot(
        "".join(inside), w, about=found.sentence, x_ticks=axis.ticks(w.x0, w.x1), x_title=axis.title,
        y_ticks=byte_ticks(w.y0, w.y1, 5), over="".join(over), kind="refuted",
    )  # fmt: skip


def _near(points: Iterable[int], low: int, high: int) -> list[int]:
    """Points as far as they are not so far away from a range that it could not be seen beside them."""
    reach = 12 * max(1, high - low)
    return [low, high, *(min(max(p, low - reach), high + reach) for p in points)]


def _label(name: str, life: Interval, offset: int, nbytes: int, w: PlotWindow, found: Refutation) -> str:
    """The name of a marked buffer, in a part of it that is not marked too where there is one."""
    bottom, top = max(offset, w.y0), min(offset + nbytes, w.y1)
    above, below = top - found.high, found.low - bottom
    at = (
        (found.high + above / 2)
        if above >= below and above > 0
        else (bottom + below / 2 if below > 0 else (bottom + top) / 2)
    )
    start = max(life[0], w.x0)
    x = w.x(start) + 6
    most = max(8, int((w.x(min(life[1], w.x1)) - x) / LETTER))
    return (
        f'<text class="name" style="font-weight:600" x="{x}" y="{round(w.y(at) + 4, 2)}">{shortened(name, most)}</text>'
    )


# --- devices ------------------------------------------------------------------------------------------------------

LANE = 30


def lanes(report: CheckReport, axis: Axis) -> str:
    """Which step runs on which device: a lane for each device, and one for each depth of choices between steps."""
    devices = list(dict.fromkeys(s.device for s in report.steps if not s.arms))
    arms = list(_arms(report.steps))
    depth = max((level for level, _, _ in arms), default=-1) + 1
    rows = len(devices) + depth
    w = PlotWindow(axis.start, max(axis.stop, axis.start + 1), 0, 10 * max(rows, 1), TOP + BOTTOM + LANE * max(rows, 1))
    lane = {d: 10 * (rows - 1 - i) for i, d in enumerate(devices)}
    starts = [*(s.position for s in report.steps), report.positions]
    boxes = [_lane_box(s, lane[s.device] + 1, starts[s.number + 1]) for s in report.steps if not s.arms]
    for level, step, run in arms:
        low, (first, last) = 10 * (depth - 1 - level), step.arms[run]
        words = f"{'if' if run == 0 else 'unless'} {step.kernel.removeprefix('if ')}"
        kind = "input" if run == 0 else "scratch"
        boxes.append(
            MapBox(words, kind, f"{words}: steps {first} to {last - 1}", low + 2, 6, ((starts[first], starts[last]),))
        )
    labels = [(lane[d] + 5, _short(d or "any device")) for d in devices]
    labels += [
        (10 * (depth - 1 - level) + 5, "choice" if depth == 1 else f"choice {level + 1}") for level in range(depth)
    ]
    about = f"which of {len(report.steps)} steps runs on which of {len(devices)} devices"
    return boxes_plot(boxes, w, axis, about, labels, "lanes")


def _short(label: str) -> str:
    return label if len(label) <= 10 else label[:9] + "…"


def _lane_box(step: StepLine, low: int, end: int) -> MapBox:
    at = f" at {step.span}" if step.span else ""
    title = f"step {step.number}: {cut(step.kernel)}{cut(at)}\non {step.device or 'any device'}"
    return MapBox(step.kernel, "area", title, low, 8, ((step.position, end),), link=f"#s{step.number}")


def _arms(steps: Sequence[StepLine]) -> Iterable[tuple[int, StepLine, int]]:
    """Every run of steps of every choice, with the number of choices around it."""
    ends: list[int] = []
    for step in steps:
        while ends and ends[-1] <= step.number:
            ends.pop()
        if step.arms:
            yield len(ends), step, 0
            yield len(ends), step, 1
            ends.append(step.arms[1][1])
