"""Pieces of an ONNX model, small enough to be judged (specs/verify.md, "Pieces").

A piece is some of the model's nodes. What they read and do not make is an input of the piece, what is read outside of
it, or is an output of the model, is an output of the piece. Windows are pieces that overlap: together they hold every
edge, so that whatever a backend makes of two neighbours it makes in one of them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx
from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, TypeProto

from assay.lower.frontends.onnx.control import reads
from assay.lower.frontends.onnx.operators import draws
from assay.lower.frontends.onnx.string_table import node_title
from assay.semantics.walk import Worklist

CELL = 12
"""Nodes that compute in one cell; a window is two cells, so that any 13 neighbours are together in one."""


@dataclass(frozen=True)
class Piece:
    """Nodes of a model, by their places in the order of `Dataflow.nodes`, ascending."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Window:
    """A piece, and which of its nodes no window before it has begun with: the tensors of these are the ones that later
    windows are given."""

    piece: Piece
    cell: tuple[int, ...]


@dataclass(eq=False)
class Dataflow:
    """The nodes of a model that its outputs depend on, each soon before the nodes that read it."""

    model: ModelProto
    sized: Collection[str] = ()
    """Tensors whose sizes are numbers, as far as that is known beforehand."""
    shown: Collection[str] | None = None
    """Tensors that a piece may take or give; what else a node makes, such as strings, stays inside. None: all."""
    nodes: list[NodeProto] = field(init=False)
    stored: dict[str, TensorProto] = field(init=False)
    """Initializers by name."""
    sparse: dict[str, SparseTensorProto] = field(init=False)
    """Sparse ones."""

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.stored = {t.name: t for t in graph.initializer}
        self.sparse = {t.values.name: t for t in graph.sparse_initializer}
        makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
        order: list[int] = []
        work = Worklist((makers[o.name] for o in graph.output if o.name in makers), key=lambda i: i)
        for at in work:  # depth first, operands before the node that reads them
            work.on_leave(order.append, at)
            work.add(makers[n] for n in reads(graph.node[at]) if n in makers)
        self.nodes = [graph.node[i] for i in order]

    @cached_property
    def reads(self) -> list[tuple[str, ...]]:
        """The tensors that each node reads, those that its subgraphs take from outside too, each once."""
        return [tuple(dict.fromkeys(reads(node))) for node in self.nodes]

    @cached_property
    def makers(self) -> dict[str, int]:
        """Which node makes a tensor."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """Which nodes read a tensor that a node makes."""
        found: dict[str, list[int]] = {}
        for i, names in enumerate(self.reads):
            for name in names:
                if name in self.makers:
                    found.setdefault(name, []).append(i)
        return found

    @cached_property
    def results(self) -> frozenset[str]:
        """The names of the model's outputs."""
        return frozenset(o.name for o in self.model.graph.output)

    @cached_property
    def inside(self) -> frozenset[str]:
        """What nodes make that no piece may take or give."""
        return frozenset(() if self.shown is None else self.makers.keys() - set(self.shown))

    @cached_property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Which node reads what which other makes."""
        return frozenset((self.makers[n], v) for n, found in self.readers.items() for v in found)

    @cached_property
    def settled(self) -> frozenset[str]:
        """The tensors that are known before a run: what is computed of initializers, and of sizes that are numbers."""
        known: set[str] = {*self.stored, *self.sparse}
        sized = {i.name for i in self.model.graph.input if _has_numbers(i.type)} | known | set(self.sized)
        for node, names in zip(self.nodes, self.reads, strict=True):
            if node.domain in ("", "ai.onnx") and node.op_type in ("Shape", "Size"):
                is_known = all(n in sized for n in names)
            else:
                is_known = all(n in known for n in names) and node.op_type not in draws.TABLE
            if is_known:
                known.update(n for n in node.output if n)
                sized.update(n for n in node.output if n)
        return frozenset(known)

    def piece(self, nodes: Iterable[int]) -> Piece:
        """The piece of these nodes, and of those that make or read what must stay inside."""
        chosen = sorted(self._joined(nodes))
        inside = set(chosen)
        made = [n for i in chosen for n in self.nodes[i].output if n]
        here = set(made)
        given = dict.fromkeys(
            n for i in chosen for n in self.reads[i] if n not in here and n not in self.stored | self.sparse
        )
        shown = [n for n in made if n in self.results or any(r not in inside for r in self.readers.get(n, ()))]
        return Piece(tuple(chosen), tuple(given), tuple(shown))

    def _joined(self, nodes: Iterable[int]) -> set[int]:
        found: set[int] = set()
        work = Worklist(nodes, key=lambda i: i)
        for at in work:
            found.add(at)
            if self.inside:
                work.add(self.makers[n] for n in self.reads[at] if n in self.inside)
                work.add(r for n in self.nodes[at].output if n in self.inside for r in self.readers.get(n, ()))
        return found

    def piece_to(self, names: Collection[str], known: Collection[str]) -> Piece:
        """The smallest piece that makes these tensors, its only outputs, from known ones."""
        work = Worklist((self.makers[n] for n in names), key=lambda i: i)
        nodes: list[int] = []
        for at in work:
            nodes.append(at)
            work.add(self.makers[n] for n in self.reads[at] if n in self.makers and n not in known)
        return replace(self._begun_with(self.piece(nodes), known), outputs=tuple(names))

    def _begun_with(self, piece: Piece, known: Collection[str]) -> Piece:
        """A piece and the nodes before it that make it one of known tensors and the model's inputs: a node that it got
        for the sake of what must stay inside may read others."""
        while missing := {self.makers[n] for n in piece.inputs if n in self.makers and n not in known}:
            piece = self.piece({*piece.nodes, *missing})
        return piece

    def held(self, piece: Piece) -> frozenset[tuple[int, int]]:
        """The edges between nodes of a piece."""
        inside = set(piece.nodes)
        return frozenset(
            (self.makers[n], v) for v in piece.nodes for n in self.reads[v] if self.makers.get(n, -1) in inside
        )

    def windows(self, cell: int = CELL) -> Iterator[Window]:
        """Overlapping pieces that together hold every edge: each two neighbouring cells, with the nodes from further
        off that are read in them."""
        cells = self.cells(cell)
        made: set[str] = set()
        for i, own in enumerate(cells):
            both = [*own, *(cells[i + 1] if i + 1 < len(cells) else ())]
            yield Window(self._begun_with(self.with_far(both), made), tuple(own))
            made.update(n for at in own for n in self.nodes[at].output if n)

    def with_far(self, nodes: Sequence[int]) -> Piece:
        """The piece of these nodes and of all that make what these read, but for what is known before a run."""
        inside = set(nodes)
        far = {
            self.makers[n] for v in nodes for n in self.reads[v] if n in self.makers and self.makers[n] not in inside
        }
        return self.piece(inside | far)

    def cells(self, size: int = CELL) -> list[list[int]]:
        """The nodes in order, in runs of which each has `size` nodes that compute something at a run."""
        found: list[list[int]] = [[]]
        count = 0
        for i, node in enumerate(self.nodes):
            computes = any(n not in self.settled for n in node.output if n)
            if computes and count == size:
                found.append([])
                count = 0
            found[-1].append(i)
            count += computes
        return [c for c in found if c]

    def parts(self, piece: Piece) -> Iterator[Piece]:
        """Smaller pieces that overlap and, with pairs of neighbours, hold every edge of a piece, but for those of
        neighbours that are always together; of a single node none."""
        yield from (p for p in self._parts(piece) if len(p.nodes) < len(piece.nodes))

    def _parts(self, piece: Piece) -> Iterator[Piece]:
        count = len(piece.nodes)
        if count < 2:
            return
        if count == 2:
            yield from (self.piece([n]) for n in piece.nodes)
            return
        half = (count + 1) // 2
        starts = dict.fromkeys((0, (count - half) // 2, count - half))
        found = [self.piece(piece.nodes[s : s + half]) for s in starts]
        yield from found
        held = frozenset().union(*(self.held(p) for p in found))
        for u, v in sorted(self.held(piece) - held):
            yield self.piece((u, v))

    def model_of(self, piece: Piece, types: Mapping[str, TypeProto], known: Mapping[str, TensorProto]) -> ModelProto:
        """The piece as a model: its inputs have these types, and `known` stands as an initializer where it is one."""
        graph = GraphProto(name=self.model.graph.name or "piece")
        graph.node.extend(self.nodes[i] for i in piece.nodes)
        wanted = {n for i in piece.nodes for n in self.reads[i]}
        graph.initializer.extend(t for n, t in self.stored.items() if n in wanted)
        graph.sparse_initializer.extend(t for n, t in self.sparse.items() if n in wanted)
        graph.initializer.extend(known[n] for n in piece.inputs if n in known)
        graph.input.extend(onnx.ValueInfoProto(name=n, type=types[n]) for n in piece.inputs if n not in known)
        declared = {o.name: o for o in self.model.graph.output}
        for name in piece.outputs:
            graph.output.append(declared[name] if name in declared else onnx.ValueInfoProto(name=name))
        made = ModelProto(ir_version=self.model.ir_version, producer_name=self.model.producer_name, graph=graph)
        made.opset_import.extend(self.model.opset_import)
        made.functions.extend(self.model.functions)
        return made

    def names(self, piece: Piece) -> tuple[str, ...]:
        """The nodes of a piece for people."""
        return tuple(onnx_title(self.nodes[i]) for i in piece.nodes)

    def title(self, piece: Piece) -> str:
        """A piece for people: how many nodes, and the first and the last of them."""
        names = self.names(piece)
        if len(names) <= 3:
            return ", ".join(names)
        return f"{len(names)} nodes from {names[0]} to {names[-1]}"


def onnx_title(node: NodeProto) -> str:
    """A node for people: its operator and its name, or what it makes."""
    return node_title(node) if node.name else f"{node.op_type} {next(iter(node.output), '')!s}".strip()


def _has_numbers(of: TypeProto) -> bool:
    shape = of.tensor_type.shape if of.HasField("tensor_type") and of.tensor_type.HasField("shape") else None
    return shape is not None and all(d.HasField("dim_value") for d in shape.dim)
