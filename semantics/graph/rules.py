"""When a graph function is well-formed (rules M2 to M4; specs/semantics.md, "Well-formed").

Every rule is found by one pass over the nodes, users before what they use, or the other way round. Variables and sizes
are the business of `assay.semantics.graph.bindings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.semantics import graph, types
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph.bindings import broken_bindings
from assay.semantics.graph.matching import Bound, instantiate, match_types
from assay.semantics.graph.patterns import covers
from assay.semantics.leaves import output_names
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import post_order


def broken_rules(function: graph.Function, module: Module) -> Iterator[Invalid]:
    """What is ill-formed about a top-level function: one Invalid for each place and rule."""
    root: graph.Expr = function
    order = list(post_order(root))
    yield from _types(order, module)
    yield from broken_bindings(function, order)
    yield from _actions(order)
    names = Counter(p.name for p in function.params)
    if any(count > 1 for count in names.values()):
        yield Invalid("two parameters have one name", label="graph.C4")
    try:
        output_names(function)
    except Invalid as wrong:
        yield Invalid(wrong.message, where=function.span, label=wrong.label)


# --- types -------------------------------------------------------------------------------------------------------


def _types(order: list[graph.Expr], module: Module) -> Iterator[Invalid]:
    known: set[int] = set()
    for node in order:
        try:
            if isinstance(node, (graph.Var, graph.ExternFunc, graph.MatchCast)):
                check_type(node.type, module, known)
            graph.require_sizes(node)
            for param in node.params if isinstance(node, graph.Function) else ():
                graph.require_sizes(param)  # also of one that nothing uses, which is no node of the body
            wanted = derive(node, module)
            if not _agrees(wanted, node):
                raise Invalid(f"{graph.show_head(node)}: its parts make {wanted}", label="graph.C3")
            if isinstance(node, graph.Match) and not node.partial:
                if not covers([c.pattern for c in node.clauses], module):
                    raise Invalid(
                        "the clauses do not cover every value: add one, or make the match partial", label="match.C5"
                    )
        except Invalid as wrong:
            yield Invalid(wrong.message, where=node.span, label=wrong.label)


def _agrees(derived: types.Type, node: graph.Expr) -> bool:
    """Whether the node's type is the derived one, up to the names of sizes that only a run can tell."""
    if types.same_type(derived, node.type):
        return True
    known = {s for c in node.children for s in types.symbols(c.type)}
    bound: Bound = {s: s for s in types.symbols(derived) if s in known}
    try:
        match_types([derived], [node.type], bound)
    except Invalid:
        return False
    return types.same_type(instantiate(derived, bound), node.type)


def derive(node: graph.Expr, module: Module) -> types.Type:  # noqa: C901  (a case for each kind of node)
    """The type of a node from its parts (rule M2.2)."""
    match node:
        case graph.Var() | graph.ExternFunc():
            return node.type
        case graph.Constant():
            return types.TensorType(node.data.shape, dtype(node.data.dtype))
        case graph.GlobalVar():
            if isinstance(module.definitions.get(node.name), PrimFunc):
                raise Invalid(f"{node.name} is a tensor function, which is called by call_tir", label="graph.C2")
            return type_of(node.name, module)
        case graph.Constructor():
            return graph.constructor(module.data(node.data), node.name).type
        case graph.Call() if isinstance(node.op, Operator):
            return graph.call(node.op, *node.args, **node.attrs).type
        case graph.Call():
            return graph.call(node.op, *node.args, type_args=node.type_args).type
        case graph.CallTIR():
            _check_call_tir(node, module.kernel(node.func))
            return node.type
        case graph.Tuple():
            return types.TupleType(tuple(f.type for f in node.fields))
        case graph.TupleGetItem():
            return graph.get(node.value, node.index).type
        case graph.Let():
            return graph.let(node.var, node.value, node.body).type
        case graph.If():
            return graph.if_(node.condition, node.then, node.otherwise).type
        case graph.Match():
            clauses = [(c.pattern, c.body) for c in node.clauses]
            for c in node.clauses:
                for p in post_order(c.pattern):
                    if isinstance(p, graph.Made) and not types.same_type(
                        derive(p.constructor, module), p.constructor.type
                    ):
                        raise Invalid(f"{p.constructor.name} is not of type {p.constructor.type}", label="graph.C3")
            return graph.match(node.value, *clauses, partial=node.partial).type
        case graph.MatchCast():
            return graph.match_cast(node.value, node.type).type
        case graph.OnDevice():
            return node.value.type
        case graph.ShapeExpr():
            return graph.shape(*node.dims).type
        case graph.ShapeOf():
            return graph.shape_of(node.value).type
        case graph.RefCreate():
            return types.RefType(node.value.type)
        case graph.RefRead():
            return graph.read(node.ref).type
        case graph.RefWrite():
            return graph.write(node.ref, node.value).type
        case graph.Print():
            return types.UNIT
        case graph.AssertOp():
            return graph.assert_op(node.condition, *node.values).type
        case graph.Function():
            of = node.func_type
            return graph.function(node.params, node.body, of.result, type_params=of.type_params, pure=of.pure).type
        case _:
            raise Invalid(f"no such expression: {type(node).__name__}", label="graph.C5")


