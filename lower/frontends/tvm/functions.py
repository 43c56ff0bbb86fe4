"""Graph functions out of live TVM objects (specs/lower.md, "tvm").

A sequence of bindings becomes a chain of lets, a dataflow block a mark on them. Nested expressions are read by
generators that a loop runs, so neither long nor deep functions need Python's stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from assay.lower.frontends.tvm.calls import Calls
from assay.lower.frontends.tvm.function_state import AS_DECLARED, FunctionState, Steps
from assay.lower.frontends.tvm.memory import Group, Held, cells_of, held
from assay.lower.frontends.tvm.objects import Object, attributes, handle, op_name, type_key, unique_name
from assay.lower.frontends.tvm.signatures import Signatures
from assay.lower.frontends.tvm.types import is_exact, type_device
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Constant, Dataflow, Expr, Function, Var
from assay.semantics.graph.limits import LOWER, UPPER
from assay.semantics.graph.matching import compatible
from assay.semantics.tasks import run_task
from assay.semantics.types import FuncType, TensorType, same_type, symbols
from assay.semantics.walk import Worklist


class FunctionReader(FunctionState):
    """Reads one graph function."""

    def __init__(self, signatures: Signatures, name: str) -> None:
        super().__init__(signatures, name)
        self.calls = Calls(self, self.value)

    # --- functions -----------------------------------------------------------------------------------------------

    def function(self, o: Object, signature: FuncType) -> Steps:
        """The function of a TVM function, of the given type."""
        given = attributes(o.attrs)
        attrs: dict[str, Any] = {k: v for k, v in given.items() if isinstance(v, (str, int, float, bool, tuple))}
        outer = self.force_pure, self.lets, self.mark, self.at
        older, self.seen = self.seen, set()
        self.changes = self.changes or changes_in_place(o.body)
        self.depth += 1
        around = set(self.owners.storages)
        self.force_pure = self.force_pure or bool(attrs.get("relax.force_pure", False))
        params: list[Var] = []
        names: set[str] = set()
        for p, t in zip(o.params, signature.params, strict=True):
            made = Var(t, unique_name(str(p.name), names), device=type_device(p.ty))
            params.append(made)
            self.env[handle(p)] = self.owners.own(made.name, made, self.depth) if self.changes else Held(made)
        limits = given.get(UPPER)
        checks = self.limited(signature, limits) if isinstance(limits, dict) else []
        attrs |= declared_limits(signature, given)
        result = yield self.sequence(o.body, checks)
        body = self.use(result)
        self.force_pure, self.lets, self.mark, self.at = outer
        self.depth -= 1
        captured, self.seen = {c for c in self.seen if c.storage in around}, self.seen | older
        if captured:
            which = ", ".join(sorted(c.name for c in captured))
            raise self.types.unsupported(f"a local function over the memory {which}")
        function = graph.function(params, body, signature.result, pure=signature.pure, span=Span(self.name), **attrs)
        return replace(function, device=type_device(o.ret_ty))

    def limited(self, signature: FuncType, limits: dict[str, Any]) -> list[tuple[Var, Expr, Dataflow | None]]:
        """The check that sizes are at most what the function claims of them: TVM's planner relies on it."""
        found = {v: int(limits[v.name]) for t in signature.params for v in symbols(t) if v.name in limits}
        if not found:
            return []
        self.limits.update(found)
        name = self.signatures.kernels.check_of(found, self.name)
        value = graph.call_tir(name, (), TensorType((), BOOL), scalars=list(found), span=Span(self.name))
        return [(Var(value.type, "sizes_are_as_claimed"), value, None)]

    def sequence(self, o: Object, first: Sequence[tuple[Var, Expr, Dataflow | None]] = ()) -> Steps:
        """The value of a SeqExpr, within lets for its bindings; those of `first` are around them."""
        if type_key(o) != "relax.expr.SeqExpr":
            return (yield self.value(o))
        outer, self.lets = self.lets, list(first)
        mark = self.mark
        for block in o.blocks:
            self.mark = Dataflow() if type_key(block) == "relax.expr.DataflowBlock" else None
            for b in block.bindings:
                yield self.binding(b)
        self.mark = mark
        result = yield self.value(o.body)
        expr = self.use(result)
        for var, value, dataflow in reversed(self.lets):
            expr = graph.let(var, value, expr, dataflow=dataflow)
        self.lets = outer
        for block in o.blocks:  # a variable of one branch is none of the other
            for b in block.bindings:
                self.env.pop(handle(b.var), None)
        return held(expr, [result])

    def binding(self, o: Object) -> Steps:
        """Bind the variable of a VarBinding or a MatchCast."""
        self.at = str(o.var.name)
        if type_key(o) == "relax.expr.MatchCast":
            found = yield self.value(o.value)
            cast = graph.match_cast(
                self.use(found, view=True), self.types.read(o.ty), self.span()
            )  # only its sizes are read
            self.env[handle(o.var)] = held(self.bind(str(o.var.name), cast), [found])
            return
        if type_key(o.value) == "relax.expr.Function":
            yield self.local_function(o)
            return
        found = yield self.value(o.value)
        self.at = str(o.var.name)
        if not isinstance(found, Held):
            self.env[handle(o.var)] = found
            return
        value = self.declared(o.var, found.expr)
        var = self.bind(str(o.var.name), value, type_device(o.var.ty))
        if self.is_constant(found):
            self.fixed.add(var)
        own = self.changes and not found.cells and not isinstance(found.expr, (Var, Constant))
        self.env[handle(o.var)] = self.owners.own(var.name, var, self.depth) if own else Held(var, found.cells)

    def local_function(self, o: Object) -> Steps:
        """A function bound by a let; it may use its own name."""
        signature = self.signatures.of(o.value, f"{self.where}, {o.var.name}", self.force_pure)
        var = Var(signature, str(o.var.name))
        self.env[handle(o.var)] = Held(var)
        function = yield self.function(o.value, signature)
        self.lets.append((var, function, self.mark))

    def declared(self, o: Object, value: Expr) -> Expr:
        """`value` as the type that TVM has for its variable: a claim that is checked, never believed."""
        if isinstance(value.type, FuncType) or not is_exact(o.ty):
            return value
        wanted = self.types.read(o.ty)
        device = type_device(o.ty)
        if device != ANYWHERE and value.device != device and not isinstance(value, Var):
            value = replace(value, device=device)
        if same_type(wanted, value.type):
            return value
        if not compatible(wanted, value.type):
            raise self.invalid(f"declared {wanted}, but its value is {value.type}", "tvm.C11")
        return graph.match_cast(value, wanted, Span(self.name, f"{self.at}{AS_DECLARED}"))

    # --- expressions ---------------------------------------------------------------------------------------------

    def value(self, o: Object) -> Steps:
        """What a TVM expression stands for."""
        match type_key(o):
            case "ir.Var" | "relax.expr.DataflowVar":
                return self.lookup(o)
            case "ir.GenericConst":
                return Held(self.constant(o))
            case "ir.Tuple":
                fields = []
                for f in o.fields:
                    fields.append((yield self.value(f)))
                if any(isinstance(f, Group) or any(cells_of(f)) for f in fields):
                    return Group(tuple(fields))
                return Held(graph.tuple_of(*map(self.use, fields), span=self.span()))
            case "ir.TupleGetItem":
                whole = yield self.value(o.tuple_value)
                if isinstance(whole, Group):
                    return whole.fields[int(o.index)]
                return held(graph.get(self.use(whole), int(o.index), self.span()), [whole])
            case "ir.Call":
                return (yield self.calls.call(o))
            case "relax.expr.If":
                return (yield self.branch(o))
            case "relax.expr.SeqExpr":
                return (yield self.sequence(o))
            case "relax.expr.Function":
                signature = self.signatures.of(o, self.place(), self.force_pure)
                return Held((yield self.function(o, signature)))
            case "relax.expr.ShapeExpr":
                return Held(graph.shape(*map(self.types.scalars.dim, o.values), span=self.span()))
            case "ir.GlobalVar":
                return Held(self.signatures.global_var(str(o.name_hint), self.place()))
            case "ir.IntImm" | "ir.FloatImm":
                return Held(graph.constant(o.value, self.types.scalars.expr(o).dtype.name))
            case key:
                raise self.types.unsupported(f"{key} as a value")

    def constant(self, o: Object) -> Expr:
        """A tensor literal; one node however often it is used."""
        found = self.constants.get(handle(o))
        if found is None:
            if not hasattr(o.value, "numpy"):
                raise self.types.unsupported(f"a constant {type_key(o.value)} as a value")
            found = self.constants[handle(o)] = graph.constant(o.value.numpy())
        return found

    def branch(self, o: Object) -> Steps:
        """Read an If: both sides start from the same memory, and what is dead after either is dead."""
        condition = self.use((yield self.value(o.cond)))
        mark, self.mark = self.mark, None
        self.depth += 1
        before, alive = self.owners.snapshot(), set(self.killed)
        then = yield self.sequence(o.true_branch)
        first = self.use(then)
        after, dead = self.owners.snapshot(), self.killed
        self.owners.restore(before)
        self.killed = alive
        otherwise = yield self.sequence(o.false_branch)
        second = self.use(otherwise)
        self.owners.join({s: after[s] for s in before})
        self.killed |= dead
        self.depth -= 1
        self.mark = mark
        made = graph.if_(condition, first, second, self.span())
        return Held(made, tuple(self.owners.either(cells, made) for cells in held(made, [then, otherwise]).cells))


