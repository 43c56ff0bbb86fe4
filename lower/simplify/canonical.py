"""Bindings in canonical form (row R35; specs/lower.md, "simplify").

A binding of a variable to a variable goes: its uses name the first one. A projection of a tuple whose fields are known
is the field. A match-cast to the type that its value has anyway is its value. What lives on another device than what
it is a copy of stays. Copies between devices that have become copies of one variable are one, but that two lets do not
share one. The marks of dataflow blocks stay. A second run changes nothing.
"""

from __future__ import annotations

from assay.semantics import graph
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph.effects import acts, can_fail, is_copy
from assay.semantics.graph.functions import as_function
from assay.semantics.graph.nodes import ATOMS
from assay.semantics.graph.scopes import function_scopes
from assay.semantics.module import Module
from assay.semantics.types import same_type
from assay.semantics.walk import post_order


def canonical_bindings(module: Module) -> Module:
    """Every graph function with canonical bindings."""
    return module.with_(**{n: _function(d, module) for n, d in module.graphs.items()})


def _function(function: graph.Function, module: Module) -> graph.Function:
    order: list[graph.Expr] = list(post_order(function))
    lets = {n.var: n for n in order if isinstance(n, graph.Let)}
    # a field may be copied into its tuple: what is said of the projection is not yet said of the field
    unplaced = any(isinstance(n, graph.OnDevice) for n in order)
    named = {id(n.value) for n in lets.values()}
    owner = function_scopes(function).owner if any(is_copy(n, module) for n in order) else {}
    copies: dict[tuple[object, VirtualDevice, int], graph.Expr] = {}
    taken: set[int] = set()
    new: dict[int, graph.Expr] = {}
    silent: dict[int, bool] = {}

    def value_of(var: graph.Expr) -> graph.Expr:
        """What a variable is bound to, as far as it is known; else the variable."""
        let = lets.get(var) if isinstance(var, graph.Var) else None
        return var if let is None else new.get(id(let.value), var)

    def alias(var: graph.Var) -> graph.Expr | None:
        """What else a let-bound variable is a name of."""
        value = value_of(var)
        return value if value is not var and isinstance(value, ATOMS) and value.device == var.device else None

    def field(node: graph.TupleGetItem) -> graph.Expr:
        made = value_of(node.value)
        if not isinstance(made, graph.Tuple) or unplaced:
            return node
        found = made.fields[node.index]
        if found.device != node.device or not same_type(found.type, node.type):
            return node
        if node.value is made:  # no variable between: the other fields are not evaluated any more
            others = (f for i, f in enumerate(made.fields) if i != node.index)
            return found if all(silent[id(f)] for f in others) else node
        return found if isinstance(found, ATOMS) else node

    for node in order:
        made = node.with_children([new[id(c)] for c in node.children])
        match made:
            case graph.Var():
                made = alias(made) or made
            case graph.Let() if alias(made.var) is not None:
                made = made.body
            case graph.TupleGetItem():
                made = field(made)
            case graph.MatchCast() if made.device == made.value.device and same_type(made.type, made.value.type):
                made = made.value
        if is_copy(made, module):
            (of,) = made.children
            key = of.name if isinstance(of, graph.GlobalVar) else id(of), made.device, id(owner.get(id(node)))
            known = copies.setdefault(key, made)
            if id(node) not in named or id(known) not in taken:
                made = known
                if id(node) in named:
                    taken.add(id(made))
        parts = () if isinstance(made, graph.Function) else made.children
        clean = not acts(made) and not can_fail(made, module) and all(silent[id(c)] for c in parts)
        silent[id(made)] = clean
        new[id(node)] = made
    return as_function(new[id(function)])
