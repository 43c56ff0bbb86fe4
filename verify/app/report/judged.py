"""A judgement as HTML that needs nothing beside it (specs/verify.md, "Report")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.verify.app.report.frame import html_page
from assay.verify.app.report.graph import NodeBox, graph_picture
from assay.verify.app.report.judged_tensors import backend_columns, row_name, tensor_rows, tensor_table
from assay.verify.app.report.plot import html_escaped
from assay.verify.evidence import plural
from assay.verify.judge.outcome import GOOD, GRAVEST, BackendVerdict, TensorError
from assay.verify.judge.pieces import Dataflow, onnx_title

MARK = "<!doctype html>\n<!-- written by assay judge --report -->"
"""How every page begins."""
STYLES = ("page.css", "judged.css")
SCRIPTS = ("graph.js", "judged.js")
UNJUDGED = "not judged by itself"


def judged_page(title: str, opening: Sequence[str], flow: Dataflow, verdicts: Sequence[BackendVerdict]) -> str:
    """The text of the page."""
    body = [f"<header><h1>{html_escaped(title)}</h1><p>assay judge</p></header>"]
    body += [f"<p class=note>{html_escaped(line, 2000)}</p>" for line in opening]
    body += backend_columns(verdicts)
    for number, verdict in enumerate(verdicts):
        body += judged_section(number, flow, verdict)
    return html_page(MARK, f"{title}: assay judge", body, STYLES, ("page.js", *SCRIPTS, "tables.js"))


def judged_section(number: int, flow: Dataflow | None, verdict: BackendVerdict) -> Iterator[str]:
    """All that a page says of a backend, the one of that number: the closing line, the graph by verdict, pieces that
    are not right, and tensors."""
    kind = "good" if verdict.outcome in GOOD else "bad" if verdict.exit == 1 else "unknown"
    yield f"<section class=judged><h2>{html_escaped(verdict.name)}: {verdict.outcome}</h2>"
    yield f'<p class="{kind}">{html_escaped(verdict.closing(), 4000)}</p>'
    if verdict.samples:
        if flow is not None:
            yield from _graph(number, flow, verdict)
        yield from _pieces(verdict)
        yield from tensor_table(number, verdict)
    yield "</section>"


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


def _graph(number: int, flow: Dataflow, verdict: BackendVerdict) -> Iterator[str]:
    words = node_words(flow, verdict)
    rows: dict[str, int] = {}
    for place, row in enumerate(tensor_rows(verdict)):  # the gravest of each tensor comes first
        rows.setdefault(row.tensor, place)
    boxes = [
        NodeBox(
            f"{onnx_title(node)}: {UNJUDGED if word == 'none' else word}",
            word,
            next((f"#{row_name(number, rows[n])}" for n in node.output if n in rows), ""),
        )
        for node, word in zip(flow.nodes, words, strict=True)
    ]
    about = f"{plural(len(flow.nodes), 'node')}, of which {sum(w not in GOOD for w in words)} are not shown to be right"
    yield "<h3>Graph</h3>"
    yield from graph_picture(boxes, flow.edges, about, {**{w: w for w in GRAVEST}, "none": UNJUDGED})


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
