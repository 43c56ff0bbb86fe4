"""Basic-block normal form, checked by itself (row A9; specs/verify.md, "bbnf").

A block is a function's body, a branch of an If or the body of a clause. In basic-block normal form a value that two
blocks use is a variable, so every other expression is used in one block only. The check knows nothing of the pass.
"""

from __future__ import annotations

from assay.semantics.graph import Constructor, Expr, ExternFunc, Function, GlobalVar, If, Match, Var, show_head
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.anf import check_anf
from assay.verify.evidence import Context, Evidence, refuted
from assay.verify.simplify import check_simplified


def why_not_bbnf(function: Function) -> str | None:
    """What keeps a function from being in basic-block normal form, or None."""
    root: Expr = function

    def parts(node: Expr) -> list[Expr]:
        return [] if _closed(node) else list(node.children)

    count = 0
    used_in: dict[int, int] = {}
    for node in reversed(list(post_order(root, parts))):  # whatever uses a node comes before it
        here = used_in.get(id(node), 0)
        first = 1 if isinstance(node, (If, Match)) else 0 if isinstance(node, Function) else len(node.children)
        for i, part in enumerate(parts(node)):
            block = here
            if i >= first:
                count += 1
                block = count
            if isinstance(part, (Var, GlobalVar, ExternFunc, Constructor)):
                continue
            if used_in.setdefault(id(part), block) != block:
                return f"{show_head(part)} is used in two blocks: name it by a let" + (
                    f" ({part.span})" if part.span else ""
                )
    return None


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether every graph function has the form, and is what it was."""
    for name, d in after.definitions.items():
        why = why_not_bbnf(d) if isinstance(d, Function) else None
        if why is not None:
            return refuted("checked", f"in {name}: {why}")
    found = check_simplified(before, after)
    if found.holds:
        return found
    named = check_anf(before, after, normal=False)  # that decides branches, this knows what lets are: either is a proof
    return named if named.holds else found


def _closed(node: Expr) -> bool:
    """A function that is marked as primitive, or for another compiler, is not looked into."""
    return isinstance(node, Function) and not {"primitive", "compiler"}.isdisjoint(node.attrs)
