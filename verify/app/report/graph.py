"""A graph as a picture: a box for each node, operands to the left of what reads them (specs/verify.md, "Report").

A box has the colour of what is said of its node. Without scripts it has its title, and leads to its row; graph.js adds
keys, and finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.verify.app.report.model import ProgramGraph
from assay.verify.app.report.plot import html_escaped

MOST_NODES = 4_000
"""How many nodes a page draws."""
COLUMN, LINE, BOX, FOLD, ROOM = 22, 16, 11, 54, 18
"""The distance of nodes, how large one is, how many stand in a row, and the room above a row."""


@dataclass(frozen=True)
class NodeBox:
    """A node: its title, the class that says its colour, and where it leads, if anywhere."""

    title: str
    kind: str
    link: str = ""


def graph_picture(
    boxes: Sequence[NodeBox], edges: Collection[tuple[int, int]], about: str, kinds: Mapping[str, str]
) -> Iterator[str]:
    """The picture, under a legend of those of `kinds` that there are; operands come before the nodes that read them."""
    if len(boxes) > MOST_NODES:
        yield f"<p class=note>{len(boxes):,} nodes are too many to draw.</p>"
        return
    ordered = sorted(edges)
    depth = node_depths(len(boxes), edges)
    place, width, height = _places(depth)
    lines = "".join(_edge(place[u], place[v], depth[v] - depth[u]) for u, v in ordered)
    drawn = "".join(_box(box, *at) for box, at in zip(boxes, place, strict=True))
    there = {b.kind for b in boxes}
    legend = "".join(f'<li><i class="{k}"></i>{words}' for k, words in kinds.items() if k in there)
    yield f'<ul class="legend">{legend}</ul><p class="tools graphtools"></p>'
    yield (
        f'<div class="scroll"><svg class="graph" role="img" aria-label="{html_escaped(about)}"'
        f' viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' data-edges="{",".join(f"{u} {v}" for u, v in ordered)}"><path d="{lines}"/>{drawn}</svg></div>'
    )


def node_depths(count: int, edges: Collection[tuple[int, int]]) -> list[int]:
    """In which column each of so many nodes stands: behind all its operands; but what is made of no other node's value,
    such as a weight that is reshaped, just before the first that reads it."""
    operands: list[list[int]] = [[] for _ in range(count)]
    readers: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        operands[v].append(u)
        readers[u].append(v)
    depth, loose = [0] * count, [True] * count
    for v in range(count):  # operands come before the nodes that read them
        depth[v] = max((depth[u] + 1 for u in operands[v]), default=0)
        loose[v] = all(loose[u] and len(readers[u]) == 1 for u in operands[v])
    for u in reversed(range(count)):
        if loose[u] and readers[u]:
            depth[u] = min(depth[v] for v in readers[u]) - 1
    least = min(depth, default=0)
    return [at - least for at in depth]


def _box(box: NodeBox, x: int, y: int) -> str:
    rect = (
        f'<rect class="{box.kind}" x="{x}" y="{y}" width="{BOX}" height="{BOX}" rx="2">'
        f"<title>{html_escaped(box.title, 400)}</title></rect>"
    )
    # no stop of the tab key: thousands of them would be a wall; the picture is one stop, and the tables have the rows
    return f'<a href="{box.link}" tabindex="-1">{rect}</a>' if box.link else rect


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


def program_section(graph: ProgramGraph | None) -> Iterator[str]:
    """The program itself, each node with the colour of how its kernel is known."""
    if graph is None or not graph.nodes:
        return
    boxes = [
        NodeBox(
            f"{n.what}{f' at {n.span}' if n.span else ''}, {n.name}: {n.type}" + (f"; {n.known}" if n.known else "")
            + (f", {n.why}" if n.why else ""),
            n.known or "none",
        )
        for n in graph.nodes
    ]  # fmt: skip
    counts = {k: sum(n.known == k for n in graph.nodes) for k in ("proved", "tested")}
    about = f"{len(boxes)} nodes after {graph.stage}: " + ", ".join(f"{n} {k}" for k, n in counts.items() if n)
    yield f"<section id=graph><h2>Graph</h2><p class=note>The program after {graph.stage}: {len(boxes):,} nodes."
    yield " Operands stand to the left of what reads them. A colour says how the kernel of a node is known.</p>"
    names = {"proved": "proved for every input", "tested": "tested", "none": "nothing is said of a kernel"}
    yield from graph_picture(boxes, graph.edges, about, names)
    yield "</section>"
