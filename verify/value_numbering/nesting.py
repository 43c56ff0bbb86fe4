"""What a function's graph says before anything is numbered (specs/verify.md, "Bisimulation").

Where each variable's value comes from, which scope is around all uses of a node, which nodes keep to the paths that
demand them (rule M3), in which order actions come, and how high functions are stacked. The proofs of A-normal form and
of schedules read it; the passes do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.semantics import graph
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.graph.scopes import Forest
from assay.semantics.module import Module
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, variables
from assay.semantics.types import FuncType, TensorType, Type, dims, symbols
from assay.semantics.walk import Worklist, occurrences, post_order

Step = tuple[str, int]
"""One step into a matched value: the constructor (or "" for a tuple), and which field."""


class UndecidedNumbering(Exception):
    """The proof stops without an answer: it would need too many steps, or a case that it does not treat."""


def is_atom(node: graph.Expr) -> bool:
    """What needs no binding: a name."""
    return isinstance(node, (graph.Var, graph.GlobalVar, graph.ExternFunc, graph.Constructor))


def plain_symbols(of: Type) -> list[Symbol]:
    """The symbols that are a whole dim in a type: a value of the type says what they are (rule M4)."""
    if not symbols(of):
        return []
    inside = occurrences(of, lambda t: () if isinstance(t, FuncType) else t.children)
    return [d for t in inside for d in dims(t) if isinstance(d, Symbol)]


def scalars_in(value: object) -> list[Scalar]:
    """The scalar expressions inside an attribute."""
    if isinstance(value, Scalar):
        return [value]
    return [s for v in value for s in scalars_in(v)] if isinstance(value, (tuple, list)) else []


def used_symbols(node: graph.Expr) -> list[Symbol]:
    """The symbols that must have a value when the node is evaluated."""
    match node:
        case graph.Call():
            found = [s for v in node.attrs.values() for s in scalars_in(v)]
            return [v for s in found for v in variables(s)]
        case graph.ShapeExpr():
            return [v for d in node.dims for v in variables(d)]
        case graph.CallTIR():
            return [*symbols(node.type), *(v for d in node.scalars for v in variables(d))]
        case graph.MatchCast():
            if isinstance(node.type, TensorType) and node.type.is_static:
                return []
            own = set(plain_symbols(node.type))
            return [s for s in symbols(node.type) if s not in own]
        case _:
            return []


def pattern_places(pattern: graph.Pattern) -> list[tuple[graph.Var, tuple[Step, ...]]]:
    """The variables of a pattern, each with the way to it through the matched value."""
    found: list[tuple[graph.Var, tuple[Step, ...]]] = []
    work = Worklist[tuple[graph.Pattern, tuple[Step, ...]]]([(pattern, ())])
    for p, way in work:
        match p:
            case graph.Bind():
                found.append((p.var, way))
            case graph.Made() | graph.Fields():
                name = p.constructor.name if isinstance(p, graph.Made) else ""
                work.add((f, (*way, (name, i))) for i, f in enumerate(p.fields))
            case _:
                pass
    return found


Part = tuple[int, int]
"""A region inside a node, by the node's identity: a branch (1, 2), a clause (1, 2, ...), or the body (0) of a let or a
function."""

NOWHERE = 1 << 60
NOBODY: frozenset[int] = frozenset()


@dataclass(eq=False)
class Nesting:
    """Facts about the nodes below a top-level function; nodes are known by identity."""

    root: graph.Function
    order: list[graph.Expr]
    lets: dict[graph.Var, graph.Let] = field(default_factory=dict)
    source: dict[graph.Var, graph.Expr] = field(default_factory=dict)
    """For a let's variable the expression that it stands for, through variables that name variables."""
    params: dict[graph.Var, tuple[graph.Function, int]] = field(default_factory=dict)
    made: dict[graph.Var, tuple[graph.Match, tuple[Step, ...]]] = field(default_factory=dict)
    named: set[Symbol] = field(default_factory=set)
    """Symbols that a person wrote: of parameters, casts and patterns. Others were made for a node's type."""
    regions: Forest = field(default_factory=Forest)
    region: dict[int, int] = field(default_factory=dict)
    """For each node the innermost region around all its uses."""
    parts: dict[Part, int] = field(default_factory=dict)
    owner: list[tuple[graph.Expr, int]] = field(default_factory=list)
    """For each region the node that it is a part of, and which part."""
    block: list[int] = field(default_factory=list)
    """For each region the branch, clause or function's body that it is in."""
    clause: dict[graph.Var, int] = field(default_factory=dict)
    """For a pattern's variable the clause."""
    late: set[int] = field(default_factory=set)
    """What keeps to the paths that demand it: it fails or acts, or depends on what does."""
    height: dict[int, int] = field(default_factory=dict)
    """For a function one more than the highest inside it that names something of its own."""
    places: dict[int, tuple[graph.Function, int]] = field(default_factory=dict)
    """For an action its function, and how many actions of its body come before."""
    free: dict[int, frozenset[int]] = field(default_factory=dict)
    """For a node the inner functions around it of which it names something, where there are any."""
    done: set[int] = field(default_factory=set)

    def scope(self, node: graph.Expr) -> int:
        """The branch, clause or function's body around all uses of a node."""
        return self.block[self.region[id(node)]] if id(node) in self.region else 0

    def resolve(self, node: graph.Expr) -> graph.Expr:
        """The expression that a let's variable stands for; another node itself."""
        return self.source.get(node, node) if isinstance(node, graph.Var) else node

    def free_in(self, node: graph.Expr) -> frozenset[int]:
        """The functions around a node of which it names something. A function is named inside it, and known outside."""
        node = self.resolve(node)
        if isinstance(node, graph.Function) and id(node) not in self.done:
            return frozenset({id(node)})
        if isinstance(node, graph.Var) and node in self.params:
            owner = self.params[node][0]
            return frozenset({id(owner)}) if owner is not self.root else NOBODY
        if isinstance(node, graph.Var) and node in self.made:
            return self.free_in(self.made[node][0].value)
        return self.free.get(id(node), NOBODY)


