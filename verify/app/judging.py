"""Another implementation's outputs, as a line of `assay check` (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from assay.lower.frontends.onnx.containers import any_dtype, inside_option
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.leaves import output_leaves
from assay.semantics.module import Module
from assay.semantics.types import DataType, Type
from assay.semantics.walk import post_order
from assay.verify.app.spending import require_seconds
from assay.verify.backends import Backend, Subject, backend
from assay.verify.backends.isolated import Isolated
from assay.verify.backends.protocol import subject_of_program
from assay.verify.border.onnx_words import numbers_of
from assay.verify.border.values import NONE, form, from_arrays, inside_list, to_arrays
from assay.verify.evidence import Evidence, of_outcome, plural
from assay.verify.judge.outcome import GOOD, BackendVerdict, SampleVerdict, verdict_data
from assay.verify.judge.run import JudgeRun, errors_of
from assay.verify.judge.samples import Sample
from assay.verify.judge.texts import told_as_strings
from assay.verify.oracle import Expected, Oracle, Verdict, oracle_of
from assay.verify.oracle.declarations import EVERYTHING_KEPT
from assay.verify.oracle.trial import tensors_of

Array = np.ndarray[Any, Any]

PATIENCE = 600.0
"""Seconds that a backend may take for one answer."""


def isolated(name: str, patience: float | None = None) -> Isolated:
    """The backend of that name, in a process of its own. Invalid (cli.C5): `patience`, the seconds that it may take for
    one answer, is no number of seconds."""
    if patience is not None:
        require_seconds("--patience", patience)
    return Isolated(name, PATIENCE if patience is None else patience)


@dataclass
class JudgedOutputs:
    """Outputs that were given; or a backend, the one of that name by default, on the model, whose symbolic dims `dims`
    are numbers, or on the module exported."""

    name: str
    model: onnx.ModelProto | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Array] | None = None
    backend: Backend | None = None
    excluded: Collection[str] = ()
    """Rights that they do not have."""
    containers: Mapping[str, Type] = field(default_factory=dict)
    """The outputs of the model that are sequences or optional values, of which the module's own outputs are parts."""
    original: bytes = b""
    """The archive of torch.export that the module was read from: what PyTorch's backends run."""
    told: list[tuple[BackendVerdict, Subject | None]] | None = None
    """Where all that is said is kept, of every tensor that a backend shows, at each choice of sizes; None: nowhere."""

    def begin(self) -> None:
        """Start the process of the backend, if it has one: it comes up while the program is lowered."""
        if isinstance(self.backend, Isolated):
            self.backend.begin()

    def require_readable(self, module: Module) -> None:
        """Invalid: outputs are given, and `read` refuses them."""
        if self.outputs is not None and not _formless(module):
            self.read(module)

    def read(self, module: Module) -> dict[str, Any]:
        """The outputs, of the form that the module's main gives. Invalid: one is missing or has no such name
        (values.C3, input.C1), or is of no type that outputs have (values.C4)."""
        assert self.outputs is not None
        types: dict[str, Type] = {}
        for name, of in output_leaves(module.main):
            whole = next((c for c in self.containers if name == c or name.startswith(f"{c}.")), name)
            types[whole] = self.containers.get(whole, of)
        table = module.main.attrs.get("strings", ())
        outputs = {n: numbers_of(table, a) if table and a.dtype.kind == "U" else a for n, a in self.outputs.items()}
        found = from_arrays(outputs, types, "output")
        for name, of in types.items():
            if name not in found:
                raise Invalid(
                    f"output {name!r} is missing; the outputs are {', '.join(types)}; {form(name, of)}",
                    label="values.C3",
                )
        for name, array in outputs.items():
            if array.dtype.kind in "OSTU":
                owner, of = next((n, t) for n, t in types.items() if f"{name}.".startswith(f"{n}."))
                raise Invalid(
                    f"output {name!r} is an array of strings, and numbers are due; {form(owner, of)}", label="values.C4"
                )
            dtype(array.dtype)
        if not self.containers:
            return found
        said = {
            f"{n}.{NONE}": np.array(found[n] is None)
            for n, of in self.containers.items()
            if inside_option(of) is not None
        }
        return {**said, **to_arrays(found)}


