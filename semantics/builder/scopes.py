"""The open scopes of a builder: functions, blocks, branches (rows R1 and R3; specs/semantics.md, "Builder")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from assay.semantics import graph
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constructor, Dataflow, Expr, GlobalVar, Pattern, Var, field_types
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, FuncType, TensorType, TupleType, Type

# --- types with symbols by name ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A type that a function makes from the symbols of its names."""

    make: Callable[[Callable[[str], Symbol]], Type]


Described: TypeAlias = Type | Template


def tensor(*dims: Dim | str, of: str = "float32") -> Described:
    """A tensor type; a dim that is a string is the symbol of that name of the function in which the type stands."""
    if any(isinstance(d, str) for d in dims):
        return Template(lambda s: TensorType(tuple(s(d) if isinstance(d, str) else d for d in dims), dtype(of)))
    return TensorType(tuple(d for d in dims if not isinstance(d, str)), dtype(of))


def tuple_type(*fields: Described) -> Described:
    """A tuple type; its fields may name symbols."""
    return Template(lambda s: TupleType(tuple(described(f, s) for f in fields)))


def func_type(params: Sequence[Described], result: Described, pure: bool = True) -> Described:
    """A function type; its parameters and result may name symbols."""
    return Template(lambda s: FuncType(tuple(described(p, s) for p in params), described(result, s), pure=pure))


def described(of: Described, symbol: Callable[[str], Symbol]) -> Type:
    """The type that a description stands for, with the symbols that `symbol` gives for its names."""
    return of.make(symbol) if isinstance(of, Template) else of


# --- frames ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class OpenBody:
    """A body that is being built: its bindings so far, and what is known of them."""

    what: str
    outer: OpenBody | None
    function: FunctionScope | None = None
    bindings: list[tuple[Var, Expr, Dataflow | None]] = field(default_factory=list)
    visible: set[Var] = field(default_factory=set)
    known: dict[int, Expr] = field(default_factory=dict)
    """By identity, the expressions that are bound here, and the atoms that stand for them."""
    kept: list[Expr] = field(default_factory=list)
    """What `known` speaks of, so that no other node gets its identity."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    mark: Dataflow | None = None
    outputs: set[Var] = field(default_factory=set)
    result: Expr | None = None

    def body(self) -> Expr:
        """The bindings around the result."""
        if self.result is None:
            raise Invalid(f"{self.what} has no result: say which with result(...)", label="builder.C2")
        body = self.result
        for var, value, mark in reversed(self.bindings):
            body = graph.let(var, value, body, dataflow=mark)
        return body


class Binder(Protocol):
    """What a scope asks of its builder."""

    def body(self, what: str) -> AbstractContextManager[OpenBody]:
        """Opens a body; `what` is its name in messages."""

    def unique(self, name: str) -> str:
        """A name like `name` that is not in use."""

    def call(self, callee: FunctionScope, /, *args: Any, type_args: Sequence[Type] = ()) -> Var:
        """Emits a call of a function that is built, or being built."""


@dataclass(eq=False)
class FunctionScope:
    """A function that is being built, or is done. Its parameters are its attributes, and what it unpacks to.

    A parameter that is called like something else of this class is reached by `f["name"]`. Called, the
    scope emits a call of itself: inside its body, that is recursion.
    """

    builder: Binder
    name: str
    by_name: dict[str, Var] = field(default_factory=dict)
    """The parameters by the names that they were given, which are unique in this function only."""
    value: GlobalVar | Var | None = None
    """The name that the function goes by; None as long as its type is not known."""

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters, in order."""
        return tuple(self.by_name.values())

    def __iter__(self) -> Iterator[Var]:
        return iter(self.params)

    def __getitem__(self, name: str) -> Var:
        if name not in self.by_name:
            known = ", ".join(self.by_name) or "none"
            raise Invalid(f"{self.name} has no parameter {name}; it has {known}", label="builder.C3")
        return self.by_name[name]

    def __getattr__(self, name: str) -> Var:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    @property
    def ref(self) -> GlobalVar | Var:
        """The function as a value."""
        if self.value is None:
            raise Invalid(
                f"{self.name} is used before it is done: declare its result with result=...", label="builder.C4"
            )
        return self.value

    def __call__(self, *args: Any, type_args: Sequence[Type] = ()) -> Var:
        """Emits a call of the function."""
        return self.builder.call(self, *args, type_args=type_args)


# --- branches ----------------------------------------------------------------------------------------------------


