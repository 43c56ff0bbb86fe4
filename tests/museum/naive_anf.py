"""A-normal form for small programs, written plainly and with switches that make it wrong in one known way.

It recurses, and finds scopes by listing every path to a node: good for the programs of a museum and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay.semantics.graph import (
    Bind,
    Clause,
    Constructor,
    Dataflow,
    Expr,
    ExternFunc,
    Fields,
    Function,
    GlobalVar,
    If,
    Let,
    Made,
    Match,
    Pattern,
    TupleGetItem,
    Var,
    free_variables,
)
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.module import Module

Path = tuple[tuple[int, int], ...]
ENTERED = "all functions are entered"
ATOMS = (Var, GlobalVar, ExternFunc, Constructor)


@dataclass(eq=False)
class Scope:
    """A let list in the making: its bindings, and the name of each node that it has evaluated."""

    path: Path
    lets: list[tuple[Var, Expr, Dataflow | None]] = field(default_factory=list)
    memo: dict[int, Expr] = field(default_factory=dict)


def naive_anf(module: Module, fault: str = "") -> Module:
    """Every function in A-normal form; `fault` names the mistakes to make, with commas between."""
    changed = {
        name: Naive(d, module, fault).convert() if isinstance(d, Function) else d
        for name, d in module.definitions.items()
    }
    return replace(module, definitions=changed)


class Naive:
    def __init__(self, root: Function, module: Module, fault: str) -> None:
        self.root, self.module, self.faults = root, module, fault.split(", ")
        self.home: dict[int, Path] = {}
        self.lets: dict[Var, Let] = {}
        self.totals: dict[int, bool] = {}
        self.names = {p.name for p in root.params}
        self.instead: dict[Var, Expr] = {}
        self._seen: set[tuple[int, Path]] = set()
        self._visit(root.body, ())

    # --- where things belong -----------------------------------------------------------------------------------------

    def _visit(self, node: Expr, path: Path) -> None:
        known = self.home.get(id(node))
        self.home[id(node)] = path if known is None else self._common(known, path)
        if (id(node), path) in self._seen:
            return
        self._seen.add((id(node), path))
        if isinstance(node, Let):
            self.lets[node.var] = node
        for i, child in enumerate(node.children):
            inside = isinstance(node, Function) or (isinstance(node, (If, Match)) and i > 0)
            self._visit(child, (*path, (id(node), i)) if inside else path)

    @staticmethod
    def _common(a: Path, b: Path) -> Path:
        n = 0
        while n < min(len(a), len(b)) and a[n] == b[n]:
            n += 1
        return a[:n]

    def total(self, node: Expr) -> bool:
        if id(node) not in self.totals:
            self.totals[id(node)] = True  # a function that names itself
            self.totals[id(node)] = self._total(node)
        return self.totals[id(node)]

    def _total(self, node: Expr) -> bool:
        match node:
            case Var():
                return node not in self.lets or self.total(self.lets[node].value)
            case Function():
                return all(map(self.total, free_variables(node)))
            case _:
                if "failures are pure" in self.faults:
                    return not acts(node) and all(map(self.total, node.children))
                return not acts(node) and not can_fail(node, self.module) and all(map(self.total, node.children))

    # --- conversion --------------------------------------------------------------------------------------------------

    def convert(self) -> Function:
        return self.root.with_children([self.block(self.root.body, [], (), self.root)])  # type: ignore[return-value]

    def block(self, body: Expr, stack: Sequence[Scope], path: Path, of: Expr) -> Expr:
        scope = Scope(path)
        result = self.demand(body, [*stack, scope])
        if "result is the last visited" in self.faults and scope.lets:
            result = scope.lets[-1][0]
        for v, value, mark in reversed(scope.lets):
            result = Let(result.type, v, value, result, dataflow=mark, device=result.device)
        return result

    def fresh(self, name: str) -> str:
        if "names are not unique" in self.faults:
            return name
        new, n = name, 0
        while new in self.names:
            n += 1
            new = f"{name}_{n}"
        self.names.add(new)
        return new

    def bind(self, value: Expr, scope: Scope, like: Expr, var: Var | None = None, mark: Dataflow | None = None) -> Var:
        device = like.device
        v = Var(like.type, self.fresh(var.name if var else "lv"), device=var.device if var else device, span=like.span)
        scope.lets.append((v, value, mark))
        return v

    def demand(self, node: Expr, stack: list[Scope], var: Var | None = None, mark: Dataflow | None = None) -> Expr:
        """The name of a node's value, evaluated now if it is not at hand."""
        if isinstance(node, Var):
            return self.instead.get(node, node)
        if isinstance(node, ATOMS):
            return node
        if "no memo" not in self.faults:
            for scope in reversed(stack):
                if id(node) in scope.memo:
                    return scope.memo[id(node)]
        if self.total(node) and "no homes" not in self.faults:
            path = () if "home is the top" in self.faults else self.home[id(node)]
            stack = stack[: 1 + next(i for i, s in enumerate(stack) if s.path == path)]
        here = stack[-1]
        if isinstance(node, Let):
            result = self.let(node, stack)
        else:
            result = self.bind(self.build(node, stack), here, node, var, mark)
        here.memo[id(node)] = result
        return result

    def let(self, node: Let, stack: list[Scope]) -> Expr:
        if isinstance(node.value, Function):
            own = Var(node.var.type, self.fresh(node.var.name), device=node.var.device)
            self.instead[node.var] = own
            stack[-1].lets.append((own, self.build(node.value, stack), node.dataflow))
            stack[-1].memo[id(node.value)] = own
            return self.demand(node.body, stack)
        before = sum(len(s.lets) for s in stack)
        value = self.demand(node.value, stack, node.var, node.dataflow)
        if sum(len(s.lets) for s in stack) == before and not isinstance(node.value, Let):
            alias = Var(node.var.type, self.fresh(node.var.name), device=node.var.device)
            stack[-1].lets.append((alias, value, node.dataflow))
            value = alias
        self.instead[node.var] = value
        return self.demand(node.body, stack)

    def operands(self, node: Expr, stack: list[Scope]) -> list[Expr]:
        children = list(node.children)
        if "operands right to left" in self.faults:
            done = [self.demand(c, stack) for c in reversed(children)]
            return done[::-1]
        if "lets stay operands" in self.faults:
            return [c if isinstance(c, Let) else self.demand(c, stack) for c in children]
        return [self.demand(c, stack) for c in children]

    def build(self, node: Expr, stack: list[Scope]) -> Expr:
        path = stack[-1].path
        match node:
            case If():
                condition = self.demand(node.condition, stack)
                then = self.block(node.then, stack, (*path, (id(node), 1)), node)
                otherwise = self.block(node.otherwise, stack, (*path, (id(node), 2)), node)
                if "branches swapped" in self.faults:
                    then, otherwise = otherwise, then
                return replace(node, condition=condition, then=then, otherwise=otherwise)
            case Match():
                value = self.demand(node.value, stack)
                clauses = [self.clause(c, i, node, stack) for i, c in enumerate(node.clauses, 1)]
                if "clauses reordered" in self.faults:
                    clauses.reverse()
                return replace(node, value=value, clauses=tuple(clauses))
            case Function() if {"primitive", "compiler"} & node.attrs.keys() and ENTERED not in self.faults:
                return node
            case Function():
                params = []
                for p in node.params:
                    params.append(Var(p.type, self.fresh(p.name), device=p.device))
                    self.instead[p] = params[-1]
                outer = [] if "closures forget" in self.faults else stack
                body = self.block(node.body, outer, (*path, (id(node), 0)), node)
                return replace(node, params=tuple(params), body=body)
            case TupleGetItem() if "only the first result arrives" in self.faults:
                return replace(node, value=self.demand(node.value, stack), index=0)
            case _:
                made = node.with_children(self.operands(node, stack))
                return replace(made) if made is node else made

    def clause(self, clause: Clause, i: int, node: Match, stack: list[Scope]) -> Clause:
        pattern = self.pattern(clause.pattern)
        return Clause(pattern, self.block(clause.body, stack, (*stack[-1].path, (id(node), i)), node))

    def pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case Bind():
                v = Var(pattern.var.type, self.fresh(pattern.var.name))
                self.instead[pattern.var] = v
                return Bind(v)
            case Made() | Fields():
                fields = [self.pattern(p) for p in pattern.fields]
                if "fields swapped" in self.faults and isinstance(pattern, Made):
                    fields.reverse()
                return replace(pattern, fields=tuple(fields))
            case _:
                return pattern