def declared_limits(signature: FuncType, given: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The attributes that limit sizes, as far as they are about sizes of the parameters; TVM ignores the rest."""
    names = Counter(s.name for s in {s: None for t in signature.params for s in symbols(t)})
    found = {}
    for attribute in (UPPER, LOWER):
        bounds = given.get(attribute)
        if isinstance(bounds, dict) and (own := {str(n): int(k) for n, k in bounds.items() if names[str(n)] == 1}):
            found[attribute] = own
    return found


def changes_in_place(o: Object) -> bool:
    """Whether a SeqExpr calls a tensor function in place of an operand, itself or in a branch."""
    work = Worklist([o])
    for part in work:
        for block in part.blocks if type_key(part) == "relax.expr.SeqExpr" else ():
            for b in block.bindings:
                match type_key(b.value):
                    case "ir.Call" if op_name(b.value.op) == "relax.call_tir_inplace":
                        return True
                    case "relax.expr.If":
                        work.add([b.value.true_branch, b.value.false_branch])
    return False


def read_function(signatures: Signatures, name: str, o: Object) -> Function:
    """The graph function `name` of a TVM module."""
    reader = FunctionReader(signatures, name)
    signature = signatures.function_type(name)
    try:
        made = run_task(reader.function(o, signature))
    except Invalid as wrong:
        raise wrong.at(reader.place()) from None
    assert isinstance(made, Function)
    return made