def nesting(root: graph.Function, module: Module, least: Mapping[int, int] | None = None) -> Nesting:
    """The facts about a function. `least` are heights that functions have at least, by identity."""
    found = Nesting(root, list(post_order(root)))
    _binders(found)
    _scopes(found)
    _late(found, module)
    _actions(found)
    _heights(found, least or {})
    return found


def _binders(of: Nesting) -> None:
    for node in of.order:
        match node:
            case graph.Let():
                of.lets[node.var] = node
            case graph.Function():
                for i, p in enumerate(node.params):
                    of.params[p] = (node, i)
                    of.named.update(_written(p.type))
            case graph.Match():
                for i, c in enumerate(node.clauses, 1):
                    for v, way in pattern_places(c.pattern):
                        of.made[v], of.clause[v] = (node, way), i
                        of.named.update(_written(v.type))
            case graph.MatchCast():
                of.named.update(_written(node.type))
            case _:
                pass
    for var in of.lets:
        chain: dict[graph.Var, None] = {}  # a ring is no value: it stays a name, which has no number
        end: graph.Expr = var
        while isinstance(end, graph.Var) and end in of.lets and end not in of.source and end not in chain:
            chain[end] = None
            end = of.lets[end].value
        last = of.source.get(end, end) if isinstance(end, graph.Var) else end
        of.source.update((v, last) for v in chain)


def _written(of: Type) -> Sequence[Symbol]:
    return () if isinstance(of, TensorType) and of.is_static else symbols(of)


def _scopes(of: Nesting) -> None:
    """The region of each node: the innermost branch, clause, function body or let body around all its uses."""
    forest, home = of.regions, of.region

    def open_(node: graph.Expr, part: int) -> int:
        outer = home.get(id(node))
        new = forest.add(outer)
        of.parts[id(node), part] = new
        of.owner.append((node, part))
        of.block.append(of.block[outer] if isinstance(node, graph.Let) and outer is not None else new)
        return new

    def use(node: graph.Expr, region: int) -> None:
        known = home.get(id(node))
        home[id(node)] = region if known is None or known == region else forest.around(known, region)

    for node in reversed(of.order):  # every user of a node comes before it
        match node:
            case graph.Function():
                use(node.body, open_(node, 0))
            case graph.Let():
                use(node.value, home[id(node)])
                use(node.body, open_(node, 0))
            case graph.If() | graph.Match():
                use(node.children[0], home[id(node)])
                for i, body in enumerate(node.children[1:], 1):
                    use(body, open_(node, i))
            case _:
                for child in node.children:
                    use(child, home[id(node)])


