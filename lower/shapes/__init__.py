"""Symbolic sizes become run-time computations (rows R10, U24; specs/lower.md, "shapes").

What rule M4 says of sizes happens by statements in the result: host functions read the sizes of values, store those
that are new in the shape heap, compute larger expressions over it, and trap where a size is not as a type says. A
match-cast of their result to a shape names the slots; from there a size is read by its name and never computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assay.lower.anf import to_anf
from assay.lower.anf.names import FreshNames
from assay.lower.shapes.evidence import evidence, hidden_sizes
from assay.lower.shapes.host import Host, expected
from assay.lower.shapes.known import KnownSizes
from assay.semantics import graph, scalar
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph import var
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import bound_by
from assay.semantics.graph.sizes import EXPLICIT, dims_in, has_explicit_shapes
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.operator import Operator
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, dims, open_symbols
from assay.semantics.walk import Worklist, post_order

MOST_PARTS = 4096
"""A value of more tensors than this is Unsupported: each would be looked at by itself."""


def lower_shapes(module: Module) -> Module:
    """The module with every check and computation of sizes as a statement, in A-normal form.

    Functions marked as a primitive, or for another compiler, stay as they are and check their own sizes; those that
    have explicit shapes already stay too. Unsupported where a symbol may have got its value on another way
    (`shapes.C1`), or a value has too many parts (`shapes.C2`).
    """
    module = to_anf(module)
    definitions: dict[str, Definition] = dict(module.definitions)
    for name, d in module.graphs.items():
        if not is_opaque(d) and not has_explicit_shapes(d):
            definitions[name] = run_task(Lowering(name, d, module, definitions).function(d))
    return replace(module, definitions=definitions)


@dataclass(frozen=True, eq=False)
class Meeting:
    """A value meets a type: `shown` is what the type rules say of it already, if anything; `what` is for messages."""

    of: Type
    value: graph.Expr
    what: str
    shown: Type | None = None


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor or shape in a value that meets a type: how it is reached, and the dims that are wanted and shown."""

    path: tuple[int, ...]
    of: TensorType | ShapeType
    value: graph.Expr
    what: str
    shown: Type | None


@dataclass(frozen=True, eq=False)
class ShapeBinding:
    """A let to be; `source` is the let of the source, if there is one."""

    var: graph.Var
    value: graph.Expr
    mark: graph.Dataflow | None = None
    source: graph.Let | None = None


