"""What is judged, and who is (specs/verify.md, "Backends")."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import onnx

from assay.lower.frontends.onnx.data_files import DataFile
from assay.lower.frontends.onnx.outside import with_data_inside, without
from assay.lower.frontends.onnx.tensors import number_of
from assay.semantics.errors import AssayError, Invalid, Trap, Unsupported
from assay.semantics.types import TensorType, Type, flatten
from assay.verify.app.foreign import Raised
from assay.verify.backends.channel import element_name

if TYPE_CHECKING:  # the process in which a backend runs needs no more of a module than its name
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
    files: Sequence[DataFile] = ()
    """Held while it is used: `model` may say of its large initializers that they lie in these files. A backend gets all
    of them in the model, but one of ours that can read them there."""
    is_exported: bool = False
    """Whether the module is the program, and the model what it was exported as. A backend that takes modules then gets
    the module itself."""
    original: bytes = b""
    """The archive of a program of torch.export that the module was read from: PyTorch's backends run this program, and
    not what the module would be as another."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """What inputs hold, where a type in the module hangs on that: who imports the model needs them too."""

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [o.name for o in self.model.graph.output]


def holding(subject: Subject, files: Sequence[DataFile]) -> Subject:
    """The same subject, which holds these files."""
    made = copy.copy(subject)
    vars(made)["files"] = tuple(files)
    return made


def whole(subject: Subject) -> Subject:
    """The subject with all data in its model, which other people's code can read."""
    model = with_data_inside(subject.model)
    if model is subject.model:
        return subject
    if isinstance(subject, UnreadSubject):
        return UnreadSubject(model, subject.dims, vars(subject)["text"], subject.original, subject.values)
    return replace(subject, model=model)


def subject_of_model(
    model: onnx.ModelProto,
    dims: Mapping[str, int] | None = None,
    source: str = "",
    values: Mapping[str, Array] | None = None,
) -> Subject:
    """An ONNX model as a subject: it is imported, at the `values` of inputs where one decides a type. Raises what
    `import_onnx` raises."""
    from assay.interp.graph import evaluate
    from assay.verify.border.inputs import import_with

    tensors: dict[str, Expr] = {}
    used: set[str] = set()
    how: dict[str, Any] = {"model": model, "evaluate": evaluate, "dims": dims or {}, "source": source, "used": used}
    module = import_with(values or {}, **how, tensors=tensors)
    hang_on = {n: value for n, value in (values or {}).items() if n in used}
    return Subject(module, model, tensors, dict(dims or {}), values=hang_on)


class UnreadSubject(Subject):
    """An ONNX model as a subject that is imported when somebody asks what it means: many backends never do, and take
    what our import refuses. Its `module` and `tensors` raise what `import_onnx` raises. `text` is the module whose
    export the model is, if it is one: that is what is meant."""

    def __init__(
        self,
        model: onnx.ModelProto,
        dims: Mapping[str, int],
        text: str = "",
        original: bytes = b"",
        values: Mapping[str, Array] | None = None,
    ) -> None:
        vars(self).update(model=model, dims=dict(dims), files=(), is_exported=bool(text), text=text, original=original)
        vars(self).update(values=values or {})

    @cached_property
    def _read(self) -> Subject:
        if vars(self)["text"]:
            return subject_of_text(vars(self)["text"], self.model)
        return subject_of_model(self.model, self.dims, values=self.values)

    @property
    def module(self) -> Module:
        """What is meant."""
        return self._read.module

    @property
    def tensors(self) -> Mapping[str, Expr]:
        """The model's tensors by name."""
        return self._read.tensors


def subject_of_module(module: Module) -> Subject:
    """A graph module as a subject: it is exported. Raises what `export_onnx` raises."""
    from assay.lower.onnx_export import export_onnx

    tensors: dict[str, Expr] = {}
    return Subject(module, export_onnx(module, tensors), tensors, is_exported=True)


def subject_of_text(text: str, model: onnx.ModelProto) -> Subject:
    """A module as text, whose export is the model. Where it is not, so that names may mean other tensors, it has only
    the outputs. Raises what `parse` and `export_onnx` raise."""
    from assay.semantics.text.module_text import parse

    made = subject_of_program(parse(text))
    same = made.model.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)
    return Subject(made.module, model, made.tensors if same else {}, is_exported=True)


