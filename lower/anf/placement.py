"""Where the bindings of A-normal form belong (rules N1 and N2; specs/lower.md, "anf").

Two questions about every node of a function. Which *block* is the lowest around all its uses? A block is a function's
body, a branch of an If or the body of a clause. And is the node *pinned*: bound where it is demanded, and never
further out? It is, if it or an operand can fail, or if it needs a variable or a size whose own value is pinned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from assay.semantics import graph
from assay.semantics.graph.effects import can_fail, is_opaque
from assay.semantics.graph.functions import open_parts
from assay.semantics.graph.nodes import ATOMS, bound_by
from assay.semantics.graph.scopes import Forest
from assay.semantics.graph.sizes import sizes_used
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import open_symbols, symbols
from assay.semantics.walk import Worklist, post_order


class Placement:
    """The blocks of a function's nodes, by identity, and which nodes are pinned.

    The nodes are seen as a tree of *regions*: a block is a region, and so is the body of a let. The region of a node is
    the innermost around all its uses. Regions show dominance: whatever is bound around a node is bound by a region
    around the node's. `recursive` are variables of local functions that are to be taken as pinned.
    """

    def __init__(self, root: graph.Function, module: Module, recursive: Collection[graph.Var] = ()) -> None:
        self.module = module
        self.recursive = recursive
        self.forest = Forest()
        self.top = self.forest.add()
        self.block = [self.top]
        """The block that each region is in."""
        self.region: dict[int, int] = {id(root.body): self.top}
        self.inner: dict[int, tuple[int, ...]] = {}
        """The blocks that a node opens: one for each branch, clause or body."""
        self.lets: dict[int, tuple[int, graph.Let]] = {}
        """For a let's variable: the region of the let's body, and the let."""
        self.named: dict[int, graph.Let] = {}
        """For a let's variable: the let of the value that it names, through names of names."""
        self.let_of: dict[int, graph.Let] = {}
        """For the region of a let's body: the let."""
        self.split = False
        """Whether a node other than an atom is used in several blocks."""
        self.kept: set[int] = set()
        """The nodes inside functions that are not entered, and the variables that they bind."""
        self.binds: dict[int, Collection[graph.Var]] = {self.top: root.params}
        """The variables that each region binds."""
        start: graph.Expr = root.body
        order = list(post_order(start, open_parts))
        self.size = len(order)
        asked = self._find_regions(order)
        sizes = self._find_sizes(asked) if asked else {}
        self.pinned: set[int] = set()
        """Nodes, and variables of lets, that are pinned."""
        self._pin(order, sizes)

    def home(self, node: graph.Expr) -> int:
        """The block around all uses of a node."""
        return self.block[self.region[id(node)]]

    # --- regions: users first -------------------------------------------------------------------------------------

    def _open(self, outer: int, is_block: bool, variables: Collection[graph.Var]) -> int:
        new = self.forest.add(outer)
        self.block.append(new if is_block else self.block[outer])
        if variables:
            self.binds[new] = variables
        return new

    def _find_regions(self, order: list[graph.Expr]) -> dict[int, list[tuple[graph.Expr, list[Symbol]]]]:
        """Give every node its region. The result is the nodes that use sizes, by region."""
        asked: dict[int, list[tuple[graph.Expr, list[Symbol]]]] = {}
        region, around = self.region, self.forest.around
        for node in reversed(order):
            if isinstance(node, ATOMS):
                continue
            here = region[id(node)]
            used = list(_sizes_used(node))
            if used:
                asked.setdefault(here, []).append((node, used))
            for child, to in self._edges(node, here):
                if isinstance(child, ATOMS):
                    continue
                known = region.get(id(child))
                if known is None:
                    region[id(child)] = to
                elif known != to:
                    region[id(child)] = around(known, to)
                    self.split = self.split or self.block[known] != self.block[to]
        return asked

    def _edges(self, node: graph.Expr, here: int) -> list[tuple[graph.Expr, int]]:
        """The parts of a node, and the region in which each is used."""
        match node:
            case graph.Let():
                inside = self._open(here, False, (node.var,))
                self.lets[id(node.var)] = (inside, node)
                self.named[id(node.var)] = self.named.get(id(node.value), node)
                self.let_of[inside] = node
                return [(node.value, here), (node.body, inside)]
            case graph.If():
                branches = (self._open(here, True, ()), self._open(here, True, ()))
                self.inner[id(node)] = branches
                return [(node.condition, here), (node.then, branches[0]), (node.otherwise, branches[1])]
            case graph.Match():
                clauses = tuple(self._open(here, True, c.vars) for c in node.clauses)
                self.inner[id(node)] = clauses
                return [(node.value, here), *((c.body, r) for c, r in zip(node.clauses, clauses, strict=True))]
            case graph.Function() if is_opaque(node):
                for part in post_order(node.body):
                    self.kept.update(map(id, bound_by(part)))
                    if not isinstance(part, graph.Var):
                        self.kept.add(id(part))
                return []
            case graph.Function():
                body = self._open(here, True, node.params)
                self.inner[id(node)] = (body,)
                return [(node.body, body)]
            case _:
                return [(child, here) for child in node.children]

    # --- sizes: what binds them -----------------------------------------------------------------------------------

    def _find_sizes(self, asked: dict[int, list[tuple[graph.Expr, list[Symbol]]]]) -> dict[int, list[int]]:
        """For each node that uses sizes, the regions that bind them: of several around it the outermost."""
        inside: list[list[int]] = [[] for _ in self.block]
        for r in range(1, len(self.block)):
            inside[self.forest.parent[r]].append(r)
        found: dict[int, list[int]] = {}
        bound: dict[Symbol, int] = {}
        work = Worklist([self.top])
        for r in work:
            for s in {s: None for v in self.binds.get(r, ()) for s in symbols(v.type) if s not in bound}:
                bound[s] = r
                work.on_leave(bound.pop, s)
            for node, used in asked.get(r, ()):
                found[id(node)] = [bound[s] for s in used if s in bound]
            work.add(inside[r])
        return found

    # --- pins: operands first -------------------------------------------------------------------------------------

    def _pin(self, order: list[graph.Expr], sizes: dict[int, list[int]]) -> None:
        """Find the pinned nodes.

        With each node goes the outermost region that binds a pinned variable which is free in the node. The regions
        that bind a node's free variables lie inside one another, so at a let whose own region is the outermost no
        other is left.
        """
        fails: set[int] = set()
        outer: dict[int, int] = {}
        depth = self.forest.depth
        for node in order:
            if isinstance(node, ATOMS):
                continue
            free: list[int] = []
            parts: Collection[graph.Expr] = graph.free_variables(node) if is_opaque(node) else node.children
            for part in parts:
                if isinstance(part, graph.Var):
                    if self._ask(part):
                        free.append(self.lets[id(part)][0])
                elif id(part) in outer:
                    free.append(outer[id(part)])
            if id(node) in sizes:
                free += [r for r in sizes[id(node)] if r in self.let_of and self._ask(self.let_of[r].var)]
            if free:
                most = min(free, key=depth.__getitem__)
                own = self.let_of.get(most)
                if own is None or (own is not node and own.value is not node):
                    outer[id(node)] = most
            if not isinstance(node, graph.Function) and (
                can_fail(node, self.module) or any(id(p) in fails for p in parts)
            ):
                fails.add(id(node))
            if id(node) in fails or id(node) in outer:
                self.pinned.add(id(node))
            if isinstance(node, graph.Let):
                self._ask(node.var)  # nobody did, if nothing uses it

    def _ask(self, var: graph.Var) -> bool:
        """Whether a variable is pinned: that of a let whose value is. The order makes the value known before, but
        inside a function that calls itself by this variable: there the variable alone pins nothing. A name of another
        name is pinned as that is, which need not have been asked."""
        if id(var) in self.pinned:
            return True
        found = self.named.get(id(var))
        if found is None or (id(found.value) not in self.pinned and found.var not in self.recursive):
            return False
        self.pinned.add(id(var))
        return True


def _sizes_used(node: graph.Expr) -> Iterator[Symbol]:
    """The sizes that must have values when a node is evaluated, or when a function that it makes is called; and those
    of a function's parameters, which must agree with what they are around the function (rule M4)."""
    for part in post_order(node) if is_opaque(node) else (node,):
        yield from sizes_used(part)
        if isinstance(part, graph.Function):
            yield from (s for p in part.params for s in open_symbols(p.type))
