"""Memory scopes into and out of tensor functions (rules M6.23, M8; specs/lower.md, "devices").

A buffer whose scope is "" leaves open where it lies. Scopes flow *out* as `assay.lower.devices.inference` says. They
flow *in*: an instance of a function has its parameters in the scopes of what it is given, and with them all that names
the same memory: views of views, matches of blocks, and the parameters of the tensor functions that it is handed to,
which are instances too. An open allocation lies where a view of it or a function that it is handed to says, else in the
main memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

from assay.lower.devices.inference import FunctionMemory, ScopeInference, Signature, infer_scopes, open_parameters
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.devices import GLOBAL
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import CallTIR, Expr
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Definition, Module
from assay.semantics.tensor import (
    Block,
    Buffer,
    Call,
    For,
    Pragma,
    PrimFunc,
    Stmt,
)
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.tensor.places import is_private
from assay.semantics.types import flatten
from assay.semantics.walk import Worklist, fold

INSTANCE = "instance_of"
"""The attribute of an instance: the name of the function of which it is one."""

__all__ = ["INSTANCE", "Signature", "infer_scopes", "scope_instance", "open_parameters", "specialise", "with_scopes"]


def with_scopes(
    func: PrimFunc, name: str, scopes: Mapping[int, str], functions: Mapping[str, PrimFunc] | None = None
) -> PrimFunc:
    """`func` as `name`, its parameters of those numbers in those scopes, and all that names the same memory.

    `functions` are those that it calls. Invalid as `scope_instance`, which makes instances of those too; and scopes.C5
    where one of them is needed and not there.
    """
    there = {**(functions or {}), func.name: func}
    made, new = scope_instance(there, func.name, scopes, name)
    missing = sorted({*new} - {*there, made})
    if missing:
        what = f"{func.name} hands memory that moves to a function of which there is no instance {missing[0]}"
        raise Invalid(f"{what}: make it, and this one, with `scope_instance`", label="scopes.C5")
    attrs = {k: v for k, v in new[made].attrs.items() if k != INSTANCE or INSTANCE in func.attrs}
    return replace(new[made], attrs=attrs)


def scope_instance(
    functions: Mapping[str, PrimFunc], of: str, scopes: Mapping[int, str], name: str | None = None
) -> tuple[str, dict[str, PrimFunc]]:
    """The instance of a function in which the parameters of those numbers lie in those scopes: its name, and all
    functions with the new ones. The function itself where nothing is open and nothing moves.

    Invalid: there is no such parameter, or it would be memory of one thread, which does not outlast a call (scopes.C3);
    something that names the memory says another scope (scopes.C2), so that it cannot move; a function says falsely that
    it is an instance (scopes.C4).
    """
    clones = _Clones(functions, {*functions})
    func = functions[of]
    for i, scope in scopes.items():
        if not 0 <= i < len(func.params):
            raise Invalid(f"{func.name} has no parameter number {i}", label="scopes.C3")
        if is_private(Buffer("", (), func.params[i].dtype, scope)):
            what = (
                f"{func.params[i].name} of {func.name} cannot lie in {scope}: memory of one thread does not outlast a"
                " call"
            )
            raise Invalid(what, label="scopes.C3")
    made = clones.request(func, [scopes.get(i, "") for i in range(len(func.params))], None, name)
    return made, clones.finished()


def specialise(module: Module) -> Module:
    """The planned module with instances of tensor functions for open scopes: what its graph functions call has no open
    buffer left, nor has anything that this calls.

    A call's operands and results say by their devices in which scopes they are. There is one instance for each function
    and signature, with the attribute `instance_of`; what leaves nothing open is called as it is. A scope that the
    module does not say, because it is not planned, stays open. Invalid as `scope_instance`.
    """
    clones = _Clones(module.kernels, {*module.definitions})
    definitions: dict[str, Definition] = {}

    def change(node: Expr) -> Expr:
        if not isinstance(node, CallTIR):
            return node
        scopes = [a.device.scope for a in node.args for _ in flatten(a.type)] + [node.device.scope] * len(
            flatten(node.type)
        )
        func = module.kernel(node.func)
        wanted = [s if not p.scope else "" for p, s in zip(func.params, scopes, strict=True)]
        name = clones.request(func, wanted, node.span)
        return node if name == node.func else replace(node, func=name)

    for name, d in sorted(module.graphs.items()):
        new = d if is_opaque(d) else rewrite_function(d, change)
        if new is not d:
            definitions[name] = new
    if not definitions:
        return module
    return replace(module, definitions={**module.definitions, **clones.finished(), **definitions})


class _Clones:
    """Instances by signature. What is asked for is written down and made later, so that no depth of calls is a depth of
    the stack. There are as many as functions times signatures over the scopes that the module names: it ends."""

    def __init__(self, functions: Mapping[str, PrimFunc], taken: set[str]) -> None:
        self.functions = dict(functions)
        self.known = ScopeInference(functions)
        self.taken = taken
        self.names: dict[tuple[str, Signature], str] = {}
        self.work = Worklist[tuple[str, Signature, str]]([])

    def request(self, func: PrimFunc, scopes: Sequence[str], span: Span | None, name: str | None = None) -> str:
        """The name of the function to be called for operands in these scopes; "" asks for nothing."""
        own = self.known.signatures[func.name]
        for p, s, inside in zip(func.params, scopes, own, strict=True):
            if s and inside and not p.scope and s != inside:
                what = f"{p.name} of {func.name} is in {inside} by what is done with it, and is given something in {s}"
                raise Invalid(f"{what}: copy it there first", where=span, label="scopes.C2")
        signature = tuple(s or inside for s, inside in zip(scopes, own, strict=True))
        declared = tuple(p.scope for p in func.params)
        if signature == declared and (func.name not in self.known.is_open or "" in signature) and name is None:
            return func.name
        key = func.name, signature
        if key not in self.names:
            self.names[key] = name or self.name(func, signature)
            self.taken.add(self.names[key])
            self.work.add([(*key, self.names[key])])
        return self.names[key]

    def name(self, func: PrimFunc, signature: Signature) -> str:
        """Readable, and the same whatever else there is: that of an instance which is there, else a free one."""
        changed = (
            [s for p, s in zip(func.params, signature, strict=True) if not p.scope or s != p.scope]
            or signature
            or (GLOBAL,)
        )
        words = changed[:1] if len({*changed}) == 1 else changed
        base = "_".join([func.name, *(re.sub(r"\W", "_", s or "open") for s in words)])
        for name in chain([base], (f"{base}_{i}" for i in count(1))):
            there = self.functions.get(name)
            if name not in self.taken:
                return name
            if there is not None and there.attrs.get(INSTANCE) == _original(func) and _signature(there) == signature:
                return name
        raise AssertionError("names do not end")

    def finished(self) -> dict[str, PrimFunc]:
        """All functions, with those that were asked for."""
        for of, signature, name in self.work:
            made = self.clone(self.known.readings[of].func, signature, name)
            there = self.functions.get(name) if name != of else None
            if there is not None and not structural_equal(made, there):
                raise Invalid(f"{name} says that it is an instance of {of}, and is not: rename it", label="scopes.C4")
            self.functions[name] = there or made
        return self.functions

    def clone(self, func: PrimFunc, signature: Signature, name: str) -> PrimFunc:
        reading = self.known.readings[func.name]
        scopes: dict[Buffer, str] = dict(zip(func.params, signature, strict=True))
        moved = {p for p, s in zip(func.params, signature, strict=True) if p.scope not in ("", s)}
        for p in moved & reading.crossing:
            what = (
                f"{p.name} of {func.name} cannot move to {scopes[p]}: a view of it says another scope than its memory"
            )
            raise Invalid(what, label="scopes.C2")
        for b, root in reading.root.items():
            if b in reading.views:
                scopes[b] = b.scope if b.scope and root not in moved else scopes[reading.views[b].source]
            elif b not in scopes:
                scopes[b] = self.known.scope(func.name, b) or GLOBAL
        calls = {id(c): self.called(c, func, scopes, moved, reading) for c in reading.calls}
        new = _Scoped({}, {b: replace(b, scope=s) for b, s in scopes.items() if s != b.scope}, calls)
        attrs = {k: name if k == "global_symbol" and v == func.name else new.noted(v) for k, v in func.attrs.items()}
        attrs[INSTANCE] = _original(func)
        return replace(
            func, name=name, params=tuple(map(new.buffer, func.params)), body=new.run(func.body), attrs=attrs
        )

    def called(
        self, call: Call, func: PrimFunc, scopes: Mapping[Buffer, str], moved: set[Buffer], reading: FunctionMemory
    ) -> str:
        """The instance that a call in an instance of `func` needs."""
        of = self.known.readings[call.function].func
        wanted = []
        for p, b in zip(of.params, call.buffers, strict=False):
            moves = reading.root[b] in moved
            if moves and p.scope not in ("", reading.root[b].scope):
                what = f"{b.name} of {func.name} cannot move to {scopes[b]}: {of.name} takes it in {p.scope}"
                raise Invalid(what, where=call.span, label="scopes.C2")
            wanted.append(scopes[b] if moves or not p.scope else "")
        wanted += [""] * (len(of.params) - len(wanted))  # a call of the wrong size is found when it is checked or run
        return self.request(of, wanted, call.span)


@dataclass
class _Scoped(Mapper):
    """Other buffers, in what a compiler is told too, and other functions called; `calls` by identity of the
    original."""

    calls: Mapping[int, str] = field(default_factory=dict)

    def run(self, body: Stmt) -> Stmt:
        return fold(body, self.made)

    def made(self, stmt: Stmt, parts: list[Stmt]) -> Stmt:
        new = self.own(stmt.with_children(parts))
        return replace(new, function=self.calls[id(stmt)]) if isinstance(new, Call) and id(stmt) in self.calls else new

    def own(self, s: Stmt) -> Stmt:
        match made := super().own(s):
            case For() | Block():
                return replace(made, annotations=self.noted(made.annotations))
            case Pragma():
                return replace(made, value=self.noted(made.value))
            case _:
                return made

    def noted(self, value: Any) -> Any:
        """A note with other buffers in it."""
        match value:
            case Buffer():
                return self.buffer(value)
            case Mapping():
                return {k: self.noted(v) for k, v in value.items()}
            case tuple() | list():
                return type(value)(map(self.noted, value))
            case _:
                return value


def _original(func: PrimFunc) -> str:
    return str(func.attrs.get(INSTANCE, func.name))


def _signature(func: PrimFunc) -> Signature:
    return tuple(b.scope for b in func.params)
