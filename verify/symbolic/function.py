"""A tensor function and the verdicts on goals about it (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import z3

from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Apply, Choice, Expr, Load, Var, operation, show, variables
from assay.semantics.scalar.smt import VALUE, Term, inside
from assay.semantics.tensor import Buffer, Evaluate, LetStmt, PrimFunc, Stmt, Store, show_stmt
from assay.semantics.walk import post_order
from assay.verify.symbolic.counters import Counter, counters_of
from assay.verify.symbolic.events import (
    AccessEvent,
    EventScope,
    FunctionEvents,
    Life,
    Loop,
    Site,
    distinct,
    events_of,
    root_of,
)
from assay.verify.symbolic.goals import Answer, Goal, Kind, decide, smallest
from assay.verify.symbolic.instance import Instance, InstanceQuery, instantiate
from assay.verify.symbolic.replay import ReplayedGoal, in_dtype, model_element, replay_counterexample

Bounds: TypeAlias = Mapping[str, tuple[int | None, int | None]]

MOST_BYTES = 1 << 56
"""What one buffer may take, were the dims that are 0 left out: more than any machine addresses."""


def size_symbols(func: PrimFunc) -> tuple[Var, ...]:
    """The scalars of a function, and the symbols in the shapes of its buffers."""
    dims = [d for b in func.params for d in b.shape if isinstance(d, Expr)]
    return tuple(dict.fromkeys([*func.scalars, *(v for d in dims for v in variables(d))]))


@dataclass(eq=False)
class Function:
    """A function, its symbols, and what is known of them."""

    func: PrimFunc
    bounds: Bounds
    functions: Mapping[str, PrimFunc] = field(default_factory=dict)
    around: Sequence[Buffer] = ()
    """Other buffers that there are whenever it runs, whose sizes its symbols are."""
    brief: bool = False
    """Whether goals may be shown without a query."""
    events: FunctionEvents = field(init=False)
    symbols: dict[Var, Term] = field(default_factory=dict)
    base: list[Term] = field(default_factory=list)
    """What holds of the symbols whenever the function runs."""
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    counters: dict[Buffer, Counter] = field(default_factory=dict)
    steps: dict[Site, tuple[Expr, ...]] = field(default_factory=dict)
    """The expressions of each site on which indices and the flow of control depend."""

    accesses: Sequence[AccessEvent] = ()
    """Of those that are about one element at one site, and happen together, the first."""
    doubt: str = ""
    """Why nothing may be believed: a loop whose variable may wrap around."""

    def __post_init__(self) -> None:
        self.events = events_of(self.func, self.functions)
        dims = [d for b in (*self.func.params, *self.around) for d in b.shape if isinstance(d, Expr)]
        names: dict[str, int] = {}
        for v in size_symbols(self.func):
            count = names[v.name] = names.get(v.name, 0) + 1
            name = v.name if count == 1 else f"{v.name}'{count}"
            self.symbols[v] = _symbol(v, name)
        for name in self.bounds:
            if name not in {v.name for v in self.symbols}:
                there = ", ".join(sorted(v.name for v in self.symbols)) or "none"
                raise Invalid(f"no size of {self.func.name} is called {name}; there are: {there}", label="symbolic.C1")
        for v, s in self.symbols.items():
            if v.dtype.is_integer and v.dtype is not BOOL:
                low, high = self.bounds.get(v.name, (None, None))
                self.base.append(inside(s, v.dtype))
                self.base += [s >= low] if low is not None else []
                self.base += [s <= high] if high is not None else []
        self.counters = counters_of(self.events, tuple(self.symbols))
        query = self.query()
        self.base += [z3.And(0 <= query.dim(d), query.dim(d) <= MOST_BYTES) for d in dims]
        self.base += query.terms.known
        if self.bounds and decide(self.base, "").holds == "never":
            raise Invalid(
                f"no sizes of {self.func.name} are within these bounds: nothing would be shown", label="symbolic.C1"
            )
        self.steps = _steps(self.events)
        self.accesses = distinct(self.events.accesses, lambda a: (a.site, id(a.node) if self.lazy(a.site) else 0))

    def query(self) -> InstanceQuery:
        """A query with what is known of the symbols."""
        return InstanceQuery(self.symbols, frozenset(self.func.inputs), self.counters)

    def lazy(self, site: Site) -> bool:
        """Whether parts of a site's expressions may be left out."""
        return any(isinstance(n, Choice) for root in site.roots for n in post_order(root))

    def run(
        self, query: InstanceQuery, frame: EventScope | None, given: Mapping[EventScope, Term] | None = None
    ) -> Instance:
        """A new instance of the place `frame`, in which the loops of `given` have these values."""
        return instantiate(query, frame, given or {}, self.numbers)

    def sizes(self, query: InstanceQuery, instance: Instance) -> list[Term]:
        """That every buffer there is fits a machine: what keeps indices from growing beyond their dtype."""
        shapes = [(b, tuple(query.dim(d) for d in b.shape)) for b in (*self.func.params, *self.around)]
        for f, shape in instance.shapes.items():
            if isinstance(f, Life):
                shapes.append((f.buffer, shape))
        found = []
        for b, shape in shapes:
            if all(map(z3.is_int_value, shape)):
                continue
            for first in range(len(shape)):
                size = z3.IntVal(b.dtype.itemsize)
                for d in shape[first:]:
                    size = size * d
                    found.append(size <= MOST_BYTES)
            found += [0 <= d for d in shape]
        return found

    # --- verdicts ------------------------------------------------------------------------------------------------

    def goal(
        self,
        kind: Kind,
        claim: str,
        site: Site | None,
        query: InstanceQuery,
        against: Sequence[Term],
        instances: Sequence[Instance] | Callable[[Answer], Sequence[Instance]],
        about: Sequence[str] = (),
        confirm: Callable[[Mapping[Var, Any]], ReplayedGoal] | None = None,
    ) -> Goal:
        """The verdict on a claim: proved if z3 finds that `against`, its negation, cannot hold.

        A counterexample is run, or handed to `confirm` with the values of sizes and loops; the trap must name one of
        the buffers that the goal is `about`.
        """
        where = None if site is None else site.stmt.span
        constraints = [*self.base, *query.terms.known, *against]
        answer = decide(constraints, f"{self.func.name}: {kind}: {claim}\nunsat means that it holds for all sizes")
        goal = Goal(kind, claim, "proved", where, query=answer.text)
        if answer.holds == "never":
            return replace(goal, verdict="unknown", detail=self.doubt) if self.doubt else goal
        answer = smallest(constraints, self.symbols, answer)
        if answer.holds == "unknown":
            return replace(goal, verdict="unknown", detail=f"z3 does not know ({answer.reason}); checked on the run")
        sizes = {v: _value(v, s, answer) for v, s in self.symbols.items()}
        if callable(instances):
            instances = instances(answer)
        loops = {v: answer.number(t) for i in instances for v, t in _loops(i)}
        if confirm is None:
            found = replay_counterexample(
                self.func, kind, sizes, model_element(answer, query.labels, _functions(query)), self.functions, about
            )
        else:
            try:
                found = confirm(sizes | {v: in_dtype(v, n) for v, n in loops.items()})
            except OverflowError:
                found = ReplayedGoal(False, "a loop has more iterations than its variable has values")
        if not found.confirmed:
            reason = f"a counterexample in the abstraction is none in the run: {found.detail}; checked on the run"
            return replace(goal, verdict="unknown", detail=reason)
        iteration: dict[str, int] = {}
        for k, i in enumerate(instances):
            iteration |= {v.name + "'" * k: answer.number(t) for v, t in _loops(i)}
        named = {v.name: int(n) for v, n in sizes.items() if v.dtype.is_integer}
        return replace(goal, verdict="refuted", detail=found.detail, sizes=named, iteration=iteration)

    def shown(self, kind: Kind, claim: str, stmt: Stmt) -> Goal:
        """A goal that is shown without a query."""
        return Goal(kind, claim, "unknown" if self.doubt else "proved", stmt.span, self.doubt)

    def visit(self, site: Site, frame: EventScope | None = None) -> Visit:
        """Any run of a site, or of the inside of a frame that begins there."""
        query = self.query()
        return Visit(self, site, query, self.run(query, frame or site.frame))


