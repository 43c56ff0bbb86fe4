"""Which nodes a text names before a branch or an inner function, because they are used in it and elsewhere too (row R5;
specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.semantics.graph import Expr, Function, If, Let, Match
from assay.semantics.graph.nodes import LEAVES


def hoisted_nodes(order: Sequence[Expr], uses: Mapping[int, int], deepest: int) -> dict[int, list[Expr]]:
    """For each If, Match and inner function, by identity, the nodes to name before it, parts before wholes. So a name
    stands before all its uses, in the lowest block around them.

    `order` is a function's nodes, parts before wholes, and `uses` how often each is used. Blocks that are more than
    `deepest` inside one another count as one.
    """
    around = [0]  # for each block the one around it
    owner: list[Expr] = [order[-1]]  # and the node whose part it is
    depth = [0]
    home: dict[int, int] = {id(order[-1]): 0}
    left: dict[int, dict[int, None]] = {}  # the blocks in which a node is used, but not only there
    values = {id(n.value) for n in order if isinstance(n, Let)}
    for node in reversed(order):  # every user of a node comes before it
        here = home[id(node)]
        alone = uses.get(id(node), 0) == 1 and depth[here] <= deepest
        for i, child in enumerate(node.children):
            at = here
            if alone and (
                (isinstance(node, (If, Match)) and i > 0) or (isinstance(node, Function) and id(node) in values)
            ):
                at = len(around)
                around.append(here)
                owner.append(node)
                depth.append(depth[here] + 1)
            known = home.get(id(child), at)
            while known != at:
                inner, outer = (known, at) if depth[known] >= depth[at] else (at, known)
                left.setdefault(id(child), {})[inner] = None
                known, at = around[inner], outer
            home[id(child)] = known
    found: dict[int, list[Expr]] = {}
    for node in order:
        if not isinstance(node, LEAVES):
            parts = [b for b in left.get(id(node), ()) if around[b] == home[id(node)]]
            for whole in dict.fromkeys(id(owner[b]) for b in parts):
                found.setdefault(whole, []).append(node)
    return found
