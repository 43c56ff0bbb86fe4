"""What is judged, and who is (specs/verify.md, "Backends")."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import onnx

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.onnx_export import export_onnx
from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid, Unsupported
from assay.semantics.graph import Expr
from assay.semantics.module import Module

Array = np.ndarray[Any, Any]
Prepared: TypeAlias = Callable[[Mapping[str, Array]], dict[str, Array]]
"""From the inputs by name to the wanted tensors by name."""


@dataclass(frozen=True)
class Subject:
    """One program, in the two forms in which backends take it.

    `module` says what is meant: the parameters of its main have the names of the inputs, its attribute `outputs` those
    of the outputs. `model` is the same as ONNX. `tensors` has the model's tensors by name, intermediate ones too, as
    nodes of `module.main`. `dims` are the symbolic dims of the model that are numbers in the module.
    """

    module: Module
    model: onnx.ModelProto
    tensors: Mapping[str, Expr] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [o.name for o in self.model.graph.output]


def subject_of_model(model: onnx.ModelProto, dims: Mapping[str, int] | None = None, source: str = "") -> Subject:
    """An ONNX model as a subject: it is imported. Raises what `import_onnx` raises."""
    tensors: dict[str, Expr] = {}
    module = import_onnx(model, evaluate=evaluate, dims=dims or {}, source=source, tensors=tensors)
    return Subject(module, model, tensors, dict(dims or {}))


def subject_of_module(module: Module) -> Subject:
    """A graph module as a subject: it is exported. Raises what `export_onnx` raises."""
    tensors: dict[str, Expr] = {}
    return Subject(module, export_onnx(module, tensors), tensors)


@runtime_checkable
class Backend(Protocol):
    """An implementation that runs programs, and whose outputs are judged.

    `name` is how a person calls it. `prepare` compiles the subject and gives a function that may be called often. It
    raises Invalid or Unsupported: backend.C1 where the tool is not installed, backend.C2 where it cannot run this
    program or give one of the `wanted` tensors; the function raises backend.C2 where it cannot on these inputs. It must
    leave its inputs as they are.
    """

    @property
    def name(self) -> str:
        """The name by which a person calls the backend."""
        ...

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Compile the subject; give a function from inputs to the tensors `wanted`, by name."""
        ...


@dataclass(frozen=True)
class Ran:
    """The wanted tensors by name."""

    outputs: dict[str, Array]


@dataclass(frozen=True)
class Refused:
    """The backend said that it cannot run this."""

    reason: str


@dataclass(frozen=True)
class Died:
    """The backend's process died or took too long."""

    reason: str


Outcome: TypeAlias = Ran | Refused | Died
OUTCOMES = {
    "backend.C2": "refused",
    "backend.C7": "refused",
    "backend.C5": "died",
    "backend.C6": "late",
    "backend.C9": "died",
}
"""The verdict on a run that an exception with this label ends."""
FATAL = tuple(label for label, outcome in OUTCOMES.items() if outcome != "refused")


def call_prepared(name: str, run: Prepared, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """What a prepared backend gives, in arrays of the caller's own; sequences are lists of them. It gets copies of
    the inputs.

    Invalid: what it gives is no mapping of names to arrays (backend.C7), or it has changed its inputs (backend.C8).
    """
    own = {n: np.array(v, order="C") for n, v in inputs.items()}
    outputs: Any = run(own)
    if not isinstance(outputs, Mapping):
        raise Invalid(
            f"the backend {name} gives a {type(outputs).__name__}; tensors by name are wanted", label="backend.C7"
        )
    for n, v in inputs.items():
        if own[n].shape != np.shape(v) or own[n].tobytes() != np.ascontiguousarray(v).tobytes():
            raise Invalid(f"the backend {name} changes its input {n}", label="backend.C8")
    try:
        return {n: _own(v) for n, v in outputs.items() if v is not None}
    except ValueError as wrong:
        raise Invalid(f"the backend {name} gives what is no array: {wrong}", label="backend.C7") from None


def _own(value: Any) -> Any:
    return [v if v is None else _own(v) for v in value] if is_sequence(value) else np.array(value)


def is_sequence(value: Any) -> bool:
    """Whether it is a sequence and no tensor: a list, but not one of numbers, which is an array."""
    return isinstance(value, list) and (
        not value or any(v is None or isinstance(v, np.ndarray) or is_sequence(v) for v in value)
    )


def as_tensor(value: Any) -> Array:
    """What was given where a tensor is wanted. A sequence is none: it is held in an array of no axes, which is no
    tensor either, and not made one, for it would be told as a tensor that was not given."""
    if not is_sequence(value):
        return np.asarray(value)
    made = np.empty((), object)
    made[()] = value
    return made


def attempt(backend: Backend, subject: Subject, wanted: Sequence[str], inputs: Mapping[str, Array]) -> Outcome:
    """Prepare and run once; what a backend raises by its protocol as an outcome."""
    try:
        return Ran(call_prepared(backend.name, backend.prepare(subject, wanted), inputs))
    except AssayError as wrong:
        return Died(wrong.message) if wrong.label in FATAL else Refused(wrong.message)


def cannot(name: str, why: str | BaseException) -> Unsupported:
    """What to raise where a backend cannot run a program (backend.C2): the first line of its own reason."""
    if isinstance(why, BaseException):
        lines = str(why).strip().splitlines()
        why = f"{type(why).__name__}: {lines[0]}" if lines else type(why).__name__
    return Unsupported(f"the backend {name} cannot run this model: {why}", label="backend.C2")


@dataclass(frozen=True)
class InProcess:
    """A backend of another's own, held to the protocol: whatever it raises says that it cannot (backend.C2). Crash and
    EnvironmentFailure say nothing of it, and pass."""

    backend: Backend

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def accepts(self) -> Any:
        """What the backend declares of itself."""
        return self.backend.accepts  # type: ignore[attr-defined]

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare as the backend does."""
        made = self._guarded(lambda: self.backend.prepare(subject, wanted))
        if not callable(made):
            raise cannot(self.name, f"its prepare gives a {type(made).__name__}, and a function is wanted")
        return lambda inputs: self._guarded(lambda: made(inputs))

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (Crash, EnvironmentFailure):
            raise
        except (Exception, SystemExit) as wrong:
            if isinstance(wrong, Invalid) and wrong.label.startswith("backend."):
                raise
            raise cannot(self.name, wrong) from wrong


def with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with the tensors `names` as its outputs."""
    declared = {o.name: o for o in model.graph.output}
    changed = copy.deepcopy(model)
    del changed.graph.output[:]
    changed.graph.output.extend(declared.get(n, onnx.ValueInfoProto(name=n)) for n in names)
    return changed
