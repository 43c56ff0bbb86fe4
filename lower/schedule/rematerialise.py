"""Values computed again instead of kept, where that lowers the peak of memory (row A26; specs/lower.md, "schedule").

A call is repeated right before the first reader behind the peak, so that its first result need not live through the
peak. Only calls that cannot trap are repeated; the values stay bit for bit, for a tensor function always gives the
same. Greedy, as in dynamic tensor rematerialisation (Kirisame and others, 2021), but before the run: the largest tensor
first, kept only where the peak gets strictly lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assay.lower.schedule.task_graph import TaskGraph, peak, profile, task_graph_of
from assay.semantics.alias import bindings, result
from assay.semantics.graph import CallTIR, Expr, Function, Var, let
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.module import Module
from assay.semantics.names import unused

TRIES = 16
"""How many tensors are tried at one peak."""


def rematerialise(module: Module, most: int = 64) -> Module:
    """The module with up to `most` calls of `main` repeated. The peak never grows; the module itself if none helps.

    `main` is straight-line A-normal form after constants; Invalid where liveness would refuse it.
    """
    for _ in range(most):
        better = _once(module)
        if better is None:
            break
        module = better
    return module


def _once(module: Module) -> Module | None:
    """The module with one call repeated that lowers the peak most; None if there is none."""
    work = task_graph_of(module)
    given = list(range(len(work.vars)))
    best, least = None, peak(work, given)
    for call, at in _candidates(module, work):
        changed = module.with_(main=_repeated(module.main, work.vars[call], work.vars[at]))
        found = task_graph_of(changed)
        now = peak(found, list(range(len(found.vars))))
        if now < least:
            best, least = changed, now
    return best


def _candidates(module: Module, work: TaskGraph) -> Iterator[tuple[int, int]]:
    """Calls whose one result lives through the first peak without being read there, and its next reader; large
    first."""
    values = dict(bindings(module.main))
    lives = profile(work, range(len(work.vars)))
    top = max((high for _, high in lives), default=0)
    at = next((i for i, (_, high) in enumerate(lives) if high == top), 0)
    direct = _direct(module.main)
    found: list[tuple[int, int, int]] = []
    for call in range(at):
        value = values[work.vars[call]]
        assert isinstance(value, CallTIR)
        for t in work.makes[call] if len(work.makes[call]) == 1 else ():
            later = [r for r in work.readers[t] if r > at]
            total = not kernel_can_trap(module.kernel(value.func))
            if later and at not in work.readers[t] and total and work.vars[call] in direct:
                found.append((-work.size[t], call, later[0]))
    yield from ((call, reader) for _, call, reader in sorted(found)[:TRIES])


def _direct(main: Function) -> set[Var]:
    """The variables that only calls read, under no other name."""
    found = {v for v, value in bindings(main) if isinstance(value, CallTIR)}
    end = result(main)
    for _, value in bindings(main):
        if not isinstance(value, CallTIR):
            found.difference_update(c for c in value.children or (value,) if isinstance(c, Var))
    return found - {end} if isinstance(end, Var) else found


def _repeated(main: Function, of: Var, before: Var) -> Function:
    """`main` with the call that binds `of` repeated before the one that binds `before`; what follows reads the copy."""
    names = {v.name for v, _ in bindings(main)} | {p.name for p in main.params}
    copy = replace(of, name=unused(f"{of.name}_again", names, sign=""))
    values = dict(bindings(main))
    chain: list[tuple[Var, Expr]] = []
    behind = False
    for var, value in values.items():
        if var is before:
            behind = True
            chain.append((copy, replace(values[of])))
        if behind:
            value = value.with_children([copy if c is of else c for c in value.children])
        chain.append((var, value))
    body = result(main)
    for var, value in reversed(chain):
        body = let(var, value, body)
    return replace(main, body=body)
