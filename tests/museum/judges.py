"""Judges of what a faulty pass makes: each is a layer that files of planted faults name (specs/museum.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.interp.graph import run
from assay.semantics.errors import AssayError
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.rules import check_prim_func
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.evidence import Context, Evidence
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.oracle import Oracle
from assay.verify.pool import check_pool
from assay.verify.simplify import check_simplified
from assay.verify.symbolic import prove_accesses
from assay.verify.vm import check as check_bytecode
from tests.museum.planted import Judge, PlantedFault
from tests.observation import observe


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


def lives(source: Module, made: Module) -> str | None:
    """Whether every use is within a life."""
    return of_evidence(check_lives(made.program, made.kernels))


def pool(source: Module, made: Module) -> str | None:
    """The plan of memory: the sweep, the lives, z3."""
    return of_evidence(check_pool(made)[0])


def bytecode(source: Module, made: Module) -> str | None:
    """The three checks of bytecode: registers, storages, and each function against its graph function."""
    return of_evidence(check_bytecode(source, made, Context()))


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
        try:
            return observe(source, self.inputs).difference(observe(made, self.inputs))
        except AssayError as refused:
            return str(refused)


@dataclass(frozen=True)
class Judged:
    """The layer that runs what was made and has the oracle of the source judge its outputs."""

    inputs: Mapping[str, Any]

    def __call__(self, source: Module, made: Module) -> str | None:
        verdict = Oracle(source).judge(self.inputs, run(made, self.inputs))
        return None if verdict.outcome == "right" else f"{verdict.outcome}, {verdict.layer}: {verdict.detail}"


LAYERS: Mapping[str, Judge] = {
    "well-formed": well_formed,
    "simplify: values": values,
    "steps: values": steps,
    "pool": pool,
    "lives: spare": spare,
    "equivalence": equivalence,
    "accesses, z3": accesses,
}


def fault(
    name: str,
    known: str,
    layer: str,
    program: Callable[[], Any],
    right: Callable[[Any], Any],
    wrong: Callable[[Any], Any],
    said: str = "",
    judge: Judge | None = None,
) -> PlantedFault:
    """A fault for one of LAYERS, or for `judge`, which has more than its layer's name, such as inputs.

    That two functions are not shown equal is no refutation: an input must tell them apart. The oracle names its layer.
    """
    if layer == "equivalence":
        said = "on an input that was found"
    elif layer.startswith("oracle: "):
        said = said or layer.replace("oracle: ", "wrong, ")
    return PlantedFault(name, layer, (judge or LAYERS[layer],), program, wrong, right, said, known=known)
