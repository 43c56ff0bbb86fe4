"""Whether sizes made explicit are the sizes of rule M4 (specs/verify.md, "shapes").

Two claims, none of which asks the pass. *Erasure*: without the statements about sizes the target is the source in
A-normal form. *Flow*: between two statements of the program stand exactly the checks and computations that rule M4 asks
for there, in its order; every slot is written once and before it is read.
"""

from __future__ import annotations

from dataclasses import replace

from assay.lower.anf import to_anf
from assay.semantics.analyses.equality import first_difference
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, Let, Var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.graph.nodes import bound_by
from assay.semantics.graph.sizes import EXPLICIT, has_explicit_shapes
from assay.semantics.module import Definition, Module
from assay.semantics.rules import check as check_rules
from assay.semantics.walk import post_order
from assay.verify.evidence import Context, Evidence, plural, proved, refuted
from assay.verify.shapes.flow import SizeFlow, Wrong


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether sizes were made explicit, and nothing else has changed."""
    return check_shapes(before, after)


def check_shapes(source: Module, target: Module) -> Evidence:
    """Whether `target` is `source` with its sizes made explicit, for every input."""
    try:
        check_rules(target)
    except Invalid as wrong:
        return refuted("proved", f"ill-formed: {wrong}")
    before = to_anf(source)
    added: dict[str, frozenset[Var]] = {}
    erased: dict[str, Definition] = {}
    hosts: set[str] = set()
    for name, d in target.definitions.items():
        old = before.definitions.get(name)
        if isinstance(d, Function) and isinstance(old, Function) and is_due(old):
            if not has_explicit_shapes(d):
                return refuted("proved", f"{name} has no explicit shapes")
            added[name] = added_to(old, d)
            hosts |= host_calls(d, added[name])
            erased[name] = without(d, added[name])
        elif old is not None:
            erased[name] = d
    different = first_difference(before, replace(target, definitions=erased))
    if different is not None:
        return refuted("proved", f"without its statements about sizes it is another program: {different}")
    extra = set(target.definitions) - set(before.definitions) - hosts
    if extra:
        return refuted("proved", f"nothing needs {', '.join(sorted(extra))}")
    for name, variables in added.items():
        d = target.definitions[name]
        assert isinstance(d, Function)
        try:
            SizeFlow(target, variables).check(d)
        except Wrong as wrong:
            return refuted("proved", f"{name}: {wrong}")
    return proved(
        f"{plural(sum(map(len, added.values())), 'statement')} about sizes in {plural(len(added), 'function')}: each as"
        " rule M4 asks, each slot written once and before it is read; without them the same program"
    )


def is_due(function: Function) -> bool:
    """Whether the sizes of a function are to be made explicit: they are not yet, and it is no other compiler's."""
    return not has_explicit_shapes(function) and not {"primitive", "compiler"} & function.attrs.keys()


def added_to(before: Function, after: Function) -> frozenset[Var]:
    """The variables that lets of `after` bind and nothing in `before` does. Names are unique in A-normal form."""
    old, new = (_lets(f) for f in (before, after))
    names = {v.name for v in old}
    return frozenset(v for v in new if v.name not in names)


def _lets(function: Function) -> list[Var]:
    root: Expr = function
    return [v for node in post_order(root) for v in bound_by(node)]


def host_calls(function: Function, added: frozenset[Var]) -> set[str]:
    """The tensor functions that only the added lets call."""
    root: Expr = function
    lets = [n for n in post_order(root) if isinstance(n, Let) and isinstance(n.value, CallTIR)]
    return {n.value.func for n in lets if n.var in added and isinstance(n.value, CallTIR)}


def without(function: Function, added: frozenset[Var]) -> Function:
    """The function without the lets of `added`, and without the mark that its sizes are explicit."""

    def change(node: Expr) -> Expr:
        match node:
            case Let() if node.var in added:
                return node.body
            case Let() if node.type is not node.body.type:
                return replace(node, type=node.body.type)
            case Function() if has_explicit_shapes(node):
                return replace(node, attrs={k: v for k, v in node.attrs.items() if k != EXPLICIT})
            case _:
                return node

    return rewrite_function(function, change)
