"""Which scope an expression belongs to (rule M2, "sharing is identity"; specs/semantics.md, "Scopes").

A node with several parents is one evaluation in the innermost function that is around all of them. `function_scopes`
finds that function for every node below a top-level function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.semantics.graph import Expr, Function, Let
from assay.semantics.walk import post_order


@dataclass(eq=False)
class Scopes:
    """For the nodes of a top-level function, by identity: their function, their uses, and whether all are in it."""

    owner: dict[int, Function] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    local: set[int] = field(default_factory=set)


def function_scopes(root: Function) -> Scopes:
    """The owner of each node: the lowest common ancestor, in the nesting of functions, of the scopes of its uses."""
    order = list(post_order(root))
    depth: dict[int, int] = {id(root): 0}
    around: dict[int, Function] = {}
    found = Scopes()
    shared: set[int] = set()

    def lowest(a: Function, b: Function) -> Function:
        while a is not b:
            if depth[id(a)] >= depth[id(b)]:
                a = around[id(a)]
            else:
                b = around[id(b)]
        return a

    def use(node: Expr, scope: Function) -> None:
        known = found.owner.get(id(node))
        if known is not None and known is not scope:
            shared.add(id(node))
        found.owner[id(node)] = scope if known is None else lowest(known, scope)
        found.uses[id(node)] = found.uses.get(id(node), 0) + 1

    for node in reversed(order):  # every user of a node comes before it
        if isinstance(node, Function):
            if node is not root:
                around[id(node)] = found.owner[id(node)]
                depth[id(node)] = depth[id(around[id(node)])] + 1
            for p in node.params:
                found.owner[id(p)] = node
            use(node.body, node)
            continue
        scope = found.owner[id(node)]
        for child in node.children:
            use(child, scope)
        if isinstance(node, Let):
            # a variable lives where its let is, whatever uses it
            found.owner[id(node.var)] = scope
    found.owner.pop(id(root), None)
    found.local = {n for n in found.uses if n not in shared}
    return found