@dataclass(frozen=True, eq=False)
class Visit:
    """Any run of a place, in a query of its own."""

    function: Function
    site: Site
    query: InstanceQuery
    instance: Instance

    @property
    def here(self) -> list[Term]:
        """That this run takes place."""
        return [*self.instance.guards, *self.instance.facts]

    def value(self, expr: Expr) -> Term:
        """What an expression is at the site."""
        return self.instance.value(expr, self.site)

    def goal(
        self,
        kind: Kind,
        claim: str,
        wrong: Sequence[Term],
        about: Sequence[str] = (),
        confirm: Callable[[Mapping[Var, Any]], ReplayedGoal] | None = None,
    ) -> Goal:
        """The verdict on a claim: proved if what is `wrong` cannot hold here. See `Function.goal`."""
        against = [*self.here, *wrong]
        return self.function.goal(kind, claim, self.site, self.query, against, [self.instance], about, confirm)


def _symbol(var: Var, name: str) -> Term:
    if var.dtype is BOOL:
        return z3.Bool(name)
    return z3.Int(name) if var.dtype.is_integer else z3.Const(name, VALUE)


def _value(var: Var, term: Term, answer: Answer) -> Any:
    if var.dtype is BOOL:
        return in_dtype(var, str(answer.model.eval(term, model_completion=True)) == "True")
    return in_dtype(var, answer.number(term)) if var.dtype.is_integer else var.dtype.numpy.type(1)