class Lowering:
    """One walk over a top-level function in the order of evaluation. `definitions` gets the host functions."""

    def __init__(self, name: str, root: graph.Function, module: Module, definitions: dict[str, Definition]) -> None:
        self.name = name
        self.module = module
        self.definitions = definitions
        self.known = KnownSizes()
        top: graph.Expr = root
        self.names = FreshNames(v.name for node in post_order(top) for v in bound_by(node))

    # --- functions and blocks ------------------------------------------------------------------------------------

    def function(self, of: graph.Function) -> Task[graph.Function]:
        """Lower a function: its parameters' sizes are matched or checked first, then its body."""
        mark = self.known.enter("function")
        out: list[ShapeBinding] = []
        self.meet(out, [Meeting(p.type, p, f"parameter {p.name!r}") for p in of.params], "", of.span, None)
        body = yield self.block(of.body, out, of)
        self.known.leave(mark)
        return replace(of, body=body, attrs={**of.attrs, EXPLICIT: True})

    def block(
        self, body: graph.Expr, out: list[ShapeBinding], declared: graph.Function | None = None
    ) -> Task[graph.Expr]:
        """The lets of a block in order behind those of `out`; on return from a function its `declared` result is
        met."""
        lets, body = graph.let_chain(body)
        for of in lets:
            yield self.binding(of, out)
        if declared is not None:
            self.returned(out, declared, body)
        for b in reversed(out):
            if b.source is None:
                body = graph.let(b.var, b.value, body, dataflow=b.mark)
            else:
                body = replace(b.source, type=body.type, value=b.value, body=body)
        return body

    def binding(self, of: graph.Let, out: list[ShapeBinding]) -> Task[None]:
        """Lower one binding: bodies inside it, the sizes that its value needs, then those of its type."""
        value: graph.Expr = of.value
        match value:
            case graph.If():
                outer = self.known.enter("alternative")
                branches: list[graph.Expr] = []
                for branch in (value.then, value.otherwise):
                    mark = self.known.enter()
                    branches.append((yield self.block(branch, [])))
                    self.known.leave(mark)
                self.known.leave(outer)
                value = replace(value, then=branches[0], otherwise=branches[1])
            case graph.Match():
                outer = self.known.enter("alternative")
                clauses: list[graph.Clause] = []
                for c in value.clauses:
                    mark = self.known.enter()
                    inner: list[ShapeBinding] = []
                    for p in post_order(c.pattern):
                        if isinstance(p, graph.Bind):
                            met = Meeting(p.var.type, p.var, "the value", p.var.type)
                            self.meet(inner, [met], f"{graph.show_head(of.value)}: ", of.value.span, None)
                    clauses.append(replace(c, body=(yield self.block(c.body, inner))))
                    self.known.leave(mark)
                self.known.leave(outer)
                value = replace(value, clauses=tuple(clauses))
            case graph.Function() if not is_opaque(value):
                value = yield self.function(value)
            case _:
                self.needed(of, out)
        out.append(ShapeBinding(of.var, value, of.dataflow, of))
        if not isinstance(value, graph.Function):
            shown = evidence(of.value, self.module)
            met = Meeting(of.value.type, of.var, "the value", shown)
            self.meet(out, [met], f"{graph.show_head(of.value)}: ", of.value.span, of.dataflow)

    # --- before a value ------------------------------------------------------------------------------------------

    def needed(self, of: graph.Let, out: list[ShapeBinding]) -> None:
        """The sizes that a value needs get slots; those that must not be negative are checked."""
        node = of.value
        host = Host(self.known.number, node.span)
        match node:
            case graph.Call() if isinstance(node.op, Operator):
                for attr in dims_in(node.attrs.values()):
                    self.compute(host, attr)
                if isinstance(node.type, TensorType):
                    for d in node.type.shape:
                        if not isinstance(d, int) and self.known.all_of(d):
                            self.not_negative(host, d, node)
            case graph.CallTIR():
                for d in node.scalars:
                    self.compute(host, d)
                for d in hidden_sizes(node, self.module.kernel(node.func)):
                    self.compute(host, d)
            case graph.ShapeExpr():
                for d in node.dims:
                    self.not_negative(host, d, node)
            case graph.MatchCast() if isinstance(node.type, ShapeType) and isinstance(node.value.type, TensorType):
                for i in range(len(node.type.dims)):
                    size = host.axis(node.value, i)
                    host.require(
                        scalar.apply("ge", size, scalar.const(0)), f"{graph.show_head(node)}: size {i} is {{}}", [size]
                    )
            case _:
                return
        self.emit(out, host, of.dataflow)

    def compute(self, host: Host, d: scalar.Dim) -> None:
        """A larger expression gets a slot, unless it has one."""
        if isinstance(d, scalar.Expr) and not self.known.has(d):
            host.store(d, host.computed(d))
            self.known.add(d)

    def not_negative(self, host: Host, d: scalar.Dim, node: graph.Expr) -> None:
        """Require that a size is at least 0, unless that is known."""
        if self.known.is_positive(d):
            return
        self.compute(host, d)
        size = host.known(d)
        host.require(
            scalar.apply("ge", size, scalar.const(0)),
            f"{graph.show_head(node)}: the size {scalar.show(d)} is {{}}",
            [size],
        )
        self.known.positive(d)

    # --- where a value meets a type ------------------------------------------------------------------------------

    def returned(self, out: list[ShapeBinding], of: graph.Function, body: graph.Expr) -> None:
        """The result that a function declares holds on return."""
        self.meet(out, [Meeting(of.result_type, body, "result", body.type)], "", of.span, None)

    def meet(
        self,
        out: list[ShapeBinding],
        meetings: Sequence[Meeting],
        head: str,
        span: Span | None,
        mark: graph.Dataflow | None,
    ) -> None:
        """Symbols without a value get it from the first dim that is the symbol alone; then all other dims are compared,
        in their order, but for those that are shown to agree."""
        host = Host(self.known.number, span)
        reach = _Reach(self, out, mark)
        later: list[tuple[scalar.Dim, scalar.Expr, str]] = []
        for leaf in (leaf for m in meetings for leaf in self.leaves(m)):
            shown = dims(leaf.shown) if leaf.shown is not None else None
            for axis, d in enumerate(dims(leaf.of)):
                where = f"axis {axis} of {leaf.what}"
                if isinstance(d, scalar.Var) and not self.known.has(d):
                    host.store(d, reach.size(host, leaf, axis))
                    self.known.add(d, where)
                elif shown is None or not scalar.provably_equal(d, shown[axis]):
                    later.append((d, reach.size(host, leaf, axis), where))
        for d, size, where in later:
            self.compare(host, d, size, f"{head}{where}")
        self.emit(out, host, mark)

    def compare(self, host: Host, d: scalar.Dim, size: scalar.Expr, where: str) -> None:
        """Require that a size of a value is what the type says it is."""
        unknown = [v.name for v in scalar.variables(d) if not self.known.has(v)]
        if unknown:
            host.require(scalar.const(False, BOOL), f"{where} is {{}}, but {unknown[0]} has no value", [size])
            return
        self.compute(host, d)
        text, values = expected(host, d, self.known.place(d) if isinstance(d, scalar.Var) else "")
        host.require(scalar.apply("eq", size, host.known(d)), f"{where} is {{}}, expected {text}", [size, *values])
        if isinstance(d, scalar.Expr):
            self.known.positive(d)

    def leaves(self, met: Meeting) -> Iterator[Leaf]:
        """The tensors and shapes of a value, left to right, whose sizes have to be looked at."""
        if met.shown is met.of and not any(not self.known.has(s) for s in open_symbols(met.of)):
            return
        work = Worklist[tuple[Type, Type | None, tuple[int, ...], str]]([(met.of, met.shown, (), met.what)])
        for count, (of, shown, path, what) in enumerate(work, 1):
            if count > MOST_PARTS:
                raise Unsupported(f"{what} has more than {MOST_PARTS} parts", where=met.value.span, label="shapes.C2")
            match of:
                case TensorType() | ShapeType():
                    yield Leaf(path, of, met.value, what, shown)
                case TupleType():
                    inside = shown.fields if isinstance(shown, TupleType) else [None] * len(of.fields)
                    parts = zip(of.fields, inside, strict=True)
                    work.add((t, s, (*path, i), f"{what}.{i}") for i, (t, s) in enumerate(parts))
                case _:
                    pass  # what is inside a reference, a data type or a function no run looks at

    # --- statements ----------------------------------------------------------------------------------------------

    def bind(self, out: list[ShapeBinding], name: str, value: graph.Expr, mark: graph.Dataflow | None) -> graph.Var:
        """Bind a value to a new variable."""
        new = var(self.names.fresh(name), value.type)
        out.append(ShapeBinding(new, value, mark))
        return new

    def emit(self, out: list[ShapeBinding], host: Host, mark: graph.Dataflow | None) -> None:
        """The call of a host function, and names for the slots that it fills."""
        if host.is_empty:
            return
        name = unused(f"{self.name}_shapes", self.definitions)
        self.definitions[name] = host.function(name)
        heap = self.bind(out, "heap", host.call(name), mark)
        if host.stored:
            self.bind(out, "sizes", graph.match_cast(heap, ShapeType(tuple(host.stored)), span=host.span), mark)


