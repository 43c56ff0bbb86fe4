"""The statements about sizes in a function, followed by data flow (specs/verify.md, "shapes").

Every size is a symbolic expression over the axes of the function's values: what a host function stores and asserts is
found by running it on these. Between two statements of the program, the checks and computations must be exactly those
that rule M4 asks for there, in its order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics import graph, scalar
from assay.semantics.dtypes import INT64
from assay.semantics.graph.matching import Bound, instantiate_dim
from assay.semantics.graph.sizes import has_explicit_shapes
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import show
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import Assert, Buffer, PrimFunc, Seq, Stmt, Store
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, dims, flatten
from assay.semantics.walk import Worklist, occurrences, post_order, rewrite

Place: TypeAlias = tuple[graph.Expr, tuple[int, ...]]
"""A part of the value of a variable, or of a name of the module: the fields that lead to it."""


class Wrong(Exception):
    """A statement about sizes that is missing, wrong, or at the wrong place."""


@dataclass(frozen=True, eq=False)
class SizeEvent:
    """What a host function does: it stores a slot (of `heap`, at `slot`), or asserts a comparison of two sizes."""

    kind: str
    left: scalar.Expr
    right: scalar.Expr
    heap: graph.Var | None = None
    slot: int = 0


@dataclass(frozen=True, eq=False)
class Duty:
    """What rule M4 asks for: `dim` is stored ("store"), has a name ("need"), is not negative ("ge"), is equal to `size`
    ("eq"); `size` is not negative ("ge of"); or a run that comes here fails ("never")."""

    kind: str
    dim: scalar.Dim
    size: scalar.Expr
    why: str


@dataclass(eq=False)
class Scoped:
    """A table that forgets, at the end of a block, what was entered in it."""

    table: dict[Any, Any] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)

    def add(self, key: Any, value: Any) -> None:
        """Enter a value, unless the key has one."""
        if key not in self.table:
            self.table[key] = value
            self.log.append(key)

    def leave(self, mark: int) -> None:
        """Forget what was entered since `mark`."""
        while len(self.log) > mark:
            del self.table[self.log.pop()]


class SizeFlow:
    """A walk over a top-level function. `added` says which lets are about sizes and not the program's."""

    def __init__(self, module: Module, added: frozenset[graph.Var]) -> None:
        self.module = module
        self.added = added
        self.number = scalar.Interner()
        self.named = Scoped()
        """What a named size is, by its structure."""
        self.truth = Scoped()
        """What a symbol is, by rule M4: the first dim that is the symbol alone."""
        self.positive = Scoped()
        self.axes: dict[Place, tuple[scalar.Expr, ...]] = {}
        self.parts: dict[graph.Expr, Place] = {}
        self.vectors: dict[graph.Expr, tuple[scalar.Expr, ...]] = {}
        self.globals: dict[str, graph.Expr] = {}
        self.heaps: dict[tuple[graph.Var, int], scalar.Dim] = {}
        self.events: list[SizeEvent] = []
        self.duties: list[Duty] = []
        self.new: list[scalar.Dim] = []
        """The sizes that got names since the last statement of the program."""

    def check(self, function: graph.Function) -> None:
        """Raise `Wrong` for the first statement that is not as it should be."""
        run_task(self.function(function))

    # --- blocks --------------------------------------------------------------------------------------------------

    def function(self, of: graph.Function) -> Task[None]:
        """Follow a function: the sizes of its parameters, then its body. Wrong without explicit shapes."""
        if not has_explicit_shapes(of):
            raise Wrong("a function without explicit shapes")
        marks = self.marks()
        self.met([(p.type, None, (p, ())) for p in of.params], f"parameters of {of.type}")
        yield self.block(of.body, of)
        self.leave(marks)

    def block(self, body: graph.Expr, of: graph.Function | None = None) -> Task[None]:
        """Follow the lets of a body, and check the type of the result if it is that of a function."""
        lets, body = graph.let_chain(body)
        for let in lets:
            if let.var in self.added:
                self.added_let(let)
            else:
                yield self.let(let)
        if of is not None:
            self.met([(of.result_type, body.type, (self.root(body), ()))], "the result")
        self.settle()

    def let(self, of: graph.Let) -> Task[None]:
        """Follow a let of the program: what must be checked before its value, its bodies, its type."""
        value = of.value
        self.before(value)
        self.settle()
        match value:
            case graph.If():
                for branch in (value.then, value.otherwise):
                    marks = self.marks()
                    yield self.block(branch)
                    self.leave(marks)
            case graph.Match():
                for c in value.clauses:
                    marks = self.marks()
                    for p in post_order(c.pattern):
                        if isinstance(p, graph.Bind):
                            self.met([(p.var.type, p.var.type, (p.var, ()))], p.var.name)
                    yield self.block(c.body)
                    self.leave(marks)
            case graph.Function() if "primitive" not in value.attrs and "compiler" not in value.attrs:
                yield self.function(value)
            case _:
                pass
        if not isinstance(value, graph.Function):
            self.met([(value.type, self.shown(value), (of.var, ()))], graph.show_head(value))

    def marks(self) -> tuple[int, int, int]:
        """How much each table holds, to come back to with `leave`."""
        return len(self.named.log), len(self.truth.log), len(self.positive.log)

    def leave(self, marks: tuple[int, int, int]) -> None:
        """Forget in all tables what was entered since `marks`."""
        for table, mark in zip((self.named, self.truth, self.positive), marks, strict=True):
            table.leave(mark)

    # --- duties --------------------------------------------------------------------------------------------------

    def before(self, node: graph.Expr) -> None:
        """What a value needs: names for the larger expressions in it, and sizes that are not negative."""
        needs: list[scalar.Dim] = []
        sized: list[scalar.Dim] = []
        match node:
            case graph.Call() if isinstance(node.op, Operator):
                needs = list(_scalars(node.attrs.values()))
                sized = [*node.type.shape] if isinstance(node.type, TensorType) else []
                sized = [
                    d
                    for d in sized
                    if not isinstance(d, int) and all(v in self.truth.table for v in scalar.variables(d))
                ]
            case graph.CallTIR():
                needs = [*node.scalars, *_told_by_type(node, self.module.kernel(node.func))]
            case graph.ShapeExpr():
                sized = list(node.dims)
            case graph.MatchCast() if isinstance(node.type, ShapeType) and isinstance(node.value.type, TensorType):
                for n in self.vector(node.value):
                    self.duties.append(Duty("ge of", 0, n, graph.show_head(node)))
        for d in needs:
            self.duties.append(Duty("need", d, scalar.const(0), graph.show_head(node)))
        for d in sized:
            self.duties.append(Duty("ge", d, scalar.const(0), graph.show_head(node)))

    def met(self, meetings: Sequence[tuple[Type, Type | None, Place]], why: str) -> None:
        """Values meet types: symbols without a value get it, every other dim is compared unless it is shown, by the
        type that is given second, to be equal."""
        later: list[Duty] = []
        work = Worklist(meetings)
        for t, s, (root, path) in work:
            if isinstance(t, TupleType):
                inside = s.fields if isinstance(s, TupleType) else (None,) * len(t.fields)
                parts = enumerate(zip(t.fields, inside, strict=True))
                work.add((a, b, (root, (*path, i))) for i, (a, b) in parts)
            elif isinstance(t, (TensorType, ShapeType)):
                for i, (d, n) in enumerate(zip(dims(t), self.sizes((root, path), t), strict=True)):
                    if isinstance(d, scalar.Var) and d not in self.truth.table:
                        self.truth.add(d, n)
                        self.duties.append(Duty("store", d, n, why))
                    elif s is None or not scalar.provably_equal(d, dims(s)[i]):
                        later.append(Duty("eq", d, n, why))
        for duty in later:
            unknown = any(v not in self.truth.table for v in scalar.variables(duty.dim))
            self.duties.append(Duty("never", 0, duty.size, why) if unknown else duty)

    def shown(self, node: graph.Expr) -> Type | None:
        """What the rules say of a value's sizes before the run."""
        match node:
            case graph.MatchCast():
                same = isinstance(node.type, ShapeType) == isinstance(node.value.type, ShapeType)
                return node.value.type if same else None
            case graph.Call() if isinstance(node.op, (Operator, graph.Constructor)):
                return node.type
            case graph.Call():
                return (
                    graph.call(node.op, *node.args, type_args=node.type_args).type
                    if isinstance(node.op, graph.GlobalVar)
                    else None
                )
            case graph.If():
                return graph.if_(node.condition, node.then, node.otherwise).type
            case graph.Match():
                return graph.match(node.value, *((c.pattern, c.body) for c in node.clauses), partial=node.partial).type
            case graph.CallTIR():
                return _made(node, self.module.kernel(node.func))
            case _:
                return node.type

    # --- statements about sizes ----------------------------------------------------------------------------------

    def added_let(self, of: graph.Let) -> None:
        """Follow a let about sizes; Wrong if its value is no statement about them."""
        value = of.value
        match value:
            case graph.TupleGetItem():
                root, path = self.place(value.value)
                self.parts[of.var] = root, (*path, value.index)
            case graph.Call() if isinstance(value.op, Operator) and value.op.name == "shape_of":
                self.vectors[of.var] = self.sizes(self.place(value.args[0]), value.args[0].type)
            case graph.CallTIR():
                self.host(of.var, value)
            case graph.MatchCast() if isinstance(value.type, ShapeType):
                given = value.value
                if isinstance(given.type, ShapeType):
                    known = self.sizes(self.place(given), given.type)
                    for d, n in zip(value.type.dims, known, strict=True):
                        self.truth.add(d, n)
                        self.name(d, n)
                elif isinstance(given, graph.Var) and given in self.vectors:
                    for i, (d, n) in enumerate(zip(value.type.dims, self.vectors[given], strict=True)):
                        self.heaps[given, i] = d
                        self.name(d, n)
                else:
                    raise Wrong(f"{of.var.name} names sizes that nothing stored")
            case _:
                raise Wrong(f"{of.var.name} is no statement about sizes: {graph.show_head(value)}")

    def name(self, d: scalar.Dim, n: scalar.Expr) -> None:
        """Give a size its value; Wrong if it has one."""
        if isinstance(d, int) or self.number(d) in self.named.table:
            raise Wrong(f"the size {show(d)} is written twice")
        self.named.add(self.number(d), n)
        self.new.append(d)

    def host(self, var: graph.Var, node: graph.CallTIR) -> None:
        """A host function, run on what is known of the sizes."""
        kernel = self.module.kernel(node.func)
        memory: dict[Buffer, list[scalar.Expr | None]] = {}
        for b, a in zip(kernel.inputs, node.args, strict=True):
            memory[b] = list(self.vector(a))
        out = kernel.outputs[0] if kernel.outputs else None
        heap: list[scalar.Expr | None] = [None] * (out.static_shape[0] if out is not None else 0)
        if out is not None:
            memory[out] = heap
        env = {v: self.value(d, f"{node.func} is given") for v, d in zip(kernel.scalars, node.scalars, strict=True)}

        def change(e: scalar.Expr) -> scalar.Expr:
            if isinstance(e, scalar.Var):
                return env[e]
            if isinstance(e, scalar.Load):
                (index,) = e.indices
                at = memory[e.buffer][_slot(index, memory[e.buffer], node)] if isinstance(index, scalar.Const) else None
                if at is None:
                    raise Wrong(f"{node.func} reads {e} before it is written")
                return at
            return e

        for stmt in _straight(kernel):
            match stmt:
                case Store(buffer=buffer, indices=(scalar.Const() as index,)) if buffer is out:
                    slot, value = _slot(index, heap, node), rewrite(stmt.value, change)
                    if heap[slot] is not None:
                        raise Wrong(f"{node.func} writes slot {slot} twice")
                    heap[slot] = value
                    self.events.append(SizeEvent("store", value, value, var, slot))
                case Assert(kind="shape", condition=scalar.Apply(op="eq" | "ge" as op, args=(left, right))):
                    self.events.append(SizeEvent(op, rewrite(left, change), rewrite(right, change)))
                case Assert(kind="shape", condition=scalar.Const() as c) if not c.value:
                    values = [rewrite(v, change) for v in stmt.values]
                    self.events.append(SizeEvent("never", values[0], values[0]))
                case _:
                    raise Wrong(f"{node.func} does what no host function does: {stmt}")
        written = [n for n in heap if n is not None]
        if len(written) < len(heap):
            raise Wrong(f"{node.func} leaves slot {heap.index(None)} unwritten")
        self.vectors[var] = tuple(written)

    # --- what was done against what was to be done --------------------------------------------------------------

    def settle(self) -> None:
        """The events since the last statement of the program are those that the duties ask for, in their order."""
        for d in self.new:
            unknown = [v.name for v in scalar.variables(d) if v not in self.truth.table]
            if unknown:
                raise Wrong(f"the size {show(d)} is named where {unknown[0]} has no value")
            if not self.equal(self.value(d, ""), self.meant(d)):
                raise Wrong(f"the slot of {show(d)} holds {show(self.value(d, ''))}, not {show(self.meant(d))}")
        stores = [e for e in self.events if e.kind == "store"]
        for e in stores:
            assert e.heap is not None
            if (e.heap, e.slot) not in self.heaps:
                raise Wrong(f"slot {e.slot} of {e.heap.name} has no name")
        # where a symbol is stored among the rest does not matter: that cannot fail
        done = iter([e for e in self.events if not (e.kind == "store" and isinstance(self.dim(e), scalar.Var))])
        computed = {self.number(self.dim(e)) for e in stores}
        event = next(done, None)
        for duty in self.duties:
            d = duty.dim
            if duty.kind == "store":
                if self.number(d) not in self.named.table:
                    raise Wrong(f"{duty.why}: the size {show(d)} is not stored")
                continue
            if isinstance(d, scalar.Expr) and self.number(d) in computed and not isinstance(d, scalar.Var):
                if event is None or event.kind != "store" or self.number(self.dim(event)) != self.number(d):
                    raise Wrong(f"{duty.why}: {show(d)} is not computed where it is needed")
                computed.discard(self.number(d))
                event = next(done, None)
            if duty.kind == "need":
                self.value(d, duty.why)
                continue
            wanted: tuple[scalar.Expr, scalar.Expr] = duty.size, scalar.const(0)
            if duty.kind == "ge":
                wanted = self.value(d, duty.why), scalar.const(0)
                if self.is_positive(wanted[0]) and not (event is not None and self.is_event(event, "ge", wanted)):
                    continue
            elif duty.kind == "eq":
                wanted = duty.size, self.value(d, duty.why)
            elif duty.kind == "never":
                wanted = duty.size, duty.size
            kind = duty.kind.removesuffix(" of")
            if event is None or not self.is_event(event, kind, wanted):
                got = "nothing" if event is None else f"{event.kind} of {show(event.left)} and {show(event.right)}"
                raise Wrong(
                    f"{duty.why}: {show(wanted[0])} {kind} {show(wanted[1])} ({show(d)}) is to be checked; {got} is"
                )
            self.positive.add(self.number(wanted[0]), True)
            self.positive.add(self.number(wanted[1]), True)
            event = next(done, None)
        if event is not None:
            raise Wrong(f"{event.kind} of {show(event.left)} and {show(event.right)}, which nothing asks for")
        self.events, self.duties, self.new = [], [], []

    def dim(self, event: SizeEvent) -> scalar.Dim:
        """The size whose slot an event stores."""
        assert event.heap is not None
        return self.heaps[event.heap, event.slot]

    def is_event(self, event: SizeEvent, kind: str, sizes: tuple[scalar.Expr, scalar.Expr]) -> bool:
        """Whether an event is of this kind and about these two sizes."""
        return event.kind == kind and self.equal(event.left, sizes[0]) and self.equal(event.right, sizes[1])

    def is_positive(self, n: scalar.Expr) -> bool:
        """Whether a size is known to be at least 0."""
        if isinstance(n, scalar.Const):
            return bool(n.value >= 0)
        return isinstance(n, scalar.Var) or self.number(n) in self.positive.table

    def equal(self, a: scalar.Expr, b: scalar.Expr) -> bool:
        """Whether two sizes have the same structure."""
        return self.number(a) == self.number(b)

    # --- sizes ---------------------------------------------------------------------------------------------------

    def sizes(self, place: Place, of: Type) -> tuple[scalar.Expr, ...]:
        """The axes of a value: unknowns, the same for the same place."""
        if place not in self.axes:
            text = ".".join([_name(place[0]), *map(str, place[1])])
            self.axes[place] = tuple(scalar.Var(f"{text}[{i}]") for i in range(len(dims(of))))
        return self.axes[place]

    def vector(self, of: graph.Expr) -> tuple[scalar.Expr, ...]:
        """The elements of a vector: of one that is about sizes those sizes, of another unknowns."""
        of = self.root(of)
        if of not in self.vectors:
            assert isinstance(of.type, TensorType)
            (count,) = of.type.static_shape
            self.vectors[of] = tuple(scalar.Var(f"{_name(of)}[{i}]") for i in range(count))
        return self.vectors[of]

    def root(self, of: graph.Expr) -> graph.Expr:
        """The one expression that stands for an atom: of a name of the module, the first that was met."""
        return self.globals.setdefault(of.name, of) if isinstance(of, graph.GlobalVar) else of

    def place(self, of: graph.Expr) -> Place:
        """The value that an expression is part of, and the path in it."""
        return self.parts.get(of, (self.root(of), ()))

    def meant(self, d: scalar.Dim) -> scalar.Expr:
        """What a dim is by rule M4."""
        return (
            scalar.const(d)
            if isinstance(d, int)
            else scalar.substitute(d, {v: self.truth.table[v] for v in scalar.variables(d)})
        )

    def value(self, d: scalar.Dim, why: str) -> scalar.Expr:
        """What a dim's name holds."""
        if isinstance(d, int):
            return scalar.const(d)
        found = self.named.table.get(self.number(d))
        if found is None:
            raise Wrong(f"{why}: the size {show(d)} has no slot")
        assert isinstance(found, scalar.Expr)
        return found


