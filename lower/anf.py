"""A-normal form: sharing made explicit as lets, in the order of evaluation (specs/lower.md, "anf").

Every compound expression is bound once, under a unique name, in its scope: the innermost function body or branch
around all its uses. A node that can fail or diverge is bound there only if that scope demands it for sure; otherwise
each branch that needs it binds its own (rule M3). Operands, conditions and results are variables afterwards. A source
let keeps its variable. Input modules are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Var,
    free_variables,
    let,
)
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order


def to_anf(module: Module) -> Module:
    """Every graph function of the module in A-normal form."""
    changed = {
        name: convert(d) for name, d in module.definitions.items() if isinstance(d, Function)
    }
    return replace(module, definitions={**module.definitions, **changed})


@dataclass(eq=False)
class Scope:
    """A function body or a branch: a place where bindings go."""

    parent: Scope | None
    depth: int
    bindings: list[tuple[Var, Expr]] = field(default_factory=list)


def is_atomic(expr: Expr) -> bool:
    """What ANF leaves as an operand: a variable or a name of the module. Constants are bound (row A5)."""
    return isinstance(expr, (Var, GlobalVar))


def can_fail(expr: Expr) -> bool:
    """Whether evaluating the node itself may trap or diverge; a call of a function may."""
    return isinstance(expr, Call) and (not isinstance(expr.op, Operator) or expr.op.can_trap)


def convert(root: Function) -> Function:
    """A top-level function in A-normal form. A function marked as a primitive stays as it is (row A6)."""
    if _opaque(root):
        return root
    return _Converter(root).function()


class _Converter:
    def __init__(self, root: Function) -> None:
        self.root = root
        self.top = Scope(None, 0)
        self.inner: dict[tuple[int, int, Scope], Scope] = {}
        self.homes: dict[int, list[Scope]] = {}
        self.taken: set[str] = {p.name for p in root.params}
        self.count = 0
        self.place()

    # --- where: the homes of each node ----------------------------------------------------------------------------

    def opened(self, node: Expr, which: int, at: Scope) -> Scope:
        """The scope that a branch or function body of `node`, bound in `at`, opens."""
        key = (id(node), which, at)
        if key not in self.inner:
            self.inner[key] = Scope(at, at.depth + 1)
        return self.inner[key]

    def edges(self, node: Expr, at: Scope) -> Iterator[tuple[Expr, Scope]]:
        """The parts of a node in order of evaluation, and the scope that uses each."""
        match node:
            case Function() if _opaque(node):
                return
            case Function():
                yield node.body, self.opened(node, 0, at)
            case If():
                yield node.condition, at
                yield node.then, self.opened(node, 1, at)
                yield node.otherwise, self.opened(node, 2, at)
            case _:
                for child in node.children:
                    yield child, at

    def place(self) -> None:
        """Find the homes: users before what they use."""
        order = list(post_order(self.root.body, lambda n: () if _opaque(n) else n.children))
        fails: dict[int, bool] = {}
        for node in order:
            inherits = not isinstance(node, Function) and any(fails[id(c)] for c in node.children)
            fails[id(node)] = inherits or can_fail(node)
        # a use: the scope that uses the node, and whether that scope is sure to demand it
        uses: dict[int, list[tuple[Scope, bool]]] = {id(self.root.body): [(self.top, True)]}
        split: dict[Var, list[Scope]] = {}
        for node in reversed(order):
            pins = [split[v] for v in free_variables(node) if v in split] if split else []
            self.homes[id(node)] = homes = _settle(uses[id(node)], fails[id(node)], pins)
            if isinstance(node, Let) and len(homes) > 1:
                split[node.var] = homes
            sure = {scope for scope, certain in uses[id(node)] if certain}
            for home in homes:
                for child, scope in self.edges(node, home):
                    # what a branch or body needs is demanded for sure once its own scope is entered
                    uses.setdefault(id(child), []).append((scope, scope is not home or home in sure))

    def home(self, node: Expr, at: Scope) -> Scope:
        """The home of `node` that is `at` or around it."""
        homes = self.homes[id(node)]
        return next(scope for scope in _outwards(at) if scope in homes)

    # --- what: the bindings ---------------------------------------------------------------------------------------

    def fresh(self, name: str | None) -> str:
        """A name that nothing else in the function has: the given one, or lv0, lv1, ..."""
        candidate = name
        while candidate is None or candidate in self.taken:
            candidate = f"{name or 'lv'}{self.count}"
            self.count += 1
        self.taken.add(candidate)
        return candidate

    def function(self) -> Function:
        """Bind every node, operands first, left to right (rule M3)."""
        atoms: dict[tuple[int, Scope], Expr] = {}
        named: dict[tuple[Var, Scope], Var] = {}
        wanted: dict[tuple[int, Scope], Var] = {}
        source: dict[Expr, Var] = {}

        def atom(node: Expr, at: Scope) -> Expr | None:
            if isinstance(node, Var):
                return next((named[node, s] for s in _outwards(at) if (node, s) in named), node)
            return node if is_atomic(node) else atoms.get((id(node), self.home(node, at)))

        def operand(node: Expr, at: Scope) -> Expr:
            found = atom(node, at)
            assert found is not None
            return found

        def bind(value: Expr, home: Scope, name: Var | None) -> Var:
            like = name or value
            bound = Var(like.type, self.fresh(name.name if name else None), device=like.device, span=like.span)
            if name is not None:
                source[bound] = name
            home.bindings.append((bound, value))
            return bound

        stack: list[tuple[Expr, Scope, Iterator[tuple[int, tuple[Expr, Scope]]]]] = []

        def demand(node: Expr, at: Scope, name: Var | None) -> None:
            if atom(node, at) is None:
                home = self.home(node, at)
                if name is not None:
                    wanted[id(node), home] = name
                stack.append((node, home, enumerate(self.edges(node, home))))

        demand(self.root.body, self.top, None)
        while stack:
            node, home, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                stack.pop()
                parts = [operand(c, s) for c, s in self.edges(node, home)]
                name = wanted.get((id(node), home))
                is_let = isinstance(node, Let)
                atoms[id(node), home] = parts[1] if is_let else bind(self.rebuilt(node, home, parts), home, name)
                continue
            index, (child, scope) = step
            name = None
            if isinstance(node, Let) and index == 0:
                name = node.var
            elif isinstance(node, Let):
                value = operand(node.value, home)
                # the binding of the value took the name, unless there was one already: then an alias is bound
                bound = value if isinstance(value, Var) and source.get(value) is node.var else bind(value, home, node.var)
                named[node.var, home] = bound
                name = wanted.get((id(node), home))
            demand(child, scope, name)
        return replace(self.root, body=_chain(self.top, operand(self.root.body, self.top)))

    def rebuilt(self, node: Expr, home: Scope, parts: list[Expr]) -> Expr:
        """The node around its operands' atoms; bodies and branches around the bindings of their scopes."""
        match node:
            case If():
                parts[1:] = [_chain(self.opened(node, i, home), parts[i]) for i in (1, 2)]
                return node.with_children(parts)
            case Function() if parts:
                return node.with_children([_chain(self.opened(node, 0, home), parts[0])])
            case _:
                return node.with_children(parts) if parts else node


