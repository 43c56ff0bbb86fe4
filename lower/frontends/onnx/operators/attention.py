"""Attention operators of com.microsoft, which ONNX Runtime's optimiser makes of others (specs/lower.md, "Import").

Each is what its documentation says, docs/ContribOperators.md of microsoft/onnxruntime, composed of ours. Scores are
queries times keys times the scale; `mask_filter_value` is added where a mask hides a key; a key that comes later than
the query has no share where the operator looks back only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.quantization import matmul_integer
from assay.semantics import graph
from assay.semantics.composed.terms import Term, line
from assay.semantics.dtypes import INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim, simplify


@dataclass(frozen=True, eq=False)
class _Heads:
    """Queries, keys and values as [batch, head, sequence, depth]."""

    q: Expr
    k: Expr
    v: Expr


def _size(node: Node, size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise node.unsupported(f"{what} of unknown size, {size}; give the symbolic dim a value")
    return size


def _split(node: Node, x: Expr, heads: int) -> Expr:
    """[batch, sequence, heads * depth] as [batch, head, sequence, depth]."""
    batch, length, width = tensor(x).shape
    depth, rest = divmod(_size(node, width, "the last axis"), heads)
    if rest:
        raise node.wrong(f"{x.type} is given for {heads} heads")
    return node.call("permute_dims", node.shaped(x, (batch, length, heads, depth)), axes=(0, 2, 1, 3))


def _joined(node: Node, x: Expr) -> Expr:
    batch, heads, length, depth = tensor(x).shape
    moved = node.call("permute_dims", x, axes=(0, 2, 1, 3))
    return node.shaped(moved, (batch, length, simplify(heads * depth)))


# --- masks ------------------------------------------------------------------------------------------------------------


def _places(node: Node, size: Dim) -> Term:
    return line(node, size, INT64)


def _shown(node: Node, mask: Expr, batch: Dim, rows: Dim, total: Dim) -> Term:
    """Where a mask of int32 shows a key, in a shape that broadcasts to [batch, head, row, key]. By its shape it holds
    for each batch the number of keys, or their ends and then their starts, or a 1 for each key that is shown, maybe
    for each query."""
    given = tensor(mask).shape
    t, keys = Term(node, node.cast(mask, INT64)), _places(node, total)
    if len(given) == 1 and same_shape(given, (batch,)):
        return keys < t.shaped(batch, 1, 1, 1)
    if len(given) == 1 and same_shape(given, (simplify(2 * batch),)):
        ends = Term(node, node.cut_to(t.expr, batch, 0)).shaped(batch, 1, 1, 1)
        rest = node.call("strided_slice", t.expr, axes=(0,), begin=(batch,), end=(simplify(2 * batch),), strides=(1,))
        return (keys < ends) & (keys >= Term(node, rest).shaped(batch, 1, 1, 1))
    if len(given) == 2 and same_shape(given, (batch, total)):
        return t.shaped(batch, 1, 1, total) > 0
    if len(given) == 3 and same_shape(given, (batch, rows, total)):
        return t.shaped(batch, 1, rows, total) > 0
    wanted = f"({batch}), ({simplify(2 * batch)}), ({batch}, {total}) or ({batch}, {rows}, {total})"
    raise node.unsupported(f"a mask of {mask.type}; {wanted} is handled,")


def _hidden(node: Node, shown: Term, of: DType) -> Term:
    """What is added to the scores: 0, or the filter value."""
    value = node.attrs.get("mask_filter_value")
    none = Term(node, node.constant(0.0, of))
    return none.chosen(shown, -10000.0 if value is None else float(value))


def _behind(node: Node, rows: Dim, total: Dim, past: Dim, window: int = 0) -> Term:
    """Where a key is not later than the query, which has so many before it; with a window, nor too far back."""
    key = _places(node, total)
    query = _places(node, rows).shaped(rows, 1)
    own = query + _amount(node, past)
    seen = key <= own
    return seen & (key > own - float(window)) if window > 0 else seen


def _amount(node: Node, size: Dim) -> Term:
    if isinstance(size, int):
        return Term(node, node.constant(size, INT64))
    shape = node.call("shape_of", _places(node, size).expr)
    return Term(node, node.pick(shape, 0, 0))


# --- the core ---------------------------------------------------------------------------------------------------------


def _mixed(node: Node, h: _Heads, added: Sequence[Expr], seen: Term | None, softcap: float = 0.0) -> Expr:
    """softmax(q k' * scale + what is added) v as [batch, head, row, depth]."""
    of = tensor(h.q).dtype
    depth = _size(node, tensor(h.q).shape[-1], "a head")
    scale = node.attrs.get("scale") or 1 / sqrt(depth)
    scores = Term(node, node.call("matmul", h.q, node.call("permute_dims", h.k, axes=(0, 1, 3, 2)))) * float(scale)
    if softcap:
        scores = Term(node, node.call("tanh", (scores / softcap).expr)) * softcap
    for more in added:
        scores = scores + Term(node, more)
    if seen is not None:
        scores = scores.chosen(seen, float(of.min))
    return node.call("matmul", node.call("nn.softmax", scores.expr, axis=-1), h.v)


def _with_past(node: Node, past: Expr | None, x: Expr) -> Expr:
    return x if past is None else node.named(node.call("concat", past, x, axis=2))


# --- Attention and QAttention -----------------------------------------------------------------------------------------


def _attention(
    node: Node, projected: Expr, mask: Expr | None, past: Expr | None, bias: Expr | None
) -> Sequence[Result]:
    """Of queries, keys and values side by side."""
    heads = node.attrs["num_heads"]
    if node.attrs.get("do_rotary") or node.attrs.get("past_present_share_buffer"):
        raise node.unsupported("do_rotary or past_present_share_buffer; 0 is wanted")
    width = _size(node, tensor(projected).shape[-1], "the projection")
    sizes = node.attrs.get("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != width or any(s % heads for s in sizes):
        raise node.wrong(f"qkv_hidden_sizes are {sizes} for {heads} heads, the projection is {projected.type}")
    parts = node.fields(node.call("split", projected, sections=tuple(sizes), axis=2), 3)
    q, k, v = (_split(node, p, heads) for p in parts)
    before: Dim = 0
    if past is not None:
        before = tensor(past).shape[3]
        k, v = (_with_past(node, node.pick(past, i, 0), x) for i, x in enumerate((k, v)))
    batch, _, rows, _ = tensor(q).shape
    total = tensor(k).shape[2]
    added = [] if mask is None else [_hidden(node, _shown(node, mask, batch, rows, total), tensor(q).dtype).expr]
    added += [] if bias is None else [bias]
    seen = _behind(node, rows, total, before) if node.attrs["unidirectional"] else None
    out = _joined(node, _mixed(node, _Heads(q, k, v), added, seen))
    if not node.wants(1):
        return [out]
    both = [node.call("expand_dims", x, axis=(0,)) for x in (k, v)]
    return [out, node.call("concat", *both, axis=0)]


def _given(node: Node, index: int) -> Expr | None:
    return node.inputs[index] if node.has(index) else None


def attention(node: Node) -> Sequence[Result]:
    """Translate Attention: the input times the weights, plus the bias, holds queries, keys and values."""
    if node.has(6):
        raise node.unsupported("past_sequence_length")
    made = node.call("matmul", node[0], node[1])
    if node.has(2):
        made = node.call("add", made, node[2])
    return _attention(node, made, _given(node, 3), _given(node, 4), _given(node, 5))


def quantized_attention(node: Node) -> Sequence[Result]:
    """Translate QAttention: Attention whose product is that of integers, times both scales."""
    whole = matmul_integer(node.with_(inputs=(node[0], node[1], _given(node, 6), _given(node, 7))))
    scale = node.call("multiply", node[3], node[4])
    made = node.call("multiply", node.cast(whole, tensor(scale).dtype), scale)
    return _attention(node, node.call("add", made, node[2]), _given(node, 5), _given(node, 8), None)


# --- MultiHeadAttention -----------------------------------------------------------------------------------------------


def _unpacked(node: Node, x: Expr, count: int) -> list[Expr]:
    """[batch, sequence, head, count, depth] as so many of [batch, sequence, head * depth]."""
    batch, length, heads, _, depth = tensor(x).shape
    return [node.shaped(node.pick(x, i, 3), (batch, length, simplify(heads * depth))) for i in range(count)]


def _operands(node: Node) -> tuple[Expr, Expr, Expr]:
    """Queries, keys and values, each [batch, sequence, width], or keys and values by head already."""
    if tensor(node[0]).ndim == 5:
        q, k, v = _unpacked(node, node[0], 3)
        return q, k, v
    if not node.has(1):
        raise node.wrong(f"query is {node[0].type}, and key is missing")
    if tensor(node[1]).ndim == 5:
        k, v = _unpacked(node, node[1], 2)
        return node[0], k, v
    if not node.has(2):
        raise node.wrong(f"key is {node[1].type}, and value is missing")
    return node[0], node[1], node[2]


def _biased(node: Node, parts: Sequence[Expr]) -> list[Expr]:
    """Each plus its part of the bias, which keys and values by head have not."""
    bias, made, start = node[3], [], 0
    width = _size(node, tensor(bias).shape[0], "the bias")
    own = [_size(node, tensor(p).shape[-1], "the last axis") if tensor(p).ndim == 3 else None for p in parts]
    sizes = [n if n is not None else own[0] or 0 for n in own]
    sizes[2] = width - sizes[0] - sizes[1]
    for part, size in zip(parts, sizes, strict=True):
        cut = node.call("strided_slice", bias, axes=(0,), begin=(start,), end=(start + size,), strides=(1,))
        made.append(node.call("add", part, cut) if tensor(part).ndim == 3 else part)
        start += size
    return made


def multi_head_attention(node: Node) -> Sequence[Result]:
    """Translate MultiHeadAttention: queries, keys and values are given, apart or packed."""
    if node.has(8) or node.has(9):
        raise node.unsupported("past_sequence_length or cache_indirection")
    heads = node.attrs["num_heads"]
    parts: Sequence[Expr] = _operands(node)
    if node.has(3):
        parts = _biased(node, parts)
    q, k, v = (_split(node, p, heads) if tensor(p).ndim == 3 else p for p in parts)
    before: Dim = 0
    if node.has(6) and node.has(7):
        before = tensor(node[6]).shape[2]
        k, v = _with_past(node, node[6], k), _with_past(node, node[7], v)
    batch, _, rows, _ = tensor(q).shape
    total = tensor(k).shape[2]
    added = []
    if node.has(4):
        added.append(_hidden(node, _shown(node, node[4], batch, rows, total), tensor(q).dtype).expr)
    if node.has(5):
        added.append(node[5])
    seen = _behind(node, rows, total, before) if node.attrs["unidirectional"] else None
    out = _joined(node, _mixed(node, _Heads(q, k, v), added, seen))
    return [out, k, v, Refused("the scores of MultiHeadAttention")]


# --- rotary embedding and GroupQueryAttention -------------------------------------------------------------------------


def _turned(node: Node, x: Expr, cos: Expr, sin: Expr, interleaved: bool) -> Expr:
    """[batch, head, sequence, depth] with pairs of elements turned by angles [batch, 1, sequence, half]: neighbours, or
    those of the two halves. What is behind twice the angles stays."""
    shape = tensor(x).shape
    half = _size(node, tensor(cos).shape[-1], "the cache")
    depth = _size(node, shape[-1], "a head")
    parts = node.fields(node.call("split", x, sections=(2 * half, depth - 2 * half), axis=3), 2)
    if interleaved:
        pairs = node.shaped(parts[0], (*shape[:3], half, 2))
        one, other = (Term(node, node.pick(pairs, i, 4)) for i in range(2))
    else:
        one, other = (
            Term(node, p) for p in node.fields(node.call("split", parts[0], sections=(half, half), axis=3), 2)
        )
    c, s = Term(node, cos), Term(node, sin)
    made = [(one * c - other * s).expr, (one * s + other * c).expr]
    if interleaved:
        wide = [node.call("expand_dims", m, axis=(4,)) for m in made]
        whole = node.shaped(node.call("concat", *wide, axis=4), (*shape[:3], 2 * half))
    else:
        whole = node.call("concat", *made, axis=3)
    return whole if depth == 2 * half else node.call("concat", whole, parts[1], axis=3)


def _angles(node: Node, cache: Expr, places: Expr) -> Expr:
    """The rows of a cache at places [batch, sequence] or [sequence], as [batch, 1, sequence, half]."""
    rows = node.call("take", cache, places, axis=0)
    return node.call("expand_dims", rows, axis=(tensor(rows).ndim - 2,))


def rotary_embedding(node: Node) -> Expr:
    """Translate RotaryEmbedding: each head turned by the angles of its place."""
    if node.attrs.get("is_packed_batching") or node.attrs.get("scale") not in (None, 1.0):
        raise node.unsupported("is_packed_batching, or a scale that is not 1")
    x, flat = node[0], tensor(node[0]).ndim == 3
    half = _size(node, tensor(node[2]).shape[-1], "the cache")
    if flat:
        depth = 2 * half
        if node.attrs.get("rotary_embedding_dim"):
            width = _size(node, tensor(x).shape[-1], "the last axis")
            if not node.attrs.get("num_heads"):
                raise node.wrong("rotary_embedding_dim is given, and num_heads is not")
            depth = width // node.attrs["num_heads"]
        x = _split(node, x, _size(node, tensor(x).shape[-1], "the last axis") // depth)
    places = node[1]
    if tensor(places).ndim == 1:  # where the first of them stands
        places = node.call("add", _places(node, tensor(x).shape[2]).expr, places)
    made = _turned(
        node, x, _angles(node, node[2], places), _angles(node, node[3], places), bool(node.attrs.get("interleaved"))
    )
    return _joined(node, made) if flat else made


_OTHER = {"smooth_softmax": (-1, 0, None), "qk_output": (0, None), "kv_cache_bit_width": (0, None), "causal": (1, None),
          "sliding_window_cache": (0, None)}  # fmt: skip
"""Attributes of GroupQueryAttention that are refused unless they have one of these values."""


def _repeated(node: Node, x: Expr, times: int) -> Expr:
    """Each head so many times."""
    batch, heads, length, depth = tensor(x).shape
    if times == 1:
        return x
    wide = node.call(
        "broadcast_to", node.shaped(x, (batch, heads, 1, length, depth)), shape=(batch, heads, times, length, depth)
    )
    return node.shaped(wide, (batch, simplify(heads * times), length, depth))


def group_query_attention(node: Node) -> Sequence[Result]:
    """Translate GroupQueryAttention where each batch is filled: the run asserts that `seqlens_k` is one less than the
    keys that there are, for what a batch with padding gives is not said."""
    heads, groups, a = node.attrs["num_heads"], node.attrs["kv_num_heads"], node.attrs
    odd = [k for k, allowed in _OTHER.items() if k in node.schema.kinds and a.get(k) not in allowed]
    if odd or any(node.has(i) for i in range(11, 17)):
        raise node.unsupported(f"{', '.join(odd) or 'operands behind attention_bias'}")
    if node.has(1):
        parts = [node[0], node[1], node[2]]
    else:
        width = _size(node, tensor(node[0]).shape[-1], "the last axis")
        depth = width // (heads + 2 * groups)
        parts = node.fields(
            node.call("split", node[0], sections=(heads * depth, groups * depth, groups * depth), axis=2), 3
        )
    q, k, v = (_split(node, p, n) for p, n in zip(parts, (heads, groups, groups), strict=True))
    before: Dim = tensor(node[3]).shape[2] if node.has(3) else 0
    rows = tensor(q).shape[2]
    if a.get("do_rotary"):
        places = node[9] if node.has(9) else (_places(node, rows) + _amount(node, before)).expr
        caches = [_angles(node, node[i], places) for i in (7, 8)]
        q, k = (_turned(node, x, caches[0], caches[1], bool(a.get("rotary_interleaved"))) for x in (q, k))
    k, v = _with_past(node, _given(node, 3), k), _with_past(node, _given(node, 4), v)
    total = tensor(k).shape[2]
    filled = Term(node, node.cast(node[5], INT64)).equal(_amount(node, total) - 1.0)
    every = node.call("min", filled.expr, axis=None, keepdims=False)
    node.builder.runs.demand(graph.assert_op(every, format=f"{node}: a batch is not filled"))
    window = a["local_window_size"]
    seen = _behind(node, rows, total, before, window)
    added = [node[10]] if node.has(10) else []
    each = _Heads(q, _repeated(node, k, heads // groups), _repeated(node, v, heads // groups))
    out = _joined(node, _mixed(node, each, added, seen, float(a.get("softcap") or 0.0)))
    return [out, k, v, Refused("the scores of GroupQueryAttention")]


TABLE: dict[str, Rule] = {
    "Attention": attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention,
    "RotaryEmbedding": rotary_embedding,
}
"""Of the domain com.microsoft."""
