"""Which scope an expression belongs to (rule M2, "sharing is identity"; specs/semantics.md, "Scopes").

A node with several parents is one evaluation in the innermost function that is around all of them. `function_scopes`
finds that function for every node below a top-level function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.semantics.graph import Expr, Function, Let, Match
from assay.semantics.walk import post_order


class Forest:
    """Scopes inside scopes, by number. However deep they are, two meet in a number of steps logarithmic in the depth.

    Each scope knows its parent and one ancestor further out (Myers, "An applicative random-access stack", 1983).
    """

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.jump: list[int] = []

    def add(self, parent: int | None = None) -> int:
        """A new scope inside `parent`, or an outermost one."""
        new = len(self.parent)
        if parent is None:
            self.parent.append(new)
            self.depth.append(0)
            self.jump.append(new)
            return new
        far = self.jump[parent]
        twice = self.depth[parent] - self.depth[far] == self.depth[far] - self.depth[self.jump[far]]
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1)
        self.jump.append(self.jump[far] if twice else parent)
        return new

    def outwards(self, scope: int, depth: int) -> int:
        """The scope of that depth that is `scope` or around it."""
        while self.depth[scope] > depth:
            scope = self.jump[scope] if self.depth[self.jump[scope]] >= depth else self.parent[scope]
        return scope

    def around(self, a: int, b: int) -> int:
        """The innermost scope around two."""
        depth = min(self.depth[a], self.depth[b])
        a, b = self.outwards(a, depth), self.outwards(b, depth)
        while a != b:
            if self.jump[a] != self.jump[b]:
                a, b = self.jump[a], self.jump[b]
            else:
                a, b = self.parent[a], self.parent[b]
        return a

    def inside(self, scope: int, outer: int) -> bool:
        """Whether `scope` is `outer` or inside it."""
        return self.depth[scope] >= self.depth[outer] and self.outwards(scope, self.depth[outer]) == outer


@dataclass(eq=False)
class Scopes:
    """For the nodes of a top-level function, by identity: their function and how many functions are around that, their
    uses, and whether all are in it."""

    owner: dict[int, Function] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    local: set[int] = field(default_factory=set)


def function_scopes(root: Function) -> Scopes:
    """The owner of each node: the lowest common ancestor, in the nesting of functions, of the scopes of its uses."""
    order = list(post_order(root))
    forest = Forest()
    scope_of: dict[int, int] = {id(root): forest.add()}
    functions = [root]
    home: dict[int, int] = {}
    found = Scopes()
    shared: set[int] = set()

    def use(node: Expr, scope: int) -> None:
        known = home.get(id(node))
        if known is not None and known != scope:
            shared.add(id(node))
        home[id(node)] = scope if known is None else forest.around(known, scope)
        found.uses[id(node)] = found.uses.get(id(node), 0) + 1

    for node in reversed(order):  # every user of a node comes before it
        if isinstance(node, Function):
            if node is not root:
                scope_of[id(node)] = forest.add(home[id(node)])
                functions.append(node)
            for p in node.params:
                home[id(p)] = scope_of[id(node)]
            use(node.body, scope_of[id(node)])
            continue
        scope = home[id(node)]
        for child in node.children:
            use(child, scope)
        # a variable lives where its let or match is, whatever uses it
        if isinstance(node, Let):
            home[id(node.var)] = scope
        elif isinstance(node, Match):
            for c in node.clauses:
                for v in c.vars:
                    home[id(v)] = scope
    found.owner = {n: functions[scope] for n, scope in home.items()}
    found.depth = {n: forest.depth[scope] for n, scope in home.items()}
    found.local = {n for n in found.uses if n not in shared}
    return found
