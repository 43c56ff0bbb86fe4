"""Tensor functions of TVM, each call on its own: run here, in block form and in flat form, they give what TVM's code
gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, tensor, vector
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.bounds import Bounded, contains
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.tensor import Alias, Block, PrimFunc, program_order
from assay.verify.compare import is_transcendental
from tests.lower.frontends.tvm.tvm_models import Compiled, compiled, flat, kernel_calls, relax, tvm

I = tvm.script.ir  # noqa: E741
T = tvm.script.tirx
op = relax.op

pytestmark = pytest.mark.peer

Array = np.ndarray[Any, Any]
S = (2, 3, 4)
F, L = "float32", "int64"
Operand = tuple[tuple[int, ...], str, float, float]


def floats(*shapes: tuple[int, ...], low: float = -2, high: float = 2) -> list[Operand]:
    return [(s, F, low, high) for s in shapes]


def whole(of: str, *shapes: tuple[int, ...], low: float = 0, high: float = 7) -> list[Operand]:
    return [(s, of, low, high) for s in shapes]


Row = tuple[Callable[..., Any], list[Operand]]

UNARY = "abs ceil floor round negative sign square exp sigmoid tanh erf isfinite isinf isnan trunc".split()
BINARY = (
    "add subtract multiply divide maximum minimum floor_divide equal less less_equal greater greater_equal not_equal"
).split()
CASTS = "float32 float64 float16 int8 uint8 int32 int64 bool".split()

GROUPS: dict[str, list[Row]] = {
    "elementwise": [
        *((getattr(op, n), floats(S)) for n in UNARY),
        *((getattr(op, n), floats(S, low=0.1)) for n in ("sqrt", "rsqrt", "log")),
        *((getattr(op, n), floats(S, (3, 1))) for n in BINARY),
        (op.power, floats(S, S, low=0.1)),
        (lambda x: op.clip(x, -1, 1), floats(S)),
        (op.where, [(S, "bool", 0, 1), *floats(S, S)]),
        (op.nn.relu, floats(S)),
        (lambda x: op.nn.leakyrelu(x, 0.1), floats(S)),
        (op.nn.gelu, floats(S)),
        (op.nn.silu, floats(S)),
        (lambda x, a: op.nn.prelu(x, a, 1), floats(S, (3,))),
    ],
    "integers": [
        *(
            (getattr(op, n), whole(of, S, S, low=1))
            for n in "add subtract multiply divide floor_divide mod floor_mod maximum minimum less".split()
            for of in ("int8", "uint8", "int32", L)
        ),
        *((getattr(op, n), whole("int32", S, S, low=-9, high=9)) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")),
        (op.bitwise_not, whole("int32", S)),
        *((getattr(op, n), whole("int32", S, S)) for n in ("left_shift", "right_shift")),
        *((getattr(op, n), whole("bool", S, S, high=1)) for n in ("logical_and", "logical_or", "logical_xor")),
        (op.logical_not, whole("bool", S, high=1)),
    ],
    "casts": [
        (lambda x, to=b: op.astype(x, to), [(S, a, 0, 3)]) for a in CASTS for b in CASTS if a != b
    ],
    "reductions": [
        (lambda x: op.sum(x, axis=1), floats(S)),
        (lambda x: op.mean(x, axis=[0, 2]), floats(S)),
        (lambda x: op.max(x, axis=2, keepdims=True), floats(S)),
        (lambda x: op.min(x), floats(S)),
        (lambda x: op.prod(x, axis=0), floats(S)),
        (lambda x: op.variance(x, axis=1), floats(S)),
        (lambda x: op.argmax(x, axis=1), floats(S)),
        (lambda x: op.argmin(x, axis=2), floats(S)),
        (lambda x: op.cumsum(x, axis=1), floats(S)),
        (lambda x: op.cumprod(x, axis=1), floats(S)),
        (lambda x: op.nn.softmax(x, 1), floats(S)),
        (lambda x: op.nn.log_softmax(x, -1), floats(S)),
        (lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]), floats(S, (4,), (4,))),
        (lambda x, g: op.nn.rms_norm(x, g, axes=[-1]), floats(S, (4,))),
        (lambda x, g, b, m, v: op.nn.batch_norm(x, g, b, m, v, axis=1), floats(S, *[(3,)] * 4, low=0.5)),
        (lambda x, g, b: op.nn.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2]),
            floats((2, 4, 5), (4,), (4,))),
    ],
    "movement": [
        (lambda x: op.permute_dims(x, [2, 0, 1]), floats(S)),
        (lambda x: op.reshape(x, (4, 6)), floats(S)),
        (lambda a, b: op.concat([a, b], axis=1), floats(S, (2, 5, 4))),
        (lambda x: op.split(x, 2, axis=2), floats(S)),
        (lambda x: op.expand_dims(x, 1), floats(S)),
        (lambda x: op.broadcast_to(x, (5, 2, 3, 4)), floats(S)),
        (lambda x: op.flip(x, 1), floats(S)),
        (lambda x: op.tile(x, (2, 1, 3)), floats(S)),
        (lambda x: op.repeat(x, 3, 1), floats(S)),
        (lambda x: op.tril(x, 1), floats(S)),
        (lambda x: op.triu(x), floats(S)),
        (lambda x: op.strided_slice(x, [1, 2], [0, 3], [3, 0], [2, -1]), floats(S)),
        (lambda x: op.nn.pad(x, [0, 0, 1, 2, 3, 0]), floats(S)),
        (lambda x: op.nn.pad(x, [0, 0, 1, 1, 1, 0], "reflect"), floats(S)),
        (lambda x, i: op.take(x, i, axis=1), [*floats(S), ((5,), L, 0, 2)]),
        (lambda x, i: op.gather_elements(x, i, axis=1), [*floats(S), ((2, 2, 4), L, 0, 2)]),
        (lambda x, i: op.gather_nd(x, i), [*floats(S), ((5, 2), L, 0, 1)]),
        (lambda x, i, u: op.scatter_elements(x, i, u, axis=1), [*floats(S), ((2, 1, 4), L, 0, 2), *floats((2, 1, 4))]),
        (lambda x, i, u: op.scatter_nd(x, i, u), [*floats(S), ((1, 1), L, 0, 1), *floats((1, 3, 4))]),
        (lambda a, b: op.stack([a, b], 1), floats(S, S)),
        (lambda x: op.image.resize2d(x, (7, 7), layout="NCHW", method="linear"), floats((1, 2, 4, 4))),
        (lambda x: op.image.resize2d(x, (7, 7), layout="NCHW", method="nearest_neighbor"), floats((1, 2, 4, 4))),
    ],
    "contraction": [
        (op.matmul, floats((3, 4), (4, 5))),
        (op.matmul, floats((2, 3, 4), (4, 5))),
        (lambda a, b: op.matmul(a, b, out_dtype="int32"), whole("int8", (3, 4), (4, 5))),
        (lambda x, w: op.nn.conv1d(x, w, strides=2, padding=1), floats((1, 3, 8), (4, 3, 3))),
        (lambda x, w: op.nn.conv2d(x, w, strides=2, padding=1, dilation=2), floats((1, 3, 9, 9), (4, 3, 3, 3))),
        (lambda x, w: op.nn.conv2d(x, w, groups=3, padding=1), floats((1, 3, 6, 6), (3, 1, 3, 3))),
        (lambda x, w: op.nn.conv2d(x, w, groups=2), floats((1, 4, 6, 6), (6, 2, 3, 3))),
        (lambda x, w: op.nn.conv2d_transpose(x, w, strides=2, padding=1), floats((1, 3, 5, 5), (3, 4, 3, 3))),
        (lambda x, w: op.nn.conv3d(x, w), floats((1, 2, 4, 4, 4), (3, 2, 2, 2, 2))),
        (lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), padding=1), floats((1, 2, 7, 7))),
        (lambda x: op.nn.avg_pool2d(x, (3, 3), (2, 2), padding=1), floats((1, 2, 7, 7))),
        (
            lambda x: op.nn.avg_pool2d(x, (3, 3), (2, 2), padding=1, count_include_pad=True, ceil_mode=True),
            floats((1, 2, 8, 8)),
        ),
        (lambda q, k, v: op.nn.attention(q, k, v), floats(*[(1, 4, 2, 8)] * 3)),
    ],
}  # fmt: skip


def data(operand: Operand, random: np.random.Generator) -> Array:
    shape, of, low, high = operand
    if of == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if "int" in of:
        return random.integers(int(low), int(high) + 1, shape).astype(of)
    return random.uniform(low, high, shape).astype(of)


def together(rows: list[Row]) -> tuple[Any, dict[str, Array]]:
    """One function whose results are those of all the rows, and inputs for it."""
    random = np.random.default_rng(3)
    builder = relax.BlockBuilder()
    operands = [o for _, given in rows for o in given]
    inputs = {f"x{i}": data(o, random) for i, o in enumerate(operands)}
    params = [relax.Var(f"x{i}", relax.TensorType(o[0], o[1])) for i, o in enumerate(operands)]
    with builder.function("main", params):
        with builder.dataflow():
            rest, made = list(params), []
            for make, given in rows:
                made.append(builder.emit(make(*rest[: len(given)])))
                rest = rest[len(given) :]
            out = builder.emit_output(relax.Tuple(made))
        builder.emit_func_output(out)
    return builder.get(), inputs


@cache
def built(group: str) -> tuple[Compiled, list[tuple[str, list[Any], list[Any]]]]:
    """All operators of a group, compiled, and the calls of their kernels in a run."""
    mod, inputs = together(GROUPS[group])
    code = compiled(mod)
    return code, kernel_calls(code.machine, inputs)


def stage(code: Compiled, name: str) -> Module:
    """The module after the last run of a pass that left all kernels in it."""
    found = [m for n, m in code.snapshots if n == name]
    module = from_tvm(max(found, key=lambda m: len(m.functions)))
    rules.check(module)
    return module


STAGES = {"block form": "LegalizeOps", "flat form": "tirx.CommonSubexprElim"}


@pytest.mark.parametrize("form", STAGES)
@pytest.mark.parametrize("group", GROUPS)
def test_each_kernel_gives_what_tvm_gives(group: str, form: str) -> None:
    code, calls = built(group)
    module = stage(code, STAGES[form])
    judged = 0
    for name, before, after in calls:
        if name.startswith("vm."):
            continue
        assert difference(module.kernel(name), before, after) is None, name
        judged += 1
    assert judged >= len(GROUPS[group]) - 3
    statements = [s for k in module.kernels.values() for s in program_order(k.body)]
    assert any(isinstance(s, Block) for s in statements) == (form == "block form")
    assert any(isinstance(s, Alias) for s in statements) == (form == "flat form")


REFUSED = {"integers": 6, "reductions": 2, "movement": 6, "contraction": 1}
"""How many operators of a group have no meaning before they are tensor functions: they are refused by name."""


@pytest.mark.parametrize("group", GROUPS)
def test_each_operator_allows_what_tvm_gives(group: str) -> None:
    """TVM's result lies in the bounds of the operator that its call is imported as, and has its type."""
    rows, refused = [], 0
    for row in GROUPS[group]:
        try:
            from_tvm(together([row])[0])
            rows.append(row)
        except Unsupported as wrong:
            assert re.search(r"the operator R\.[\w.]+ is not handled", str(wrong))
            refused += 1
    assert refused == REFUSED.get(group, 0)
    mod, inputs = together(rows)
    module = from_tvm(mod)
    rules.check(module)
    allowed = flat(tuple(graph.run(module, inputs, bounds=True).values()))
    want = flat(compiled(mod)(*inputs.values()))
    assert len(allowed) == len(want) >= len(rows)
    for number, (a, w) in enumerate(zip(allowed, want, strict=True)):
        if isinstance(a, Bounded):
            assert np.all(contains(a, w)), (number, a.value, w)
        else:
            assert (a.shape, a.dtype, a.tobytes()) == (w.shape, w.dtype, w.tobytes()), number


