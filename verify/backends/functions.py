"""A plain function as a backend (specs/verify.md, "Backends").

    def run(model, inputs):                     # an onnx.ModelProto; bytes where `model: bytes` is written
        return my_compiler.run(model.SerializeToString(), inputs)

It gives the model's outputs: by name, in their order, or the only one. What it declares are attributes of its own:
`run.accepts = ["flushes"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import onnx

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.foreign import foreign
from assay.verify.backends.protocol import Array, Backend, Prepared, Subject, showing

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class RunFunction:
    """A function from a model and inputs by name to the model's outputs. It is called with a model of its own each
    time, and is asked for intermediate tensors as outputs of the model."""

    name: str
    function: Callable[..., Any]

    @property
    def declares(self) -> Any:
        """What has the attributes by which a backend says something of itself."""
        return self.function

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Give a function that runs the model with these outputs."""
        names = list(wanted)
        data = showing(subject, names).SerializeToString()
        as_bytes = _takes_bytes(self.function)

        def run(inputs: Mapping[str, Array]) -> Any:
            given = self.function(data if as_bytes else onnx.load_model_from_string(data), dict(inputs))
            return self._by_name(given, names)

        return run

    def _by_name(self, given: Any, names: Sequence[str]) -> Any:
        if isinstance(given, Mapping):
            return given
        if isinstance(given, (list, tuple)):
            if len(given) != len(names):
                raise Unsupported(
                    f"the backend {self.name} gives {len(given)} tensors; those of {', '.join(names)} are wanted",
                    label="backend.C7",
                )
            return dict(zip(names, given, strict=True))
        return {names[0]: given} if len(names) == 1 and hasattr(given, "__array__") else given


def as_backend(made: Any, where: str, name: str, called: bool = True) -> Backend:
    """The backend that an object stands for: itself; a function from a model and inputs to outputs, which is then
    called `name`; or, where it may be `called`, what a class or a function without arguments gives. Invalid
    (backend.C4), which says `where` it is from: it is none of these, or raises."""
    with loading(where):
        return _as_backend(made, where, name, called)


def _as_backend(made: Any, where: str, name: str, called: bool) -> Backend:
    if is_run(made):
        return RunFunction(name, made)
    if called and (isinstance(made, type) or not isinstance(made, Backend) and callable(made)):
        made = made()
        if is_run(made):
            return RunFunction(name, made)
    if isinstance(made, type) or not isinstance(made, Backend) or not isinstance(made.name, str):
        what = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
        raise Invalid(
            f"{where} is {what}; an object with `name` and `prepare(subject, wanted)`, or a function of a model and its"
            " inputs, is wanted",
            label="backend.C4",
        )
    return made


def loading(where: str) -> AbstractContextManager[None]:
    """What is raised in here says that a backend does not load (backend.C4)."""
    return foreign(lambda raised: Invalid(f"{where} does not load: {raised}", label="backend.C4"))


def is_run(made: Any) -> bool:
    """Whether it is a function that takes two arguments, the model and the inputs, and needs them."""
    if isinstance(made, (type, Backend)) or not callable(made):
        return False
    try:
        own = signature(made)
    except (ValueError, TypeError):  # a builtin that does not say
        return False
    needed = [p for p in own.parameters.values() if p.default is Parameter.empty and p.kind in POSITIONAL]
    try:
        own.bind(None, None)
    except TypeError:
        return False
    return bool(needed)


POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def _takes_bytes(function: Callable[..., Any]) -> bool:
    """Whether its first parameter is declared to be bytes."""
    first = next(iter(signature(function).parameters.values()))
    return first.annotation in (bytes, "bytes")
