"""A report as one HTML page that needs nothing beside it (specs/verify.md).

Everything stands in the page as text, pictures and tables; the scripts only add hovering, zooming, colours,
sorting and finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from assay.semantics.accounting import aligned
from assay.verify.app.report.frame import html_page
from assay.verify.app.report.graph import program_section
from assay.verify.app.report.judged import STYLES, judged_section
from assay.verify.app.report.judged_tensors import backend_columns
from assay.verify.app.report.maps import Axis, MapBox, lives_text, memory_map, pressure_plot
from assay.verify.app.report.model import Buffer, CheckReport, PoolLine, StageLine, StepLine
from assay.verify.app.report.pictures import lanes, refutation_picture
from assay.verify.app.report.plot import cut, html_escaped

MARK = "<!doctype html>\n<!-- written by assay check --report -->"
"""How every page begins, so that one can be told from somebody else's file."""

MOST = 20_000
"""How many buffers and how many steps a page names one by one; what a browser can still show."""

LARGE = 2000
"""From so many rows on a table is closed at first: a browser lays it out when it is opened."""

SCRIPTS = ("page.js", "map.js", "graph.js", "judged.js", "tables.js")
"""Parts of one function, in this order. The page says all it has to say without them."""

FEW = 12
"""How many buffers of a step are named in the table of steps."""


def page(report: CheckReport) -> str:
    """The text of the page."""
    shown = _shown(report)
    axis = Axis(0, report.positions, "step, in execution order", [s.position for s in report.steps])
    body = [
        *_head(report),
        *_refuted(report, axis),
        *_stages(report.stages),
        *program_section(report.graph),
        *backend_columns([line.verdict for line in report.judged]),
        *(part for i, line in enumerate(report.judged) for part in judged_section(i, line.flow, line.verdict)),
        *(part for pool in report.pools for part in _pool(report, pool, shown, axis)),
        *(_devices(report, axis) if report.steps else ()),
        *(_buffers(report, shown) if report.buffers else ()),
        *(_steps(report) if report.steps else ()),
    ]
    return html_page(MARK, f"{report.model}: assay check", body, STYLES, SCRIPTS)


def _shown(report: CheckReport) -> list[Buffer]:
    """The buffers that the page names: all of them, or those with the most bytes times positions; those in pools
    first."""
    if len(report.buffers) <= MOST:
        return sorted(report.buffers, key=lambda b: not b.pool)
    area = sorted(report.buffers, key=lambda b: -b.nbytes * sum(z - a for a, z in b.live))
    marked = set(report.refutation.buffers) if report.refutation else set()
    kept = {b.number for b in area[: MOST - len(marked)]} | marked
    return sorted((b for b in report.buffers if b.number in kept), key=lambda b: not b.pool)


def _head(report: CheckReport) -> Iterator[str]:
    failed = report.failed
    verdict, kind = "every line holds", "good"
    if failed:
        verdict, kind = f"refuted at {failed.name}", "bad"
    elif any(s.holds is None for s in report.stages):
        verdict, kind = "not everything is known", "unknown"
    yield f'<header><h1>{html_escaped(report.model)}</h1><p class="verdict {kind}">{html_escaped(verdict)}</p>'
    at = ", ".join(f"{name} = {n}" for name, n in report.at.items())
    shown = f"; the program is shown at {html_escaped(at)}" if at else ""
    yield f"<p>assay check, seed {report.seed}{shown}</p></header>"
    if report.buffers:
        total = sum(b.nbytes for b in report.buffers if b.kind in ("tensor", "scratch"))
        constants = [b for b in report.buffers if b.kind == "constant"]
        facts = [(f"pool {p.name}", _size(p)) for p in report.pools]
        facts += [
            ("without sharing", f"{total:,} bytes"),
            ("constants", f"{sum(aligned(b.nbytes, b.alignment) for b in constants):,} bytes in {len(constants)}"),
            ("steps", f"{len(report.steps):,}"),
        ]
        yield (
            '<dl class="facts">'
            + "".join(f"<div><dt>{html_escaped(k)}</dt><dd>{html_escaped(v)}</dd></div>" for k, v in facts)
            + "</dl>"
        )


def _size(pool: PoolLine) -> str:
    """The size of a pool against the least that it can be."""
    if pool.nbytes is None:
        return f"not planned; at least {pool.bound:,} bytes"
    if pool.nbytes == pool.bound:
        return f"{pool.nbytes:,} bytes, its lower bound"
    ratio = f", ratio {pool.nbytes / pool.bound:.3f}" if pool.bound else ""
    return f"{pool.nbytes:,} bytes; at least {pool.bound:,}{ratio}"


