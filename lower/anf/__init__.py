"""A-normal form: sharing made explicit as lets, in the order of evaluation (rules N1 to N6; specs/lower.md, "anf").

Every compound expression is bound by a let, under a name that nothing else in the function has. What can neither fail
nor act is bound once, in the lowest block around all its uses, when it is first demanded; what can fail, in the block
that demands it; what acts, where it stands. Operands, conditions and results are atoms: variables and names. Input
modules are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assay.lower.anf.copying import fresh_copy
from assay.lower.anf.names import FreshNames
from assay.lower.anf.placement import Placement
from assay.lower.passes import split_blocks
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE
from assay.semantics.errors import Crash, Invalid, Unsupported
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import ATOMS
from assay.semantics.graph.patterns import with_variables
from assay.semantics.graph.scopes import Forest
from assay.semantics.module import Module
from assay.semantics.tasks import Task, run_task

GROWTH, SMALL = 64, 10_000
"""A node of the source is bound GROWTH times on average at most, not counting SMALL."""


def to_anf(module: Module) -> Module:
    """Every graph function of the module in A-normal form. Unsupported where that is far larger than the source
    (rule M3.3)."""
    changed = {
        n: function_to_anf(d, module).function for n, d in module.definitions.items() if isinstance(d, graph.Function)
    }
    return replace(module, definitions={**module.definitions, **changed})


@dataclass(frozen=True, eq=False)
class Converted:
    """A function in A-normal form; `made` are the variables that stand for no let of the source, `atoms` what stands
    for a node of the source, by its identity, where that is bound in the function's own block."""

    function: graph.Function
    made: frozenset[graph.Var] = frozenset()
    atoms: Mapping[int, graph.Expr] = field(default_factory=dict)


def function_to_anf(root: graph.Function, module: Module) -> Converted:
    """A top-level function in A-normal form. A function marked as a primitive stays as it is (row A6)."""
    if is_opaque(root):
        return Converted(root)
    recursive: set[graph.Var] = set()
    while True:
        walk = _Walk(root, module, recursive)
        found = walk.function()
        if not walk.cyclic:
            return found
        if walk.cyclic <= recursive:
            raise Crash(f"local functions that cannot be bound: {', '.join(v.name for v in walk.cyclic)}")
        # a node that needs a local function's variable is used inside that function and outside: it cannot be bound
        # before the function, so the two places get a binding each
        recursive |= walk.cyclic


@dataclass(frozen=True, eq=False)
class Binding:
    """A let to be: `source` is the let that it stands for, if there is one."""

    var: graph.Var
    value: graph.Expr
    source: graph.Let | None
    mark: graph.Dataflow | None


@dataclass(eq=False)
class OpenBlock:
    """A block that is being written: a branch or body of a node that is bound in the block around it."""

    number: int
    """In the forest of all blocks that were ever opened."""
    bindings: list[Binding] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """The nodes and variables whose atoms are known in this block and inside it."""
    mark: graph.Dataflow | None = None
    """The dataflow block whose let is being bound here."""


