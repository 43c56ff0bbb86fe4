"""The nodes of an ONNX model, those of graphs inside among them (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, ModelProto, NodeProto

from assay.semantics.walk import Worklist


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs inside it."""
    work = Worklist(graph.node)
    for node in work:
        yield node
        graphs = (g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs))
        work.add(n for g in graphs for n in g.node)


def nodes_of_model(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of a model and of the graphs inside it; in place of calls of its own functions the nodes of these."""
    own = {(f.domain, f.name) for f in model.functions}
    for body in (model.graph, *(GraphProto(node=f.node) for f in model.functions)):
        yield from (node for node in nodes_of(body) if (node.domain, node.op_type) not in own)
