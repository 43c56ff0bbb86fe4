"""Transformers as PyTorch's two exporters and the older converters write them: BERT, GPT-2, Llama, ViT, T5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from tests.zoo.net import Net

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Form:
    """One transformer: its sizes, and how an exporter says its parts."""

    layers: int = 12
    width: int = 32
    heads: int = 4
    hidden: int = 128
    length: int = 12
    vocabulary: int = 96
    opset: int = 17
    parts: bool = False
    """Normalization in parts, not as one node."""
    computed: bool = False
    """Sizes by Shape and Gather."""
    inline: bool = False
    """Numbers and sizes by Constant nodes."""
    gelu: str = "erf"
    mask: str = "add"
    epsilon: float = 1e-5
    image: int = 32
    patch: int = 8

    @property
    def per_head(self) -> int:
        """The width of a head."""
        return self.width // self.heads


FORMS = {
    "bert": Form(mask="where", inline=True, epsilon=1e-12),
    "bert-parts": Form(mask="subtract", opset=13, parts=True, computed=True, inline=True, epsilon=1e-12),
    "bert-node": Form(mask="where", opset=20, gelu="Gelu", epsilon=1e-12),
    "gpt2": Form(mask="add", opset=20, gelu="tanh-formula"),
    "gpt2-where": Form(mask="where", opset=13, parts=True, computed=True, inline=True, gelu="tanh-formula"),
    "gpt2-trilu": Form(mask="trilu", opset=20, gelu="Gelu-tanh"),
    "gpt2-merged": Form(mask="where", opset=17, gelu="tanh-formula", layers=12),
    "llama": Form(opset=20, hidden=88, epsilon=1e-6),
    "llama-node": Form(opset=23, hidden=88, epsilon=1e-6, mask="trilu"),
    "vit": Form(epsilon=1e-12),
    "vit-pool": Form(opset=20, gelu="Gelu"),
    "t5": Form(layers=6, opset=17, hidden=64, gelu="Relu", epsilon=1e-6),
}
REAL = {
    "bert": {"width": 768, "heads": 12, "hidden": 3072, "length": 128, "vocabulary": 30522},
    "gpt2": {"width": 768, "heads": 12, "hidden": 3072, "length": 64, "vocabulary": 50257},
    "llama": {"width": 1024, "heads": 16, "hidden": 2816, "length": 64, "vocabulary": 32000},
    "vit": {"width": 768, "heads": 12, "hidden": 3072, "image": 224, "patch": 16},
}


def names() -> list[str]:
    """The models of this family."""
    return list(FORMS)


def model(name: str, real: bool = False) -> ModelProto:
    """The model; `real` has the sizes of the published one, where it has such (KeyError where not)."""
    return sized(name, REAL[name] if real else {}, sum(map(ord, name)))


def sized(name: str, sizes: Mapping[str, Any], seed: int) -> ModelProto:
    """The model with other sizes than its form has, and with the weights of a seed."""
    form = replace(FORMS[name], **sizes)
    net = Net(name, form.opset, seed=seed, inline=form.inline)
    family = name.partition("-")[0]
    return {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit, "t5": t5}[family](net, form)


# --- attention ----------------------------------------------------------------------------------------------------


def split_heads(net: Net, f: Form, x: str, perm: list[int] | None = None, heads: int = 0) -> str:
    """Rows of a width as heads: (batch, heads, length, width of a head)."""
    y = net.shaped(x, heads or f.heads, f.per_head, computed=f.computed)
    return str(net.node("Transpose", y, perm=perm or [0, 2, 1, 3]))


def attend(net: Net, f: Form, q: str, k_turned: str, v: str, masked: Any, divide: bool = False) -> str:
    """Scores by MatMul, scaled and masked; Softmax; the values; heads side by side again."""
    scores = net.node("MatMul", q, k_turned)
    root = f.per_head**0.5
    scores = net.node("Div", scores, net.number(root)) if divide else net.node("Mul", scores, net.number(1 / root))
    mixed = net.node("MatMul", net.node("Softmax", masked(scores), axis=-1), v)
    return net.shaped(net.node("Transpose", mixed, perm=[0, 2, 1, 3]), f.width, computed=f.computed)


def added(net: Net, mask: str) -> Any:
    """A mask that is added to the scores."""
    return lambda scores: net.node("Add", scores, mask)


def chosen(net: Net, kept: str, lowest: float = LOWEST) -> Any:
    """A mask by Where: scores that are not kept are the lowest."""
    return lambda scores: net.node("Where", kept, scores, net.number(lowest))


def attention(net: Net, f: Form, x: str, masked: Any, context: str | None = None, bias: bool = True) -> str:
    """Attention of rows of x to rows of `context`, x itself by default, with its projections."""
    source, made = context or x, {}
    for part, of in (("query", x), ("key", source), ("value", source)):
        with net.scope(part):
            made[part] = net.linear(of, f.width, f.width, bias=bias, swapped=True)
    q, v = split_heads(net, f, made["query"]), split_heads(net, f, made["value"])
    k = split_heads(net, f, made["key"], [0, 2, 3, 1])
    mixed = attend(net, f, q, k, v, masked, divide=f.opset < 17)
    with net.scope("output"):
        return net.linear(mixed, f.width, f.width, bias=bias, swapped=True)


def causal(net: Net, f: Form, of: str) -> Any:
    """The causal mask, as the form says it: stored and added, a stored triangle for Where, or made by Trilu."""
    n = f.length
    below = np.tril(np.ones((n, n), np.bool_))
    with net.scope("mask"):
        match f.mask:
            case "add":
                return added(net, net.constant(np.where(below, 0, LOWEST).astype(np.float32)[None, None], "causal"))
            case "where":
                whole = net.constant(np.tril(np.ones((2 * n, 2 * n), np.bool_))[None, None], "triangle")
                size = net.node("Unsqueeze", net.node("Gather", net.node("Shape", of), net.index(1)), net.whole(0))
                rows = net.node("Slice", whole, net.whole(0), size, net.whole(2))
                return chosen(net, net.node("Slice", rows, net.whole(0), size, net.whole(3)))
            case _:
                size = net.node("Shape", of, start=1, end=2)
                both = net.node("Concat", size, size, axis=0)
                full = net.node("Expand", net.number(LOWEST), both)
                return added(net, net.node("Trilu", full, net.constant(np.array(1, np.int64), "k"), upper=1))


# --- the models ---------------------------------------------------------------------------------------------------


def padding(net: Net, f: Form, mask: str) -> Any:
    """The mask of rows that are padding, from an input of ones and zeros."""
    with net.scope("mask"):
        turned = net.node("Unsqueeze", net.node("Unsqueeze", mask, net.whole(1)), net.whole(2))
        if f.mask == "subtract":
            zeros = net.node("Sub", net.number(1), net.node("Cast", turned, to=1))
            return added(net, net.node("Mul", zeros, net.number(-10000)))
        kept = net.node("Expand", net.node("Cast", turned, to=9), net.whole(1, 1, f.length, f.length))
        return added(net, net.node("Where", kept, net.number(0), net.number(-10000)))


def bert(net: Net, f: Form) -> ModelProto:
    """BERT: words, places and types; layers with the normalization last; the pooler."""
    ids = net.input("input_ids", np.int64, [1, f.length], below=f.vocabulary)
    kinds = net.input("token_type_ids", np.int64, [1, f.length], below=2)
    masked = padding(net, f, net.input("attention_mask", np.int64, [1, f.length], below=2))
    with net.scope("embeddings"):
        words = net.node("Gather", net.spread(f.vocabulary, f.width, by=0.6), ids)
        types = net.node("Gather", net.spread(2, f.width, by=0.4), kinds)
        places = net.node("Gather", net.spread(2 * f.length, f.width, by=0.5), net.whole(*range(f.length)))
        x = net.node("Add", net.node("Add", words, types), places)
        x = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
    for i in range(f.layers):
        with net.scope(f"layer.{i}"):
            with net.scope("attention"):
                x = net.node("Add", attention(net, f, x, masked), x)
                x = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
            with net.scope("intermediate"):
                h = net.activation(net.linear(x, f.width, f.hidden, swapped=True), f.gelu)
            with net.scope("output"):
                x = net.node("Add", net.linear(h, f.hidden, f.width, swapped=True), x)
                x = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
    with net.scope("pooler"):
        first = net.node("Gather", x, net.index(0), axis=1)
        pooled = net.node("Tanh", net.gemm(first, f.width, f.width))
    return net.model({"last_hidden_state": (x, [1, f.length, f.width]), "pooler_output": (pooled, [1, f.width])})


def gpt2(net: Net, f: Form) -> ModelProto:
    """GPT-2: layers with the normalization first, projections by Gemm on rows, and the words' table as classifier."""
    ids = net.input("input_ids", np.int64, [1, f.length], below=f.vocabulary)
    table = net.spread(f.vocabulary, f.width, by=0.6, hint="wte.weight")
    merged = net.name.endswith("merged")
    x = net.node("Add", net.node("Gather", table, ids), places_of(net, f) if merged else _stored_places(net, f, ids))
    masked = causal(net, f, ids)
    for i in range(f.layers):
        with net.scope(f"h.{i}"):
            with net.scope("attn"):
                h = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
                h = rows(net, f, h, f.width, 3 * f.width)
                if f.opset < 18:
                    q, k, v = net.node("Split", h, net.whole(*[f.width] * 3), outputs=3, axis=2)
                else:
                    q, k, v = net.node("Split", h, outputs=3, axis=2, num_outputs=3)
                q, v = split_heads(net, f, q), split_heads(net, f, v)
                h = attend(net, f, q, split_heads(net, f, k, [0, 2, 3, 1]), v, masked, divide=f.mask == "where")
                x = net.node("Add", rows(net, f, h, f.width, f.width, gain=0.5), x)
            with net.scope("mlp"):
                h = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
                h = net.activation(rows(net, f, h, f.width, f.hidden), f.gelu)
                x = net.node("Add", x, rows(net, f, h, f.hidden, f.width, gain=0.7))
    x = net.layer_norm(x, f.width, parts=f.parts, epsilon=f.epsilon)
    logits = net.node("MatMul", x, net.node("Transpose", table, perm=[1, 0]))
    return net.model({"logits": (logits, [1, f.length, f.vocabulary])})


