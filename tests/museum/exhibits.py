"""What the catalogue knows of an exhibit, and the layers that newer files name (specs/museum.md).

A layer takes a source and what a pass made of it, and says what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from assay.interp.graph import run
from assay.interp.graph.observation import observe
from assay.semantics.errors import AssayError
from assay.semantics.graph import Function
from assay.semantics.memory import Problem
from assay.semantics.module import Module, Program
from assay.semantics.rules import check
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.walk import post_order
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.evidence import Evidence
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.oracle import Oracle
from assay.verify.pool import check_pool
from assay.verify.simplify import check_simplified
from assay.verify.symbolic import prove_accesses

Patch = pytest.MonkeyPatch
Layer = Callable[[Any, Any], str | None]
NOTHING = "nothing"


@dataclass(frozen=True)
class Found:
    """The layer that caught a fault, NOTHING if none did; and how large the program is on which it did."""

    layer: str
    size: str


@dataclass(frozen=True)
class Exhibit:
    """One fault: its file and its name there, whom it is known from, the layer that must catch it, and the run."""

    file: str
    name: str
    known: str
    layer: str
    run: Callable[[Patch], Found]

    @property
    def key(self) -> str:
        return f"{self.file}: {self.name}"

    def found(self) -> Found:
        with Patch.context() as patch:
            return self.run(patch)


def size(*programs: Module | Program | PrimFunc | Problem) -> str:
    """How large programs are together: nodes of graph functions, statements, steps, and buffers of a problem."""
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
                case Problem():
                    parts = {"buffer": len(d.buffers)}
                case _:
                    parts = {}
            for noun, n in parts.items():
                count[noun] = count.get(noun, 0) + n
    if "step" in count:  # what its kernels do is no part of the fault
        count.pop("statement", None)
    return ", ".join(f"{n} {noun}" + ("" if n == 1 else "s") for noun, n in count.items())


def caught(evidence: Evidence, layer: str, said: str = "") -> str:
    """The layer if it refutes, for the reason that is expected."""
    return layer if not evidence.holds and said in evidence.detail else NOTHING


# --- layers -------------------------------------------------------------------------------------------------------


def of_evidence(evidence: Evidence) -> str | None:
    return None if evidence.holds else evidence.detail


def well_formed(source: Any, made: Module | PrimFunc) -> str | None:
    """The static rules: every type is derived anew."""
    try:
        check(made) if isinstance(made, Module) else check_prim_func(made)
    except AssayError as wrong:
        return str(wrong)
    return None


def values(source: Module, made: Module) -> str | None:
    """Value numbering of two graph modules."""
    return of_evidence(check_simplified(source, made))


def steps(source: Module, made: Module) -> str | None:
    """Value numbering of steps, slot by slot."""
    return of_evidence(check_program(source, made))


def pool(source: Module, made: Module) -> str | None:
    """The plan of memory: the sweep, the lives, z3."""
    return of_evidence(check_pool(made)[0])


def spare(source: Module, made: Module) -> str | None:
    """Lives that are longer than they must be: not wrong, but counted."""
    found = check_lives(made.program, made.kernels)
    return found.detail if found.data["spare"] else None


def equivalence(source: PrimFunc, made: PrimFunc) -> str | None:
    """Every element, as a term over the inputs."""
    verdict = equivalent(source, made, SIZES, weakest=BIT_EXACT)
    return None if verdict.holds(BIT_EXACT) else str(verdict)


SIZES: Mapping[str, int] = {"n": 5, "m": 3}
"""Values of symbolic dims, where elements are to be counted."""


def accesses(source: PrimFunc, made: PrimFunc) -> str | None:
    """z3, for all sizes: in bounds, written before, every output written."""
    report = prove_accesses(made)
    return None if report.verdict == "proved" else "; ".join(f"{g.kind}: {g.detail}" for g in report.of("refuted"))


@dataclass(frozen=True)
class Run:
    """The layer that runs both on inputs and compares all that can be seen, bit for bit."""

    inputs: Mapping[str, Any]

    def __call__(self, source: Module, made: Module) -> str | None:
        return observe(source, self.inputs).difference(observe(made, self.inputs))


@dataclass(frozen=True)
class Judged:
    """The layer that runs what was made and has the oracle of the source judge its outputs."""

    inputs: Mapping[str, Any]

    def __call__(self, source: Module, made: Module) -> str | None:
        verdict = Oracle(source).judge(self.inputs, run(made, self.inputs))
        return None if verdict.outcome == "right" else f"{verdict.outcome}, {verdict.layer}: {verdict.detail}"


@dataclass(frozen=True)
class Fault:
    """A faulty pass or operator: `wrong` makes what `right` makes without the fault, from the same program."""

    known: str
    layer: str
    program: Callable[[], Any]
    right: Callable[[Any], Any]
    wrong: Callable[[Any], Any]
    said: str = ""
    judge: Layer | None = field(default=None)
    """Where the layer needs more than its name, such as inputs."""

    def judged(self, made: Callable[[Any], Any]) -> str | None:
        source = self.program()
        return (self.judge or LAYERS[self.layer])(source, made(source))

    def run(self, patch: Patch) -> Found:
        wrong = self.judged(self.wrong)
        return Found(self.layer if wrong is not None and self.says in wrong else NOTHING, size(self.program()))

    @property
    def says(self) -> str:
        """What a refutation says at least. That two functions are not shown equal is none; the oracle names its
        layer."""
        if self.layer == "equivalence":
            return "on an input that was found"
        return self.said or self.layer.replace("oracle: ", "wrong, ") * self.layer.startswith("oracle: ")


LAYERS: Mapping[str, Layer] = {
    "well-formed": well_formed,
    "simplify: values": values,
    "steps: values": steps,
    "pool": pool,
    "lives: spare": spare,
    "equivalence": equivalence,
    "accesses, z3": accesses,
}