def difference(kernel: PrimFunc, before: list[Any], after: list[Any]) -> str | None:
    """Where a kernel's results here are not those of TVM: bit for bit; if anything transcendental is in it, within 4
    units in the last place of the largest number that it has to do with."""
    arrays = [v for v in before if isinstance(v, np.ndarray)]
    scalars = [v for v in before if not isinstance(v, np.ndarray)]
    want = [v for v in after if isinstance(v, np.ndarray)][len(kernel.inputs) :]
    inputs = arrays[: len(kernel.inputs)]
    got = tensor.run(kernel, inputs, scalars=scalars)
    fast = vector.run(kernel, inputs, scalars=scalars)
    inexact = is_transcendental(Module({kernel.name: kernel}))
    for g, f, w in zip(got, fast, want, strict=True):
        if (g.dtype, g.shape) != (w.dtype, w.shape):
            return f"{g.dtype}{g.shape} for {w.dtype}{w.shape}"
        if g.tobytes() != f.tobytes():
            return "the vector interpreter differs from the definition"
        if g.tobytes() != w.tobytes() and not np.array_equal(g, w, equal_nan=g.dtype.kind == "f"):
            largest = max([1, *(float(np.max(np.abs(x))) for x in (w, *inputs) if x.dtype == w.dtype)])
            if not inexact or np.max(np.abs(g - w)) > 4 * np.spacing(w.dtype.type(largest)):
                return f"{g} for {w}"
    return None


