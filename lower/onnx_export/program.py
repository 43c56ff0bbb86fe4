"""The walk over a program that becomes an ONNX graph (specs/lower.md, "Export").

The program is taken in A-normal form, whose order and places of evaluation are those of the source: each let is a node
of the graph or of the branch in which it stands. A call of a function is written as what the function does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import ValueInfoProto, helper

from assay.lower.anf import Converted, function_to_anf
from assay.lower.claimed import claimed_of
from assay.lower.onnx_export import elementwise, movement, sums
from assay.lower.onnx_export.items import (
    Activation,
    Closure,
    Item,
    info_of,
    leaves_of,
    renamed_item,
    reshaped_item,
    values_of,
)
from assay.lower.onnx_export.use import ExportedCall, Rule
from assay.lower.onnx_export.writer import IR_VERSION, MOST_BYTES, OPSET, GraphBlock, Value, Writer
from assay.lower.tail_loops import TailLoop, tail_loop_of
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported, placed
from assay.semantics.module import Module
from assay.semantics.operator import Operator
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


class Export:
    """The export of one module as an ONNX model."""

    MOST_DEPTH = 30
    """A protocol buffer is 100 messages deep at most; a branch takes three."""

    def __init__(self, module: Module) -> None:
        self.module = module.resolved()
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
        self.writer = Writer(names)
        self.wanted: dict[graph.Var, str] = {}
        self.named_by_let: set[str] = set()
        """What has the name of a let already, by which branches may use it."""
        self.converted: dict[int, Converted] = {}
        self.active: list[int] = []

    # --- the whole

    def model(self, tensors: dict[str, graph.Expr] | None) -> onnx.ModelProto:
        """The whole model, with the module's `main` as its graph. Unsupported where ONNX has no word for a part."""
        top = Activation()
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
            self.bind(top, p, value, block)
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

    def anf(self, function: graph.Function) -> graph.Function:
        """A function in A-normal form, converted once."""
        found = self.converted.get(id(function))
        if found is None:
            found = self.converted[id(function)] = function_to_anf(function, self.module)
        return found.function

    # --- bodies

    def body(self, expr: graph.Expr, at: Activation) -> Task[Item]:
        """The lets of a block in order; what its result stands for."""
        lets, last = graph.let_chain(expr)
        yield self.bindings(lets, at)
        result: Item = yield self.value(last, at)
        return result

    def bindings(self, lets: Sequence[graph.Let], at: Activation) -> Task[None]:
        """Lets in order."""
        for let in lets:
            mark = len(self.writer.block.nodes)
            with placed(let.value.span):
                item: Item = yield self.value(let.value, at, let.var)
            if isinstance(let.value, PASSED):
                at.values[let.var] = item
            else:
                item = self.called(item, let.var, mark)
                self.bind(at, let.var, item, self.writer.block)
            if self.writer.count() > MOST_NODES:
                raise Unsupported(f"the model would have more than {MOST_NODES} nodes", label="onnx_export.C6")

    def bind(self, at: Activation, var: graph.Var, item: Item, block: GraphBlock) -> None:
        """Let a variable mean a value, and note the sizes that its type names."""
        at.values[var] = item
        work = Worklist[tuple[Type, Item]]([(var.type, item)])
        for of, part in work:
            if isinstance(of, TupleType) and isinstance(part, tuple):
                work.add(zip(of.fields, part, strict=True))
            elif isinstance(part, Value):
                at.sizes.bind(of, part, block)

    def called(self, item: Item, var: graph.Var, mark: int) -> Item:
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
        """A function that calls itself as the last thing that it does, as a Loop, and what stands behind that. Its
        parameters are bound to what they begin with. What decides is written before it, in a round, and behind it."""
        writer = self.writer
        types: list[Type] = [p.type for p in function.params]
        leaves = leaves_of(TupleType(tuple(types)))
        flat = [v for p in function.params for v in values_of(at.values[p])]

        def bound(values: Sequence[Value]) -> Activation:
            rest, inside = iter(values), Activation(at.outer)
            for p in function.params:
                self.bind(inside, p, reshaped_item(p.type, rest), writer.block)
            return inside

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
        inside = bound(states)
        yield self.bindings(loop.before, inside)
        yield self.bindings(loop.round, inside)
        again = [v for item in (yield self.values(loop.again, inside)) for v in values_of(item)]
        goes_on = yield test(bound(again))
        body = self.ended("round", [goes_on, *again], [SCALARS[1], *leaves], given)
        behind = bound(writer.node("Loop", [None, first, *flat], [v.dtype for v in flat], {"body": body}))
        yield self.bindings(loop.before, behind)
        result: Item = yield self.body(loop.end, behind)
        return result

    # --- nodes

    def value(self, node: graph.Expr, at: Activation, var: graph.Var | None = None) -> Task[Item]:
        """What an expression of atoms stands for; `var` is the variable that is bound to it."""
        result: Item
        match node:
            case graph.Var():
                return at.look(node)
            case graph.GlobalVar(name=name):
                found = self.module.definitions.get(name)
                if isinstance(found, graph.Function):
                    return Closure(found, None, name)
                if name in self.module.constants:
                    return self.writer.constant(self.module.constants[name], name=name)
                raise _no_word(node)
            case graph.Constant(data=data):
                return self.writer.constant(data)
            case graph.Function():
                return Closure(node, at, "", var)
            case graph.Tuple(fields=fields):
                return tuple((yield self.values(fields, at)))
            case graph.TupleGetItem(value=value, index=index):
                whole = yield self.value(value, at)
                assert isinstance(whole, tuple)
                result = whole[index]
                return result
            case graph.OnDevice(value=value) | graph.MatchCast(value=value):
                result = yield self.value(value, at)
                return result
            case graph.ShapeExpr(dims=dims):
                return at.sizes.vector(self.writer, dims)
            case graph.ShapeOf(value=value):
                of = yield self.value(value, at)
                assert isinstance(of, Value)
                return self.writer.node("Shape", [of], [INT64])[0]
            case graph.If():
                result = yield self.branches(node, at)
                return result
            case graph.Call(op=Operator() as op):
                operands = yield self.values(node.args, at)
                return self.operation(op, op.check_attrs(node.attrs), node.args, operands, node.type, at)
            case graph.Call(op=graph.Expr() as op):
                callee = yield self.value(op, at)
                operands = yield self.values(node.args, at)
                if not isinstance(callee, Closure):
                    raise _no_word(node)
                result = yield self.activation(callee, operands)
                return result
            case graph.CallTIR():
                operands = yield self.values(node.args, at)
                result = yield self.kernel(node, operands, at)
                return result
            case graph.AssertOp():
                raise Unsupported("ONNX has no word for an assertion", label="onnx_export.C1")
            case _:
                raise _no_word(node)

    def values(self, nodes: Sequence[graph.Expr], at: Activation) -> Task[list[Item]]:
        """What several expressions stand for, left to right."""
        items: list[Item] = []
        for node in nodes:
            items.append((yield self.value(node, at)))
        return items

    def operation(
        self,
        op: Operator,
        attrs: Mapping[str, object],
        args: Sequence[graph.Expr],
        operands: Sequence[Item],
        of: Type,
        at: Activation,
    ) -> Item:
        """Export the call of an operator. Unsupported (`onnx_export.C2`) without a rule or tensor operands."""
        if op.name not in RULES:
            why = UNSAID.get(op.name, "nobody has said how")
            raise Unsupported(f"{op.name} has no word in ONNX: {why}", label="onnx_export.C2")
        types, values = [], []
        for a, item in zip(args, operands, strict=True):
            if not isinstance(a.type, TensorType) or not isinstance(item, Value):
                raise Unsupported(f"{op.name} of {a.type}; a tensor is wanted", label="onnx_export.C2")
            types.append(a.type)
            values.append(item)
        made = RULES[op.name](ExportedCall(self.writer, at.sizes, op.name, attrs, tuple(values), tuple(types), of))
        return made if isinstance(made, Value) else tuple(made)

    def kernel(self, node: graph.CallTIR, operands: Sequence[Item], at: Activation) -> Task[Item]:
        """A tensor function as the operator that it claims to be, or those of its group one after another."""
        claimed = claimed_of(self.module, node)
        if claimed is None:
            raise Unsupported(
                f"tensor function {node.func} is no operator with tensors for operands; ONNX has no word for loops"
                " over elements",
                label="onnx_export.C1",
            )
        if isinstance(claimed, graph.Function):
            result: Item = yield self.activation(Closure(claimed, None), operands)
            return result
        return self.operation(*claimed, node.args, operands, node.type, at)

    def activation(self, closure: Closure, operands: Sequence[Item]) -> Task[Item]:
        """A call, written as the body of the function."""
        function = closure.function if closure.outer is not None else self.anf(closure.function)
        if id(closure.function) in self.active:
            raise Unsupported(
                "a function calls itself, and not as the last thing that it does; ONNX has no word for that",
                where=function.span,
                label="onnx_export.C1",
            )
        self.active.append(id(closure.function))
        inside = Activation(closure.outer)
        for p, item in zip(function.params, operands, strict=True):
            self.bind(inside, p, item, self.writer.block)
        loop = tail_loop_of(function, closure.is_named)
        result: Item
        if loop is None:
            result = yield self.body(function.body, inside)
        else:
            result = yield self.looped(loop, function, inside)
        self.active.pop()
        return result

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
            values = values_of((yield self.body(part, Activation(at))))
            graphs.append(self.ended(name, values, types))
        if not types:
            return reshaped_item(node.type, iter(()))
        dtypes = [t.dtype if isinstance(t, TensorType) else INT64 for t in types]
        made = self.writer.node("If", [condition], dtypes, {"then_branch": graphs[0], "else_branch": graphs[1]})
        return reshaped_item(node.type, iter(made))

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
        return helper.make_graph(block.nodes, name, inputs, infos)


def _no_word(node: graph.Expr) -> Unsupported:
    return Unsupported(f"ONNX has no word for {graph.show_head(node)}", label="onnx_export.C1")
