"""A judgement as one HTML page that needs nothing beside it (specs/verify.md, "Report")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from assay.verify.app.report.plot import STYLE, html_escaped
from assay.verify.evidence import plural
from assay.verify.judge.outcome import GOOD, GRAVEST, BackendVerdict, SampleVerdict, TensorError
from assay.verify.judge.pieces import Dataflow, onnx_title

MARK = "<!doctype html>\n<!-- written by assay judge --report -->"
"""How every page begins."""
POLICY = "default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'"
MOST_ROWS, MOST_NODES = 5_000, 4_000
"""How many rows of one backend, and nodes of the graph, a page has."""
COLUMN, LINE, BOX, FOLD, ROOM = 22, 16, 11, 54, 18
"""Of the picture: the distance of nodes, how large one is, how many stand in a row, and the room above a row."""

CSS = """
.right,.open{--state:var(--good)}.wrong,.implausible,.died,.late{--state:var(--bad)}
.undecided,.refused,.unpredictable{--state:var(--scratch-line)}.none{--state:var(--constant-line)}
td.word{color:var(--state);font-weight:600;white-space:nowrap}
.graph rect{fill:var(--state);stroke:var(--paper)}.graph path{stroke:var(--line);fill:none}
.graph rect:hover{stroke:var(--ink);stroke-width:2}
.bars rect{fill:var(--tensor-line)}.tensors td:nth-child(2),.tensors td:nth-child(3){overflow-wrap:anywhere}
.legend i{display:inline-block;width:12px;height:12px;background:var(--state);margin-right:.35rem}
.tools select{font:inherit;color:var(--ink);background:var(--paper)}
summary{cursor:pointer}
"""
SCRIPT = """
for (const section of document.querySelectorAll('section.judged')) {
  const words = section.querySelector('input'), kind = section.querySelector('select');
  const rows = [...section.querySelectorAll('.tensors tbody tr')], count = section.querySelector('.count');
  const sift = () => {
    const text = words.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const there = row.textContent.toLowerCase().includes(text) && (!kind.value || row.dataset.word === kind.value);
      row.hidden = !there;
      shown += there;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  words.addEventListener('input', sift);
  kind.addEventListener('change', sift);
  sift();
}
"""


@dataclass(frozen=True)
class Row:
    """A tensor on one set of inputs."""

    sample: str
    tensor: str
    maker: str
    outcome: str
    error: TensorError | None


def judged_page(title: str, opening: Sequence[str], flow: Dataflow, verdicts: Sequence[BackendVerdict]) -> str:
    """The text of the page."""
    css = (files("assay.verify.app.report") / "page.css").read_text("utf-8")
    body = [f"<header><h1>{html_escaped(title)}</h1><p>assay judge</p></header>"]
    body += [f"<p class=note>{html_escaped(line, 2000)}</p>" for line in opening]
    for verdict in verdicts:
        body += _backend(flow, verdict)
    return "\n".join([
        MARK,
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',  # nothing is fetched, whatever a name may be
        f"<title>{html_escaped(title)}: assay judge</title><style>{STYLE}{css}{CSS}</style></head><body><main>",
        *body,
        f"</main><script>{SCRIPT}</script></body></html>\n",
    ])  # fmt: skip


def _backend(flow: Dataflow, verdict: BackendVerdict) -> Iterator[str]:
    kind = "good" if verdict.outcome in GOOD else "bad" if verdict.exit == 1 else "unknown"
    yield f"<section class=judged><h2>{html_escaped(verdict.name)}: {verdict.outcome}</h2>"
    yield f'<p class="{kind}">{html_escaped(verdict.closing(), 4000)}</p>'
    if verdict.samples:
        yield from _graph(flow, verdict)
        yield from _pieces(verdict)
        yield from _tensors(verdict)
    yield "</section>"


# --- the graph --------------------------------------------------------------------------------------------------------


def node_words(flow: Dataflow, verdict: BackendVerdict) -> list[str]:
    """The verdict on each node: the gravest of its tensors and of the pieces that name it; of what none speaks, right
    where the backend is, else "none"."""
    found: list[set[str]] = [set() for _ in flow.nodes]
    titles: dict[str, list[int]] = {}
    for i, node in enumerate(flow.nodes):
        titles.setdefault(onnx_title(node), []).append(i)
    for sample in verdict.samples:
        for piece in sample.pieces:
            for name in piece.nodes:
                for i in titles.get(name, ()):
                    found[i].add(piece.verdict.outcome)
        for row in (*sample.tensors, *((e for e in sample.errors) if not sample.tensors else ())):
            i = flow.makers.get(row.tensor, -1)
            if i >= 0:
                found[i].add(sample.of_output(row.tensor) if isinstance(row, TensorError) else row.outcome)
    rest = "right" if verdict.outcome in GOOD else "none"
    for words in found:  # that bounds say nothing of a tensor of one who is right needs no colour
        words.discard("undecided") if rest == "right" else None
    return [next((o for o in GRAVEST if o in words), rest) for words in found]


def _graph(flow: Dataflow, verdict: BackendVerdict) -> Iterator[str]:
    if len(flow.nodes) > MOST_NODES:
        yield f"<p class=note>{len(flow.nodes):,} nodes are too many to draw.</p>"
        return
    words = node_words(flow, verdict)
    depth = [0] * len(flow.nodes)
    for i, names in enumerate(flow.reads):  # operands come before the node
        depth[i] = max((depth[flow.makers[n]] + 1 for n in names if n in flow.makers), default=0)
    place, width, height = _places(depth)
    lines = "".join(_edge(place[u], place[v], depth[v] - depth[u]) for u, v in sorted(flow.edges))
    boxes = "".join(
        f'<rect class="{word}" x="{x}" y="{y}" width="{BOX}" height="{BOX}" rx="2">'
        f"<title>{html_escaped(onnx_title(node))}: {'not judged by itself' if word == 'none' else word}</title></rect>"
        for node, word, (x, y) in zip(flow.nodes, words, place, strict=True)
    )
    about = f"{plural(len(flow.nodes), 'node')}, of which {sum(w not in GOOD for w in words)} are not shown to be right"
    there = [w for w in (*GRAVEST, "none") if w in words]
    legend = "".join(f'<li><i class="{w}"></i>{"not judged by itself" if w == "none" else w}' for w in there)
    yield f'<h3>Graph</h3><ul class="legend">{legend}</ul>'
    yield (
        f'<div class="scroll"><svg class="graph" role="img" aria-label="{about}" width="{width}" height="{height}">'
        f'<path d="{lines}"/>{boxes}</svg></div>'
    )


def _places(depth: Sequence[int]) -> tuple[list[tuple[int, int]], int, int]:
    """Where nodes stand, by their depths: from left to right, in bands one below the other; and the picture's size."""
    taken: dict[int, int] = {}
    lanes: list[int] = []
    for at in depth:
        lanes.append(taken.get(at, 0))
        taken[at] = lanes[-1] + 1
    tops, top = [], ROOM
    for band in range(max(depth, default=0) // FOLD + 1):
        tops.append(top)
        top += max((n for at, n in taken.items() if at // FOLD == band), default=0) * LINE + ROOM
    place = [(at % FOLD * COLUMN + 4, tops[at // FOLD] + lane * LINE) for at, lane in zip(depth, lanes, strict=True)]
    return place, min(max(depth, default=0) + 1, FOLD) * COLUMN + 4, top


def _edge(one: tuple[int, int], two: tuple[int, int], far: int) -> str:
    """A line between two nodes, bent where it would run through others."""
    x, y, u, v = one[0] + BOX, one[1] + BOX // 2, two[0], two[1] + BOX // 2
    if far == 1 or y != v:
        return f"M{x} {y}L{u} {v}"
    return f"M{x} {y}Q{(x + u) // 2} {y - min(2 * ROOM - 4, 8 * far)} {u} {v}"


def _pieces(verdict: BackendVerdict) -> Iterator[str]:
    found = [(s.sample, p) for s in verdict.samples for p in s.pieces]
    if not found:
        return
    yield "<h3>Pieces that are not right</h3><div class=scroll><table><thead><tr><th>inputs<th>verdict<th>piece<th>why"
    yield "</tr></thead><tbody>"
    for sample, piece in found:
        word = piece.verdict.outcome
        nodes = ", ".join(piece.nodes)
        yield (
            f'<tr><td>{html_escaped(sample)}<td class="word {word}">{word}<td title="{html_escaped(nodes, 2000)}">'
            f"{html_escaped(piece.title)}<td>{html_escaped(piece.verdict.detail, 2000)}</tr>"
        )
    yield "</tbody></table></div>"


# --- the table --------------------------------------------------------------------------------------------------------


def rows_of(sample: SampleVerdict, outputs: Mapping[str, TensorError]) -> Iterator[Row]:
    """Outputs, then every other tensor that was shown."""
    makers = {t.tensor: t.maker for t in sample.tensors}
    for name, error in outputs.items():
        yield Row(sample.sample, name, makers.get(name, ""), sample.of_output(name), error)
    for t in sample.tensors:
        if t.tensor not in outputs:
            yield Row(sample.sample, t.tensor, t.maker, t.outcome, t.error)


def _tensors(verdict: BackendVerdict) -> Iterator[str]:
    rows = [r for s in verdict.samples for r in rows_of(s, {e.tensor: e for e in s.errors})]
    rows.sort(key=lambda r: GRAVEST.index(r.outcome))
    words = "".join(f"<option>{o}" for o in GRAVEST if any(r.outcome == o for r in rows))
    yield (
        "<h3>Tensors</h3><p class=note>Errors are in units in the last place. A bound <em>any</em> excludes nothing; an"
        " output's error is then from the middle of correct runs, another tensor's from that of its bounds. A histogram"
        " counts elements: no error, at most 1, 2, 4 and so on, on a logarithmic scale.</p>"
        '<p class=tools><label>with <input placeholder="name, operator ..."></label>'
        f"<label>verdict <select><option value=''>any{words}</select></label><span class=count></span></p>"
        "<div class=scroll><table class=tensors><thead><tr><th>inputs<th>tensor<th>made by<th>verdict"
        '<th class="n">error<th class="n">bound<th class="n">mean<th class="n">spread'
        "<th>errors<th>furthest</tr></thead><tbody>"
    )
    for row in rows[:MOST_ROWS]:
        yield _row(row)
    yield "</tbody></table></div>"
    if len(rows) > MOST_ROWS:
        yield f"<p>{len(rows) - MOST_ROWS:,} more rows are left out; report.json has them.</p>"


def _row(row: Row) -> str:
    e = row.error
    numbers = ["", "", "", ""]
    far = bars = ""
    if e is not None:
        numbers = [_ulps(e.error), _ulps(e.bound), _ulps(e.mean), "" if e.times is None else f"{e.times:.2g} x"]
        bars = _bars(e)
        if e.furthest:
            places = "<br>".join(
                html_escaped(f"{list(i)}: {got!r}, the middle is {middle!r}: {_ulps(off)}")
                for i, got, middle, off in e.furthest
            )
            far = f"<details><summary>{html_escaped(str(list(e.index)))}</summary>{places}</details>"
    cells = "".join(f'<td class="n">{n}' for n in numbers)
    return (
        f'<tr data-word="{row.outcome}"><td>{html_escaped(row.sample)}<td>{html_escaped(row.tensor)}'
        f'<td>{html_escaped(row.maker)}<td class="word {row.outcome}">{row.outcome}{cells}<td>{bars}<td>{far}</tr>'
    )


def _ulps(number: float) -> str:
    return "any" if number == float("inf") else f"{number:.3g}"


def _bars(error: TensorError) -> str:
    """A histogram as a small picture, each bar as high as its count is long in digits."""
    most = max(error.histogram, default=0)
    if not most:
        return ""
    said = ", ".join(
        f"{'0' if i == 0 else f'up to {2 ** (i - 1)}' if i < len(error.histogram) - 1 else 'beyond'}: {c}"
        for i, c in enumerate(error.histogram)
        if c
    )
    full = len(str(most)) + 1
    boxes = "".join(
        f'<rect x="{4 * i}" y="{18 - h}" width="3" height="{h}"/>'
        for i, c in enumerate(error.histogram)
        if c and (h := max(1, round(18 * (len(str(c)) + c / 10 ** len(str(c))) / full)))
    )
    return (
        f'<svg class="bars" role="img" aria-label="{said}" width="{4 * len(error.histogram)}" height="18">'
        f"<title>{said}</title>{boxes}</svg>"
    )