def _late(of: Nesting, module: Module) -> None:
    """Upwards: who fails, acts, or depends on that through operands, variables and symbols.

    A function's creation does neither; but a function that uses a variable or symbol from outside which depends on a
    failure stays behind it. `outer` says how deep the outermost region is that binds such a variable. The regions that
    bind what is free in a node lie inside one another: where a node binds the outermost, nothing else is left.
    """
    outer: dict[int, int] = {}
    depth = of.regions.depth
    given = {s for p in of.params for s in plain_symbols(p.type)}
    lets: dict[Symbol, graph.Let] = {}
    for node in reversed(of.order):  # the outermost let first
        if isinstance(node, graph.Let):
            for s in plain_symbols(node.value.type):
                lets.setdefault(s, node)
    binder = {s: let for s, let in lets.items() if s not in given}

    def reach(node: graph.Expr) -> int:
        """How far out the outermost late variable is bound that a node names."""
        if not isinstance(node, graph.Var):
            return outer.get(id(node), NOWHERE)
        if node in of.lets:
            let = of.lets[node]
            return depth[of.parts[id(let), 0]] if id(of.resolve(node)) in of.late else NOWHERE
        if node in of.made:
            match, part = of.made[node][0], of.clause[node]
            return depth[of.parts[id(match), part]] if id(of.resolve(match.value)) in of.late else NOWHERE
        return NOWHERE

    for node in of.order:
        if isinstance(node, graph.Var):
            continue
        far, late = NOWHERE, False
        for part, child in enumerate(node.children):
            reached = reach(child)
            late = late or reached < NOWHERE or id(child) in of.late
            region = of.parts.get((id(node), part - isinstance(node, graph.Let)))
            if region is None or reached != depth[region]:
                far = min(far, reached)
        for s in used_symbols(node):
            let = binder.get(s)
            if let is not None and id(of.resolve(let.value)) in of.late:
                late = True
                far = min(far, depth[of.parts[id(let), 0]])
        if isinstance(node, graph.Function):
            # a parameter's size that a let around the function gives has its value before the function is made
            for s in {s for p in node.params for s in plain_symbols(p.type)}:
                let = lets.get(s)
                if let is not None and id(of.resolve(let.value)) in of.late:
                    body = of.parts[id(let), 0]
                    if of.regions.inside(of.region.get(id(node), 0), body):
                        far = min(far, depth[body])
            late = far < depth[of.parts[id(node), 0]]
        elif acts(node) or can_fail(node, module):
            late = True
        if late:
            of.late.add(id(node))
        if far < NOWHERE:
            outer[id(node)] = far


def _actions(of: Nesting) -> None:
    """Number the actions of each function's body, in the order of evaluation."""
    acting: set[int] = set()
    for node in of.order:
        if id(node) in of.late and not isinstance(node, graph.Function):
            if acts(node) or any(id(c) in acting for c in node.children):
                acting.add(id(node))

    def into(node: graph.Expr) -> list[graph.Expr]:
        return [c for c in node.children if id(c) in acting]

    for f in of.order:
        if isinstance(f, graph.Function) and id(f.body) in acting:
            found = [n for n in post_order(f.body, into) if acts(n)]
            of.places.update((id(n), (f, i)) for i, n in enumerate(found))


def _heights(of: Nesting, least: Mapping[int, int]) -> None:
    """A function is higher than each function inside it that names something of its own.

    So the names of two functions differ wherever they could be confused, and equal functions are equally high, whatever
    stands around them. Names are parameters, the function itself, and what its actions give.
    """
    functions = [n for n in of.order if isinstance(n, graph.Function)]
    of.height.update((id(f), least.get(id(f), 1)) for f in functions)
    if len(functions) == 1:
        return
    for node in of.order:
        if isinstance(node, graph.Var):
            continue
        free = NOBODY
        for child in node.children:
            more = of.free_in(child)
            if more is not free and more:
                free = free | more if free else more
        if id(node) in of.places and of.places[id(node)][0] is not of.root:
            free = free | {id(of.places[id(node)][0])}
        if isinstance(node, graph.Function):
            free = free - {id(node)}
            for f in free:
                of.height[f] = max(of.height[f], of.height[id(node)] + 1)
            of.done.add(id(node))
        if free:
            of.free[id(node)] = free
