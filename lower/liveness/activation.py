"""One run of a function that is written out: what its variables, symbols and functions are (specs/lower.md,
"liveness")."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from assay.lower.liveness.items import Value
from assay.semantics import graph
from assay.semantics.alias import Origin, from_outside
from assay.semantics.errors import Unsupported
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.types import FuncType, TensorType, Type, flatten, with_dims
from assay.semantics.walk import post_order, reached


@dataclass(eq=False)
class Activation:
    """One run of a function: what its variables and its symbols are."""

    prefix: str
    given: Collection[Symbol]
    """The symbols of the parameters of `main`, which stand for themselves."""
    of: ChainMap[graph.Expr, Value]
    sizes: dict[Symbol, Dim] = field(default_factory=dict)
    functions: ChainMap[graph.Expr, Callee] = field(default_factory=ChainMap)

    def look(self, expr: graph.Expr) -> tuple[Origin, ...]:
        """The origins of an operand. Unsupported for a function, and where an operand has no name (`liveness.C7`)."""
        if isinstance(expr.type, FuncType):
            refuse_value(expr, "as a value")
        if isinstance(expr, graph.GlobalVar):
            return from_outside(expr)
        if expr not in self.of:
            raise Unsupported(
                f"{graph.show_head(expr)} has no name: liveness takes functions in A-normal form (assay.lower.anf)",
                where=expr.span,
                label="liveness.C7",
            )
        found = self.of[expr]
        assert found is not None, "what calls itself does so as the last thing"
        return found

    def typed(self, of: Type) -> Type:
        """A type in the sizes of the program."""
        return with_dims(of, self.size) if self.sizes else of

    def size(self, d: Dim) -> Dim:
        """A dim in the sizes of the program."""
        return replaced(d, self.sizes)

    def is_known(self, d: Dim) -> bool:
        """Whether all symbols of a dim have values here."""
        return all(v in self.sizes or v in self.given for v in variables(d))

    def meet(self, declared: Sequence[Type], types: Sequence[TensorType]) -> tuple[tuple[Dim, Dim], ...] | None:
        """What has to be equal where tensors of some types, in the sizes of the program, have declared types: pairs of
        dims. A symbol that has no value yet gets it. None where a dim cannot be told."""
        wanted = [t for of in declared for t in flatten(of)]
        pairs = [p for a, b in zip(wanted, types, strict=True) for p in zip(a.shape, b.shape, strict=True)]
        for d, n in pairs:
            if isinstance(d, Symbol) and not self.is_known(d):
                self.sizes[d] = n
        if not all(self.is_known(d) for d, _ in pairs):
            return None
        return tuple((n, self.size(d)) for d, n in pairs if not provably_equal(n, self.size(d)))


@dataclass(frozen=True, eq=False)
class Callee:
    """A function that can be called: one of the module, or one inside of another, and then the run `around` it."""

    name: str
    function: graph.Function
    around: Activation | None = None
    own: graph.Var | None = None
    """The variable by which a function inside of another calls itself."""


def handed_on(callee: Callee, module: Module, active: Container[graph.Function]) -> frozenset[graph.Var] | None:
    """Of a function that calls itself, the parameters that each such call hands on as they are; None if it does not.

    A function of the module may do so by way of others, but for those that are being written out: then nothing is known
    of what they hand on.
    """
    function = callee.function
    own = [n for n in post_order(function.body) if isinstance(n, graph.Call) and _names(n.op, callee)]
    kept = set(function.params)
    for call in own:
        kept &= {p for p, a in zip(function.params, call.args, strict=True) if a is p}
    if callee.around is None:

        def called(of: graph.Function) -> list[graph.Function]:
            named = (module.definitions.get(n.name) for n in post_order(of.body) if isinstance(n, graph.GlobalVar))
            return [f for f in named if isinstance(f, graph.Function) and f not in active]

        if function in reached([f for f in called(function) if f is not function], called):
            return frozenset()
    return frozenset(kept) if own else None


def _names(op: object, callee: Callee) -> bool:
    """Whether an operand is the function by its own name."""
    if callee.around is not None:
        return op is callee.own
    return isinstance(op, graph.GlobalVar) and op.name == callee.name


_WORDS = {
    graph.Function: "a function inside of a function",
    graph.RefCreate: "a reference",
    graph.RefRead: "a reference that is read",
    graph.RefWrite: "a reference that is written",
    graph.Match: "a match",
}


def refuse_recursion(callee: Callee, call: graph.Call, why: str) -> NoReturn:
    """A function that calls itself in a way that has no plan."""
    raise Unsupported(
        f"{callee.name} {why}: a function that calls itself is planned as a loop, where each such call is the last"
        " thing that it does; others are run by the virtual machine (--vm)",
        where=call.span,
        label="liveness.C3",
    )


def require_types(callee: Callee, call: graph.Call) -> None:
    """Unsupported for a function of values of any type, which has no plan."""
    names = ", ".join(t.name for t in callee.function.func_type.type_params)
    if not names:
        return
    raise Unsupported(
        f"{callee.name} has type parameters, {names}: a plan is of tensors and tuples of them, whose types are known."
        " Functions of values of any type are run by the interpreter and the virtual machine only (--vm)",
        where=call.span,
        label="liveness.C2",
    )


def refuse_value(value: graph.Expr, where: str) -> NoReturn:
    """What has no plan, by name."""
    what = f"{_WORDS[type(value)]}, {value.type}," if type(value) in _WORDS else graph.show_head(value)
    raise Unsupported(
        f"{what} {where}: a plan has calls of tensor functions, choices, loops and calls of functions that are known,"
        " on tensors and tuples of them. Functions that only a run tells, references, data types and matches are run"
        " by the interpreter and the virtual machine only (--vm)",
        where=value.span,
        label="liveness.C2",
    )