def _refuted(report: CheckReport, axis: Axis) -> Iterator[str]:
    failed = report.failed
    if failed is None:
        return
    yield f'<section class="refutation" id="refutation"><h2>What does not hold: {html_escaped(failed.name)}</h2>'
    yield f"<p><strong>{html_escaped(failed.detail, 2000)}</strong></p>"
    found = report.refutation
    if found is not None:
        links = " and ".join(f'<a href="#b{i}">{html_escaped(report.buffers[i].name)}</a>' for i in found.buffers)
        if found.sentence != failed.detail:
            yield f"<p>{html_escaped(found.sentence, 2000)}</p>"
        yield f'<div class="scroll">{refutation_picture(report, found, axis)}</div>'
        outlined = "buffer is" if len(found.buffers) == 1 else "buffers are"
        yield f"<p>The outlined {outlined} {links}; the red area is what is wrong, other buffers are pale.</p>"
    yield "</section>"


def _stages(stages: Sequence[StageLine]) -> Iterator[str]:
    yield '<section id="stages"><h2>Stages</h2><div class="scroll"><table>'
    yield '<thead><tr><th>stage<th>verdict<th class="n">seconds<th>what it did<th>evidence</tr></thead><tbody>'
    for s in stages:
        verdict = s.how
        kind = "good" if s.holds else "bad" if s.holds is False else "unknown"
        yield (
            f'<tr><th scope="row">{html_escaped(s.name)}<td class="{kind}">{verdict}<td class="n">{s.seconds:.2f}'
            f"<td>{html_escaped(s.did, 2000)}<td>{html_escaped(s.detail, 2000)}{_asked(s)}</tr>"
        )
    yield "</tbody></table></div>"
    yield (
        "<p class=note>proved: for every input. checked: every claim of the stage, on its own output."
        " tested: on the inputs of this run.</p></section>"
    )


def _asked(stage: StageLine) -> str:
    """What a solver was asked for a line, to be opened."""
    return "".join(
        f"<details><summary>what was asked: {html_escaped(about)}</summary><pre>{html_escaped(text, len(text))}</pre>"
        "</details>"
        for about, text in stage.asked
    )


# --- pools --------------------------------------------------------------------------------------------------------


def _pool(report: CheckReport, pool: PoolLine, shown: Sequence[Buffer], axis: Axis) -> Iterator[str]:
    inside = [b for b in shown if b.pool == pool.name]
    yield f"<section class=pool><h2>Memory: pool {html_escaped(pool.name)}</h2>"
    if pool.nbytes is not None and any(b.offset is not None for b in inside):
        kinds = dict.fromkeys(b.kind for b in inside)
        legend = "".join(
            f'<li><svg viewBox="0 0 12 12"><rect class="{k}" width="12" height="12"/></svg>{k}' for k in kinds
        )
        yield f'<ul class="legend">{legend}</ul>'
        yield (
            "<p class=note>Which bytes belong to which buffer while it is live. <span class=hint>Hover for a buffer's"
            " size, offset, producer and last reader; a click leads to its row in the table.<span class=js> Drag to"
            " zoom in, Reset to see all.</span></span></p>"
        )
        boxes = [
            MapBox(b.name, b.kind, _title(report, b), b.offset, b.nbytes, b.live, f"m{b.number}", f"#b{b.number}")
            for b in inside
            if b.offset is not None
        ]
        about = (
            f"memory map of pool {pool.name}: {len(boxes)} buffers in {pool.nbytes} bytes over {axis.stop} positions"
        )
        yield f'<div class="scroll">{memory_map(boxes, pool.nbytes, axis, about)}</div>'
        left = sum(b.pool == pool.name for b in report.buffers) - len(inside)
        if left:
            yield f"<p>{left:,} smaller buffers of {len(inside) + left:,} are not drawn and not in the table.</p>"
    about = f"bytes live in pool {pool.name} over time: at most {pool.bound}, in a pool of {pool.nbytes} bytes"
    limit = f"; its limit is {pool.limit:,} bytes" if pool.limit is not None else ""
    yield (
        f"<h3>Pressure</h3><p class=note>Bytes that are live at once{limit}. A pool at the lower bound is optimal.</p>"
    )
    yield f'<div class="scroll">{pressure_plot(pool.pressure, pool.bound, pool.nbytes, axis, about)}</div></section>'


def _title(report: CheckReport, b: Buffer) -> str:
    return (
        f"{cut(b.name)}\n{b.nbytes:,} bytes at offset {b.offset:,}\nproduced by {_said(_producer(report, b))}"
        f"\nlast read by {_said(_reader(report, b))}"
    )


def _said(parts: tuple[list[StepLine], str]) -> str:
    steps, other = parts
    return ", ".join(_named(s) for s in steps) or other


def _named(step: StepLine) -> str:
    return f"step {step.number} {cut(step.kernel, 80)}" + (f" at {cut(step.span, 80)}" if step.span else "")


def _producer(report: CheckReport, b: Buffer) -> tuple[list[StepLine], str]:
    """The steps that write a buffer, or who else fills it."""
    if b.kind in ("input", "constant"):
        return [], b.producer or "the caller"
    return [report.steps[i] for i in b.writers[:FEW]], b.producer or "nobody"


