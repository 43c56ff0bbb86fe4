"""Modules of TVM for tests, what its passes make of them, and what its compiled code computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from assay.lower.frontends.tvm.objects import require_tvm
from assay.semantics.errors import Unsupported
from tests.models import Build, model

Array = np.ndarray[Any, Any]

try:
    require_tvm()
except Unsupported as missing:
    pytest.skip(str(missing), allow_module_level=True)

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.relax.frontend.onnx import from_onnx  # noqa: E402


def imported(source: onnx.ModelProto) -> Any:
    """An ONNX model as TVM imports it, weights as constants."""
    return from_onnx(source)


def mobile_net(size: int = 8, *, batch: int | str = 1, seed: int = 0) -> onnx.ModelProto:
    """Two inverted residuals with depthwise convolutions and Clip, as MobileNet has them, and a classifier."""
    b = Build(seed)

    def bounded(x: str) -> str:
        return b.node("Clip", x, b.constant(np.float32(0)), b.constant(np.float32(6)))

    def inverted(x: str, inner: int, outer: int, stride: int) -> str:
        wide = bounded(b.node("Conv", x, b.weight(outer, inner, 1, 1), b.weight(outer, scale=0.1)))
        deep = b.node("Conv", wide, b.weight(outer, 1, 3, 3), group=outer, pads=[1, 1, 1, 1], strides=[stride, stride])
        return b.node("Conv", bounded(deep), b.weight(inner, outer, 1, 1))

    x = bounded(b.node("Conv", "x", b.weight(4, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]))
    x = b.node("Add", x, inverted(x, 4, 8, 1))
    x = inverted(x, 4, 8, 2)
    x = b.node("Flatten", b.node("GlobalAveragePool", x), axis=1)
    b.node("Gemm", x, b.weight(5, 4, scale=0.5), b.weight(5, scale=0.1), transB=1)
    b.nodes[-1].output[0] = "y"
    shape = (batch, 3, size, size)
    return model(b.nodes, {"x": (np.float32, shape)}, {"y": (np.float32, (batch, 5))}, b.stored, 13, "mobile")


# --- what TVM computes ---------------------------------------------------------------------------------------------

PIPELINES: dict[str, Callable[[], Any]] = {
    "default": lambda: "default",
    "cpu": lambda: relax.get_default_pipeline(tvm.target.Target("llvm")),
}
"""TVM's two official ways to lower for the CPU: as `tvm.compile` does it, and with constants folded and kernels
fused."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A module that TVM compiled, and the modules after each of its passes, by the pass's name."""

    machine: Any
    snapshots: list[tuple[str, Any]]

    def __call__(self, *inputs: Any) -> Any:
        """The result of `main`: an array or a tuple of results."""
        return as_numpy(self.machine["main"](*map(as_tvm, inputs)))


def compiled(mod: Any, pipeline: str = "default") -> Compiled:
    snapshots: list[tuple[str, Any]] = []

    @tvm.ir.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, after: Any, info: Any) -> None:
            snapshots.append((str(info.name), after))

    target = tvm.target.Target("llvm")
    with tvm.transform.PassContext(instruments=[Watch()]):
        executable = tvm.compile(mod, target, relax_pipeline=PIPELINES[pipeline]())
    return Compiled(relax.VirtualMachine(executable, tvm.cpu()), snapshots)


def as_tvm(value: Any) -> Any:
    return tvm.runtime.tensor(np.array(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def as_numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else tuple(map(as_numpy, value))


def flat(value: Any) -> list[Array]:
    """The tensors of a result, left to right."""
    return [x for part in value for x in flat(part)] if isinstance(value, tuple) else [value]


def stages(mod: Any, snapshots: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The module itself and after each pass that changes it. A pass over kernels alone is shown with the graph
    functions that call them; TVM compiles those apart."""
    seen: set[int] = set()
    whole = mod
    for name, after in [("the module", mod), *snapshots]:
        functions = {g.name_hint: f for g, f in after.functions.items()}
        if "main" in functions:
            whole = after
        elif functions.keys() >= needed(whole):
            graphs = {g: f for g, f in whole.functions.items() if isinstance(f, relax.Function)}
            after = tvm.IRModule({**graphs, **{tvm.ir.GlobalVar(n): f for n, f in functions.items()}})
        else:
            continue  # constants that are computed while it compiles
        key = tvm_ffi.structural_hash(after)
        if key not in seen:
            seen.add(key)
            yield name, after


def needed(mod: Any) -> set[str]:
    """The names of the tensor functions of a module."""
    return {g.name_hint for g, f in mod.functions.items() if not isinstance(f, relax.Function)}


def kernel_calls(machine: Any, inputs: Mapping[str, Array]) -> list[tuple[str, list[Any], list[Any]]]:
    """Every call of a kernel in one run: its name, and its operands before and after."""
    calls: list[tuple[str, list[Any], list[Any]]] = []
    open_: list[list[Any]] = []

    def watch(func: Any, name: str, before: bool, ret: Any, *args: Any) -> Any:
        values = [np.array(a.numpy()) if hasattr(a, "numpy") else a for a in args]
        if before:
            open_.append(values)
        else:
            calls.append((str(name), open_.pop(), values))
        return relax.VMInstrumentReturnKind.NO_OP

    machine.set_instrument(watch)
    machine["main"](*map(as_tvm, inputs.values()))
    return calls


def lowered(mod: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """The compiled function, and the module and what each pass before MakePackedAPI makes of it."""
    found = [("the module", mod)]

    @tvm.ir.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, after: Any, info: Any) -> None:
            found.append((str(info.name), after))

    with tvm.transform.PassContext(instruments=[Watch()]):
        code = tvm.compile(mod, "llvm")
    seen: dict[int, tuple[str, Any]] = {}
    for name, after in found[: next(i for i, (n, _) in enumerate(found) if "MakePackedAPI" in n)]:
        seen.setdefault(tvm_ffi.structural_hash(after), (name, after))
    return code, list(seen.values())
