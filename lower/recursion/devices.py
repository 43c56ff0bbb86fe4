"""Where frames live: on the one device that functions are on (specs/lower.md, "recursion")."""

from __future__ import annotations

from dataclasses import replace

from assay.lower.recursion.groups import RecursiveGroup
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Expr, Function, Let, Var
from assay.semantics.graph.functions import as_function
from assay.semantics.walk import fold, post_order


def device_of(group: RecursiveGroup) -> VirtualDevice:
    """The device on which all is that the functions of a group have; open where none is said. Unsupported
    (recursion.C7): there are several."""
    found: dict[VirtualDevice, None] = {}
    for _, f in group.members:
        for node in post_order(f):
            found[node.device] = None
            if isinstance(node, Let):
                found[node.var.device] = None
            if isinstance(node, Function):
                found.update((p.device, None) for p in node.params)
    if len(found) > 1:
        group.refuse(f"it is on {' and '.join(map(str, found))}", group.members[0][1].span, "recursion.C7")
    return next(iter(found), ANYWHERE)


def placed(function: Function, device: VirtualDevice) -> Function:
    """A function with all that says no device on one."""
    if device == ANYWHERE:
        return function
    names: dict[Var, Var] = {}

    def at(var: Var) -> Var:
        if var.device != ANYWHERE:
            return var
        return names.setdefault(var, replace(var, device=device))

    def made(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Var):
            return at(node)
        now = node.with_children(parts)
        if isinstance(now, Let):
            now = replace(now, var=at(now.var))
        if isinstance(now, Function):
            now = replace(now, params=tuple(map(at, now.params)))
        return now if now.device != ANYWHERE else replace(now, device=device)

    whole: Expr = function
    return as_function(fold(whole, made))
