"""The peer: modules made, compiled and run by apache-tvm (specs/verify.md, "Inside a backend")."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from assay.lower.frontends.tvm.objects import Object, require_tvm, type_key
from assay.semantics.errors import Invalid
from assay.verify.backends.tvm_pipelines import PassPlan, plan_of, steps_of

Array = np.ndarray[Any, Any]

PIPELINES = ("default", "cpu")
"""TVM's two ways to lower for the CPU: what `tvm.compile` does by itself, and the target's own pipeline, which folds
constants and fuses kernels."""


def tvm() -> Any:
    """The package, of the version that our import reads. Unsupported (tvm.C1) without it."""
    require_tvm()
    return importlib.import_module("tvm")


def relax() -> Any:
    """The module `tvm.relax`. Unsupported (tvm.C1) without TVM."""
    tvm()
    return importlib.import_module("tvm.relax")


def tvm_target() -> Any:
    """TVM's target for the CPU."""
    return tvm().target.Target("llvm")


def pipeline_of(name: str) -> PassPlan:
    """Passes and pipelines by their names. Invalid (backend.C3) where TVM has none of a name."""
    return plan_of(steps_of(name), tvm_target())


def structural_hash(mod: Object) -> int:
    """The hash of a module or function up to the names of its variables."""
    return int(importlib.import_module("tvm_ffi").structural_hash(mod))


def from_onnx(model: onnx.ModelProto) -> Object:
    """The module that TVM's frontend makes of a model, weights as constants. Invalid (backend.C2) where it refuses
    it."""
    tvm()
    frontend = importlib.import_module("tvm.relax.frontend.onnx")
    try:
        return frontend.from_onnx(model)
    except Exception as wrong:  # noqa: BLE001  it refuses by whatever its parts happen to raise
        raise Invalid(f"tvm.relax.frontend.onnx refuses this model: {first_line(wrong)}", label="backend.C2") from None


def from_script(text: str) -> Object:
    """The module of a TVMScript text, as TVM reads it. Invalid (backend.C2) where it does not."""
    script = tvm().script
    try:
        return script.from_source(text, check_well_formed=False)
    except Exception as wrong:  # noqa: BLE001
        raise Invalid(f"TVM does not read this text: {first_line(wrong)}", label="backend.C2") from None


def first_line(wrong: BaseException) -> str:
    """The name of an exception with the last line of its text."""
    lines = [line for line in str(wrong).splitlines() if line.strip()]
    return f"{type(wrong).__name__}: {lines[-1].strip()}" if lines else type(wrong).__name__


def frozen(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with its sizes, axes and scalars stored in it, as TVM's frontend wants them; and the inputs that are
    left.

    An input after the first becomes a constant where it has rank 0, or holds int64 in rank 1.
    """
    changed = copy.deepcopy(model)
    names = [i.name for i in changed.graph.input]
    stored = {
        n
        for n in names[1:]
        if n in inputs and (inputs[n].ndim == 0 or inputs[n].dtype == np.int64 and inputs[n].ndim == 1)
    }
    changed.graph.initializer.extend(numpy_helper.from_array(inputs[n], n) for n in names if n in stored)
    left = [i for i in changed.graph.input if i.name not in stored]
    del changed.graph.input[:]
    changed.graph.input.extend(left)
    return changed, {n: a for n, a in inputs.items() if n not in stored}


def as_tvm(value: Any) -> Any:
    """An argument of a compiled function: arrays as TVM's tensors, copied; anything else as it is."""
    return tvm().runtime.tensor(np.array(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of TVM."""
    return hasattr(value, "numpy") and hasattr(value, "shape")


def as_numpy(value: Any) -> Any:
    """A result as arrays, and tuples of them; a copy of its memory."""
    if is_tensor(value):
        return np.array(value.numpy())
    if isinstance(value, (int, float, bool)):
        return np.asarray(value)
    if type_key(value) in ("ffi.Shape", "Shape"):
        return np.array(list(value), np.int64)
    try:
        return tuple(map(as_numpy, value))
    except TypeError:
        raise Invalid(f"TVM returns a {type(value).__name__}, which is no tensor", label="backend.C2") from None


def parameters(mod: Object) -> list[str]:
    """The names of the parameters of `main`."""
    return [str(p.name) for p in main_of(mod).params]


def main_of(mod: Object) -> Object:
    """The function `main` of a TVM module; Invalid (backend.C2) if it has none."""
    for name, f in mod.functions.items():
        if str(name.name_hint) == "main":
            return f
    raise Invalid("the module has no function main", label="backend.C2")


def call(machine: Any, arguments: Sequence[Any]) -> Any:
    """What `main` returns, as TVM's values. Invalid (backend.C2) where the run fails."""
    try:
        return machine["main"](*map(as_tvm, arguments))
    except Exception as wrong:  # noqa: BLE001
        raise Invalid(f"TVM does not run this module: {first_line(wrong)}", label="backend.C2") from None
