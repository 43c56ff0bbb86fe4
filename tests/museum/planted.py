"""The one record of a fault that is planted on purpose (specs/museum.md): in a pass, an operator, a plan, or a program.

A family is a file of such faults, `FAULTS`. `tests.museum.catalogue` lists the families, and each fault is run once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from assay.semantics.bytecode import Bytecode
from assay.semantics.graph import Function
from assay.semantics.memory import Problem
from assay.semantics.module import Module, Program
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.walk import post_order

Patch = pytest.MonkeyPatch
Judge = Callable[[Any, Any], str | None]
"""Takes a source and what a pass made of it, and says what is wrong, or None."""
NOTHING = "nothing"


@dataclass(frozen=True)
class Found:
    """The layer that caught a fault, NOTHING if none did; and how large the program is on which it did."""

    layer: str
    size: str


def size(*programs: Module | Program | PrimFunc | Problem) -> str:
    """How large programs are together: nodes of graph functions, statements, steps, instructions, and buffers of a
    problem."""
    count: dict[str, int] = {}
    for of in programs:
        for d in of.definitions.values() if isinstance(of, Module) else (of,):
            match d:
                case Function():
                    parts = {"node": sum(1 for _ in post_order(d))}
                case PrimFunc():
                    parts = {"statement": sum(1 for _ in program_order(d.body))}
                case Program():
                    parts = {"step": len(d.steps)}
                case Bytecode():
                    parts = {"instruction": sum(len(f.body) for f in d.functions.values())}
                case Problem():
                    parts = {"buffer": len(d.buffers)}
                case _:
                    parts = {}
            for noun, n in parts.items():
                count[noun] = count.get(noun, 0) + n
    if "step" in count or "instruction" in count:  # what its kernels do is no part of the fault
        count.pop("statement", None)
    return ", ".join(f"{n} {noun}" + ("" if n == 1 else "s") for noun, n in count.items())


def size_of_source(source: Any, made: Any) -> str:
    return size(source)


def size_of_made(source: Any, made: Any) -> str:
    return size(made)


@dataclass(frozen=True)
class PlantedFault:
    """What is broken, how it is planted, and what must catch it.

    `wrong` makes of the program what `right` makes without the fault. Every one of `judges` must refuse the one and
    accept the other.
    """

    name: str
    """What is broken."""
    layer: str
    """What must catch it: a stage or a check, and where it has several the rule."""
    judges: tuple[Judge, ...]
    """The first is the layer; others are other ways to see the fault, such as a run."""
    program: Callable[[], Any]
    """A small program that shows the fault."""
    wrong: Callable[[Any], Any]
    """How it is planted: the faulty pass, or the right one followed by a change of what it made."""
    right: Callable[[Any], Any] | None = None
    """The same without the fault; None where another test shows that the judges accept what is right."""
    said: str = ""
    """Words of what the layer says."""
    plant: Callable[[Patch], None] | None = None
    """Breaks the pass from inside, where that is not done by `wrong`."""
    known: str = ""
    """Who has had the fault."""
    note: str = ""
    """More of what is wrong."""
    silent: tuple[Judge, ...] = ()
    """Judges that cannot see the fault: they must accept what is wrong, too."""
    size: Callable[[Any, Any], str] = size_of_source
    """How large the program is, given it and what is made of it."""

    def refused(self) -> Found:
        """What catches the fault: its layer, if all judges that can see it refuse it, and for the right reason."""
        with Patch.context() as patch:
            source = self.program()
            if self.plant is not None:
                self.plant(patch)
            made = self.wrong(source)
            first, *others = (judge(source, made) for judge in self.judges)
            seen = first is not None and self.said in first and None not in others
            seen = seen and all(judge(source, made) is None for judge in self.silent)
            return Found(self.layer if seen else NOTHING, self.size(source, made))

    def accepted(self) -> list[str]:
        """What the judges say of the program without the fault: nothing."""
        if self.right is None:
            return []
        source = self.program()
        made = self.right(source)
        said = (judge(source, made) for judge in (*self.judges, *self.silent))
        return [text for text in said if text is not None]