def test_a_planted_fault_in_a_kernel_is_found() -> None:
    """A kernel under another's name differs: sums for products."""
    code, calls = built("elementwise")
    module = stage(code, "LegalizeOps")
    before, after = next((b, a) for n, b, a in calls if n == "add")
    assert difference(module.kernel("add"), before, after) is None
    wrong = replace(module.kernel("multiply"), name="add")
    assert difference(wrong, before, after) is not None


# --- where the rules of both meet ---------------------------------------------------------------------------------


@I.ir_module
class Division:
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((16,), "int32"),
        b: T.Buffer((16,), "int32"),
        q: T.Buffer((16,), "int32"),
        r: T.Buffer((16,), "int32"),
        fq: T.Buffer((16,), "int32"),
        fr: T.Buffer((16,), "int32"),
    ):
        for i in range(16):
            with T.sblock("all"):
                vi = T.axis.spatial(16, i)
                q[vi] = T.truncdiv(a[vi], b[vi])
                r[vi] = T.truncmod(a[vi], b[vi])
                fq[vi] = T.floordiv(a[vi], b[vi])
                fr[vi] = T.floormod(a[vi], b[vi])


def run_alone(mod: Any, *inputs: Array, results: list[Array]) -> tuple[tuple[Array, ...], list[Array]]:
    """What the one function gives here and in TVM."""
    given = [tvm.runtime.tensor(np.array(x)) for x in (*inputs, *results)]
    tvm.compile(mod, "llvm")(*given)
    got = tensor.run(from_tvm(mod).kernel("main"), inputs)
    return got, [g.numpy() for g in given[len(inputs) :]]


