"""A program as an ONNX graph (specs/lower.md, "Export").

Each let is a node of the graph or of the branch in which it stands. A call of a function is written as what the
function does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ValueInfoProto, helper

from assay.lower.export_walk import ExportWalk, shaped_as, values_of
from assay.lower.onnx_export import elementwise, movement, sums
from assay.lower.onnx_export.dims import Sizes
from assay.lower.onnx_export.items import Activation, Item, info_of, leaves_of, renamed_item
from assay.lower.onnx_export.use import ExportedCall, Rule
from assay.lower.onnx_export.writer import IR_VERSION, MOST_BYTES, OPSET, DataBeside, GraphBlock, Value, Writer
from assay.lower.tail_loops import TailLoop
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported, placed
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols
from assay.semantics.walk import Worklist, post_order

MOST_NODES = 1_000_000
"""Functions that call each other can make more nodes of a few than fit anywhere."""
PASSED = (graph.Var, graph.Tuple, graph.TupleGetItem, graph.OnDevice)
"""What is made of values that are there, and binds no symbol."""

RULES: dict[str, Rule] = {**elementwise.TABLE, **sums.TABLE, **movement.TABLE}
"""How each operator is said in ONNX."""

UNSAID: dict[str, str] = {
    "suppress": "ONNX chooses by boxes (NonMaxSuppression); the operator is given which of them overlap",
}
"""The operators that cannot be said, each with the reason."""


SCALARS = TensorType((), INT64), TensorType((), BOOL)
"""What Loop gives a round beside the state: its number, and whether it runs."""


class Export(ExportWalk[Value, Sizes]):
    """The export of one module as an ONNX model."""

    LANGUAGE, LABELS, UNSAID = "ONNX", "onnx_export", UNSAID

    MOST_DEPTH = 30
    """A protocol buffer is 100 messages deep at most; a branch takes three."""

    def __init__(self, module: Module, beside: DataBeside | None = None) -> None:
        super().__init__(module)
        self.main = module.main
        given: Sequence[str] = self.main.attrs.get("outputs", ())
        results = self.main.result_type
        count = len(results.fields) if isinstance(results, TupleType) else 1
        self.outputs = tuple(given) or tuple(f"output_{i}" for i in range(count))
        if not count:
            raise Unsupported("main has no results; a model of ONNX has one at least", label="onnx_export.C5")
        params = [p.name for p in self.main.params]
        names = [*params, *(o for o in self.outputs if o not in params)]
        if (
            len(self.outputs) != count
            or len(set(self.outputs)) != count
            or len(set(params)) != len(params)
            or "" in names
        ):
            raise Unsupported(
                f"the names of main's parameters, {', '.join(params)}, and results, {', '.join(self.outputs)}, must be"
                " as many as there are, and each name one thing",
                label="onnx_export.C5",
            )
        self.writer = Writer(names, beside)
        self.wanted: dict[graph.Var, str] = {}
        self.named_by_let: set[str] = set()
        """What has the name of a let already, by which branches may use it."""

    # --- the whole

    def model(self, tensors: dict[str, graph.Expr] | None) -> onnx.ModelProto:
        """The whole model, with the module's `main` as its graph. Unsupported where ONNX has no word for a part."""
        top = self.inside(None)
        inputs: list[ValueInfoProto] = []
        main = self.anf(self.main)
        block = self.writer.block
        for p in main.params:
            if not isinstance(p.type, TensorType):
                raise Unsupported(
                    f"parameter {p.name} is {p.type}; a tensor is wanted", where=p.span, label="onnx_export.C5"
                )
            value = Value(p.name, p.type.dtype)
            inputs.append(info_of(value, p.type))
            self.bind(top, p, value)
        lets, result = graph.let_chain(main.body)
        self.writer.kept.update(let.var.name for let in lets)
        if any(o in {p.name for p in main.params} for o in self.outputs):
            raise Unsupported("a result has the name of a parameter", label="onnx_export.C5")
        fields = self._fields_of(lets, result)
        for name, atom in zip(self.outputs, fields, strict=False):
            if isinstance(atom, graph.Var):
                self.wanted.setdefault(atom, name)
        self.active.append(id(self.main))
        item = run_task(self.body(main.body, top))
        of = self.main.result_type
        items = item if isinstance(item, tuple) else (item,)
        types = of.fields if isinstance(of, TupleType) else (of,)
        outputs: list[ValueInfoProto] = []
        known = {s for p in main.params for s in symbols(p.type)}
        for name, found, t in zip(self.outputs, items, types, strict=True):
            if not isinstance(found, Value) or not isinstance(t, TensorType):
                raise Unsupported(f"result {name} is {t}; a tensor is wanted", label="onnx_export.C5")
            if found.name != name:
                made = self.writer.node("Identity", [found], [found.dtype])
                self.writer.rename(made, [name], len(block.nodes) - 1)
            outputs.append(info_of(Value(name, found.dtype), t, known))
        if tensors is not None:
            tensors.update(self.named(top))
        made_graph = helper.make_graph(block.nodes, "main", inputs, outputs, self.writer.initializers)
        model = helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="assay")
        model.ir_version = IR_VERSION
        if model.ByteSize() > MOST_BYTES:
            raise Unsupported(f"the model is larger than {MOST_BYTES} bytes", label="onnx_export.C6")
        return model

    def _fields_of(self, lets: Sequence[graph.Let], result: graph.Expr) -> Sequence[graph.Expr]:
        """The atoms of the results, where they are seen."""
        values = {let.var: let.value for let in lets}
        while isinstance(result, graph.Var) and isinstance(values.get(result), graph.Var):
            result = values[result]
        found = values.get(result) if isinstance(result, graph.Var) else None
        return found.fields if isinstance(found, graph.Tuple) else [result]

    def named(self, top: Activation) -> dict[str, graph.Expr]:
        """The tensors of the graph itself, each with the node of the source whose value it is."""
        atoms = self.converted[id(self.main)].atoms
        found: dict[str, graph.Expr] = {}
        for node in post_order(self.main.body):
            atom = atoms.get(id(node))
            item = top.values.get(atom) if isinstance(atom, graph.Var) else None
            if isinstance(item, Value) and isinstance(node.type, TensorType):
                before = found.get(item.name)
                if before is None or isinstance(before, (graph.Var, graph.Let)):
                    found[item.name] = node
        return found | {p.name: p for p in self.main.params}

    # --- bodies

    def bindings(self, lets: Sequence[graph.Let], at: Activation) -> Task[None]:
        """Lets in order."""
        for let in lets:
            mark = len(self.writer.block.nodes)
            with placed(let.value.span):
                item: Item = yield self.value(let.value, at, let.var)
            if isinstance(let.value, PASSED):
                at.values[let.var] = item
            else:
                item = self.named_after(item, let.var, mark)
                self.bind(at, let.var, item)
            if self.writer.count() > MOST_NODES:
                raise Unsupported(f"the model would have more than {MOST_NODES} nodes", label="onnx_export.C6")

    def bind(self, at: Activation, var: graph.Var, item: Item) -> None:
        """Let a variable mean a value, and its symbols sizes that are measured where it is."""
        at.values[var] = item
        work = Worklist[tuple[Type, Item]]([(var.type, item)])
        for of, part in work:
            if isinstance(of, TupleType) and isinstance(part, tuple):
                work.add(zip(of.fields, part, strict=True))
            elif isinstance(part, Value):
                at.sizes.bind(of, part, self.writer.block)

    def named_after(self, item: Item, var: graph.Var, mark: int) -> Item:
        """The results under the name of the variable, where nodes that were just written give them."""
        own = {o for node in self.writer.block.nodes[mark:] for o in node.output} - self.named_by_let
        fresh = [v for v in values_of(item) if v.name in own]
        if not fresh or len({v.name for v in fresh}) != len(fresh):
            return item
        wanted = self.wanted.pop(var, None) if isinstance(item, Value) and len(self.writer.blocks) == 1 else None
        names = [wanted or self.writer.name(var.name, kept=True)] if isinstance(item, Value) else [
            self.writer.name(f"{var.name}_{i}") for i in range(len(fresh))
        ]  # fmt: skip
        self.named_by_let.update(names)
        new = {v.name: r for v, r in zip(fresh, self.writer.rename(fresh, names, mark), strict=True)}
        return renamed_item(item, new)

    def looped(self, loop: TailLoop, function: graph.Function, at: Activation) -> Task[Item]:
        """As a Loop. What decides is written before it, in a round, and behind it."""
        writer = self.writer
        types: list[Type] = [p.type for p in function.params]
        leaves = leaves_of(TupleType(tuple(types)))
        flat = [v for p in function.params for v in values_of(at.values[p])]

        def test(inside: Activation) -> Task[Value]:
            yield self.bindings(loop.before, inside)
            found = yield self.value(loop.condition, inside)
            assert isinstance(found, Value)
            return found if loop.goes_on else writer.node("Not", [found], [BOOL])[0]

        first = yield test(at)
        if len(writer.blocks) > self.MOST_DEPTH:
            raise Unsupported(
                f"loops lie {self.MOST_DEPTH} deep, more than a stored model can hold", label="onnx_export.C6"
            )
        writer.blocks.append(GraphBlock())
        number, runs = (Value(writer.name(n), t.dtype) for n, t in zip(("round", "runs"), SCALARS, strict=True))
        states = [Value(writer.name("state"), v.dtype) for v in flat]
        given = [info_of(v, t, set()) for v, t in zip((number, runs, *states), (*SCALARS, *leaves), strict=True)]
        inside = self.bound(function, states, at.outer)
        yield self.bindings(loop.before, inside)
        yield self.bindings(loop.round, inside)
        again = [v for item in (yield self.values(loop.again, inside)) for v in values_of(item)]
        goes_on = yield test(self.bound(function, again, at.outer))
        body = self.ended("round", [goes_on, *again], [SCALARS[1], *leaves], given)
        ended = writer.node("Loop", [None, first, *flat], [v.dtype for v in flat], {"body": body})
        behind = self.bound(function, ended, at.outer)
        yield self.bindings(loop.before, behind)
        result: Item = yield self.body(loop.end, behind)
        return result

    # --- nodes

    def new_sizes(self, outer: Sizes | None) -> Sizes:
        """Those of the outer one, and what is measured inside."""
        return Sizes(outer)

    def constant(self, data: Any, name: str = "") -> Value:
        """An initializer, by the name of a constant of the module."""
        return self.writer.constant(data, name=name)

    def shape(self, dims: Sequence[Dim], at: Activation) -> Value:
        """Sizes as a tensor of int64."""
        return at.sizes.vector(self.writer, dims)

    def shape_of(self, value: Value) -> Value:
        """A Shape."""
        return self.writer.node("Shape", [value], [INT64])[0]

    def matched(self, node: graph.MatchCast, item: Item, at: Activation) -> Item:
        """A cast has no word of its own: what it would trap on is not kept (specs/lower.md, "Export")."""
        return item

    def rule(
        self,
        op: Operator,
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
        values: Sequence[Value],
        of: Type,
        at: Activation,
    ) -> Value | Sequence[Value] | None:
        """The nodes of an operator, by its rule."""
        if op.name not in RULES:
            return None
        return RULES[op.name](ExportedCall(self.writer, at.sizes, op.name, attrs, tuple(values), tuple(types), of))

    def branches(self, node: graph.If, at: Activation) -> Task[Item]:
        """Export an If, each side as a graph. Unsupported (`onnx_export.C6`) if they lie too deep for a file."""
        condition = yield self.value(node.condition, at)
        assert isinstance(condition, Value)
        if len(self.writer.blocks) > self.MOST_DEPTH:
            raise Unsupported(
                f"branches lie {self.MOST_DEPTH} deep, more than a stored model can hold", label="onnx_export.C6"
            )
        graphs: list[onnx.GraphProto] = []
        types = leaves_of(node.type)
        for name, part in (("then_branch", node.then), ("else_branch", node.otherwise)):
            self.writer.blocks.append(GraphBlock())
            values = values_of((yield self.body(part, self.inside(at))))
            graphs.append(self.ended(name, values, types))
        if not types:
            return shaped_as(node.type, iter(()))
        dtypes = [t.dtype if isinstance(t, TensorType) else INT64 for t in types]
        made = self.writer.node("If", [condition], dtypes, {"then_branch": graphs[0], "else_branch": graphs[1]})
        return shaped_as(node.type, iter(made))

    def ended(
        self,
        name: str,
        values: Sequence[Value],
        types: Sequence[TensorType | ShapeType],
        inputs: Sequence[ValueInfoProto] = (),
    ) -> onnx.GraphProto:
        """The block that is being written, as a graph that gives these values."""
        block, results = self.writer.block, list[Value]()
        for v in values:
            if v.name not in block.own or any(v.name == r.name for r in results):
                v = self.writer.node("Identity", [v], [v.dtype])[0]
            results.append(v)
        self.writer.blocks.pop()
        infos = [info_of(v, t, set()) for v, t in zip(results, types, strict=True)]
        return helper.make_graph(block.nodes, self.writer.graph_name(name), inputs, infos)