def _opaque(node: Expr) -> bool:
    """A function marked as primitive or for another compiler: bound, never entered (row A6)."""
    return isinstance(node, Function) and ("primitive" in node.attrs or "compiler" in node.attrs)


def _outwards(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _settle(uses: list[tuple[Scope, bool]], fails: bool, pins: list[list[Scope]]) -> list[Scope]:
    """The homes of a node: the lowest scope around its uses. If the node can fail and that scope is not sure to demand
    it, or if it uses a variable that is bound in several places (`pins`), the scopes inside that one, likewise."""
    homes: list[Scope] = []
    work = [uses]
    while work:
        group = work.pop()
        lowest = group[0][0]
        for scope, _ in group[1:]:
            lowest = _around(lowest, scope)
        outside = any(all(p not in pin for p in _outwards(lowest)) for pin in pins)
        if not outside and (not fails or any(scope is lowest and certain for scope, certain in group)):
            homes.append(lowest)
            continue
        inside: dict[Scope, list[tuple[Scope, bool]]] = {}
        for scope, certain in group:
            inside.setdefault(_below(lowest, scope), []).append((scope, certain))
        work.extend(reversed(inside.values()))
    return homes


def _around(a: Scope, b: Scope) -> Scope:
    """The innermost scope around two."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def _below(outer: Scope, scope: Scope) -> Scope:
    """The scope directly inside `outer` that is `scope` or around it."""
    while scope.parent is not outer:
        assert scope.parent is not None
        scope = scope.parent
    return scope


def _chain(scope: Scope, result: Expr) -> Expr:
    """The bindings of a scope around its result."""
    body = result
    for bound, value in reversed(scope.bindings):
        body = let(bound, value, body)
    return body