def test_division_of_integers() -> None:
    a, b = (x.reshape(16).astype(np.int32) for x in np.meshgrid([-7, 7, -8, 8], [-3, 3, -2, 2]))
    got, want = run_alone(Division, a, b, results=[np.zeros(16, np.int32)] * 4)
    assert [g.tolist() for g in got] == [w.tolist() for w in want]
    assert got[0].tolist() != got[2].tolist()


@I.ir_module
class Missing:
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((4,), "float32"),
        b: T.Buffer((4,), "float32"),
        largest: T.Buffer((4,), "float32"),
        least: T.Buffer((4,), "float32"),
        other: T.Buffer((4,), "bool"),
        not_less: T.Buffer((4,), "bool"),
    ):
        for i in range(4):
            with T.sblock("all"):
                vi = T.axis.spatial(4, i)
                largest[vi] = T.max(a[vi], b[vi])
                least[vi] = T.min(a[vi], b[vi])
                other[vi] = a[vi] != b[vi]
                not_less[vi] = T.Not(a[vi] < b[vi])


def test_where_tvm_takes_nan_otherwise() -> None:
    """Its minimum and maximum are the second operand unless the comparison holds, its `!=` is false on NaN, and it
    takes `not a < b` for `a >= b`. Ours follow IEEE 754, and NaN is never lost (rule M5)."""
    nan = float("nan")
    a, b = np.array([nan, 1, nan, 0], np.float32), np.array([1, nan, nan, -0.0], np.float32)
    none = [np.zeros(4, np.float32)] * 2 + [np.zeros(4, bool)] * 2
    got, want = run_alone(Missing, a, b, results=none)
    assert [str(g.tolist()) for g in got] == [
        "[nan, nan, nan, 0.0]", "[nan, nan, nan, -0.0]", "[True, True, True, False]", "[True, True, True, True]",
    ]  # fmt: skip
    assert [str(w.tolist()) for w in want] == [
        "[1.0, nan, nan, -0.0]", "[1.0, nan, nan, -0.0]", "[False, False, False, False]", "[False, False, False, True]",
    ]  # fmt: skip


@I.ir_module
class Lazy:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((6,), "float32")):
        for i in range(6):
            with T.sblock("all"):
                vi = T.axis.spatial(6, i)
                b[vi] = T.Select(T.And(vi >= 1, vi < 5), a[vi - 1], T.float32(0))


def test_a_select_is_lazy_where_a_branch_can_fail() -> None:
    """TVM makes it lazy in a later pass; both before and after that it means the same."""
    x = np.arange(4, dtype=np.float32)
    got, want = run_alone(Lazy, x, results=[np.zeros(6, np.float32)])
    assert got[0].tolist() == want[0].tolist() == [0, 0, 1, 2, 3, 0]


@I.ir_module
class Empty:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((2, 0), "float32"), b: T.Buffer((2,), "float32")):
        for i, k in T.grid(2, 0):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    b[vi] = T.float32(0)
                b[vi] = b[vi] + a[vi, vk]


def test_a_reduction_over_nothing_never_begins() -> None:
    """TVM returns whatever was in the memory; here that is a trap."""
    with pytest.raises(Trap, match="never written"):
        tensor.run(from_tvm(Empty).kernel("main"), [np.zeros((2, 0), np.float32)])


@I.ir_module
class Vectors:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32x4"), b: T.Buffer((4,), "float32x4")):
        for i in range(4):
            with T.sblock("all"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi]


def test_elements_that_are_vectors_are_one_dimension_more() -> None:
    func = from_tvm(Vectors).kernel("main")
    assert [b.shape for b in func.params] == [(4, 4), (4, 4)]
    (got,) = tensor.run(func, [A := np.arange(16, dtype=np.float32).reshape(4, 4)])
    assert np.array_equal(got, A)