def subject_of_program(module: Module, original: bytes = b"") -> Subject:
    """A module as a subject, whether ONNX has words for it or not: where it has none, the model is one node that only
    backends that take modules, or the `original`, run. Raises what `export_onnx` raises of a module whose inputs and
    outputs are no tensors."""
    try:
        return replace(subject_of_module(module), original=original)
    except Unsupported as why:
        types = [p.type for p in module.main.params] + flatten(module.main.body.type)
        if not why.label.startswith("onnx_export.") or not all(isinstance(t, TensorType) for t in types):
            raise
        return Subject(module, _unsaid(module, why.message), is_exported=True, original=original)


UNSAID = onnx.helper.make_opsetid("assay", 1)
"""The domain of the node that stands for a program without words."""


def without_words(model: onnx.ModelProto) -> str:
    """Why ONNX has no words for what a model stands for; "" where it has."""
    return next((n.doc_string for n in model.graph.node if n.domain == UNSAID.domain), "")


def _unsaid(module: Module, why: str) -> onnx.ModelProto:
    """A model with the inputs and outputs of a module, and one node between them that no backend knows."""
    from assay.semantics.leaves import output_leaves

    def values(types: Mapping[str, Type]) -> list[onnx.ValueInfoProto]:
        made = []
        for name, of in types.items():
            assert isinstance(of, TensorType)
            shape = [d if isinstance(d, int) else str(d) for d in of.shape]
            made.append(onnx.helper.make_tensor_value_info(name, number_of(of.dtype), shape))
        return made

    main = module.main
    inputs = values({p.name: p.type for p in main.params})
    outputs = values(dict(output_leaves(main)))
    names = [i.name for i in inputs], [o.name for o in outputs]
    node = onnx.helper.make_node("WithoutWords", *names, domain=UNSAID.domain, doc_string=why)
    graph = onnx.helper.make_graph([node], "program", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[UNSAID], ir_version=8)


@runtime_checkable
class Backend(Protocol):
    """An implementation that runs programs, and whose outputs are judged.

    `name` is how a person calls it. `prepare` compiles the subject and gives a function that may be called often. The
    function must leave its inputs as they are. Both raise NotImplementedError where they cannot: run this program, give
    one of the `wanted` tensors, take these inputs. `Trap` says that the program fails on these inputs, of the kind ""
    if that is all that is known. Any other exception is a crash of the backend. What a backend may say of itself beside
    its name is in `assay.verify.backends.declared`.

    >>> class Mine:
    ...     name = "mine"
    ...
    ...     def prepare(self, subject, wanted):
    ...         return lambda inputs: {"y": numpy.full((len(inputs["x"]), 2), numpy.nan, "float32")}
    >>> assay.judge("model.onnx", Mine(), {"x": numpy.ones((1, 3), "float32")}).verdicts[0].outcome
    'wrong'
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
class Trapped:
    """The backend said that the program fails on these inputs, with a trap of this kind; "" where it does not know."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Died:
    """The backend crashed: its process died, took too long, or it raised what its protocol does not know."""

    reason: str


Outcome: TypeAlias = Ran | Refused | Trapped | Died
OUTCOMES = {
    "backend.C2": "refused",
    "backend.C11": "refused",
    "backend.C5": "died",
    "backend.C6": "late",
    "backend.C7": "died",
    "backend.C9": "died",
    "backend.C10": "died",
}
"""The verdict on a run that an exception with this label ends."""
FATAL = tuple(label for label, outcome in OUTCOMES.items() if outcome != "refused")
FAILED = ("backend.C10", "backend.C11")
"""Failures that are what must be, where the program itself fails."""
ABSENT = ("backend.C1", "backend.C3", "backend.C12")
"""Failures that have nothing to do with the program: there is no such backend here."""
UNASKED = ("backend.C7", "backend.C10")
"""Faults that do not count when a backend is asked for intermediate tensors, which its users do not ask for."""


class Crashed(Unsupported):
    """A backend raised what is neither a refusal nor a trap (backend.C10). `raised` is the name of the exception's
    class, `place` where in the backend's own code, such as `mine.py:14 in run`, or ""."""

    def __init__(self, message: str, raised: str, place: str) -> None:
        super().__init__(message, label="backend.C10")
        self.raised, self.place = raised, place

    @property
    def key(self) -> str:
        """Crashes of one key are likely the same fault: without the line's number, which the next edit would change."""
        return f"{self.raised} at {re.sub(r':[0-9]+ in ', ':', self.place)}" if self.place else self.raised


