"""Rewriting by patterns (specs/lower.md, "Patterns").

What a pattern finds is replaced where it stands. In A-normal form everything else stays bound, so that what failed or
acted still does, at its place; dead code elimination takes away what nothing uses any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.rewriting.pattern import Found, Lets, Pattern, behind_lets, is_leaf, match
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant, Expr, Function, Let, Var, acts, call, function, show_head, var
from assay.semantics.types import same_type
from assay.semantics.walk import post_order

Build = Callable[[Found, Expr], Expr | None]
"""What stands instead, given what the patterns met and the expression that matched; None leaves it."""


def rewrite_matches(root: Function, pattern: Pattern, build: Build) -> Function:
    """`root` with every expression that matches replaced by what `build(found, node)` makes of it, parts first; None
    leaves it. `found` has what each pattern met, by pattern, and `node` is the expression that matched.

    Invalid where what stands instead has another type.
    """
    return _rewritten(root, pattern, lambda found, node, lets: build(found, node))


def _rewritten(root: Function, pattern: Pattern, build: Callable[[Found, Expr, Lets], Expr | None]) -> Function:
    top: Expr = root
    order = list(post_order(top))
    values = {n.var: n.value for n in order if isinstance(n, Let)}
    new: dict[int, Expr] = {}

    def lets(v: Var) -> Expr | None:
        return new.get(id(values[v])) if v in values else None

    for node in order:
        rebuilt = node.with_children([new[id(c)] for c in node.children])
        found = None if isinstance(node, (Var, Let, Function)) else match(pattern, rebuilt, lets)
        instead = build(found, rebuilt, lets) if found is not None else None
        if instead is not None and not same_type(instead.type, rebuilt.type):
            raise Invalid(
                f"{show_head(rebuilt)} is replaced by {show_head(instead)}", where=node.span, label="rewrite.C1"
            )
        new[id(node)] = instead or rebuilt
    done = new[id(root)]
    assert isinstance(done, Function)
    return done


def extract(root: Function, pattern: Pattern, compiler: str) -> Function:
    """`root` with what matches moved into functions for another compiler (row A21): attribute `compiler`.

    What `anything()` met is a parameter, but for constants, which go along. What acts stays.
    """

    def moved(found: Found, at: Expr, lets: Lets) -> Expr | None:
        leaves = {id(behind_lets(e, lets)): e for p, e in found.items() if is_leaf(p)}
        params: dict[int, tuple[Var, Expr]] = {}
        made: dict[int, Expr] = {}

        def parts(node: Expr) -> list[Expr]:
            return [] if id(node) in leaves else [behind_lets(c, lets) for c in node.children]

        for node in post_order(at, parts):
            if id(node) in leaves and not isinstance(node, Constant):
                outside = leaves[id(node)]
                params[id(node)] = (var(f"p{len(params)}", outside.type), outside)
                made[id(node)] = params[id(node)][0]
            elif acts(node):
                return None
            else:
                made[id(node)] = node.with_children([made[id(behind_lets(c, lets))] for c in node.children])
        body = function([p for p, _ in params.values()], made[id(at)], compiler=compiler)
        return replace(call(body, *(outside for _, outside in params.values())), span=at.span, device=at.device)

    return _rewritten(root, pattern, moved)