class BranchValue:
    """What an `if_` or a `match` is worth, once its block is closed."""

    def __init__(self, builder: Binder, what: str) -> None:
        self.builder = builder
        self.what = what
        self.done: Var | None = None

    @property
    def value(self) -> Var:
        """The variable that the result is bound to; Invalid (builder.C5) while the block is open."""
        if self.done is None:
            raise Invalid(f"the value of {self.what} is there when its block is closed", label="builder.C5")
        return self.done


class IfScope(BranchValue):
    """`with b.if_(c) as i:` and in it `with i.then():` and `with i.otherwise():`; then `i.value`."""

    def __init__(self, builder: Binder, condition: Expr) -> None:
        super().__init__(builder, "if_")
        self.condition = condition
        self.bodies: dict[str, Expr] = {}

    def then(self) -> AbstractContextManager[None]:
        """Opens the branch that is taken where the condition holds."""
        return self._branch("then")

    def otherwise(self) -> AbstractContextManager[None]:
        """Opens the branch that is taken where the condition does not hold."""
        return self._branch("otherwise")

    @contextmanager
    def _branch(self, which: str) -> Iterator[None]:
        if which in self.bodies:
            raise Invalid(f"the branch {which} is given twice", label="builder.C6")
        with self.builder.body(f"the branch {which}") as frame:
            yield
        self.bodies[which] = frame.body()

    def close(self) -> Expr:
        """The `if`; Invalid (builder.C6) where a branch was not built."""
        for which in ("then", "otherwise"):
            if which not in self.bodies:
                raise Invalid(f"the if_ has no branch {which}", label="builder.C6")
        return graph.if_(self.condition, self.bodies["then"], self.bodies["otherwise"])


class MatchScope(BranchValue):
    """`with b.match(v) as m:` and in it `with m.case(cons, "head", "tail") as (head, tail):` ...; then `m.value`."""

    def __init__(self, builder: Binder, of: Expr, partial: bool) -> None:
        super().__init__(builder, "match")
        self.of = of
        self.partial = partial
        self.clauses: list[tuple[Pattern, Expr]] = []

    @contextmanager
    def case(self, *spec: Any) -> Iterator[tuple[Var, ...]]:
        """The variables of a pattern, in order.

        A pattern is a name, "_", a constructor with patterns for its fields, or a tuple of patterns; inside another, a
        constructor with its patterns is a tuple.
        """
        pattern, vars = self.pattern(spec if len(spec) != 1 or isinstance(spec[0], Constructor) else spec[0])
        with self.builder.body("the clause") as frame:
            frame.visible.update(vars)
            yield tuple(vars)
        self.clauses.append((pattern, frame.body()))

    def otherwise(self) -> AbstractContextManager[tuple[Var, ...]]:
        """Opens the case for every value that no case before it matches."""
        return self.case("_")

    def pattern(self, spec: Any) -> tuple[Pattern, list[Var]]:
        """The pattern that `spec` describes (else Invalid, builder.C7), and the variables that it binds, in order."""
        vars: list[Var] = []

        def made(spec: Any, of: Type) -> Task[Pattern]:
            match spec:
                case "_":
                    return graph.Wildcard()
                case str():
                    vars.append(graph.var(self.builder.unique(spec), of))
                    return graph.Bind(vars[-1])
                case tuple():
                    constructor = spec[0] if spec and isinstance(spec[0], Constructor) else None
                    parts = spec if constructor is None else spec[1:]
                    fields: list[Pattern] = []
                    for part, t in zip(parts, self._fields(constructor, of, len(parts)), strict=True):
                        fields.append((yield made(part, t)))
                    return (
                        graph.Fields(tuple(fields)) if constructor is None else graph.Made(constructor, tuple(fields))
                    )
                case Constructor():
                    pattern: Pattern = yield made((spec,), of)
                    return pattern
                case _:
                    raise Invalid(f"{spec!r} is no pattern: a name, _, or a tuple", label="builder.C7")

        return run_task(made(spec, self.of.type)), vars

    def _fields(self, constructor: Constructor | None, of: Type, count: int) -> Sequence[Type]:
        types: Sequence[Type] | None = None
        if constructor is None and isinstance(of, TupleType):
            types = of.fields
        elif constructor is not None and isinstance(of, DataType) and of.name == constructor.data:
            types = field_types(constructor, of)
        if types is None or len(types) != count:
            name = "a tuple" if constructor is None else constructor.name
            raise Invalid(f"a pattern of {name} with {count} fields is matched with {of}", label="builder.C7")
        return types

    def close(self) -> Expr:
        """The match, with its cases in the order in which they were built."""
        return graph.match(self.of, *self.clauses, partial=self.partial)
