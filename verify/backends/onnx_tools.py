"""Tools that take ONNX models, by way of one class (specs/verify.md, "Backends").

Each tool is a function that compiles a model, in `assay.verify.backends.onnx_runners`. It gets a model with all data
inside, whose inputs are those that a run is given, in their order, and whose outputs are the wanted tensors.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import shape_inference

from assay.lower.frontends.onnx.outside import with_data_inside
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError, Invalid, Unsupported
from assay.verify.app.foreign import Raised
from assay.verify.backends.catalogue import TOOLS, family_of
from assay.verify.backends.protocol import LONGEST, Array, Prepared, Subject, cannot, crashed, run_failed, showing

Run: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Any]]
"""From the inputs by name, in the model's order, to its outputs in their order."""
Compile: TypeAlias = Callable[[onnx.ModelProto], Run]


@dataclass(frozen=True)
class OnnxTool:
    """A tool by its function. What it raises while it compiles is a refusal, and while it runs a failed run; a
    NotImplementedError is a refusal always, and what `is_crash` says is one, a crash. `sized`: open sizes get those of
    the inputs, once for each."""

    name: str
    compile: Compile
    sized: bool = True
    is_crash: Callable[[BaseException], bool] = field(default=lambda wrong: False, compare=False)

    @property
    def accepts(self) -> Sequence[str]:
        """The freedoms that it takes."""
        return TOOLS[family_of(self.name)].freedoms

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Compile the model, at once where its sizes are known. Invalid: not installed (backend.C1), or refused
        (backend.C2)."""
        require_installed(self.name)
        names = list(wanted)
        model = with_data_inside(showing(subject, names))
        stored = {t.name for t in model.graph.initializer}
        free = [i.name for i in model.graph.input if i.name not in stored]
        kept: dict[Any, Run] = {}

        def compiled(shapes: Mapping[str, tuple[int, ...]] | None, given: Sequence[str]) -> Run:
            key = (tuple(given), None if shapes is None else tuple(shapes.values()))
            if key not in kept:
                kept[key] = self._compiled(with_inputs(model, given, shapes))
            return kept[key]

        needed = self.sized and not _has_sizes(model, free)
        if not needed:
            compiled(None, free)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            given = [i.name for i in model.graph.input if i.name in inputs]
            if missing := [n for n in free if n not in inputs]:
                raise run_failed(self.name, f"the input {missing[0]} is not given")
            shapes = {n: np.shape(inputs[n]) for n in given} if self.sized and needed else None
            ready = compiled(shapes, given)
            try:
                results = list(ready({n: np.asarray(inputs[n]) for n in given}))
            except Exception as wrong:
                raise self._failure(wrong, run_failed) from wrong
            if len(results) != len(names):
                raise cannot(self.name, f"it gives {len(results)} tensors for {len(names)}")
            return dict(zip(names, results, strict=True))

        return run

    def _compiled(self, model: onnx.ModelProto) -> Run:
        try:
            return self.compile(model)
        except Exception as wrong:
            # each tool has classes of its own
            raise self._failure(wrong, cannot) from wrong

    def _failure(self, wrong: Exception, otherwise: Callable[[str, str], Unsupported]) -> Exception:
        if isinstance(wrong, AssayError):
            return wrong
        if self.is_crash(wrong):
            return crashed(self.name, Raised(wrong), Raised(wrong).place_in(""))
        said = f"{type(wrong).__name__}: {telling(str(wrong)) or Raised(wrong).first_line}"
        return (cannot if isinstance(wrong, NotImplementedError) else otherwise)(self.name, said[:LONGEST])


def require_installed(name: str) -> None:
    """Invalid (backend.C1): what a backend of ours needs is not installed."""
    tool = TOOLS[family_of(name)]
    try:
        there = all(find_spec(module) is not None for module in tool.modules)
    except ImportError:  # of the package that a module is in
        there = False
    if not there:
        raise Invalid(f"the backend {name} is not installed; {tool.how}", label="backend.C1")
    if missing := tool.missing_program():
        raise Invalid(f"the backend {name} needs the program {missing}, which is not installed", label="backend.C1")


def with_inputs(
    model: onnx.ModelProto, given: Sequence[str], shapes: Mapping[str, tuple[int, ...]] | None
) -> onnx.ModelProto:
    """The model with these inputs alone, and with types of all tensors as ONNX infers them: of these shapes of the
    inputs, if there are any. What has a default and is not given is a constant."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    inputs = [i for i in graph.input if i.name in given]
    defaults = [t for t in graph.initializer if t.name not in given]
    outputs = list(graph.output)
    del graph.input[:], graph.initializer[:]
    graph.input.extend(inputs)
    graph.initializer.extend(defaults)
    if shapes is not None:
        for info in graph.input:
            _set_shape(info.type.tensor_type, shapes[info.name])
        del graph.value_info[:]
        for info in graph.output:
            info.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(made, data_prop=True)
    except Exception:  # noqa: BLE001  (a rule of ONNX's that fails says nothing of the tool)
        return made if shapes is None else _with(made, outputs)
    known = {i.name: i for i in (*inferred.graph.value_info, *inferred.graph.input)}
    for info in inferred.graph.output:
        if not info.type.WhichOneof("value") and info.name in known:
            info.CopyFrom(known[info.name])
    return inferred


