"""`assay.prove`: every access of the tensor functions of a program, for all sizes (specs/verify.md, "From Python" and
"Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.instrument import run_passes
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.api.programs import Program, opened
from assay.verify.app.stages import lowering_passes
from assay.verify.app.text_run import is_text
from assay.verify.symbolic import Bounds, ProofReport, prove_accesses
from assay.verify.symbolic.command import write_queries
from assay.verify.symbolic.goals import Verdict


@dataclass(frozen=True)
class Proofs:
    """What was proved of each tensor function; each report has its goals, their verdicts, and what they assume."""

    reports: tuple[ProofReport, ...]

    @property
    def verdict(self) -> Verdict:
        """Proved only if every goal of every function is; refuted if any is."""
        found = {r.verdict for r in self.reports}
        return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"

    def write(self, directory: str | Path) -> None:
        """Keep goals, verdicts and the queries that z3 was given. Invalid: the directory cannot be written."""
        write_queries(Path(directory), self.reports)


def prove(
    program: Program,
    function: str | None = None,
    *,
    bounds: Bounds | None = None,
    dims: Mapping[str, int] | None = None,
) -> Proofs:
    """Prove of tensor functions, for all sizes, that every access is in bounds, reads what was written, and races with
    none: of `function`, or of all. Of an ONNX model, with numbers for `dims`, and of a module that has none, these are
    the kernels of its operators.

    `bounds` narrows sizes and integer scalars by name, (least, most) with None for no bound. Invalid: there is no such
    function or name, or the program is ill-formed.
    """
    in_text = isinstance(program, str | Path) and is_text(Path(program))
    if dims and (in_text or isinstance(program, Module)):
        raise Invalid(
            "--dim is for MODEL.onnx; what is known of the sizes of a text is said by --bound", label="cli.C3"
        )
    module, source = opened(program)
    functions = module.kernels if isinstance(module, Module) else {}
    if isinstance(module, onnx.ModelProto):
        module = import_onnx(module, evaluate=evaluate, dims=dims or {}, source=source)
    if not functions and not in_text:
        functions = run_passes(module, lowering_passes(), stop_after="legalize").kernels
    if function is not None and function not in functions:
        there = ", ".join(functions) or "none"
        raise Invalid(f"the module has no tensor function {function}; it has {there}", label="symbolic.C3")
    if not functions:
        raise Invalid("the module has no tensor function to prove anything of", label="symbolic.C3")
    chosen = [d for n, d in functions.items() if function in (None, n)]
    return Proofs(tuple(prove_accesses(d, bounds or {}, functions) for d in chosen))