def _name(of: graph.Expr) -> str:
    return of.name if isinstance(of, (graph.Var, graph.GlobalVar)) else graph.show_head(of)


def _slot(index: scalar.Const, of: Sequence[scalar.Expr | None], node: graph.CallTIR) -> int:
    if not 0 <= index.value < len(of):
        raise Wrong(f"{node.func} looks for slot {index.value} of {len(of)}")
    return int(index.value)


def _straight(kernel: PrimFunc) -> Sequence[Stmt]:
    return kernel.body.body if isinstance(kernel.body, Seq) else (kernel.body,)


def _scalars(values: Iterable[object]) -> Iterator[scalar.Expr]:
    root: object = tuple(values)
    inside = occurrences(root, lambda v: v if isinstance(v, (tuple, list)) else ())
    return (v for v in inside if isinstance(v, scalar.Expr))


def _told_by_type(node: graph.CallTIR, kernel: PrimFunc) -> list[scalar.Dim]:
    """The sizes that a tensor function gets from the type of its call: no operand and no scalar tells them."""
    told = {v for b in kernel.inputs for d in b.shape for v in scalar.variables(d)}.union(kernel.scalars)
    pairs = [
        p for b, t in zip(kernel.outputs, flatten(node.type), strict=True) for p in zip(b.shape, t.shape, strict=True)
    ]
    return [n for d, n in pairs if isinstance(d, scalar.Var) and d not in told]


def _made(node: graph.CallTIR, kernel: PrimFunc) -> Type:
    """The type of what a tensor function makes: its sizes by its scalars, else by its operands, else by the call's
    type."""
    bound: Bound = {}
    operands = [t for a in node.args for t in flatten(a.type)]
    for buffers, types in ((kernel.outputs, flatten(node.type)), (kernel.inputs[::-1], operands[::-1])):
        for b, t in zip(buffers, types, strict=True):
            axes = list(zip(b.shape, t.shape, strict=True))
            bound.update((d, n) for d, n in (axes if b in kernel.outputs else axes[::-1]) if isinstance(d, scalar.Var))
    bound.update((v, n) for v, n in zip(kernel.scalars, node.scalars, strict=True) if v.dtype is INT64)
    made = tuple(TensorType(tuple(instantiate_dim(d, bound) for d in b.shape), b.dtype) for b in kernel.outputs)
    return TupleType(made) if isinstance(node.type, TupleType) else made[0]
