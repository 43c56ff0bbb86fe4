"""What `assay reduce` is given: a model, a text, or a corpus of failures (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from assay.lower.frontends.onnx.model import load_model
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.api.programs import with_inputs
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.judging import isolated
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import is_text, load_text
from assay.verify.backends import backend as find_backend, subject_of_module
from assay.verify.border.inputs import load_npz, sized
from assay.verify.exits import Exit, gravest
from assay.verify.fuzz.corpus import StoredFailure
from assay.verify.fuzz.targets import OURS
from assay.verify.oracle.data import Kind, kinds_of
from assay.verify.reduce.command import USUAL, reduce_model
from assay.verify.reduce.corpora import reduce_corpus
from assay.verify.reduce.finding import SOUGHT
from assay.verify.reduce.standalone import make_directory

Array = np.ndarray[Any, Any]
IGNORABLE = ("open", *SOUGHT)
"""Verdicts that may be left out."""


@dataclass(frozen=True)
class ReduceRequest:
    """The options of the command, as they were given."""

    program: Path
    backend: str
    output: Path
    inputs: Path | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    limit: int = 5_000
    kinds: str = ""
    ignored: Sequence[str] = ()

    @property
    def wanted_kinds(self) -> tuple[Kind, ...]:
        """The kinds of data. Invalid (oracle.C1): there is none of that name."""
        return kinds_of(self.kinds) or USUAL

    @property
    def sought(self) -> tuple[str, ...]:
        """The verdicts that are looked for. Invalid: one that cannot be left out."""
        for word in self.ignored:
            if word not in IGNORABLE:
                raise Invalid(f"--ignore takes {', '.join(IGNORABLE)}, not {word!r}", label="cli.C3")
        return tuple(w for w in (*SOUGHT, "open") if w not in self.ignored)


def reduce_request(request: ReduceRequest, as_json: bool) -> int:
    """Do what was asked for, and say so or write it as JSON: the exit code, of a corpus the gravest."""
    answer: dict[str, Any] = {"program": str(request.program), "holds": None, "cases": []}
    with answering(answer):
        code = Exit(_reduced(request, Screen(stderr=as_json), answer["cases"]))
    holds = True if code is Exit.HOLDS else False if code is Exit.WRONG else None
    if as_json:
        write_answer({**answer, "holds": holds, "exit": code})
    return code


def _reduced(request: ReduceRequest, out: Screen, cases: list[dict[str, Any]]) -> int:
    if request.program.is_dir():
        if request.inputs is not None:
            raise Invalid("a corpus has its own inputs: --inputs is for one program", label="cli.C3")
        if request.backend:
            find_backend(request.backend)
        make_directory(request.output)
        return gravest(
            reduce_corpus(request.program, request.backend, request.output, _stored(request, out, cases), out, cases)
        )
    if not request.backend:
        raise Invalid("--backend NAME says who is wrong on it", label="cli.C3")
    find_backend(request.backend)
    given = load_npz(request.inputs) if request.inputs is not None else {}
    program: onnx.ModelProto | Module = (
        load_text(request.program) if is_text(request.program) else load_model(request.program)
    )
    return _one(request, program, given, request.backend, out, cases)


def _stored(request: ReduceRequest, out: Screen, cases: list[dict[str, Any]]) -> Any:
    def one(stored: StoredFailure) -> int:
        if stored.target in OURS:
            raise Invalid(f"{stored.target} is no backend: what fails there is made simpler by fuzz", label="reduce.C3")
        program, inputs = stored.program()
        name = stored.path.name.removesuffix(".json")
        return _one(request, program, inputs, stored.target, out, cases, name)

    return one


def _one(
    request: ReduceRequest, program: onnx.ModelProto | Module, given: Mapping[str, Array], who: str, out: Screen,
    cases: list[dict[str, Any]], name: str = "",
) -> int:  # fmt: skip
    """Reduce one program; what came of it is put to the `cases`."""
    said: dict[str, Any] = {"name": name or request.program.name, "backend": who}
    cases.append(said)
    kinds = request.wanted_kinds
    if isinstance(program, Module):
        dims: Mapping[str, int] = {}
        proto = subject_of_module(sized(program, request.dims)).model
        arrays = dict(given)
    else:
        proto, arrays, _, dims = with_inputs(program, dict(given), request.dims, request.seed, request.program.name)
    with isolated(who) as backend:
        return reduce_model(
            proto, backend, arrays, dims, request.seed, request.limit, request.output, out,
            kinds=kinds, sought=request.sought, name=name, said=said,
        )  # fmt: skip