def check_type(of: types.Type, module: Module, known: set[int] | None = None) -> None:
    """Invalid where a data type is unknown, or has another number of arguments. Types in `known`, which grows, are
    left out: so a type that is part of many is looked at once."""
    seen = set() if known is None else known
    if isinstance(of, types.TensorType) or id(of) in seen:
        return
    root: types.Type = of
    for t in post_order(root, lambda t: () if id(t) in seen else t.children):
        if isinstance(t, types.DataType) and len(module.data(t.name).type_params) != len(t.args):
            raise Invalid(f"{t.name} takes {len(module.data(t.name).type_params)} type arguments", label="data.C2")
        seen.add(id(t))


def check_data(data: types.DataDef, module: Module) -> None:
    """A data type's fields are made of known types and of its own type parameters."""
    for name, fields in data.constructors.items():
        for t in fields:
            check_type(t, module)
            for v in types.free_type_vars(t):
                if v not in data.type_params:
                    raise Invalid(f"{data.name}.{name}: {v} is no type parameter of it", label="data.C3")
            for s in types.open_symbols(t):
                raise Invalid(f"{data.name}.{name}: the size {s.name} is bound by nothing", label="data.C4")


def type_of(name: str, module: Module) -> types.Type:
    """The type that a name of the module has for the graph: that of a function, of a constant of the table, or of a
    tensor function as its calls see it. Invalid (graph.C2) where the module has none of these."""
    if name in module.constants:
        array = module.constants[name]
        return types.TensorType(array.shape, dtype(array.dtype))
    match module.definitions.get(name):
        case graph.Function() as function:
            return function.type
        case PrimFunc() as kernel:
            return kernel_type(kernel)
        case _:
            raise Invalid(f"the module has no function or constant {name}", label="graph.C2")


def kernel_type(kernel: PrimFunc) -> types.FuncType:
    """A tensor function as a function of the tensors that it reads, and of its scalars, to those that it fills: one
    tensor, or a tuple of them. It is pure."""
    buffers = [types.TensorType(b.shape, b.dtype) for b in kernel.params]
    count = len(kernel.inputs)
    scalars = [types.TensorType((), v.dtype) for v in kernel.scalars]
    result = buffers[count] if kernel.num_outputs == 1 else types.TupleType(tuple(buffers[count:]))
    return types.FuncType((*buffers[:count], *scalars), result)


def _check_call_tir(node: graph.CallTIR, kernel: PrimFunc) -> None:
    operands, made = [t for a in node.args for t in types.flatten(a.type)], types.flatten(node.type)
    if any(
        isinstance(t, types.TupleType) for t in (node.type.fields if isinstance(node.type, types.TupleType) else ())
    ):
        raise Invalid(f"{kernel.name} fills tensors, not {node.type}", label="call_tir.C4")
    of = kernel_type(kernel)
    if len(operands) != len(kernel.inputs) or len(made) != len(kernel.outputs):
        takes = f"{len(kernel.inputs)} buffers and fills {len(kernel.outputs)}"
        raise Invalid(f"{kernel.name} takes {takes}; {len(operands)} and {len(made)} given", label="call_tir.C1")
    if len(node.scalars) != len(kernel.scalars):
        raise Invalid(
            f"{kernel.name} takes {len(kernel.scalars)} scalars, {len(node.scalars)} given", label="call_tir.C3"
        )
    bound: Bound = {}
    wanted_types = (*of.params[: len(operands)], *types.flatten(of.result))
    for b, wanted, t in zip(kernel.params, wanted_types, (*operands, *made), strict=True):
        try:
            match_types([wanted], [t], bound)
        except Invalid:
            raise Invalid(f"{kernel.name}: {b} is given {t}", label="call_tir.C2") from None


# --- actions -----------------------------------------------------------------------------------------------------


def _actions(order: list[graph.Expr]) -> Iterator[Invalid]:
    """What acts is reached by one edge only, and by none inside a dataflow block (rule M2.5)."""
    edges: Counter[int] = Counter()
    active: set[int] = set()
    for node in order:
        parts = node.children
        edges.update(map(id, parts))
        if graph.acts(node) or (not isinstance(node, graph.Function) and any(id(c) in active for c in parts)):
            active.add(id(node))
    for node in order:
        if id(node) in active and edges[id(node)] > 1:
            yield Invalid(
                f"{graph.show_head(node)} acts and is used {edges[id(node)]} times: name it by a let",
                where=node.span,
                label="graph.C7",
            )
        if isinstance(node, graph.Let) and node.dataflow is not None and id(node.value) in active:
            yield Invalid(
                f"{node.var.name} acts inside a dataflow block: {graph.show_head(node.value)}",
                where=node.span,
                label="graph.C9",
            )
    yield from _blocks(order)


def _blocks(order: list[graph.Expr]) -> Iterator[Invalid]:
    """The lets of a dataflow block follow one another (rule M2.8)."""
    after: dict[int, graph.Dataflow] = {
        id(n.body): n.dataflow for n in order if isinstance(n, graph.Let) and n.dataflow is not None
    }
    first: dict[graph.Dataflow, graph.Let] = {}
    for node in reversed(order):
        if isinstance(node, graph.Let) and node.dataflow is not None and after.get(id(node)) is not node.dataflow:
            if node.dataflow in first:
                yield Invalid(
                    f"{node.var.name} is not next to the rest of its dataflow block", where=node.span, label="graph.C10"
                )
            first[node.dataflow] = node