def judge_outputs(who: JudgedOutputs, expected: Expected, tensors: Mapping[str, Expr]) -> tuple[str, Evidence]:
    """The verdict on outputs; or on a backend, which is asked for every tensor of `tensors` too, the model's by name as
    nodes of the module. It needs no lowering. What is no ONNX model is exported for the backend."""
    subject = Subject(expected.module, who.model, tensors, who.dims) if who.model is not None else None
    main = expected.module.main
    if who.outputs is not None:
        odd = _formless(expected.module)
        if odd:
            return "", of_outcome(
                "undecided",
                f"no file holds outputs of type {odd[0]}: tensors, shapes, tuples, lists and optional values have a"
                " form",
            )
        accepts = EVERYTHING_KEPT.excluding(who.excluded)
        oracle = Oracle(expected.module, accepts=accepts) if subject is None else oracle_of(subject, accepts)
        given = who.read(expected.module)
        verdict = told_as_strings(oracle.judge(expected, given), expected.module, who.model)
        if who.told is not None:
            sample = SampleVerdict(
                "given", verdict.outcome, "bounds" if verdict.outcome in GOOD else "", verdict.detail, verdict.worst,
                verdict.culprit or "", verdict.layer, errors=errors_of(expected, given),
            )  # fmt: skip
            who.told.append((BackendVerdict(who.name, [sample]), subject))
        return _line(verdict, plural(len(to_arrays(given)), "output"))
    held = _data([*(p.type for p in main.params), main.result_type])
    if held:
        return "", of_outcome(
            "undecided", f"a backend takes and gives tensors, and there is an input or output of type {held[0]}"
        )
    if subject is None:
        subject = subject_of_program(expected.module, who.original)
    chosen = who.backend or backend(who.name)
    run = JudgeRun(
        subject, [Sample("given", 0, expected.inputs)], [chosen], excluded=list(who.excluded),
        detailed=who.told is not None,
    )  # fmt: skip
    run.known[0] = expected
    found = next(run.verdicts())
    if who.told is not None:
        who.told.append((found, subject))
    first = next((s for s in found.samples if s.outcome == found.outcome), None)
    if first is None:
        return "", of_outcome(found.outcome, found.why)
    more: dict[str, Any] = {"unseen": found.unseen} if found.unseen else {}
    if first.outcome == "wrong":
        more["worst"] = {"layer": first.layer, "culprit": first.culprit, **verdict_data(first.worst or {})}
    said = first.detail + found.limits if found.outcome in GOOD else found.closing()
    made = plural(len(tensors_of(subject)), "tensor")
    did = f"{plural(len(subject.outputs), 'output')}, {first.judged} of {made}"
    return did if found.outcome != "wrong" else "", of_outcome(found.outcome, said, **more)


def _data(types: Iterable[Type]) -> list[DataType]:
    return [t for of in types for t in post_order(of) if isinstance(t, DataType)]


def _formless(module: Module) -> list[DataType]:
    """Types in the outputs that have no form in a file."""
    known = (inside_list, inside_option, any_dtype)
    return [t for t in _data([module.main.result_type]) if all(inside(t) is None for inside in known)]


def _line(verdict: Verdict, did: str) -> tuple[str, Evidence]:
    if verdict.outcome == "wrong":
        return "", of_outcome("wrong", str(verdict), worst=_as_data(verdict))
    more = {"unseen": verdict.unseen} if verdict.unseen else {}
    return did, of_outcome(verdict.outcome, verdict.detail if verdict.outcome == "right" else str(verdict), **more)


def _as_data(verdict: Verdict) -> dict[str, Any]:
    """The worst element of a verdict, for machines: a number that JSON does not have is a text."""
    return {"layer": verdict.layer, "culprit": verdict.culprit, **verdict_data(verdict.worst or {})}
