"""Tensor functions of the peer TVM: their text is read and means what TVM computes, and TVM reads what is printed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")

import tvm
import tvm_ffi
from tvm.script import from_source

from assay.interp import tensor, vector
from assay.interp.binding import shape_at
from assay.semantics.errors import Invalid
from assay.semantics.scalar import variables
from assay.semantics.tensor import Block, PrimFunc, program_order
from tests.interp.programs import Array, same_bits
from tests.lower.legalize.kernel_check import data, kernel
from tests.semantics.text.test_text_tensor import check_identity, printed, read
from tests.semantics.tvm_modules import OPERATORS, SCHEDULES, fused_module, kernels, operator_module, scheduled, stages

pytestmark = pytest.mark.peer

SIZE = 3
"""What symbolic dims stand for."""


def as_tvm_reads(text: str) -> Any:
    return from_source(text, check_well_formed=False)


def rounded(text: str) -> str:
    """The text with literals as their dtype holds them: TVM keeps more digits than a float32 has."""

    def literal(match: re.Match[str]) -> str:
        name, number = match.groups()
        return f"T.{name}({float(np.dtype(name).type(float(number)))!r})"

    return re.sub(r"T\.(float16|float32)\((-?[0-9][0-9.e+-]*)\)", literal, text)


def same_in_tvm(func: PrimFunc, text: str) -> bool:
    """Whether TVM reads what we print of a function as what it printed itself."""
    return bool(tvm_ffi.structural_equal(as_tvm_reads(printed(func)), as_tvm_reads(rounded(text)), map_free_vars=True))


def inputs_of(func: PrimFunc) -> list[Array]:
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for b in func.inputs:
        shape = tuple(d if isinstance(d, int) else SIZE for d in b.shape)
        if b.name == "j":  # indices into two rows
            found.append(np.array([[0, 1, 1, 0]]))
        elif b.dtype.is_float:
            found.append((rng.standard_normal(shape) * 2).astype(b.dtype.numpy))
        elif b.dtype.is_integer:
            found.append(rng.integers(1, 3, shape).astype(b.dtype.numpy))
        else:
            found.append(rng.integers(0, 2, shape).astype(bool))
    return found


def compiled(peer: Any, func: PrimFunc, inputs: list[Array]) -> list[Array]:
    """What TVM's own machine code computes."""
    library = tvm.compile(tvm.IRModule({"main": peer.with_attr("global_symbol", "main")}), target="llvm")
    dims = {v: SIZE for b in func.params for d in b.shape for v in variables(d)}
    outputs = [np.zeros(shape_at(b, dims), b.dtype.numpy) for b in func.outputs]
    arguments = [tvm.runtime.tensor(x) for x in (*inputs, *outputs)]
    library["main"](*arguments)
    return [a.numpy() for a in arguments[len(inputs) :]]


def close(got: Array, want: Array) -> bool:
    if got.dtype.kind in "iub":
        return np.array_equal(got, want)
    loose = 2e-3 if got.dtype == np.float16 else 2e-5
    return bool(np.allclose(got.astype("f8"), want.astype("f8"), rtol=loose, atol=loose / 20, equal_nan=True))


def check_stages(module: Any, last: str = "T3") -> None:
    """Each kernel at each stage: read, printed and read by TVM, run here and there."""
    wanted: dict[str, list[Array]] = {}
    for stage, at in stages(module):
        for name, peer in kernels(at).items():
            text = peer.script()
            func = read(text)
            check_identity(func)
            # what a pragma hangs on has no meaning, and is not kept
            assert same_in_tvm(func, text) or 'T.attr(j_0, "pragma' in text, f"{name} at {stage}:\n{printed(func)}"
            inputs = inputs_of(func)
            if stage == "T0":
                wanted[name] = compiled(peer, func, inputs)
            got = vector.run(func, inputs)
            assert all(map(close, got, wanted[name])), f"{name} at {stage}: {got} {wanted[name]}"
            try:
                assert all(map(same_bits, got, tensor.run(func, inputs, limit=4000)))
            except tensor.Unfinished:
                pass  # too long for one scalar operation after another
        if stage == last:
            return


@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_of_operators(name: str) -> None:
    check_stages(operator_module(name))


def test_fused_kernels() -> None:
    module = fused_module()
    assert any("fused" in name for name in kernels(module))
    check_stages(module)


@pytest.mark.parametrize("name", SCHEDULES)
def test_scheduled_kernels(name: str) -> None:
    check_stages(scheduled(name), "T1" if name == "tiled" else "T3")


OURS: dict[str, tuple[list[Array], tuple[int, ...], dict[str, Any]]] = {
    "add": ([data((2, 3)), data((3,))], (2, 3), {}),
    "negative": ([data((2, 3))], (2, 3), {}),
    "nn.relu": ([data((2, 3))], (2, 3), {}),
    "nn.softmax": ([data((2, 3))], (2, 3), {}),
    "matmul": ([data((2, 3)), data((3, 4))], (2, 4), {}),
    "nn.max_pool2d": ([data((1, 2, 4, 4))], (1, 2, 2, 2), {"pool_size": (2, 2), "strides": (2, 2)}),
    "nn.conv2d": ([data((1, 2, 5, 5)), data((3, 2, 3, 3))], (1, 3, 3, 3), {}),
    "mean": ([data((2, 3))], (2,), {"axis": (1,)}),
    "permute_dims": ([data((2, 3))], (3, 2), {}),
    "nn.layer_norm": ([data((2, 3)), data((3,)), data((3,))], (2, 3), {"axes": (1,)}),
    "floor_divide": ([data((4,), "int32"), data((4,), "int32", 1) * 2 + 1], (4,), {}),
    "nn.gelu": ([data((2, 3))], (2, 3), {}),
}


