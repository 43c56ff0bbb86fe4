"""`assay.prove`: every access of the tensor functions of a program, for all sizes (specs/verify.md, "From Python" and
"Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.interp.graph import evaluate
from assay.lower.frontends.flat_main import with_flat_main
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.instrument import run_passes
from assay.lower.simplify.settle import settle_sizes
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import symbols
from assay.verify.api.programs import Program, opened
from assay.verify.app.stages import lowering_passes
from assay.verify.border.inputs import bounds_left, require_named, sized
from assay.verify.border.map_inputs import with_rows
from assay.verify.evidence import plural
from assay.verify.symbolic import Bounds, ProofReport, prove_accesses
from assay.verify.symbolic.callers import callers
from assay.verify.symbolic.command import write_queries
from assay.verify.symbolic.function import size_symbols
from assay.verify.symbolic.goals import Verdict


@dataclass(frozen=True, repr=False)
class Proofs:
    """What was proved of each tensor function; each report has its goals, their verdicts, and what they assume. `sizes`
    are those of which it is said: a symbol's least and greatest value by its name, None for no bound.

    >>> assay.prove("model.onnx", "nn_relu", bounds={"N": (1, 64)})
    <Proofs: proved for every N in 1..64, 5 goals of nn_relu>
    """

    reports: tuple[ProofReport, ...]
    sizes: Bounds = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Proved only if every goal of every function is; refuted if any is."""
        found = {r.verdict for r in self.reports}
        return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"

    @property
    def told_sizes(self) -> str:
        """The sizes in words: "for every batch in 1..64, seq in 0.."."""
        said = []
        for name, (low, high) in self.sizes.items():
            ends = "..".join("" if end is None else str(end) for end in (low, high))
            said.append(f"{name} = {low}" if low == high is not None else f"{name} in {ends}")
        return f"for every {', '.join(said)}" if said else "for inputs whose sizes are numbers"

    def __repr__(self) -> str:
        """What is known, of how many goals of which functions."""
        goals = plural(sum(len(r.goals) for r in self.reports), "goal")
        return f"<Proofs: {self.verdict} {self.told_sizes}, {goals} of {', '.join(r.function for r in self.reports)}>"

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
    none: of `function`, or of all. Of an ONNX model, and of a module that has none, these are the kernels of its
    operators.

    `bounds` narrows sizes and integer scalars by name, (least, most) with None for no bound; `dims` gives sizes a
    number. Invalid: there is no such function or name, or the program is ill-formed. Unsupported: an operator has no
    kernel.

    >>> proofs = assay.prove("model.onnx")
    >>> proofs.verdict, proofs.told_sizes
    ('proved', 'for every N in 0..')
    """
    module, source = opened(program)
    dims, bounds = dims or {}, bounds_left(bounds or {}, dims or {})
    if isinstance(module, Module) and module.kernels:
        return _of_its_own(module, function, {**bounds, **{n: (k, k) for n, k in dims.items()}})
    if isinstance(module, Module):
        module = with_flat_main(settle_sizes(sized(module, dims)))
    else:
        module = import_onnx(with_rows(module, {})[0], evaluate=evaluate, dims=dims, source=source)
    there = dict.fromkeys(s.name for p in module.main.params for s in symbols(p.type))
    require_named([*there, *dims], bounds, "main")
    module = run_passes(module, lowering_passes(), stop_after="legalize")
    sizes = {**{n: (k, k) for n, k in dims.items()}, **{n: _from_zero(bounds.get(n)) for n in there}}
    reports = []
    for kernel in _chosen(module.kernels, function):
        of = callers(kernel, module)
        reports.append(prove_accesses(kernel, of.bounds(bounds), module.kernels, of.inputs))
    return Proofs(tuple(reports), sizes)


def _of_its_own(module: Module, function: str | None, bounds: Bounds) -> Proofs:
    """What is proved of the tensor functions that a module has."""
    chosen = _chosen(module.kernels, function)
    names = {k.name: dict.fromkeys(s.name for s in size_symbols(k)) for k in chosen}
    of = chosen[0].name if len(chosen) == 1 else "the tensor functions"
    require_named([n for own in names.values() for n in own], bounds, of)
    reports = [prove_accesses(k, {n: bounds[n] for n in names[k.name] if n in bounds}, module.kernels) for k in chosen]
    scalars = {s.name for k in chosen for s in k.scalars}
    sizes = {
        n: bounds.get(n, (None, None)) if n in scalars else _from_zero(bounds.get(n))
        for own in names.values()
        for n in own
    }
    return Proofs(tuple(reports), sizes)


def _from_zero(ends: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    """The bounds of a size, which is 0 or more."""
    low, high = ends or (None, None)
    return (max(low or 0, 0), high)


def _chosen(functions: Mapping[str, PrimFunc], function: str | None) -> list[PrimFunc]:
    """The functions that are meant. Invalid (symbolic.C3): there are none."""
    if function is not None and function not in functions:
        there = ", ".join(functions) or "none"
        raise Invalid(f"the module has no tensor function {function}; it has {there}", label="symbolic.C3")
    if not functions:
        raise Invalid(
            "there is no tensor function to prove anything of, and no operator that needs one",
            label="symbolic.C3",
        )
    return [d for n, d in functions.items() if function in (None, n)]