class _Walk:
    """One walk over a function in the order of evaluation."""

    def __init__(self, root: graph.Function, module: Module, recursive: set[graph.Var]) -> None:
        self.root = root
        self.places = Placement(root, module, recursive)
        self.names = FreshNames(v.name for variables in self.places.binds.values() for v in variables)
        self.forest = Forest()
        self.open: dict[int, OpenBlock] = {}
        """The block that is being written for a block of the source: at most one, for no node is inside itself."""
        self.atoms: dict[int, list[tuple[OpenBlock, graph.Expr]]] = {}
        """What stands for a node or variable, and the blocks in which it does, innermost last."""
        self.unfinished: dict[int, OpenBlock] = {}
        """The bodies of local functions that are being written, by the variable that names the function."""
        self.cyclic: set[graph.Var] = set()
        self.made: list[graph.Var] = []
        self.count = 0
        """How many nodes were bound, again each time."""
        self.limit = GROWTH * self.places.size + SMALL

    def function(self) -> Converted:
        top = self.open[self.places.top] = OpenBlock(self.forest.add())
        for p in self.root.params:
            self.names.claim(p.name)
            self.hold(p, top, p)
        result = run_task(self.atom(self.root.body, top))
        new = split_blocks(replace(self.root, body=self.chain(top, result)))
        atoms = {n: found[0][1] for n, found in self.atoms.items() if found}
        return Converted(new, frozenset(self.made), atoms)

    # --- what is known -------------------------------------------------------------------------------------------

    def known(self, node: graph.Expr, at: OpenBlock) -> graph.Expr | None:
        """The atom that stands for a node in `at`, if it has one."""
        if isinstance(node, ATOMS) and not isinstance(node, graph.Var):
            return node
        found = self.atoms.get(id(node))
        if not found:
            return None
        block, atom = found[-1]
        if id(node) in self.unfinished and not self.forest.inside(at.number, self.unfinished[id(node)].number):
            assert isinstance(node, graph.Var)
            self.cyclic.add(node)  # it is in the name's scope, but will stand before the function
        return atom if block is at or self.forest.inside(at.number, block.number) else None

    def unknown(self, var: graph.Var) -> graph.Expr:
        """A variable that nothing stands for: of a local function, if it is well-formed."""
        _, let = self.places.lets.get(id(var), (0, None))
        if let is None or not isinstance(let.value, graph.Function) or var in self.places.recursive:
            raise Invalid(f"variable {var.name} is not bound", where=var.span or self.root.span, label="graph.C1")
        self.cyclic.add(var)
        return var

    def hold(self, node: graph.Expr, block: OpenBlock, atom: graph.Expr) -> None:
        self.atoms.setdefault(id(node), []).append((block, atom))
        block.held.append(id(node))

    # --- blocks ---------------------------------------------------------------------------------------------------

    def enter(self, source: int, around: OpenBlock) -> OpenBlock:
        new = self.open[source] = OpenBlock(self.forest.add(around.number))
        return new

    def leave(self, source: int, result: graph.Expr) -> graph.Expr:
        """The finished block."""
        block = self.open.pop(source)
        for key in block.held:
            self.atoms[key].pop()
        return self.chain(block, result)

    def chain(self, block: OpenBlock, result: graph.Expr) -> graph.Expr:
        """The bindings of a block around its result."""
        body = result
        for b in reversed(block.bindings):
            device = body.device  # a let is where its body is, and that need not be the body that it had
            if b.source is not None and device == ANYWHERE:
                device = b.source.device
            span = b.value.span if b.source is None else b.source.span
            body = graph.Let(body.type, b.var, b.value, body, dataflow=b.mark, span=span, device=device)
        return body

    # --- bindings -------------------------------------------------------------------------------------------------

    def variable(self, value: graph.Expr, source: graph.Let | None) -> graph.Var:
        """The variable for a value: that of the source's let, under another name where its own is taken."""
        if source is None:
            made = graph.Var(value.type, self.names.fresh(), device=value.device, span=value.span)
            self.made.append(made)
            return made
        var = self.renamed(source.var)
        device = value.device if var.device == ANYWHERE else var.device
        span = var.span or value.span
        return var if device == var.device and span is var.span else replace(var, device=device, span=span)

    def renamed(self, var: graph.Var) -> graph.Var:
        name = self.names.claim(var.name)
        return var if name == var.name and id(var) not in self.places.kept else replace(var, name=name)

    def bind(self, var: graph.Var, value: graph.Expr, block: OpenBlock, source: graph.Let | None) -> None:
        block.bindings.append(Binding(var, value, source, block.mark))

    # --- nodes: each task gives the atom that stands for the node --------------------------------------------------

    def atom(self, node: graph.Expr, at: OpenBlock, source: graph.Let | None = None) -> Task[graph.Expr]:
        """The atom for a node that `at` demands; what has none yet is bound. `source` is the let that names the
        node."""
        found = self.known(node, at)
        if found is not None:
            return found
        if isinstance(node, graph.Var):
            return self.unknown(node)
        home = at if id(node) in self.places.pinned else self.open[self.places.home(node)]
        self.count += 1
        if self.count > self.limit:
            raise Unsupported(
                f"A-normal form would need more than {self.limit} bindings for {self.places.size} expressions: branches"
                " share expressions that can fail again and again; name one of them by a let before the branches",
                where=node.span or self.root.span,
                label="anf.C1",
            )
        result: graph.Expr
        match node:
            case graph.Let():
                result = yield self.let(node, home, source)
            case graph.Function():
                result = yield self.literal(node, home, source)
            case _:
                value = yield self.rebuilt(node, home)
                if value is node and self.elsewhere(node):
                    value = replace(node)
                var = self.variable(value, source)
                self.bind(var, value, home, source)
                if source is not None:
                    self.hold(source.var, home, var)
                result = var
        self.hold(node, home, result)
        return result

    def let(self, node: graph.Let, home: OpenBlock, source: graph.Let | None) -> Task[graph.Expr]:
        outer = home.mark
        home.mark = outer or node.dataflow
        value = self.known(node.value, home) or (yield self.atom(node.value, home, node))
        if self.known(node.var, home) is None:
            # the value was bound before, for somebody else: another name for it
            block = home if id(node.var) in self.places.pinned else self.open[self.places.home(node)]
            alias = self.variable(value, node)
            self.bind(alias, value, block, node)
            self.hold(node.var, block, alias)
        home.mark = outer
        body: graph.Expr = self.known(node.body, home) or (yield self.atom(node.body, home, source))
        return body

    def literal(self, node: graph.Function, home: OpenBlock, source: graph.Let | None) -> Task[graph.Expr]:
        """A function literal. The name that a let gives it is known in its body: that is recursion (row A4)."""
        bound: graph.Var | None = None
        if source is not None:
            bound = self.variable(node, source)
            self.hold(source.var, home, bound)
        if is_opaque(node):
            value = self.whole(node, home)
        else:
            (body,) = self.places.inner[id(node)]
            inside = self.enter(body, home)
            if source is not None:
                self.unfinished[id(source.var)] = inside
            params = tuple(self.parameter(p, inside) for p in node.params)
            result = yield self.atom(node.body, inside)
            if source is not None:
                del self.unfinished[id(source.var)]
            value = replace(node, params=params, body=self.leave(body, result))
        bound = bound or self.variable(node, None)
        self.bind(bound, value, home, source)
        return bound

    def parameter(self, var: graph.Var, inside: OpenBlock) -> graph.Var:
        new = self.renamed(var)
        self.hold(var, inside, new)
        return new

    def whole(self, node: graph.Function, home: OpenBlock) -> graph.Expr:
        """A function that is not entered: as it is, but for variables from outside that have another name now."""
        outside: dict[graph.Var, graph.Expr] = {}
        for v in graph.free_variables(node):
            atom = self.known(v, home)
            outside[v] = self.unknown(v) if atom is None else atom
        same = all(v is atom for v, atom in outside.items()) and not self.elsewhere(node)
        return node if same else fresh_copy(node, outside)

    def elsewhere(self, node: graph.Expr) -> bool:
        """Whether the very node stands somewhere in the output already: a copy goes to the second place, for what two
        places share is one evaluation (rule M2)."""
        return id(node) in self.atoms or id(node) in self.places.kept

    def rebuilt(self, node: graph.Expr, home: OpenBlock) -> Task[graph.Expr]:
        """The node around its operands' atoms, its branches and clauses written as blocks."""
        match node:
            case graph.If():
                condition = yield self.atom(node.condition, home)
                first, second = self.places.inner[id(node)]
                then = yield self.atom(node.then, self.enter(first, home))
                then = self.leave(first, then)
                otherwise = yield self.atom(node.otherwise, self.enter(second, home))
                return node.with_children([condition, then, self.leave(second, otherwise)])
            case graph.Match():
                value = yield self.atom(node.value, home)
                clauses: list[graph.Clause] = []
                for clause, source in zip(node.clauses, self.places.inner[id(node)], strict=True):
                    inside = self.enter(source, home)
                    new = {v: self.parameter(v, inside) for v in clause.vars}
                    body = yield self.atom(clause.body, inside)
                    clauses.append(
                        graph.Clause(with_variables(clause.pattern, new.__getitem__), self.leave(source, body))
                    )
                return replace(node, value=value, clauses=tuple(clauses))
            case _:
                parts: list[graph.Expr] = []
                for child in node.children:
                    parts.append(self.known(child, home) or (yield self.atom(child, home)))
                return node.with_children(parts)