@pytest.mark.parametrize("name", OURS)
def test_tvm_compiles_our_kernels(name: str) -> None:
    """What we print of our own kernels computes in TVM what it computes here."""
    inputs, shape, attrs = OURS[name]
    func = kernel(name, inputs, np.zeros(shape, inputs[0].dtype), **attrs)
    text = printed(func).replace("T.parallel(", "T.serial(")  # TVM takes no parallel loop inside another
    want = compiled(as_tvm_reads(text), func, inputs)
    assert all(map(close, vector.run(func, inputs), want))


def test_vectors_of_lowered_loops_are_their_lanes() -> None:
    """After VectorizeLoop: slices, T.Ramp and T.Broadcast."""
    text = dict(stages(scheduled("tiled")))["T3"]["main"].script()
    assert "T.Broadcast(" in text or "T.Ramp(" in text
    func = read(text)
    inputs = inputs_of(func)
    want = compiled(scheduled("tiled")["main"], func, inputs)
    assert all(map(close, vector.run(func, inputs), want))


def test_a_schedule_that_computes_too_little_is_seen() -> None:
    """The comparison is not blind: a changed literal is another function, for TVM and by its results."""
    text = scheduled("padded")["main"].script()
    func = read(text)
    assert any(isinstance(s, Block) for s in program_order(func.body))
    assert same_in_tvm(func, text)
    changed = text.replace("v0 < 32", "v0 < 31")
    assert changed != text and not same_in_tvm(func, changed)
    inputs = inputs_of(func)
    want = compiled(scheduled("padded")["main"], func, inputs)
    assert close(vector.run(func, inputs)[0], want[0]) and not close(vector.run(read(changed), inputs)[0], want[0])


EXTRA = """
@T.prim_func(s_tir=True)
def f(A: T.Buffer((16, 16), "float32"), n: T.int64, m: T.int32):
    for i, j in T.grid(2, 4):
        with T.sblock("b"):
            vi = T.axis.spatial((1, 3), i + 1)
            vj = T.axis.opaque(4, j)
            T.where(i < 1)
            T.reads(A[vi * 8:vi * 8 + 8, vj])
            T.writes(A[vi * 8 - 8:vi * 8, 0:16])
            T.sblock_attr({"x": 1, "y": "z", "w": [1, 2], "q": {"a": T.int64(3)}})
            B = T.match_buffer(A[vi * 8 - 8:vi * 8, 0:16], (8, 16), "float32", offset_factor=1)
            C = T.sblock_alloc_buffer((4,), "int8", scope="local")
            with T.init():
                B[0, 0] = T.float32(0)
            for k in T.serial(2, 8):
                B[k, 0] = T.float32("nan")
            while B[0, 0] < T.float32(1):
                B[0, 0] = B[0, 0] + T.float32("inf")
            assert n > 3, "bad n"
            with T.attr({"pragma_x": 3}):
                T.evaluate(n)
            x: T.let[T.float32] = B[0, 0]
            y: T.int64 = n + 1
            T.evaluate(x)
            for k in T.serial(8, annotations={"a": 1}):
                if k < 3:
                    B[k, 0] = T.float32(1) / T.float32(3)
                else:
                    B[k, 0] = T.if_then_else(n < 3, T.float32(1), T.float32(2))
            D = T.alloc_buffer((4, 4), "float32")
            D[0, 0] = T.float32(1)
            E = T.decl_buffer((16,), "float32", data=D.data)
            E[0] = T.float32(3)
            E[1] = T.Cast("float32", T.Div(T.int64(3), n))
            C[0] = T.int8(1)
            B[T.Mod(m, 3), T.truncdiv(m, 3)] = T.nearbyint(B[0, 0])
            B[m & 3, T.int32(0)] = T.Cast("float32", m << 2)
            B[~m, m * -1] = T.Cast("float32", T.bitwise_and(n < 3, n > 4))
            y = y + T.int64(1)
"""


def test_rare_words_come_back_from_tvm() -> None:
    text = as_tvm_reads(EXTRA).script()
    func = read(text)
    check_identity(func)
    assert same_in_tvm(func, text)


def test_infinities_and_nan_come_back_from_tvm() -> None:
    for number in ("inf", "-inf", "nan"):
        func = read(
            f'@T.prim_func(s_tir=True)\ndef f(o: T.Buffer((1,), "float32")):\n    o[0] = T.float32("{number}")\n'
        )
        assert same_in_tvm(func, as_tvm_reads(printed(func)).script())


def test_what_tvm_calls_and_we_do_not_know_is_refused() -> None:
    text = as_tvm_reads(
        '@T.prim_func\ndef f(o: T.Buffer((1,), "float32")):\n    o[0] = T.Cast("float32", T.tvm_warp_activemask())\n'
    ).script()
    with pytest.raises(Invalid, match="T.tvm_warp_activemask is not handled"):
        read(text)
