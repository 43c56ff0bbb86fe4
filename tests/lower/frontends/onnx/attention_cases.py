"""Attention operators of com.microsoft in their forms: each a model of one node, and what is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lower.frontends.onnx.onnx_cases import Array, floats
from tests.lower.frontends.onnx.test_onnx_contrib import F32, I8, U8, case, one, u8

B, S, N, H = 2, 3, 2, 4
D = N * H
SEEN = np.int32([[1, 1, 0], [1, 1, 1]])
INPUT = (floats(B, S, 5), floats(5, 3 * D), floats(3 * D))
PAST = floats(2, B, N, 2, H)
SCORES = floats(1, N, S, S)


def _q(*shape: int) -> Array:
    """Numbers that differ from those of other operands of the shape."""
    return np.random.default_rng(sum(shape) * 7 + len(shape)).standard_normal(shape).astype(F32)


def _qkv(rows: int = S, keys: int = S, width: int = D) -> tuple[Array, Array, Array]:
    return floats(B, rows, D), _q(B, keys, D), _q(B, keys, width)[:, :, ::-1].copy()


def _attention(*rest: Any, outputs: int = 1, **attrs: Any) -> Any:
    return case("Attention", *INPUT, *rest, num_heads=N, outputs=outputs, **attrs)


def _heads(*operands: Any, outputs: int = 1, **attrs: Any) -> Any:
    return case("MultiHeadAttention", *operands, num_heads=N, outputs=outputs, **attrs)


def _angle(count: int, half: int) -> tuple[Array, Array]:
    at = np.arange(count)[:, None] / 10.0 ** np.arange(half)
    return np.cos(at).astype(F32), np.sin(at).astype(F32)


ROTARY = _angle(8, H // 2)
PLACES = np.arange(S)[None].repeat(B, 0) + np.arange(B)[:, None]
G = 16  # the runtime takes heads of multiples of 16
TURNS = _angle(16, G // 2)
Q4, KV2 = floats(B, S, 4 * G), (_q(B, S, 2 * G), floats(B, S, 2 * G))


def _grouped(q: Array, k: Any, v: Any, *rest: Any, total: int = S, outputs: int = 3, **attrs: Any) -> Any:
    past = rest[:2] or (None, None)
    more = (np.full(B, total - 1, np.int32), np.array(total, np.int32), *rest[2:])
    return case(
        "GroupQueryAttention", q, k, v, *past, *more, num_heads=4, kv_num_heads=2, outputs=outputs, stored=(6,), **attrs
    )


CACHE = (floats(B, 2, 2, G), _q(B, 2, 2, G))
PACKED = {
    "three": (
        _heads(floats(B, S, N, 3, H)),
        _heads(*(floats(B, S, N, 3, H)[..., i, :].reshape(B, S, D) for i in range(3))),
    ),
    "two": (
        _heads(floats(B, S, D), floats(B, 5, N, 2, H)),
        _heads(floats(B, S, D), *(floats(B, 5, N, 2, H)[..., i, :].reshape(B, 5, D) for i in range(2))),
    ),
}
"""Packed operands, which the runtime refuses on a CPU, and the same apart."""
ATTENTION = {
    "Attention": _attention(),
    "Attention, a scale": _attention(scale=0.3),
    "Attention without bias": case("Attention", *INPUT[:2], num_heads=N),
    "Attention, lengths": _attention(np.int32([2, 3])),
    "Attention, ends and starts": _attention(np.int32([2, 3, 0, 1])),
    "Attention, a mask of keys": _attention(SEEN),
    "Attention, a mask of keys, another filter": _attention(SEEN, mask_filter_value=-2.0),
    "Attention, a mask for each query": _attention(np.int32(np.tri(S))[None].repeat(B, 0)),
    "Attention, unidirectional": _attention(unidirectional=1),
    "Attention, unidirectional and masked": _attention(np.int32([[0, 1, 1], [1, 1, 0]]), unidirectional=1),
    "Attention, past": _attention(None, PAST, outputs=2, unidirectional=1),
    "Attention, past and a mask": _attention(np.int32([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]]), PAST, outputs=2),
    "Attention, a bias of scores": _attention(None, None, SCORES),
    "Attention, another width of values": case(
        "Attention", floats(B, S, 5), floats(5, 2 * D + 4), floats(2 * D + 4), num_heads=N, qkv_hidden_sizes=[D, D, 4]
    ),
    "MultiHeadAttention": _heads(*_qkv()),
    "MultiHeadAttention, cross": _heads(*_qkv(keys=5)),
    "MultiHeadAttention, another width of values": _heads(*_qkv(keys=5, width=4)),
    "MultiHeadAttention, biases": _heads(*_qkv(), floats(3 * D), scale=0.3),
    "MultiHeadAttention, keys by head": _heads(floats(B, S, D), _q(B, N, 5, H), floats(B, N, 5, H)),
    "MultiHeadAttention, lengths": _heads(*_qkv(), None, np.int32([2, 3])),
    "MultiHeadAttention, a mask of keys": _heads(*_qkv(), None, SEEN),
    "MultiHeadAttention, a bias of scores": _heads(*_qkv(), None, None, floats(B, N, S, S)),
    "MultiHeadAttention, unidirectional": _heads(*_qkv(), unidirectional=1),
    "MultiHeadAttention, past": _heads(
        *_qkv(), None, None, None, floats(B, N, 2, H), _q(B, N, 2, H), outputs=3, unidirectional=1
    ),
    "QAttention": case(
        "QAttention", u8(B, S, 5), u8(5, 3 * D, of=I8), floats(3 * D), one(0.02), one(0.01), None, one(128, U8),
        one(0, I8), num_heads=N, stored=(1, 2),
    ),
    "QAttention, masked": case(
        "QAttention", u8(B, S, 5), u8(5, 3 * D, of=I8), floats(3 * D), one(0.02), one(0.01), SEEN, one(7, U8),
        one(3, I8), num_heads=N, stored=(1, 2), unidirectional=1,
    ),
    "RotaryEmbedding": case("RotaryEmbedding", floats(B, S, D), PLACES, *ROTARY),
    "RotaryEmbedding, interleaved": case("RotaryEmbedding", floats(B, S, D), PLACES, *ROTARY, interleaved=1),
    "RotaryEmbedding, from a place on": case("RotaryEmbedding", floats(B, S, D), np.array([2]), *ROTARY),
    "RotaryEmbedding by head": case("RotaryEmbedding", floats(B, N, S, H), PLACES, *ROTARY),
    "RotaryEmbedding of a part": case(
        "RotaryEmbedding", floats(B, S, D), PLACES, *_angle(8, 1), num_heads=N, rotary_embedding_dim=2
    ),
    "GroupQueryAttention": _grouped(Q4, *KV2),
    "GroupQueryAttention, packed": _grouped(floats(B, S, 8 * G), None, None),
    "GroupQueryAttention, past": _grouped(Q4[:, :1], KV2[0][:, :1], KV2[1][:, :1], *CACHE, total=3),
    "GroupQueryAttention, rotary": _grouped(Q4, *KV2, None, None, *TURNS, do_rotary=1),
    "GroupQueryAttention, rotary and past": _grouped(
        Q4[:, :1], KV2[0][:, :1], KV2[1][:, :1], *CACHE, *TURNS, total=3, do_rotary=1, rotary_interleaved=1
    ),
    "GroupQueryAttention, a window": _grouped(Q4, *KV2, local_window_size=2),
    "GroupQueryAttention, capped": _grouped(Q4, *KV2, softcap=0.5, scale=0.7),
    "QLinearWhere": case(
        "QLinearWhere", np.array([[True], [False]]), u8(2, 3), one(0.05), one(3, U8), u8(2, 3), one(0.02), one(9, U8),
        one(0.1), one(100, U8), stored=(2, 3, 5, 6, 7, 8),
    ),
    "QLinearConv, channels last": case(
        "QLinearConv", u8(1, 5, 5, 3), one(0.05), one(3, U8), u8(4, 3, 3, 3, of=I8), one(0.01), one(0, I8), one(0.2),
        one(100, U8), np.arange(4, dtype=np.int32), stored=(1, 2, 3, 4, 5, 6, 7, 8), channels_last=1,
    ),
    "NhwcMaxPool": case("NhwcMaxPool", u8(1, 5, 5, 3), kernel_shape=[2, 2], strides=[2, 2]),
}  # fmt: skip
