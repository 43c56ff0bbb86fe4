"""Memory scopes out of tensor functions (rules M6.23, M8; specs/lower.md, "devices").

A buffer whose scope is "" leaves open where it lies. Memory that is viewed as, or handed to, something with a said
scope is in that scope. Each buffer has one root, a parameter or an allocation, for a view has one source. So a scope is
found for each root by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.errors import Invalid, Span
from assay.semantics.tensor.calls import callee
from assay.semantics.tensor.mapping import bound_buffers
from assay.semantics.tensor.places import crosses
from assay.semantics.walk import Worklist, reached

Signature: TypeAlias = tuple[str, ...]
"""The scope of each parameter, "" where it is open."""


def open_parameters(func: tensor.PrimFunc) -> tuple[int, ...]:
    """The numbers of the parameters whose scope is open."""
    return tuple(i for i, b in enumerate(func.params) if not b.scope)


def infer_scopes(functions: Mapping[str, tensor.PrimFunc]) -> dict[str, Signature]:
    """The scopes of each function's parameters as far as the functions say: an open parameter has the scope that a view
    of it says, or that a function says to which it is handed.

    Invalid (scopes.C1): one that leaves its scope open is said to be in two.
    """
    return ScopeInference(functions).signatures


@dataclass(frozen=True)
class _Said:
    """Who says something of a root's scope: a view by itself, or a call by the scope of a parameter."""

    scope: str
    by: str
    span: Span | None
    callee: str = ""
    number: int = 0


class FunctionMemory:
    """The memory of a function: roots, the views of each, and what is said of it."""

    def __init__(self, func: tensor.PrimFunc, functions: Mapping[str, tensor.PrimFunc]) -> None:
        self.func = func
        self.views: dict[tensor.Buffer, tensor.View] = {}
        self.root: dict[tensor.Buffer, tensor.Buffer] = {b: b for b in func.params}
        self.calls: list[tensor.Call] = []
        self.said: dict[tensor.Buffer, list[_Said]] = {b: [] for b in func.params}
        self.crossing: set[tensor.Buffer] = set()
        """Roots of which a view says another scope than its source."""
        for stmt in tensor.program_order(func.body):
            for b in (*tensor.allocated(stmt), *([stmt.buffer] if isinstance(stmt, tensor.AllocateConst) else [])):
                self.root[b] = b
                self.said[b] = []
            for view in _views(stmt):
                self.add(view, stmt)
            if isinstance(stmt, tensor.Call) and not stmt.extern:
                self.calls.append(stmt)
                for k, b in enumerate(stmt.buffers[: len(callee(stmt, functions).params)]):
                    by = f"is handed to {stmt.function}"
                    self.said[self.root[b]].append(_Said("", by, stmt.span, stmt.function, k))

    def add(self, view: tensor.View, at: tensor.Stmt) -> None:
        """Note a view: its root, whether it crosses the bytes of others, and the scope that it names."""
        self.views[view.buffer] = view
        root = self.root[view.buffer] = self.root[view.source]
        if crosses(view, self.views):
            self.crossing.add(root)
        if view.buffer.scope:
            self.said[root].append(_Said(view.buffer.scope, f"is seen as {view.buffer.name}", at.span))

    @property
    def roots(self) -> Iterator[tensor.Buffer]:
        """The buffers that are no views, parameters and allocations."""
        return iter(self.said)


class ScopeInference:
    """Scopes of parameters, to a fixed point: a scope that is found stays, so each parameter changes once."""

    def __init__(self, functions: Mapping[str, tensor.PrimFunc]) -> None:
        self.readings = {n: FunctionMemory(f, functions) for n, f in functions.items()}
        self.signatures = {n: tuple(b.scope for b in f.params) for n, f in functions.items()}
        callers: dict[str, list[str]] = {n: [] for n in functions}
        for n, reading in self.readings.items():
            for c in reading.calls:
                callers[c.function].append(n)
        work = Worklist(sorted(functions))
        for name in work:
            found = tuple(self.scope(name, b) for b in functions[name].params)
            if found != self.signatures[name]:
                self.signatures[name] = found
                work.add(callers[name])
        for name in sorted(functions):
            for root in self.readings[name].roots:
                self.check(name, root)
        self.is_open = self._open(functions, callers)

    def _open(self, functions: Mapping[str, tensor.PrimFunc], callers: Mapping[str, Sequence[str]]) -> set[str]:
        """The functions in which, or in what they call, a scope is open."""
        found = {n for n, f in functions.items() if any(not b.scope for b in (*f.params, *bound_buffers(f.body)))}
        return set(reached(found, callers.__getitem__))

    def says(self, of: _Said) -> str:
        """The scope that a statement names, or that the callee's signature has for that parameter."""
        return self.signatures[of.callee][of.number] if of.callee else of.scope

    def scope(self, name: str, root: tensor.Buffer) -> str:
        """The scope of a root; "" where nothing is said."""
        return root.scope or next((s for s in map(self.says, self.readings[name].said[root]) if s), "")

    def check(self, name: str, root: tensor.Buffer) -> None:
        """Invalid (`scopes.C1`) if two statements put one root without a scope into different scopes."""
        if root.scope:
            return
        told = [(self.says(s), s) for s in self.readings[name].said[root]]
        told = [(scope, s) for scope, s in told if scope]
        for scope, s in told[1:]:
            if scope != told[0][0]:
                what = (
                    f"{root.name} of {name} {told[0][1].by}, which is in {told[0][0]}, and {s.by}, which is in {scope}"
                )
                raise Invalid(
                    f"{what}: one of them must go, or be a copy", where=s.span or told[0][1].span, label="scopes.C1"
                )


def _views(stmt: tensor.Stmt) -> tuple[tensor.View, ...]:
    match stmt:
        case tensor.Alias():
            return (stmt.view,)
        case tensor.Block():
            return stmt.views
        case _:
            return ()