@dataclass(frozen=True)
class Crossed:
    """A prepared backend in another process: what it gives is nobody else's."""

    run: Prepared

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As what is prepared there."""
        return self.run(inputs)


def call_prepared(name: str, run: Prepared, inputs: Mapping[str, Array], crossing: bool = False) -> dict[str, Any]:
    """What a prepared backend gives, in arrays of the caller's own; sequences are lists of them. It gets copies of
    the inputs. What is `crossing` to another process before anything else is run is not copied here.

    Unsupported: what it gives is no mapping of names to arrays (backend.C7). Invalid: it has changed its inputs
    (backend.C8).
    """
    own = {n: np.array(v, order="C") for n, v in inputs.items()}
    outputs: Any = run(own)
    if not isinstance(outputs, Mapping):
        raise Unsupported(
            f"the backend {name} gives a {type(outputs).__name__}; tensors by name are wanted", label="backend.C7"
        )
    for n, v in inputs.items():
        if own[n].shape != np.shape(v) or own[n].tobytes() != np.ascontiguousarray(v).tobytes():
            raise Invalid(f"the backend {name} changes its input {n}", label="backend.C8")
    made: dict[str, Any] = {}
    shared = crossing or isinstance(run, Crossed)
    for n, v in outputs.items():
        if not isinstance(n, str):
            raise Unsupported(f"the backend {name} gives a tensor by the name {n!r:.100}", label="backend.C7")
        try:
            made |= {n: _own(v, shared)} if v is not None else {}
        except Exception as wrong:
            # lists that are ragged; and what makes an array of somebody's object is strange code
            what = f"the backend {name} gives {n!r} as what is no tensor: {Raised(wrong)}"
            raise Unsupported(what, label="backend.C7") from wrong
    return made


def _own(value: Any, shared: bool) -> Any:
    if is_sequence(value):
        return [v if v is None else _own(v, shared) for v in value]
    if np.ma.is_masked(value):
        raise TypeError("some of its elements are masked")  # what lies beneath a mask is no answer
    array = np.asarray(value) if shared else np.array(value)
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    element_name(array)
    return array


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
    except Trap as trap:
        return Trapped(trap.kind, trap.message)
    except AssayError as wrong:
        return Died(wrong.message) if wrong.label in FATAL else Refused(wrong.message)


def cannot(name: str, why: str | BaseException) -> Unsupported:
    """What to raise where a backend cannot run a program (backend.C2): the first line of its own reason."""
    return Unsupported(f"the backend {name} cannot run this model: {_said(why)}", label="backend.C2")


def run_failed(name: str, why: str | BaseException) -> Unsupported:
    """What to raise where a run failed, and nothing says whether the program must fail so or the backend cannot run it
    (backend.C11): right where the program must, else a refusal."""
    return Unsupported(f"the backend {name} fails on these inputs: {_said(why)}", label="backend.C11")


def crashed(name: str, raised: Raised, place: str) -> Crashed:
    """What to raise where a backend raised what it should not (backend.C10), with the place in it."""
    message = f"the backend {name} raised {str(raised)[:LONGEST]}" + (f" ({place})" if place else "")
    return Crashed(message, raised.kind, place)


LONGEST = 300
"""Characters of what an exception says that are kept."""


def _said(why: str | BaseException) -> str:
    return why if isinstance(why, str) else Raised(why).first_line[:LONGEST]


def showing(subject: Subject, names: Sequence[str]) -> onnx.ModelProto:
    """The model with the tensors `names` as its outputs. Those that it did not give have the types that they have here,
    by which tools make room for them; none in a model with operators that have no meaning here."""
    if list(names) == subject.outputs:
        return subject.model
    try:
        tensors = subject.tensors
    except AssayError:
        tensors = {}
    return with_outputs(subject.model, names, tensors)


def with_outputs(
    model: onnx.ModelProto, names: Sequence[str], tensors: Mapping[str, Expr] | None = None
) -> onnx.ModelProto:
    """The model with the tensors `names` as its outputs; those of `tensors` have the types that these have."""
    declared = {o.name: o for o in model.graph.output}
    for name, node in (tensors or {}).items():
        if isinstance(node.type, TensorType):
            shape = [d if isinstance(d, int) else str(d) for d in node.type.shape]
            info = onnx.helper.make_tensor_value_info(name, number_of(node.type.dtype), shape)
            declared.setdefault(name, info)
    changed = without(model, {"graph"})
    changed.graph.CopyFrom(without(model.graph, {"output"}))
    changed.graph.output.extend(declared.get(n, onnx.ValueInfoProto(name=n)) for n in names)
    return changed