class _Reach:
    """The sizes of parts of values: projections, vectors of sizes, names of a shape's elements; each bound once."""

    def __init__(self, lowering: Lowering, out: list[ShapeBinding], mark: graph.Dataflow | None) -> None:
        self.lowering = lowering
        self.out = out
        self.mark = mark
        self.parts: dict[tuple[graph.Expr, tuple[int, ...]], graph.Expr] = {}
        self.vectors: dict[tuple[graph.Expr, tuple[int, ...]], graph.Expr | tuple[scalar.Var, ...]] = {}

    def size(self, host: Host, leaf: Leaf, axis: int) -> scalar.Expr:
        key = leaf.value, leaf.path
        if key not in self.vectors:
            part = self.part(leaf)
            if isinstance(leaf.of, TensorType):
                self.vectors[key] = self.lowering.bind(self.out, "sizes", graph.call("shape_of", part), self.mark)
            else:
                names = tuple(scalar.Var("size") for _ in leaf.of.dims)
                for s in names:
                    self.lowering.known.add(s)
                self.lowering.bind(self.out, "sizes", graph.match_cast(part, ShapeType(names)), self.mark)
                self.vectors[key] = names
        found = self.vectors[key]
        return host.known(found[axis]) if isinstance(found, tuple) else host.axis(found, axis)

    def part(self, leaf: Leaf) -> graph.Expr:
        at: graph.Expr = leaf.value
        for i in range(len(leaf.path)):
            key = leaf.value, leaf.path[: i + 1]
            if key not in self.parts:
                self.parts[key] = self.lowering.bind(self.out, "part", graph.get(at, leaf.path[i]), self.mark)
            at = self.parts[key]
        return at
