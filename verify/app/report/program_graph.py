"""The graph of a program for its report: what `main` binds, and what reads what (specs/verify.md, "Report").

It is read after the stage legalize where there is one, so that each node is the call of a kernel, and how that kernel
is known stands with it; else after anf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.semantics.alias import bindings
from assay.semantics.graph import (
    Call,
    CallTIR,
    Constant,
    Expr,
    GlobalVar,
    OnDevice,
    Tuple,
    TupleGetItem,
    Var,
)
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.app.report.model import GraphNode, ProgramGraph

SHOWN = ("legalize", "anf")
"""The stages whose module is shown, the last first."""
PASSED = (Var, GlobalVar, Constant, Tuple, TupleGetItem, OnDevice)
"""What makes no value of its own: a name of such a value leads to what it was made of."""


def program_graph(modules: Mapping[str, Module], known: Mapping[str, Any]) -> ProgramGraph | None:
    """The graph, if a stage that shows one was reached. `known` is the data of the line legalize: how kernels are
    proved, and why others are not."""
    stage = next((s for s in SHOWN if s in modules), None)
    if stage is None or "main" not in modules[stage].definitions:
        return None
    proved, others = known.get("how", {}), known.get("not_proved", {})
    made: dict[Var, tuple[int, ...]] = {}
    nodes: list[GraphNode] = []
    edges: set[tuple[int, int]] = set()
    for var, value in bindings(modules[stage].main):
        read = (n for n in post_order(value) if isinstance(n, Var))
        sources = tuple(dict.fromkeys(i for v in read for i in made.get(v, ())))
        if isinstance(value, PASSED):
            made[var] = sources
            continue
        kernel = value.func if isinstance(value, CallTIR) else ""
        word = "proved" if kernel in proved else "tested" if kernel in others else ""
        why = str(proved.get(kernel, others.get(kernel, "")))
        span = value.span
        place = "" if span is None else span.place or str(span)
        made[var] = (len(nodes),)
        edges.update((i, len(nodes)) for i in sources)
        nodes.append(GraphNode(var.name, _head(value), str(var.type), place, word, why))
    return ProgramGraph(stage, tuple(nodes), tuple(sorted(edges)))


def _head(value: Expr) -> str:
    """What a node does, in a word."""
    match value:
        case CallTIR():
            return value.func
        case Call():
            name = getattr(value.op, "name", "")
            return str(name) or "call"
        case _:
            return type(value).__name__.lower()