def _with(model: onnx.ModelProto, outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    return model


def _set_shape(of: onnx.TypeProto.Tensor, shape: Sequence[int]) -> None:
    of.ClearField("shape")
    of.shape.SetInParent()
    for size in shape:
        of.shape.dim.add().dim_value = size


def _has_sizes(model: onnx.ModelProto, names: Sequence[str]) -> bool:
    """Whether the inputs of these names are tensors whose sizes are all numbers."""
    types = [i.type.tensor_type for i in model.graph.input if i.name in names and i.type.HasField("tensor_type")]
    return all(t.HasField("shape") and all(d.HasField("dim_value") for d in t.shape.dim) for t in types)


def declared_dtypes(model: onnx.ModelProto) -> list[np.dtype[Any]]:
    """The element types of a model's outputs. NotImplementedError: one is no tensor."""
    for info in model.graph.output:
        if not info.type.tensor_type.elem_type:
            raise NotImplementedError(f"the type of {info.name} is not known")
    return [onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in model.graph.output]


def without_loss(array: Any, wanted: np.dtype[Any]) -> Array:
    """Whole numbers and truth values in another element type that holds them too. Tools that have 32 bits for all of
    them take and give such. NotImplementedError: it is another number there, or no whole number."""
    given: Array = np.asarray(array)
    if given.dtype == wanted:
        return given
    if dtype(given.dtype).is_float or dtype(wanted).is_float:
        raise NotImplementedError(f"{given.dtype} where {wanted} is wanted")
    made: Array = given.astype(wanted)
    if ((made != given) | ((made < 0) != (given < 0))).any():
        raise NotImplementedError(f"a number of {given.dtype} that {wanted} does not hold")
    return made


def signed_as(array: Array, wanted: np.dtype[Any]) -> Array:
    """Whole numbers with the signs that are wanted: a tool whose types have none gives bits."""
    kinds = array.dtype.kind + wanted.kind
    return array.view(wanted) if kinds in ("iu", "ui") and array.dtype.itemsize == wanted.itemsize else array


# --- what they say ----------------------------------------------------------------------------------------------------


def telling(said: str) -> str:
    """The line of a text of a tool that says what is wrong; "" where there is none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(HEADS)]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "")


HEADS = ("Exception from src/", "Check 'false'", "C compilation failed:", "Start to ", "[", "The device supports")
"""How lines begin that say nothing."""


@contextmanager
def heard() -> Iterator[Callable[[], str]]:
    """What is written in here to the standard output and the standard error, by code that is not Python's too: a
    function that gives it."""
    with tempfile.TemporaryFile() as written:
        kept = [(fd, os.dup(fd)) for fd in (1, 2)]
        try:
            for fd, _ in kept:
                os.dup2(written.fileno(), fd)

            def said() -> str:
                written.seek(0)
                return str(written.read(), "utf-8", "replace")

            yield said
        finally:
            for fd, copy in kept:
                os.dup2(copy, fd)
                os.close(copy)