def rows(net: Net, f: Form, x: str, inner: int, outer: int, gain: float = 1.0) -> str:
    """A projection by Gemm on the rows of all batches, as PyTorch's Conv1D is exported."""
    flat = net.node("Reshape", x, net.whole(-1, inner))
    y = net.gemm(flat, inner, outer, transposed=False, gain=gain)
    return str(net.node("Reshape", y, net.whole(1, f.length, outer)))


def _stored_places(net: Net, f: Form, ids: str) -> str:
    """Places by Range over the length of the input."""
    size = net.node("Gather", net.node("Shape", ids), net.index(1))
    at = net.node("Unsqueeze", net.node("Range", net.index(0), size, net.index(1)), net.whole(0))
    return str(net.node("Gather", net.spread(2 * f.length, f.width, by=0.5, hint="wpe.weight"), at))


def places_of(net: Net, f: Form) -> str:
    """Places by an If: behind what is kept of earlier words, or from the start, as merged decoders have it."""
    cached = net.input("use_cache", np.bool_, [1])
    table = net.spread(2 * f.length, f.width, by=0.5, hint="wpe.weight")
    branches = {}
    for branch, start in (("then_branch", f.length // 2), ("else_branch", 0)):
        at = helper.make_tensor(f"{branch}_at", 7, [1, f.length], range(start, start + f.length))
        nodes = [
            helper.make_node("Constant", [], [f"{branch}_at"], name=f"/{branch}/Constant", value=at),
            helper.make_node("Gather", [table, f"{branch}_at"], [f"{branch}_places"], name=f"/{branch}/Gather"),
        ]
        made = helper.make_tensor_value_info(f"{branch}_places", 1, [1, f.length, f.width])
        branches[branch] = helper.make_graph(nodes, branch, [], [made])
    return str(net.node("If", net.node("Squeeze", cached), **branches))


def rotated(net: Net, f: Form, x: str, cos: str, sin: str) -> str:
    """Rotary embedding: each head's halves turned by their place."""
    if f.opset >= 23:
        return str(net.node("RotaryEmbedding", x, cos, sin))
    half, end = net.whole(f.per_head // 2), net.whole(2**63 - 1)
    left = net.node("Slice", x, net.whole(0), half, net.whole(3), net.whole(1))
    right = net.node("Slice", x, half, end, net.whole(3), net.whole(1))
    turned = net.node("Concat", net.node("Neg", right), left, axis=-1)
    return str(net.node("Add", net.node("Mul", x, cos), net.node("Mul", turned, sin)))


def llama(net: Net, f: Form) -> ModelProto:
    """Llama: RMSNorm, rotary embedding, half as many heads of keys and values, and a gate by SiLU."""
    ids = net.input("input_ids", np.int64, [1, f.length], below=f.vocabulary)
    table = net.spread(f.vocabulary, f.width, by=0.8, hint="embed_tokens.weight")
    angles = np.arange(f.length)[:, None] / 10000 ** (np.arange(f.per_head // 2) * 2 / f.per_head)
    if f.opset < 23:
        angles = np.concatenate([angles, angles], 1)[None]
    shape = angles[None].astype(np.float32)
    cos, sin = net.constant(np.cos(shape), "cos"), net.constant(np.sin(shape), "sin")
    x, masked = net.node("Gather", table, ids), causal(net, f, ids)
    groups = f.heads // 2
    for i in range(f.layers):
        with net.scope(f"layers.{i}"):
            with net.scope("self_attn"):
                h = net.rms_norm(x, f.width, f.epsilon)
                q = split_heads(net, f, net.linear(h, f.width, f.width, bias=False))
                k = split_heads(net, f, net.linear(h, f.width, groups * f.per_head, bias=False), heads=groups)
                v = split_heads(net, f, net.linear(h, f.width, groups * f.per_head, bias=False), heads=groups)
                q, k = rotated(net, f, q, cos, sin), rotated(net, f, k, cos, sin)
                k, v = repeated(net, f, k, groups), repeated(net, f, v, groups)
                h = attend(net, f, q, net.node("Transpose", k, perm=[0, 1, 3, 2]), v, masked)
                x = net.node("Add", x, net.linear(h, f.width, f.width, bias=False, gain=0.5))
            with net.scope("mlp"):
                h = net.rms_norm(x, f.width, f.epsilon)
                gate = net.activation(net.linear(h, f.width, f.hidden, bias=False), "silu")
                h = net.node("Mul", gate, net.linear(h, f.width, f.hidden, bias=False))
                x = net.node("Add", x, net.linear(h, f.hidden, f.width, bias=False, gain=0.7))
    x = net.rms_norm(x, f.width, f.epsilon)
    with net.scope("lm_head"):
        logits = net.linear(x, f.width, f.vocabulary, bias=False)
    return net.model({"logits": (logits, [1, f.length, f.vocabulary])})


def repeated(net: Net, f: Form, x: str, groups: int) -> str:
    """Each head of keys or values twice, by Expand."""
    size = net.whole(1, groups, f.heads // groups, f.length, f.per_head)
    wide = net.node("Expand", net.node("Unsqueeze", x, net.whole(2)), size)
    return str(net.node("Reshape", wide, net.whole(1, f.heads, f.length, f.per_head)))


def vit(net: Net, f: Form) -> ModelProto:
    """ViT: patches by a convolution, a word for the class or the mean of all, the normalization first."""
    side = f.image // f.patch
    x = net.input("pixel_values", np.float32, [1, 3, f.image, f.image])
    pooling = net.name.endswith("pool")
    length = side**2 + (not pooling)
    with net.scope("embeddings"):
        by = 1 / (3 * f.patch**2) ** 0.5
        weight = net.spread(f.width, 3, f.patch, f.patch, by=by)
        size = {"kernel_shape": [f.patch] * 2, "strides": [f.patch] * 2}
        x = net.node("Conv", x, weight, net.bias(f.width), **size)
        x = net.node("Transpose", net.node("Reshape", x, net.whole(1, f.width, side**2)), perm=[0, 2, 1])
        if not pooling:
            x = net.node("Concat", net.spread(1, 1, f.width, hint="cls_token"), x, axis=1)
        x = net.node("Add", x, net.spread(1, length, f.width, by=0.3, hint="position_embeddings"))
    for i in range(f.layers):
        with net.scope(f"layer.{i}"):
            with net.scope("attention"):
                h = net.layer_norm(x, f.width, epsilon=f.epsilon)
                x = net.node("Add", attention(net, f, h, lambda scores: scores), x)
            with net.scope("mlp"):
                h = net.layer_norm(x, f.width, epsilon=f.epsilon)
                h = net.activation(net.linear(h, f.width, f.hidden, swapped=True), f.gelu)
                x = net.node("Add", net.linear(h, f.hidden, f.width, swapped=True, gain=0.7), x)
    x = net.layer_norm(x, f.width, epsilon=f.epsilon)
    head = net.mean(x, 1, keepdims=0) if pooling else net.node("Gather", x, net.index(0), axis=1)
    return net.model({"logits": (net.gemm(head, f.width, 24, gain=2.0), [1, 24])})


def t5(net: Net, f: Form) -> ModelProto:
    """T5: an encoder and a decoder, RMSNorm, no scale, a bias by the distance of two words, the table as classifier."""
    table = net.spread(f.vocabulary, f.width, by=0.8, hint="shared.weight")
    ids = net.input("input_ids", np.int64, [1, f.length], below=f.vocabulary)
    words = net.input("decoder_input_ids", np.int64, [1, f.length], below=f.vocabulary)
    distance = np.clip(np.arange(f.length)[None] - np.arange(f.length)[:, None] + 8, 0, 15)
    known = None
    for part, source in (("encoder", ids), ("decoder", words)):
        x = net.node("Gather", table, source)
        with net.scope(part):
            near = net.node("Gather", net.spread(16, f.heads, by=0.5), net.constant(distance.astype(np.int64), "near"))
            near = net.node("Unsqueeze", net.node("Transpose", near, perm=[2, 0, 1]), net.whole(0))
            if part == "decoder":
                above = np.triu(np.full((f.length, f.length), -1e9, np.float32), 1)
                near = net.node("Add", near, net.constant(above[None, None], "causal"))
            for i in range(f.layers):
                with net.scope(f"block.{i}"):
                    x = t5_block(net, f, x, near, known)
            x = net.rms_norm(x, f.width, f.epsilon)
        known = x
    scaled = net.node("Mul", x, net.number(f.width**-0.5))
    logits = net.node("MatMul", scaled, net.node("Transpose", table, perm=[1, 0]))
    return net.model({"logits": (logits, [1, f.length, f.vocabulary])})


def t5_block(net: Net, f: Form, x: str, near: str, known: str | None) -> str:
    """A block: attention to itself, to what the encoder gave if it is given, and the feed-forward net."""
    with net.scope("self"):
        h = net.rms_norm(x, f.width, f.epsilon)
        x = net.node("Add", x, attention(net, f, h, added(net, near), bias=False))
    if known is not None:
        with net.scope("cross"):
            h = net.rms_norm(x, f.width, f.epsilon)
            x = net.node("Add", x, attention(net, f, h, lambda scores: scores, known, bias=False))
    with net.scope("ff"):
        h = net.rms_norm(x, f.width, f.epsilon)
        h = net.activation(net.linear(h, f.width, f.hidden, bias=False, gain=1.4), f.gelu)
        return str(net.node("Add", x, net.linear(h, f.hidden, f.width, bias=False)))
