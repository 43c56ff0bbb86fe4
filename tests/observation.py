"""What can be told about a run: results, effects, and how it failed (rule M1; specs/interp.md, "Graph"); and whether a
program and its form with explicit sizes can be told apart (specs/verify.md, "shapes")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from assay.interp.graph import run
from assay.interp.values import (
    Cell,
    Closure,
    CodeClosure,
    Data,
    Event,
    External,
    Externs,
    Maker,
    Shape,
    Value,
    copied,
    described,
    parts,
    same_bits,
)
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.walk import Worklist, ids


@dataclass(frozen=True, eq=False)
class Observation:
    """A run from outside: the results, or the trap; before either, the trace of effects."""

    values: Mapping[str, Value] | None
    trace: tuple[Event, ...]
    trap: Trap | None = None

    def difference(self, other: Observation) -> str | None:
        """The first thing that tells two runs apart, if anything does."""
        for i, (a, b) in enumerate(zip(self.trace, other.trace, strict=False)):
            if (a.kind, a.name) != (b.kind, b.name) or not same_value(a.values, b.values):
                return (
                    f"effect {i} is {a.kind} {a.name!r} {described(a.values)} against {b.kind} {b.name!r}"
                    f" {described(b.values)}"
                )
        if len(self.trace) != len(other.trace):
            return f"{len(self.trace)} effects against {len(other.trace)}"
        if _trap_key(self.trap) != _trap_key(other.trap):
            return f"trap {self.trap} against {other.trap}"
        if self.values is None or other.values is None:
            return None
        if self.values.keys() != other.values.keys():
            return f"results {list(self.values)} against {list(other.values)}"
        for name, value in self.values.items():
            if not same_value(value, other.values[name]):
                return f"result {name} is {described(value)} against {described(other.values[name])}"
        together = tuple(self.values.values()), tuple(other.values[name] for name in self.values)
        return None if same_value(*together) else "the results share references in another way"


def _trap_key(trap: Trap | None) -> tuple[str, str, str] | None:
    """Kind, rule and place: the words may name what a pass has renamed."""
    return None if trap is None else (trap.kind, trap.label, str(trap.where))


def observe(
    module: Module, inputs: Mapping[str, Any], externs: Externs | None = None, run: Callable[..., Any] = run
) -> Observation:
    """Run `main` and say what can be told about the run. Invalid inputs are raised: nothing has run."""
    trace: list[Event] = []
    try:
        values = run(module, inputs, externs=externs, trace=trace)
    except Trap as trap:
        return Observation(None, tuple(trace), trap)
    return Observation(dict(zip(values, copied(tuple(values.values())), strict=True)), tuple(trace))


def same_value(a: Value, b: Value) -> bool:
    """Whether nothing tells two values apart: arrays bit for bit (all NaNs are one), cells by content and identity.

    Functions are not looked into: any two are the same here.
    """
    cells: dict[int, int] = {}
    work = Worklist([(a, b)], ids)
    for x, y in work:
        match x, y:
            case Cell(), Cell():
                if cells.setdefault(id(x), id(y)) != id(y):
                    return False
                work.add([(x.value, y.value)])
            case (tuple(), tuple()) | (Data(), Data()):
                if isinstance(x, Data) and (x.type, x.constructor) != (y.type, y.constructor):
                    return False
                if len(parts(x)) != len(parts(y)):
                    return False
                work.add(zip(parts(x), parts(y), strict=True))
            case Shape(), Shape():
                if x != y:
                    return False
            case (Closure() | CodeClosure() | External() | Maker(), Closure() | CodeClosure() | External() | Maker()):
                continue
            case _:
                if type(x) is not type(y) or not same_bits(x, y):
                    return False
    return len(set(cells.values())) == len(cells)


def told_apart(source: Module, target: Module, inputs: Mapping[str, Any], externs: Externs | None = None) -> str | None:
    """What tells two runs apart, if anything: effects, results, the kind of a trap and, if it is about sizes, its
    words.

    Inputs that `source` refuses for their sizes are a trap of `target`, in the same words.
    """
    after = observe(target, inputs, externs)
    try:
        before = observe(source, inputs, externs)
    except Invalid as wrong:
        if after.trap is None or after.trap.kind != "shape" or after.trace:
            return f"invalid input, {wrong.message}, against {after.trap or 'results'}"
        words = wrong.message.replace("input ", "parameter ")
        return None if words == after.trap.what else f"{words!r} against {after.trap.what!r}"
    if before.trap is not None and after.trap is not None:
        if _words(before.trap) != _words(after.trap):
            return f"trap {before.trap} against {after.trap}"
        same = replace(after, trap=before.trap)
        return before.difference(same)
    return before.difference(after)


def _words(trap: Trap) -> tuple[str, str]:
    return trap.kind, trap.what if trap.kind == "shape" else ""
