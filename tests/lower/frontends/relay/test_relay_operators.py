"""Relay's operators mean what NumPy says of them, at known sizes and with every size a `?` (row R26)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.relay import parse_relay
from assay.lower.frontends.relay.operators import ROWS
from assay.semantics.errors import Invalid, Unsupported

pytestmark = pytest.mark.row("R26")

F = np.float32
RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 4)).astype(F)
M = RNG.standard_normal((2, 3)).astype(F)
W = RNG.standard_normal((5, 3)).astype(F)
P = RNG.standard_normal((2, 4, 6, 6)).astype(F)
K = RNG.standard_normal((5, 4, 3, 3)).astype(F)
INTS = np.array([-7, 7, 3, -3], np.int32)
TWO = np.full(4, 2, np.int32)
A3, B3, C3, D3 = (RNG.random(3).astype(F) for _ in range(4))
A4, B4 = (RNG.random(4).astype(F) for _ in range(2))


def at(v: Any) -> Any:
    return v[None, :, None]


def normal(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def conv(x: Any, k: Any) -> Any:
    h, w = x.shape[2] - 2, x.shape[3] - 2
    taps = [(i, j) for i in range(3) for j in range(3)]
    return sum(np.einsum("nchw,oc->nohw", x[:, :, i : i + h, j : j + w], k[:, :, i, j]) for i, j in taps)


def padded(x: Any, *widths: Any, **more: Any) -> Any:
    return np.pad(x, widths, **more)


def grouped(x: Any) -> Any:
    return normal(x.reshape(2, 2, 2, 6, 6), (2, 3, 4)).reshape(x.shape)


ROUND = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.2, np.inf], F)
NEAR = sum(padded(P**2, (0, 0), (1, 1), (0, 0), (0, 0))[:, i : i + 4] for i in range(3))
BLOCKS = P.reshape(2, 4, 3, 2, 3, 2)

CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("nn.dense(%x, %w, units=None)", M @ W.T, {"x": M, "w": W}),
    ('nn.dense(%x, %w, units=5, out_dtype="float32")', M @ W.T, {"x": M, "w": W}),
    ("nn.matmul(%x, %w, transpose_b=True)", M @ W.T, {"x": M, "w": W}),
    ("nn.matmul(%x, %w, transpose_a=True)", M.T @ M, {"x": M, "w": M}),
    ("nn.batch_matmul(%x, %y)", X @ X.transpose(0, 2, 1), {"x": X, "y": X}),
    ("nn.batch_matmul(%x, %y, transpose_b=False)", X[:1] @ X.transpose(0, 2, 1),
        {"x": X[:1], "y": X.transpose(0, 2, 1)}),
    ("nn.bias_add(%x, %b)", X + at(A3), {"x": X, "b": A3}),
    ("nn.bias_add(%x, %b, axis=-1)", X + A4, {"x": X, "b": A4}),
    ("round(%x)", [-3, -2, -1, 1, 2, 3, 0, 0, np.inf], {"x": ROUND}),
    ("clip(%x, a_min=-1f, a_max=2f)", np.clip(ROUND, -1, 2), {"x": ROUND}),
    ("clip(%x, a_min=-1f, a_max=300f)", [-1, 7, 3, -1], {"x": INTS.astype(np.int8)}),
    ("divide(%x, %y)", [-3, 3, 1, -1], {"x": INTS, "y": TWO}),
    ("mod(%x, %y)", [-1, 1, 1, -1], {"x": INTS, "y": TWO}),
    ("floor_divide(%x, %y)", [-4, 3, 1, -2], {"x": INTS, "y": TWO}),
    ("floor_mod(%x, %y)", [1, 1, 1, 1], {"x": INTS, "y": TWO}),
    ('cast(%x, dtype="float16")', INTS, {"x": INTS}),
    ("cast_like(%x, %y)", INTS, {"x": INTS, "y": A3}),
    ("mean(%x, axis=[1], exclude=True, keepdims=True)", X.mean((0, 2), keepdims=True), {"x": X}),
    ("mean(%x, axis=[0])", [0], {"x": INTS[:, None]}),
    ("sum(%x, axis=[0, -1])", X.sum((0, 2)), {"x": X}),
    ("sum(%x, axis=0, exclude=1)", X.sum((1, 2)), {"x": X}),
    ("prod(%x, axis=[])", X, {"x": X}),
    ("max(%x)", X.max(), {"x": X}),
    ("min(%x, axis=-1, keepdims=1)", X.min(-1, keepdims=True), {"x": X}),
    ("argmax(%x, axis=[1])", X.argmax(1), {"x": X}),
    ("argmax(%x, axis=0, exclude=True)", X.reshape(2, -1).argmax(1), {"x": X}),
    ("argmin(%x)", X.argmin(), {"x": X}),
    ("argmin(%x, keepdims=True)", X.argmin(keepdims=True), {"x": X}),
    ("logsumexp(%x, axis=[1])", np.log(np.exp(X).sum(1)), {"x": X}),
    ("all(%x, axis=[0])", [True, False], {"x": np.array([[1, 0], [1, 1]], bool)}),
    ("any(%x, axis=[0])", [True, True], {"x": np.array([[1, 0], [1, 1]], bool)}),
    ("variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1])", X.var(1), {"x": X}),
    ("transpose(%x, axes=[2, 0, 1])", X.transpose(2, 0, 1), {"x": X}),
    ("transpose(%x)", X.T, {"x": X}),
    ("reshape(%x, newshape=[0, -1])", X.reshape(2, -1), {"x": X}),
    ("reshape(%x, newshape=[-1, 2], allowzero=False)", X.reshape(-1, 2), {"x": X}),
    ("reshape(%x, newshape=[-3, 0])", X.reshape(6, 4), {"x": X}),
    ("reshape(%x, newshape=[0, 0, -4, 2, -1])", X.reshape(2, 3, 2, 2), {"x": X}),
    ("reshape(%x, newshape=[-4, 1, -1, -2])", X.reshape(1, 2, 3, 4), {"x": X}),
    ("reshape(%x, newshape=[-2])", X, {"x": X}),
    ("reshape_like(%x, %y)", X.reshape(4, 6), {"x": X, "y": np.zeros((4, 6), F)}),
    ("squeeze(%x, axis=[0])", X[0], {"x": X[:1]}),
    ("expand_dims(%x, axis=-1, num_newaxis=2)", X[..., None, None], {"x": X}),
    ("expand_dims(%x, axis=1)", X[:, None], {"x": X}),
    ("concatenate((%x, %y), axis=1)", np.concatenate([X, X[:, :1]], 1), {"x": X, "y": X[:, :1]}),
    ("stack((%x, %y), axis=-1)", np.stack([X, X], -1), {"x": X, "y": X}),
    ("split(%x, indices_or_sections=2, axis=2).1", X[:, :, 2:], {"x": X}),
    ("split(%x, indices_or_sections=[1, 2], axis=1).2", X[:, 2:], {"x": X}),
    ("strided_slice(%x, begin=[0, 1], end=[2, 3])", X[:, 1:3], {"x": X}),
    ("strided_slice(%x, begin=[0, 0, 3], end=[2, 3, 0], strides=[1, 2, -1])", X[:, ::2, 3:0:-1], {"x": X}),
    ('strided_slice(%x, begin=[0, 1], end=[1, -1], slice_mode="size")', X[0:1, 1:], {"x": X}),
    ("strided_slice(%x, begin=[-2], end=[2147483647], strides=[1], axes=[2])", X[:, :, -2:], {"x": X}),
    ("slice_like(%x, %y)", X[:1, :2, :3], {"x": X, "y": np.zeros((1, 2, 3), F)}),
    ("slice_like(%x, %y, axes=[2])", X[:, :, :3], {"x": X, "y": np.zeros((1, 2, 3), F)}),
    ("take(%x, %y, axis=1)", X[:, [0, 2, 2]], {"x": X, "y": np.array([-4, 2, 9], np.int32)}),
    ('take(%x, %y, axis=1, mode="wrap")', X[:, [2, 2, 0]], {"x": X, "y": np.array([-4, 2, 9], np.int32)}),
    ('take(%x, %y, axis=1, mode="fast")', X[:, [2, 0]], {"x": X, "y": np.array([2, 0], np.int32)}),
    ("take(%x, %y)", X.ravel()[[1, 23]], {"x": X, "y": np.array([1, 99], np.int32)}),
    ("reverse(%x, axis=1)", X[:, ::-1], {"x": X}),
    ("tile(%x, reps=[2, 1, 1, 2])", np.tile(X, (2, 1, 1, 2)), {"x": X}),
    ("repeat(%x, repeats=2, axis=1)", X.repeat(2, 1), {"x": X}),
    ("nn.pad(%x, 0f, pad_width=[[0, 0], [1, 2], [0, 1]])", padded(X, (0, 0), (1, 2), (0, 1)), {"x": X}),
    ('nn.pad(%x, pad_width=[[0, 0], [1, 1], [0, 0]], pad_mode="edge")', padded(X, (0, 0), (1, 1), (0, 0), mode="edge"),
        {"x": X}),
    ('nn.mirror_pad(%x, mode="REFLECT", pad_width=[[0, 0], [1, 1], [0, 2]])',
        padded(X, (0, 0), (1, 1), (0, 2), mode="reflect"), {"x": X}),
    ("nn.batch_flatten(%x)", X.reshape(2, -1), {"x": X}),
    ("where(%c, %x, %y)", np.where(X > 0, X, 1), {"c": X > 0, "x": X, "y": np.ones((1, 1, 1), F)}),
    ('one_hot(%x, 1f, 0f, depth=4, axis=-1, dtype="float32")', np.eye(4)[[1, 3]], {"x": np.array([1, 3], np.int32)}),
    ('arange(0, 5, 2, start=0, stop=5, step=2, dtype="int32") + %x', [7, 9, 11], {"x": np.array([7], np.int32)}),
    ('full(2f, shape=[2, 3], dtype="float32") + %x', M + 2, {"x": M}),
    ("full_like(%x, 3f)", np.full((2, 3, 4), 3), {"x": X}),
    ("zeros_like(%x)", X * 0, {"x": X}),
    ("ones_like(%x)", X * 0 + 1, {"x": X}),
    ('dyn.zeros(shape_of(%x), dtype="float32")', X * 0, {"x": X}),
    ('shape_of(%x, dtype="int64")', [2, 3, 4], {"x": X}),
    ("ndarray_size(%x)", 24, {"x": X}),
    ("broadcast_to(%x, shape=[2, 3, 4])", np.broadcast_to(X[:1], (2, 3, 4)), {"x": X[:1]}),
    ("broadcast_to_like(%x, %y)", np.broadcast_to(X[:1], (2, 3, 4)), {"x": X[:1], "y": X}),
    ("dyn.broadcast_to(%x, shape_of(%y))", np.broadcast_to(X[:1], (2, 3, 4)), {"x": X[:1], "y": X}),
    ("dyn.reshape(%x, shape_of(%y))", X.reshape(4, 6), {"x": X, "y": np.zeros((4, 6), F)}),
    ("dyn.reshape(%x, %s)", X.reshape(4, 6), {"x": X, "s": np.array([4, -1], np.int64)}),
    ("dyn.reshape(%x, %s)", X.reshape(2, 12), {"x": X, "s": np.array([0, 12], np.int32)}),
    ("dyn.broadcast_to(%x, %s)", np.broadcast_to(X[:1], (2, 3, 4)), {"x": X[:1], "s": np.array([2, 3, 4], np.int64)}),
    ('dyn.ones(%s, dtype="float32")', np.ones((2, 3)), {"s": np.array([2, 3], np.int64)}),
    ("dyn.strided_slice(%x, %b, %e, %s)", X[:, 0:2, ::-2], {"x": X, "b": np.array([0, 0, 3]), "e": np.array([9, 2, -9]),
        "s": np.array([1, 1, -2])}),
    ("dyn.tile(%x, shape_of(%y))", np.tile(X, (2, 1, 3)),
        {"x": X, "y": np.zeros((2, 1, 3), F)}),
    ("dyn.topk(%x, 2, axis=1).0", -np.sort(-X, 1)[:, :2], {"x": X}),
    ("dyn.one_hot(%x, 1f, 0f, 4, axis=-1, dtype=\"float32\")", np.eye(4)[[1, 3]], {"x": np.array([1, 3], np.int32)}),
    ("dyn.expand_dims(%x, 1)", X[:, None], {"x": X}),
    ("dyn.squeeze(%x, shape_of(%y))", X[:, :1][:, 0], {"x": X[:, :1], "y": np.zeros((1,), F)}),
    ("cumsum(%x, axis=1)", X.cumsum(1), {"x": X}),
    ("cumprod(%x, axis=-1, exclusive=True)", np.concatenate([np.ones((2, 3, 1)), X.cumprod(-1)[:, :, :-1]], -1),
        {"x": X}),
    ("sort(%x, axis=1, is_ascend=False)", -np.sort(-X, 1), {"x": X}),
    ('argsort(%x, axis=1, dtype="int32")', X.argsort(1), {"x": X}),
    ('topk(%x, k=2, axis=2, ret_type="indices", is_ascend=True)', X.argsort(2)[:, :, :2], {"x": X}),
    ("gather(%x, %i, axis=1)", X[:, :1], {"x": X, "i": np.zeros((2, 1, 4), np.int64)}),
    ("gather_nd(%x, %i)", X[[0, 1], [2, 0]], {"x": X, "i": np.array([[0, 1], [2, 0]])}),
    ("scatter_elements(%x, %i, %u, axis=1, reduction=\"add\")", np.concatenate([X[:, :1] * 2, X[:, 1:]], 1),
        {"x": X, "i": np.zeros((2, 1, 4), np.int64), "u": X[:, :1]}),
    ('scatter_nd(%x, %i, %u, mode="add")', X + np.array([0, 1], F)[:, None, None],
        {"x": X, "i": np.array([[1]]), "u": np.ones((1, 3, 4), F)}),
    ("argwhere(%c)", np.argwhere(X > 0), {"c": X > 0}),
    ("reverse_sequence(%x, %n)", np.stack([X[0][[1, 0, 2]], X[1, ::-1]]), {"x": X, "n": np.array([2, 3], np.int32)}),
    ('einsum((%x, %y), equation="ijk,ik->ij")', np.einsum("ijk,ik->ij", X, X[:, 0]), {"x": X, "y": X[:, 0]}),
    ("collapse_sum_like(%x, %y)", X.sum((0, 1))[None], {"x": X, "y": X[0, :1]}),
    ("collapse_sum_to(%x, shape=[3, 1])", X.sum((0, 2))[:, None], {"x": X}),
    ('layout_transform(%x, src_layout="NCW", dst_layout="NWC")', X.transpose(0, 2, 1), {"x": X}),
    ("nn.l2_normalize(%x, eps=1e-12f, axis=[1])", X / np.sqrt((X**2).sum(1, keepdims=True)), {"x": X}),
    (
        "nn.batch_norm(%x, %g, %b, %m, %v, epsilon=1e-3f).0", (X - at(C3)) / np.sqrt(at(D3) + 1e-3) * at(A3) + at(B3),
        {"x": X, "g": A3, "b": B3, "m": C3, "v": D3},
    ),
    ("nn.batch_norm(%x, %g, %b, %m, %v).1", C3, {"x": X, "g": A3, "b": B3, "m": C3, "v": D3}),
    ("nn.layer_norm(%x, %g, %b)", normal(X, -1) * A4 + B4, {"x": X, "g": A4, "b": B4}),
    ("nn.layer_norm(%x, %g, %b, axis=1)", normal(X, 1) * at(A3) + at(B3), {"x": X, "g": A3, "b": B3}),
    ("nn.instance_norm(%x, %g, %b)", normal(X, 2) * at(A3) + at(B3), {"x": X, "g": A3, "b": B3}),
    ("nn.group_norm(%x, %g, %b, num_groups=2)", grouped(P) * A4[:, None, None] + B4[:, None, None],
        {"x": P, "g": A4, "b": B4}),
    ("nn.softmax(%x)", np.exp(X) / np.exp(X).sum(-1, keepdims=True), {"x": X}),
    ("nn.log_softmax(%x, axis=0)", np.log(np.exp(X) / np.exp(X).sum(0)), {"x": X}),
    ("nn.dropout(%x, rate=0.5f).0", X, {"x": X}),
    ("nn.leaky_relu(%x, alpha=0.1f)", np.where(X > 0, X, F(0.1) * X), {"x": X}),
    ("nn.prelu(%x, %a)", np.where(X > 0, X, at(A3) * X), {"x": X, "a": A3}),
    ("nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2])", BLOCKS.max((3, 5)), {"x": P}),
    ("nn.avg_pool2d(%x, pool_size=[2, 2], strides=[2, 2])", BLOCKS.mean((3, 5)), {"x": P}),
    ("nn.max_pool1d(%x, pool_size=[2])", np.maximum(X[:, :, 1:], X[:, :, :-1]), {"x": X}),
    ("nn.global_avg_pool2d(%x)", P.mean((2, 3), keepdims=True), {"x": P}),
    ('nn.global_max_pool2d(%x, layout="NHWC")', P.max((1, 2), keepdims=True), {"x": P}),
    ("nn.adaptive_avg_pool2d(%x, output_size=[3, 3])", BLOCKS.mean((3, 5)), {"x": P}),
    ("nn.adaptive_max_pool2d(%x, output_size=[3, 3])", BLOCKS.max((3, 5)), {"x": P}),
    (
        "nn.depth_to_space(%x, block_size=2)",
        P.reshape(2, 2, 2, 1, 6, 6).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 12, 12), {"x": P},
    ),
    ("nn.space_to_depth(%x, block_size=2)", BLOCKS.transpose(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 3), {"x": P}),
    ("nn.upsampling(%x, scale_h=2f, scale_w=3f)", P.repeat(2, 2).repeat(3, 3), {"x": P}),
    (
        "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=5, kernel_size=[3, 3])",
        conv(padded(P, (0, 0), (0, 0), (1, 1), (1, 1)), K), {"x": P, "w": K},
    ),
    (
        'nn.conv2d(%x, %w, data_layout="NHWC", kernel_layout="HWIO", out_layout="")', conv(P, K).transpose(0, 2, 3, 1),
        {"x": P.transpose(0, 2, 3, 1), "w": K.transpose(2, 3, 1, 0)},
    ),
    ("nn.lrn(%x, size=3)", P / np.power(2 + 1e-5 / 3 * NEAR, 0.75), {"x": P}),
    ("trilu(%x, 0, upper=False)", np.tril(M), {"x": M}),
    ("on_device(device_copy(%x), constrain_result=True)", M, {"x": M}),
    ("sign(%x)", np.sign(M), {"x": M}),
    ("rsqrt(abs(%x))", 1 / np.sqrt(np.abs(M)), {"x": M}),
    ("isfinite(%x)", np.isfinite(ROUND), {"x": ROUND}),
]  # fmt: skip

STATIC = {
    "argmax", "argmin", "collapse_sum_like", "collapse_sum_to", "nn.adaptive_avg_pool2d", "nn.adaptive_max_pool2d",
        "trilu",
    "nn.group_norm", "gather", "gather_nd", "scatter_elements", "scatter_nd", "reverse_sequence", "einsum",
    "dyn.strided_slice", "dyn.tile", "dyn.squeeze",
}  # fmt: skip
"""Operators that are refused, by name, where a size that they need is unknown."""


def module(call: str, given: dict[str, Any], open_: bool = False) -> Any:
    params = []
    for name, v in given.items():
        sizes = ", ".join("?" if open_ else str(d) for d in v.shape)
        params.append(f"%{name}: Tensor[({sizes}), {v.dtype}]")
    return parse_relay(f"def @main({', '.join(params)}) {{ {call} }}")


@pytest.mark.parametrize(("call", "wanted", "given"), CASES, ids=[c for c, _, _ in CASES])
def test_an_operator_computes_what_relay_says(call: str, wanted: Any, given: dict[str, Any]) -> None:
    got = run(module(call, given), given)["output_0"]
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-5)
    if call.partition("(")[0] in STATIC or "s" in given:
        with pytest.raises(Unsupported) as refused:
            module(call, given, open_=True)
        assert refused.value.label == "relay.C12"
        return
    again = run(module(call, given, open_=True), given)["output_0"]
    assert again.dtype == got.dtype
    np.testing.assert_array_equal(again, got)


REFUSED = [
    ("unique(%x)", "relay.C12"),
    ("nn.conv2d_transpose(%x, %x)", "relay.C12"),
    ("memory.alloc_tensor(%x)", "relay.C12"),
    ("reshape(%x, newshape=[5, -1])", "relay.C11"),
    ("reshape(%x, newshape=[7, 7])", "relay.C11"),
    ("reshape(%x, newshape=[-1, -1])", "relay.C11"),
    ("reshape(%x, newshape=[0, 0, 0, 0])", "relay.C11"),
    ("reshape(%x, newshape=[-5])", "relay.C11"),
    ("reshape(%x, newshape=[-4, -1, -1, -2])", "relay.C11"),
    ("split(%x, indices_or_sections=5)", "relay.C11"),
    ("split(%x, indices_or_sections=[2, 1], axis=2)", "relay.C11"),
    ("concatenate(())", "relay.C11"),
    ("concatenate(%x)", "relay.C11"),
    ("strided_slice(%x, begin=[0], end=[1, 2])", "relay.C11"),
    ('strided_slice(%x, begin=[0], end=[1], slice_mode="other")', "relay.C12"),
    ("take(%x, cast(%x, dtype=\"int32\"), batch_dims=1)", "relay.C12"),
    ("nn.dense(%x, %x, %x)", "relay.C11"),
    ("nn.dense(%x)", "relay.C11"),
    ("nn.dense(%x, ones(shape=[2, 4], dtype=\"float32\"), units=3)", "match_cast.C1"),
    ("nn.relu(%x, slope=1)", "relay.C11"),
    ("clip(%x)", "relay.C11"),
    ("nn.softmax(%x, axis=3)", "axis.C1"),
    ('nn.softmax(%x, axis="last")', "relay.C11"),
    ("nn.pad(%x, pad_width=[[0, 0]])", "relay.C11"),
    ('nn.mirror_pad(%x, pad_width=[[0, 0], [0, 0], [0, 0]])', "relay.C12"),
    ('nn.max_pool2d(%x, pool_size=[2, 2], layout="NCHW4c")', "relay.C12"),
    ("variance(%x, %x, unbiased=True)", "relay.C12"),
    ("all(%x)", "relay.C11"),
    ('layout_transform(%x, src_layout="NCW", dst_layout="NCW4c")', "relay.C12"),
    ("dyn.reshape(%x, cast(%x, dtype=\"int64\"))", "relay.C12"),
    ("full(%x, shape=[2], dtype=\"float32\")", "relay.C11"),
    ("add(%x, 1)", "dtype.C2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "label"), REFUSED, ids=[c for c, _ in REFUSED])
def test_what_has_no_meaning_is_refused_with_its_place(call: str, label: str) -> None:
    with pytest.raises(Invalid) as refused:
        module(call, {"x": X})
    assert refused.value.label == label
    assert isinstance(refused.value, Unsupported) == (label == "relay.C12")
    name = call.partition("(")[0]
    assert "\n    def @main" in refused.value.message and "^" in refused.value.message
    if label.startswith("relay."):
        assert refused.value.message.partition("\n")[0].count(name)


def test_every_operator_of_the_table_is_tried() -> None:
    """The elementwise ones by name, the others by a case."""
    tried = {w for c, _, _ in CASES for w in c.replace("(", " ").replace(",", " ").split()}
    direct = {
        "negative", "abs", "exp", "log", "sqrt", "sigmoid", "tanh", "erf", "floor", "ceil", "logical_not", "nn.relu",
            "add",
        "subtract", "multiply", "power", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal", "logical_and", "logical_or", "logical_xor", "copy", "annotation.stop_fusion",
        "annotation.checkpoint", "annotation.bitpack_start", "annotation.bitpack_end", "annotation.cast_hint",
        "stop_gradient", "annotation.compiler_begin", "annotation.compiler_end", "isnan", "isinf", "trunc", "ones",
            "zeros",
        "dyn.full", "vm.shape_of", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
        "acosh", "atanh",
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift",
    }  # fmt: skip
    kinds = {"conv1d", "conv3d", "pool1d", "pool3d"}  # as their sisters of two axes
    assert {n for n in ROWS if n not in tried | direct and not any(k in n for k in kinds)} == set()


@pytest.mark.parametrize("name", ["exp", "tanh", "negative", "floor", "nn.relu", "sqrt", "copy", "isinf", "trunc"])
def test_elementwise_operators_keep_the_shape(name: str) -> None:
    given = {"x": np.abs(M) + F(0.5)}
    ours = {"nn.relu": lambda v: v, "negative": np.negative, "copy": lambda v: v}.get(name) or getattr(np, name)
    np.testing.assert_allclose(run(module(f"{name}(%x)", given, True), given)["output_0"], ours(given["x"]), rtol=1e-6)
