"""Real modules of the peer TVM, at the stages that its CPU pipeline goes through. Import only where tvm is
installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tvm import relax, s_tir, tirx
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.target import Target

R = relax.op
F32 = "float32"

_SHAPES: dict[str, tuple[tuple[Any, ...], str]] = {
    "x": ((2, 3, 8, 8), F32), "w": ((4, 3, 3, 3), F32), "d": ((2, 4), F32), "y": (("n", 4), F32),
    "q": (("n", 4), F32), "i": ((3,), "int64"), "k": ((3,), "int64"), "c": (("n", 4), "bool"), "v": ((3,), F32),
    "h": ((2, 4), "float16"), "j": ((1, 4), "int64"), "u": ((1, 4), F32), "f": ((4,), F32),
}  # fmt: skip

OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    "conv2d": ("x w", lambda x, w: R.nn.conv2d(x, w, padding=(1, 1))),
    "conv2d_strided": ("x w", lambda x, w: R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 0))),
    "conv_transpose": (
        "x", lambda x: R.nn.conv2d_transpose(x, relax.const(np.ones((3, 2, 2, 2), F32)), strides=(2, 2))),
    "relu": ("y", lambda y: R.nn.relu(y)),
    "max_pool2d": ("x", lambda x: R.nn.max_pool2d(x, (2, 2), strides=(2, 2), padding=(1, 1))),
    "avg_pool2d": ("x", lambda x: R.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=False)),
    "global_pool": ("x", lambda x: R.nn.adaptive_avg_pool2d(x, (2, 2))),
    "mean": ("x", lambda x: R.mean(x, axis=[2, 3])),
    "variance": ("d", lambda d: R.variance(d, axis=1)),
    "softmax": ("y", lambda y: R.nn.softmax(y)),
    "log_softmax": ("d", lambda d: R.nn.log_softmax(d)),
    "argmax": ("d", lambda d: R.argmax(d, axis=1)),
    "argmin_all": ("d", lambda d: R.argmin(d)),
    "layer_norm": ("d f", lambda d, f: R.nn.layer_norm(d, f, f, axes=[-1])),
    "group_norm": ("x v", lambda x, v: R.nn.group_norm(x, v, v, 3, 1, [2, 3])),
    "matmul": ("y", lambda y: R.matmul(y, R.permute_dims(y))),
    "matmul_static": ("d", lambda d: R.matmul(R.permute_dims(d), d)),
    "split": ("d", lambda d: R.split(d, 2, axis=1)),
    "concat": ("y q", lambda y, q: R.concat([y, q], axis=1)),
    "stack": ("d", lambda d: R.stack([d, d], axis=0)),
    "gelu": ("y", lambda y: R.nn.gelu(y)),
    "silu": ("y", lambda y: R.nn.silu(y)),
    "leaky": ("y", lambda y: R.nn.leakyrelu(y, 0.1)),
    "take": ("y i", lambda y, i: R.take(y, i, axis=0)),
    "gather": ("d j", lambda d, j: R.gather_elements(d, j, axis=0)),
    "sigmoid": ("y", lambda y: R.sigmoid(y)),
    "isnan": ("y", lambda y: R.isnan(y)),
    "round": ("y", lambda y: R.round(y)),
    "rsqrt": ("d", lambda d: R.rsqrt(R.abs(d))),
    "floor_divide": ("i k", lambda i, k: R.floor_divide(i, k)),
    "mod": ("i k", lambda i, k: R.mod(i, k)),
    "floor_mod": ("i k", lambda i, k: R.floor_mod(i, k)),
    "clip": ("y", lambda y: R.clip(y, -1, float("inf"))),
    "negative": ("y", lambda y: R.negative(y)),
    "to_int8": ("y", lambda y: R.astype(y, "int8")),
    "to_float16": ("y", lambda y: R.astype(y, "float16")),
    "half": ("h", lambda h: R.add(h, R.multiply(h, h))),
    "bitwise_not": ("i", lambda i: R.bitwise_not(i)),
    "bitwise_xor": ("i k", lambda i, k: R.bitwise_xor(i, k)),
    "left_shift": ("i", lambda i: R.left_shift(i, relax.const(1, "int64"))),
    "power": ("d", lambda d: R.power(R.abs(d), d)),
    "trunc": ("y", lambda y: R.trunc(y)),
    "tanh": ("y", lambda y: R.tanh(y)),
    "erf": ("y", lambda y: R.erf(y)),
    "logic": ("y c", lambda y, c: R.logical_and(R.isnan(y), R.logical_or(c, R.logical_not(c)))),
    "pad": ("y", lambda y: R.nn.pad(y, (1, 1, 1, 1), pad_value=float("-inf"))),
    "pad_reflect": ("d", lambda d: R.nn.pad(d, (1, 1, 1, 1), pad_mode="reflect")),
    "tril": ("y", lambda y: R.tril(y)),
    "where": ("y q", lambda y, q: R.where(R.greater(y, q), y, q)),
    "slice": ("x", lambda x: R.strided_slice(x, axes=[2], begin=[1], end=[7], strides=[2])),
    "flip": ("y", lambda y: R.flip(y, axis=1)),
    "one_hot": ("i", lambda i: R.one_hot(i, 1.0, 0.0, 5, 1)),
    "resize": ("x", lambda x: R.image.resize2d(x, (4, 6), method="linear")),
    "prod": ("d", lambda d: R.prod(d, axis=0)),
    "max": ("d", lambda d: R.max(d)),
    "scatter": ("d j u", lambda d, j, u: R.scatter_elements(d, j, u)),
    "cumsum": ("d", lambda d: R.cumsum(d, axis=1)),
    "repeat": ("y", lambda y: R.repeat(y, 2, axis=0)),
    "tile": ("d", lambda d: R.tile(d, (2, 1))),
    "reshape": ("d", lambda d: R.reshape(d, (8,))),
    "batch_norm": ("x v", lambda x, v: R.nn.batch_norm(x, v, v, v, v, axis=1)),
    "attention": ("x", lambda x: R.nn.attention(x, x, x)),
    "eye": ("", lambda: R.eye(3, 4)),
    "arange": ("", lambda: R.arange(0, 10, 2, "int64")),
}  # fmt: skip
"""One call of each operator, and the names of its operands."""


def operator_module(name: str) -> Any:
    """A module with one call of an operator, legalized: its kernels are tensor functions in block form."""
    operands, make = OPERATORS[name]
    symbols = {"n": tirx.Var("n", "int64")}
    params = []
    for p in operands.split():
        shape, dtype = _SHAPES[p]
        params.append(relax.Var(p, relax.TensorType([symbols.get(d, d) for d in shape], dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(make(*params)))
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.finalize())


def fused_module() -> Any:
    """Chains of operators whose kernels TVM has fused, static and dynamic."""
    shapes = {
        "x": ((2, 3, 8, 8), F32),
        "w": ((4, 3, 3, 3), F32),
        "b": ((4, 1, 1), F32),
        "y": ((tirx.Var("n", "int64"), 4), F32),
    }
    x, w, b, y = (relax.Var(k, relax.TensorType(list(shape), of)) for k, (shape, of) in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, b, y]):
        with builder.dataflow():
            conv = builder.emit(R.nn.relu(builder.emit(R.add(builder.emit(R.nn.conv2d(x, w, padding=(1, 1))), b))))
            pool = builder.emit(R.nn.max_pool2d(builder.emit(R.sigmoid(conv)), (2, 2), strides=(2, 2)))
            rows = builder.emit(R.multiply(builder.emit(R.nn.softmax(y)), builder.emit(R.exp(y))))
            pad = builder.emit(R.nn.pad(builder.emit(R.nn.leakyrelu(rows, 0.2)), (1, 1, 0, 2)))
            out = builder.emit_output(builder.emit(relax.Tuple([pool, pad])))
        builder.emit_func_output(out)
    module = builder.finalize()
    for step in ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR"):
        module = getattr(relax.transform, step)()(module)
    return module


def kernels(module: Any) -> dict[str, Any]:
    """The tensor functions of a module by name."""
    return {v.name_hint: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}


def stages(module: Any) -> Iterator[tuple[str, Any]]:
    """The module in block form (T0), with blocks lowered (T1), flat (T2) and simplified (T3)."""
    s, x = s_tir.transform, tirx.transform
    target = Target("llvm")
    yield "T0", module
    steps = {
        "T1": [
            x.BindTarget(target.with_host(target)), s.CanonicalizeLoop(), s.LowerCrossThreadReduction(),
            s.LowerInitBlock(), s.PlanAndUpdateBufferAllocationLocation(), s.ConvertBlocksToOpaque(),
            s.LiftThreadBinding(), s.ManifestSharedMemoryLocalStage(), s.CompactBufferAllocation(), s.LowerAutoCopy(),
            s.UnifyThreadBinding(), s.LowerMatchBuffer(), s.StmtSimplify(), s.InjectPermutedLayout(),
            s.AnnotateIrregularLoop(), s.InjectSoftwarePipeline(), s.TransformMmaBufferLayout(), s.LowerOpaqueBlock(),
        ],
        "T2": [
            x.FlattenBuffer(), x.BF16ComputeLegalize(), x.NarrowDataType(32), s.LoopPartition(), x.VectorizeLoop(True),
            s.InjectVirtualThread(), s.InjectDoubleBuffer(), x.StorageRewrite(),
        ],
        "T3": [
            s.HoistIfThenElse(), x.UnrollLoop(), s.RenormalizeSplitPattern(), x.StmtSimplify(), x.RemoveNoOp(),
            s.RewriteUnsafeSelect(), x.CommonSubexprElim(),
        ],
    }  # fmt: skip
    with target:
        for name, passes in steps.items():
            for p in passes:
                module = p(module)
            yield name, module


@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((32, 24), "float32"), B: T.Buffer((24, 16), "float32"), C: T.Buffer((32, 16), "float32")):
    for i, j, k in T.grid(32, 16, 24):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def _tiled(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    io, ii = s.split(i, [None, 8])
    jo, ji = s.split(j, [None, 4])
    ko, ki = s.split(k, [None, 5])
    s.reorder(io, jo, ko, ii, ki, ji)
    s.parallel(io)
    s.vectorize(ji)
    s.unroll(ki)
    s.annotate(jo, "pragma_auto_unroll_max_step", 16)
    s.compute_at(s.cache_read(b, 0, "shared"), ko)
    s.reverse_compute_at(s.cache_write(b, 0, "local"), jo)
    s.decompose_reduction(b, ko)


def _rfactor(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    s.rfactor(s.split(k, [None, 6])[0], 0)


def _blockize(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    io, ii = s.split(i, [None, 8])
    jo, ji = s.split(j, [None, 4])
    s.reorder(io, jo, ii, ji, k)
    s.blockize(ii)


def _fused(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    outer, inner = s.split(s.fuse(i, j), [None, 13])
    s.unroll(inner)
    s.parallel(outer)


def _layout(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    s.transform_layout(b, ("read", 1), lambda x, y: (y // 4, x, y % 4))


def _padded(s: Any, b: Any, i: Any, j: Any, k: Any) -> None:
    s.pad_einsum(b, [5, 5, 5])


SCHEDULES: dict[str, Callable[..., None]] = {
    "tiled": _tiled, "rfactor": _rfactor, "blockize": _blockize, "fused": _fused, "layout": _layout, "padded": _padded,
}  # fmt: skip
"""Transformations of the matrix product."""


def scheduled(name: str) -> Any:
    s = Schedule(matmul)
    block = s.get_sblock("C")
    SCHEDULES[name](s, block, *s.get_loops(block))
    return s.mod
