"""The packed conventions where sizes are symbols: read from the tensors, checked, and handed to kernels."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assay.interp import machine
from assay.lower.c import Interface, emit
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics import graph
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import TensorType
from assay.verify.app.check import CheckRun, Lowering
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import STRICT, status_name
from tests.lower.c.c_calls import TENSOR, Call, Function, Value, arguments, build, tensor
from tests.lower.memory.planned import same_bits
from tests.verify.app.test_cli import assay
from tests.verify.whole.test_symbolic_sizes import perceptron, pooled, saved, scores

pytestmark = pytest.mark.row("A15")

PACKED = (Interface.C_PACKED, Interface.PACKED)


@cache
def lowered(of: str, bounded: bool = False) -> Module:
    """A model without numbers, planned."""
    model = {"scores": scores, "pooled": pooled, "perceptron": perceptron}[of]()
    check = CheckRun(Lowering(model, "m", bounds={"batch": (1, 8)} if bounded else {}), stop_after="pool")
    assert all(line.evidence.holds for line in check.lines())
    return check.modules["pool"]


@pytest.mark.parametrize("interface", PACKED)
@pytest.mark.parametrize(("of", "shapes"), [("scores", [(3, 5, 4), (1, 2, 4)]), ("pooled", [(2, 3, 6, 9)])])
def test_sizes_are_those_of_the_tensors(of: str, shapes: list[tuple[int, ...]], interface: Interface) -> None:
    module = lowered(of)
    compiled = compile_c(emit(module, "m", interface=interface), reproducible=True, flags=(*STRICT, "-O1"))
    for shape in shapes:
        x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
        assert same_bits(compiled.run(x)["y"], machine.run(module, x)["y"]), shape


def call_at(compiled: Compiled, *sizes: int) -> Call:
    source = compiled.at(sizes)
    return arguments(source, np.ones(source.inputs[0].type.static_shape, np.float32))


@pytest.mark.parametrize("interface", PACKED)
def test_sizes_that_do_not_fit_are_refused(tmp_path: Path, interface: Interface) -> None:
    source = emit(lowered("perceptron", bounded=True), "m", interface=interface)
    source.write(tmp_path)
    library, compiled = build(tmp_path, ["m.c"]), compile_c(source, reproducible=True)

    def status(batch: int, change: int = 0, tensor: int = 0, place: int = 0) -> tuple[str, str | None]:
        call = call_at(compiled, batch)
        assert (call.run(library), call.text) == (0, None)
        sizes = (ctypes.c_int64 * 2).from_address(call.tensors[tensor].shape or 0)
        sizes[place] += change
        return call.status(library), call.text

    assert status(3) == ("OK", None)
    assert status(3, -1, tensor=1) == ("WRONG_SHAPE", "y: float32[batch][4]")
    assert status(3, 1, tensor=1) == ("WRONG_SHAPE", "y: float32[batch][4]")
    assert status(3, 1) == ("WRONG_SHAPE", "y: float32[batch][4]"), "the output and workspace are for three"
    assert status(3, 1, place=1) == ("WRONG_SHAPE", "x: float32[batch][3]")
    for batch, change in ((8, 1), (1, -1), (1, -2)):
        assert status(batch, change) == ("BAD_SIZE", "a size is outside of what the header says: batch")
    less = call_at(compiled, 8)
    (ctypes.c_int64 * 1).from_address(less.tensors[2].shape or 0)[0] -= 1
    assert less.status(library) == "WRONG_SHAPE" and (less.text or "").startswith("the workspace: uint8[")


@pytest.mark.parametrize("interface", PACKED)
def test_a_kernel_reads_sizes_from_its_own_tensors(tmp_path: Path, interface: Interface) -> None:
    """Whoever calls it: tensors that do not belong together are refused."""
    module = lowered("perceptron", bounded=True)
    source = emit(module, "m", interface=interface)
    source.write(tmp_path)
    library = build(tmp_path, ["m.c"])
    name = module.program.calls[-1].kernel
    if interface is Interface.PACKED:
        rows = ctypes.addressof(ctypes.c_void_p.in_dll(library, "m_functions"))
        kernel = Function.from_address(rows + 24 * ([s.kernel for s in module.program.calls].index(name)) + 8)
    else:
        kernel = Function((f"m_p_{name}", library))
    func = module.kernel(name)
    buffers = [*func.params, *func.allocations]

    def run(batches: list[int]) -> tuple[str, str | None]:
        shapes = [tuple(d if isinstance(d, int) else b for d in p.shape)
                  for p, b in zip(buffers, batches, strict=True)]  # fmt: skip
        call = tensors([np.ones(s, p.dtype.numpy) for s, p in zip(shapes, buffers, strict=True)])
        return status_name(kernel(None, call.args, len(buffers), ctypes.byref(call.result))), call.text

    def tensors(arrays: list[np.ndarray]) -> Call:
        made = [tensor(a) for a in arrays]
        args = (Value * (len(made) + 1))(*(Value(TENSOR, 0, ctypes.addressof(t)) for t, _ in made))
        return Call(source, [t for t, _ in made], args, [k for _, k in made], [], Value(99, 0, None))

    assert run([5] * len(buffers)) == ("OK", None)
    for i in range(1, len(buffers)):
        if any(not isinstance(d, int) for d in buffers[i].shape):
            status, text = run([5] * i + [4] + [5] * (len(buffers) - i - 1))
            assert status == "WRONG_SHAPE" and (text or "").startswith(f"{name}: {buffers[i].name}"), (status, text)
    assert run([9] * len(buffers))[0] == "BAD_SIZE"


@pytest.mark.parametrize("interface", PACKED)
def test_build_and_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interface: Interface) -> None:
    path, out = saved(perceptron(), tmp_path), tmp_path / "out"
    assert assay(monkeypatch, "build", path, "-o", out, "--interface", str(interface)) == 0
    assert assay(monkeypatch, "verify", out, "--model", path) == 0


def test_a_kernel_whose_dims_may_leave_64_bits() -> None:
    """Anybody may call it, and only the entry knows that its symbols are not large together."""
    n, m, a, b, c = (Var(name, INT64) for name in "nmabc")
    x, y = Buffer("x", (n, m), FLOAT32), Buffer("y", (n * m,), FLOAT32)
    flat = PrimFunc("flat", (x, y), 1, loops("i j", (n, m), lambda i, j: store(y, i * m + j, x[i, j])))
    types = [TensorType(s, FLOAT32) for s in ((a, b * c), (b * c, a), (b, c))]
    params = [graph.var(f"x{k}", t) for k, t in enumerate(types)]
    whole = TensorType((a * (b * c),), FLOAT32), TensorType(((b * c) * a,), FLOAT32)
    calls = [graph.call_tir("flat", [p], t) for p, t in zip(params, whole, strict=False)]
    names = [graph.var(f"y{k}", t) for k, t in enumerate(whole)]
    body = graph.let(names[0], calls[0], graph.let(names[1], calls[1], graph.tuple_of(*names)))
    module = plan_pools(find_lives(Module({"main": graph.function(params, body), "flat": flat})))
    assert emit(module, "m").sizes
    with pytest.raises(Unsupported, match="flat may leave 64 bits") as caught:
        emit(module, "m", interface=Interface.PACKED)
    assert caught.value.label == "c.C6"


def test_inputs_in_pools_beside_symbols_have_no_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", saved(perceptron(), tmp_path), "--io-in-pools") == 2
    assert "x lies in a pool [c.C6]" in capsys.readouterr().err
