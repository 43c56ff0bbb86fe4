"""Where what says nothing lives: `A.home(device)` in the text of a function (row V2; specs/semantics.md, "Text").

A planned module has a full device on every expression. So that it can be read, a function says once where most of it
lives, and only the rest says more. Some take their device from a part of theirs: a let from its body, its variable from
its value, a choice from its first branch, a function from its body, a pattern's variable from what is matched. The
inside of a primitive function is left as it is, since passes do not enter it; it lives where the function does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Expr, Function, If, Let, Match, Var
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import open_nodes
from assay.semantics.graph.nodes import bound_by
from assay.semantics.graph.patterns import with_variables
from assay.semantics.walk import fold, post_order


def default_device_of(function: Function) -> VirtualDevice | None:
    """Where most of a function lives; None where the type or the id of something's device is open."""
    count = Counter(n.device for n in parts_of(function))
    if any(not d.type or d.id < 0 for d in count):
        return None
    return min(count, key=lambda d: (-count[d], str(d)))


def without_annotation(function: Function, home: VirtualDevice) -> set[int]:
    """The identities of the expressions and variables whose devices follow from `home`."""
    sources = _sources(function)
    return {id(n) for n in parts_of(function) if n.device == (sources[id(n)].device if id(n) in sources else home)}


def with_default_device(function: Function, home: VirtualDevice) -> Function:
    """`function` with a device on everything that says none."""
    sources = _sources(function)
    devices: dict[int, VirtualDevice] = {}
    for n in parts_of(function):
        chain: list[Expr] = []
        at: Expr | None = n
        while at is not None and at.device == ANYWHERE and id(at) not in devices:
            chain.append(at)
            devices[id(at)] = home  # where it goes in a circle, as in a function that is nothing but itself
            at = sources.get(id(at))
        found = home if at is None else devices.get(id(at), at.device)
        devices.update((id(c), found) for c in (*chain, n))
    return with_devices(function, devices)


def with_devices(function: Function, devices: Mapping[int, VirtualDevice]) -> Function:
    """`function` with other devices, by the identities of its expressions and variables."""
    fresh: dict[Var, Var] = {}

    def var(v: Var) -> Var:
        if v not in fresh:
            fresh[v] = replace(v, device=devices.get(id(v), v.device))
        return fresh[v]

    def placed(node: Expr, parts: list[Expr]) -> Expr:
        return _placed(node, parts, devices.get(id(node), node.device), var)

    new = fold(_expr(function), placed)
    assert isinstance(new, Function)
    return new


def _placed(node: Expr, children: Sequence[Expr], device: VirtualDevice, var: Callable[[Var], Var]) -> Expr:
    """A node around other parts, on a device, with other variables where it binds some."""
    if isinstance(node, Var):
        return var(node)
    new: Expr = replace(node.with_children(children), device=device)
    match new:
        case Let():
            return replace(new, var=var(new.var))
        case Function():
            return replace(new, params=tuple(map(var, new.params)))
        case Match():
            return replace(new, clauses=tuple(replace(c, pattern=with_variables(c.pattern, var)) for c in new.clauses))
        case _:
            return new


def _sources(function: Function) -> dict[int, Expr]:
    """For what takes its device from a part, that part."""
    found: dict[int, Expr] = {}
    for node in post_order(_expr(function)):
        match node:
            case Let():
                found[id(node)], found[id(node.var)] = node.body, node.value
            case If():
                found[id(node)] = node.then
            case Match():
                found[id(node)] = node.clauses[0].body
                found.update((id(v), node.value) for c in node.clauses for v in c.vars)
            case Function() if not is_opaque(node):
                found[id(node)] = node.body
            case _:
                continue
    return found


def parts_of(function: Function) -> Iterator[Expr]:
    """Every expression of a function, and every variable that it binds, once; not the inside of primitive functions."""
    seen: set[int] = set()
    for node in open_nodes(function):
        for n in (node, *bound_by(node)):
            if id(n) not in seen:
                seen.add(id(n))
                yield n


def _expr(function: Function) -> Expr:
    return function
