"""What binds a variable, a type parameter or a size, and what is inside of it (rules M2 and M4; specs/semantics.md,
"Well-formed").

What a name may be used by is a question of dominance: the lowest scope around all uses must be inside the scope that
binds it. Scopes are numbered as in `assay.semantics.graph.scopes`; one around another is an interval around another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.graph.scopes import Forest
from assay.semantics.graph.sizes import sizes_used
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TypeVar, free_type_vars, open_symbols
from assay.semantics.walk import post_order


def broken_bindings(function: graph.Function, order: Sequence[graph.Expr]) -> Iterator[Invalid]:
    """Variables, type parameters and sizes stand inside what binds them; `order` has every node, parts before
    wholes."""
    found = _Bindings(function, order)
    yield from found.twice()
    yield from found.uses()
    yield from found.sizes()


def sizes_of_arms(function: graph.Function) -> Iterator[Invalid]:
    """Sizes that get their value in an arm of a choice and outside of it (graph.C14). Asked of what a person wrote: a
    pass may copy a cast into an arm, of one value, and then the two agree."""
    order = list(post_order(function))
    if any(isinstance(n, graph.If | graph.Match) for n in order):
        yield from _Bindings(function, order).arms()


class _Bindings:
    """The scopes of a top-level function, what each binds, and where each node belongs."""

    def __init__(self, function: graph.Function, order: Sequence[graph.Expr]) -> None:
        self.function = function
        self.order = order
        self.forest = Forest()
        self.function_of = [0]
        """For each scope the scope of the innermost function around it."""
        self.arm_of = [0]
        """For each scope the scope of the innermost arm of a choice, clause of a match, or function around it."""
        self.choice: dict[int, int] = {}
        """Of the scope of an arm or a clause, whose it is."""
        self.home: dict[int, int] = {id(function): self.forest.add()}
        self.binder: dict[graph.Var, int] = {}
        self.type_scope: dict[TypeVar, int] = {}
        self.again: list[graph.Var | TypeVar] = []
        self.known: dict[Symbol, list[int]] = {}
        """For each size the scopes in which it has a value for sure."""
        self.given: dict[Symbol, dict[int, str]] = {}
        """For each size the functions whose activations give it a value, and by what."""
        self.taken: dict[Symbol, dict[int, graph.Var]] = {}
        """For each size the functions that have it in a parameter."""
        self.introducing: dict[Symbol, list[graph.Expr]] = {}
        """For each size what gives it a value, but parameters and patterns."""
        for node in reversed(order):
            self.enter(node)
        for node in order:
            for s in introduced(node):
                self.give(s, self.home[id(node)], graph.show_head(node))
                self.introducing.setdefault(s, []).append(node)
        self.interval = _intervals(self.forest)

    def enter(self, node: graph.Expr) -> None:
        """The scopes that a node opens, and its uses of its parts."""
        scope = self.home[id(node)]
        match node:
            case graph.Function():
                inside = self.add(scope)
                self.function_of[inside] = self.arm_of[inside] = inside
                for t in node.func_type.type_params:
                    if t in self.type_scope:
                        self.again.append(t)
                    self.type_scope[t] = inside
                for p in node.params:
                    self.bind(p, inside)
                    for s in open_symbols(p.type):
                        self.give(s, inside, f"the parameter {p.name}")
                        self.taken.setdefault(s, {}).setdefault(inside, p)
                self.use(node.body, inside)
            case graph.Let():
                inside = self.add(scope)
                self.bind(node.var, inside)
                self.use(node.value, inside if isinstance(node.value, graph.Function) else scope)
                self.use(node.body, inside)
            case graph.Match():
                self.use(node.value, scope)
                asked = set(open_symbols(node.value.type))
                for c in node.clauses:
                    inside = self.arm(scope, node)
                    for v in c.vars:
                        self.bind(v, inside)
                        for s in open_symbols(v.type):
                            if s not in asked:  # what is inside a data type gets its value here
                                self.give(s, inside, f"the pattern's {v.name}")
                    self.use(c.body, inside)
            case graph.If():
                self.use(node.condition, scope)
                self.use(node.then, self.arm(scope, node))
                self.use(node.otherwise, self.arm(scope, node))
            case _:
                for child in node.children:
                    self.use(child, scope)

    def add(self, parent: int) -> int:
        self.function_of.append(self.function_of[parent])
        self.arm_of.append(self.arm_of[parent])
        return self.forest.add(parent)

    def arm(self, parent: int, of: graph.If | graph.Match) -> int:
        inside = self.add(parent)
        self.arm_of[inside] = inside
        self.choice[inside] = id(of)
        return inside

    def use(self, node: graph.Expr, scope: int) -> None:
        known = self.home.get(id(node))
        self.home[id(node)] = scope if known is None else self.forest.around(known, scope)

    def bind(self, var: graph.Var, scope: int) -> None:
        if var in self.binder:
            self.again.append(var)
        self.binder[var] = scope
        for s in open_symbols(var.type):
            self.known.setdefault(s, []).append(scope)

    def give(self, symbol: Symbol, scope: int, what: str) -> None:
        self.given.setdefault(symbol, {}).setdefault(self.function_of[scope], what)

    # --- what is wrong -----------------------------------------------------------------------------------------------

    def twice(self) -> Iterator[Invalid]:
        for again in self.again:
            at = again.span if isinstance(again, graph.Var) else self.function.span
            yield Invalid(f"{again.name} is bound twice", where=at, label="graph.C6")

    def uses(self) -> Iterator[Invalid]:
        inside = {s: _Around(scopes, self.interval) for s, scopes in self.known.items()}
        for node in self.order:
            scope = self.home[id(node)]
            if isinstance(node, graph.Var):
                if node not in self.binder:
                    yield Invalid(f"variable {node.name} is not bound", where=node.span, label="graph.C1")
                elif not self.forest.inside(scope, self.binder[node]):
                    yield Invalid(
                        f"variable {node.name} is used where it is not bound: outside its function, let or clause",
                        where=node.span,
                        label="graph.C1",
                    )
            for t in free_type_vars(node.type) if not isinstance(node, (graph.GlobalVar, graph.Constructor)) else ():
                if t not in self.type_scope or not self.forest.inside(scope, self.type_scope[t]):
                    yield Invalid(
                        f"{graph.show_head(node)} mentions the type parameter {t.name} outside of the function that"
                        " has it",
                        where=node.span,
                        label="graph.C11",
                    )
            for s in sizes_used(node):
                if s not in inside or inside[s].of(scope) is None:
                    yield Invalid(
                        f"{graph.show_head(node)} uses the size {s.name}, which has no value there: a parameter or a"
                        " let around it must have a type with that dim",
                        where=node.span,
                        label="graph.C8",
                    )

    def sizes(self) -> Iterator[Invalid]:
        """A size of an inner function's parameter that a function around it gives a value too has one before the inner
        function is made. Else it would depend on who is demanded first whether the two must agree."""
        for s, functions in self.taken.items():
            known, outer = _Around(self.known.get(s, []), self.interval), _Around(self.given[s], self.interval)
            for f, parameter in functions.items():
                before = self.forest.parent[f]
                around = outer.of(before)
                if around is not None and known.of(before) is None:
                    yield Invalid(
                        f"the size {s.name} is bound by the inner function's parameter {parameter.name}, and in the"
                        f" function around it by {self.given[s][around]}, which may come first or not: use another size"
                        " in one of them, or bind the outer one by a let around the inner function",
                        where=parameter.span,
                        label="graph.C12",
                    )

    def arms(self) -> Iterator[Invalid]:
        """A size that gets its value in an arm gets none outside of the arm, but in another arm of the same choice.
        Else it would depend on the arm that runs whether the two must agree."""
        for s, nodes in self.introducing.items():
            if len(nodes) < 2:
                continue
            known = _Around(self.known.get(s, []), self.interval)
            first: dict[int, dict[int, graph.Expr]] = {}
            for node in nodes:
                home = self.home[id(node)]
                if known.of(home) is None:
                    first.setdefault(self.function_of[home], {}).setdefault(self.arm_of[home], node)
            for places in first.values():
                met = self.not_exclusive(list(places))
                if met is not None:
                    one, other = (graph.show_head(places[arm]) for arm in met)
                    yield Invalid(
                        f"the size {s.name} gets its value from {one} and from {other}, of which one is in an arm of a"
                        " choice and the other outside of it: whether the two must agree would depend on which arm"
                        " runs. Use another size in one of them",
                        where=places[met[1]].span,
                        label="graph.C14",
                    )

    def not_exclusive(self, arms: Sequence[int]) -> tuple[int, int] | None:
        """Two of some arms that one run may go through; None: of each choice it takes one alone. Neighbours in the
        order of the text are enough: what two others have around both is around two neighbours between them."""
        for one, other in pairwise(sorted(arms, key=lambda a: self.interval[a])):
            around = self.forest.around(one, other)
            depth = self.forest.depth[around] + 1
            if around == one:
                return one, other
            below = [self.forest.outwards(a, depth) for a in (one, other)]
            if self.choice.get(below[0], 0) != self.choice.get(below[1], 1):
                return one, other
        return None


def introduced(node: graph.Expr) -> list[Symbol]:
    """The sizes that get a value when the node does: dims that its operands do not have and that it does not use."""
    if isinstance(node, (graph.Var, graph.Function)):
        return []
    own = open_symbols(node.type)
    if not own:
        return []
    had = {s for c in node.children for s in open_symbols(c.type)}
    if isinstance(node, (graph.Call, graph.CallTIR, graph.ShapeExpr)):
        had.update(sizes_used(node))
    return [s for s in own if s not in had]


def _intervals(forest: Forest) -> list[tuple[int, int]]:
    """For each scope a range of numbers; those of the scopes inside it lie in it, those of others do not meet it."""
    size = [1] * len(forest.parent)
    for scope in range(len(size) - 1, 0, -1):  # a scope is younger than the one around it
        size[forest.parent[scope]] += size[scope]
    free = [1] * len(size)
    start = [0] * len(size)
    for scope in range(1, len(size)):
        parent = forest.parent[scope]
        start[scope] = start[parent] + free[parent]
        free[parent] += size[scope]
    return [(a, a + n) for a, n in zip(start, size, strict=True)]


class _Around:
    """Which of some scopes is around a given one: the outermost, found in logarithmic time."""

    def __init__(self, scopes: Iterable[int], interval: Sequence[tuple[int, int]]) -> None:
        self.interval = interval
        self.scopes: list[int] = []
        stop = -1
        for scope in sorted(set(scopes), key=lambda s: interval[s]):
            if interval[scope][0] >= stop:  # not inside the one before
                self.scopes.append(scope)
                stop = interval[scope][1]
        self.starts = [interval[s][0] for s in self.scopes]

    def of(self, scope: int) -> int | None:
        at = bisect_right(self.starts, self.interval[scope][0]) - 1
        if at < 0 or self.interval[self.scopes[at]][1] <= self.interval[scope][0]:
            return None
        return self.scopes[at]