def _reader(report: CheckReport, b: Buffer) -> tuple[list[StepLine], str]:
    """The last step that reads a buffer, or who else does."""
    if b.kind == "output":
        return [], "the caller"
    return ([report.steps[b.reader]] if b.reader is not None else []), "nobody"


def _devices(report: CheckReport, axis: Axis) -> Iterator[str]:
    what = "Which step runs on which device." if any(s.device for s in report.steps) else "No step names a device."
    yield f"<section id=devices><h2>Devices</h2><p class=note>{what}</p>"
    if len(report.steps) <= MOST:
        yield f'<div class="scroll">{lanes(report, axis)}</div></section>'
    else:
        yield f"<p>{len(report.steps):,} steps are too many to draw.</p></section>"


# --- tables -------------------------------------------------------------------------------------------------------


def _buffers(report: CheckReport, shown: Sequence[Buffer]) -> Iterator[str]:
    phased = any(s.position != s.number for s in report.steps)  # else positions are steps
    live = "live, positions" if phased else "live, steps"
    columns = (("#", "n"), ("name", ""), ("kind", ""), ("bytes", "n"), ("pool", ""), ("offset", "n"), (live, "n"),
               ("produced by", ""), ("last read by", ""), ("reads", "n"), ("type", ""))  # fmt: skip
    opened = " open" if len(shown) <= LARGE else ""
    yield f"<section id=buffers><h2>Buffers</h2><details{opened}><summary>{len(shown):,} buffers</summary>"
    yield "<div class=tools></div><div class=scroll><table class=sortable><thead><tr>"
    yield "".join(f'<th class="{kind}" scope="col">{name}' for name, kind in columns) + "</tr></thead><tbody>"
    drawn = {p.name for p in report.pools if p.nbytes is not None}
    marked = report.refutation.buffers if report.refutation else ()
    for b in shown:
        on_map = b.pool in drawn and b.offset is not None and b.nbytes and b.live
        name = f'<a href="#m{b.number}">{html_escaped(b.name)}</a>' if on_map else html_escaped(b.name)
        place = b.pool or ("constants" if b.kind == "constant" else "the caller's")
        wrong = " class=wrong" if b.number in marked else ""
        yield (
            f"<tr id=b{b.number}{wrong}><td>{b.number}<td>{name}<td>{b.kind}<td>{b.nbytes:,}<td>{html_escaped(place)}"
            f"<td>{'' if b.offset is None else f'{b.offset:,}'}<td>{lives_text(b.live)}"
            f"<td>{_linked(_producer(report, b))}<td>{_linked(_reader(report, b))}"
            f"<td>{b.readers}<td>{html_escaped(b.type)}</tr>"
        )
    yield "</tbody></table></div></details></section>"


def _linked(parts: tuple[list[StepLine], str]) -> str:
    """Steps as links; who else it is as text."""
    steps, other = parts
    return ", ".join(f"<a href=#s{s.number}>{s.number}</a> {html_escaped(s.kernel)}" for s in steps) or html_escaped(
        other
    )


def _steps(report: CheckReport) -> Iterator[str]:
    steps = report.steps[:MOST]
    head = f"{len(report.steps):,} steps; inputs and outputs have {report.io:,} bytes"
    yield f"<section id=steps><h2>Steps</h2><details><summary>{head}</summary><div class=scroll>"
    yield "<table class=sortable><thead><tr>"
    columns = (
        ("#", "n"),
        ("position", "n"),
        ("calls", ""),
        ("device", ""),
        ("reads", ""),
        ("writes", ""),
        ("scratch", ""),
        ("bytes in use", "n"),
        ("from", ""),
    )
    yield "".join(f'<th class="{kind}" scope="col">{name}' for name, kind in columns) + "</tr></thead><tbody>"
    for s in steps:
        arms = f"; else from step {s.arms[1][0]} up to {s.arms[1][1]}" if s.arms else ""
        yield (
            f"<tr id=s{s.number}><td>{s.number}<td>{s.position}"
            f"<td>{html_escaped(s.kernel + arms)}<td>{html_escaped(s.device)}"
            f"<td>{_those(report, s.reads)}<td>{_those(report, s.writes)}<td>{_those(report, s.scratch)}"
            f"<td>{s.used:,}<td>{html_escaped(s.span)}</tr>"
        )
    yield "</tbody></table></div>"
    if len(steps) < len(report.steps):
        yield f"<p>{len(report.steps) - len(steps):,} more steps are left out.</p>"
    yield "</details></section>"


def _those(report: CheckReport, numbers: Iterable[int]) -> str:
    """Buffers as links, the first few of them."""
    given = list(numbers)
    named = [f"<a href=#b{i}>{html_escaped(report.buffers[i].name, 60)}</a>" for i in given[:FEW]]
    return ", ".join([*named, *([f"and {len(given) - FEW} more"] if len(given) > FEW else [])])