def _loops(instance: Instance) -> list[tuple[Var, Term]]:
    return [(f.var, t) for f, t in instance.loops.items() if isinstance(f, Loop)]


def _functions(query: InstanceQuery) -> dict[str, Any]:
    """The functions that stand for the elements of inputs, by name."""
    found = {}
    for buffer, indices in query.loaded:
        name = query.label(buffer)
        application = query.terms.function(f"element of {name}", indices, buffer.dtype)
        found[name] = application.decl() if indices else application
    return found


# --- which steps matter --------------------------------------------------------------------------------------------


def _steps(found: FunctionEvents) -> dict[Site, tuple[Expr, ...]]:
    """For each site the expressions that give indices, extents and conditions; a let counts if its variable does."""
    used: set[Var] = set()
    steps: dict[Site, tuple[Expr, ...]] = {}
    for site in reversed(found.sites):
        stmt = site.stmt
        match stmt:
            case _ if site.large:
                chosen: list[Expr] = []
            case Store():
                chosen = [*stmt.indices, *_inner(stmt.value)]
            case LetStmt() if stmt.var not in used:
                chosen = _inner(stmt.value)
            case Evaluate():
                chosen = _inner(stmt.value)
            case _:
                chosen = list(site.roots)
        steps[site] = tuple(chosen)
        used.update(v for e in chosen for v in variables(e))
    return steps


def _inner(value: Expr) -> list[Expr]:
    """The parts of a value on which an access or a trap depends."""
    found: list[Expr] = []
    for node in post_order(value):
        match node:
            case Load():
                found += node.indices
            case Choice():
                found.append(node.condition)
            case Apply(op=op, args=(_, b)) if operation(op).fails:
                found.append(b)
            case _:
                pass
    return found


def statement_line(site: Site) -> str:
    """The statement of a site on one line."""
    text = show_stmt(site.stmt).split("\n", 1)[0].strip() if not site.large else type(site.stmt).__name__
    return text if len(text) <= 90 else text[:87] + "..."


def access_names(a: AccessEvent) -> list[str]:
    """The names under which an access may be reported: its buffer's, and those of the buffers that it is a view of."""
    return [a.buffer.name, root_of(a.buffer, a.site.frame)[0].name]


def element_text(a: AccessEvent) -> str:
    """The element that an access is about, for a message."""
    return f"{a.buffer.name}[{', '.join(map(show, a.indices))}]"


def box_text(buffer: Buffer) -> str:
    """The shape of a buffer, for a message."""
    return f"({', '.join(map(show, buffer.shape))}{',' if len(buffer.shape) == 1 else ''})"
