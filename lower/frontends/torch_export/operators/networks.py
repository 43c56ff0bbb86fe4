"""Attention and recurrent layers of ATen (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.scaled_dot_product_attention, torch.nn.LSTM, GRU and RNN, by the formulas of their pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.lower.frontends.stablehlo.operators.loops import counted_loop
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.lower.frontends.torch_export.operators.normalization import without_masked
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr, Var
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task

# --- attention


def attention(node: AtenNode) -> Expr:
    """softmax(q k^T scale + mask) v. A row whose keys are all masked gives 0. Each step of narrow floats is rounded to
    them, as the documentation's code does; who keeps more of them is allowed to."""
    if node.number("dropout_p", 0.0):
        raise node.unsupported("dropout_p, which draws random numbers,")
    given = [node.tensor(n) for n in ("query", "key", "value")]
    q, k, v = (node.work(x) for x in given)
    if node.flag("enable_gqa"):
        k, v = (_heads(node, x, q) for x in (k, v))
    of, rank = aten_type(q), aten_type(q).ndim
    if node.has("scale"):
        scale = node.as_tensor(node.get("scale"), of.dtype)
    else:
        width = node.as_tensor(of.shape[-1], of.dtype)
        scale = node.call("reciprocal", node.call("sqrt", width))
    to = aten_type(given[0]).dtype

    def step(x: Expr) -> Expr:
        return node.cast(node.cast(x, to), of.dtype)

    turned = node.permuted(k, (*range(rank - 2), rank - 1, rank - 2))
    scores = step(node.call("multiply", step(node.call("matmul", q, turned)), scale))
    mask = node.optional("attn_mask")
    if node.flag("is_causal"):
        rows, columns = of.shape[-2], aten_type(k).shape[-2]
        held = node.call("greater_equal", node.shaped(node.line(rows), rows, 1), node.line(columns))
        scores = _masked(node, scores, held)
    if mask is not None and aten_type(mask).dtype is BOOL:
        scores = _masked(node, scores, mask)
    elif mask is not None:
        scores = step(node.call("add", scores, node.cast(mask, of.dtype)))
    weights = step(node.call("nn.softmax", scores, axis=rank - 1))
    if mask is not None:
        weights = without_masked(node, scores, weights, rank - 1)
    return node.cast(node.call("matmul", weights, v), to)


def _masked(node: AtenNode, scores: Expr, held: Expr) -> Expr:
    """Minus infinity is added to the scores that are not held, as a mask of floats is: what is NaN or infinite stays no
    number where it is masked."""
    least = constant_like(node, -math.inf, scores)
    return node.call("add", scores, node.call("where", held, constant_like(node, 0, scores), least))


def _heads(node: AtenNode, x: Expr, q: Expr) -> Expr:
    """Each head of keys or values as often as there are heads of queries for it."""
    rank = aten_type(x).ndim
    have, want = aten_type(x).shape[-3], aten_type(q).shape[-3]
    if not isinstance(have, int) or not isinstance(want, int) or want % have:
        raise node.unsupported(f"{want} heads of queries for {have}")
    shape = aten_type(x).shape
    x = node.shaped(x, *shape[:-3], have, 1, *shape[-2:])
    x = node.stretched(x, *shape[:-3], have, want // have, *shape[-2:])
    assert rank >= 3
    return node.shaped(x, *shape[:-3], want, *shape[-2:])


def flash_attention(node: AtenNode) -> list[Expr]:
    """The same, and the logarithm of the sums of the softmax, which is refused where it is used."""
    y = attention(node)
    return [y, node.constant(0, INT64)] if len(node.declared) < 2 else [y, _no_sums(node)]


def _no_sums(node: AtenNode) -> Expr:
    of = node.result(1)
    return node.full(of.shape, float("nan"), of.dtype)


# --- recurrent layers


Gates = Callable[[AtenNode, Expr, Sequence[Expr], Expr, "Expr | None"], list[Expr]]
"""The new states: of what an input gives to the gates, the states, the weights and the bias of the hidden state."""


@dataclass(frozen=True)
class RecurrentCell:
    """One kind of layer: how many states it has, and one step."""

    states: int
    step: Gates


def _chunks(node: AtenNode, x: Expr, count: int) -> list[Expr]:
    size = aten_type(x).shape[-1]
    assert isinstance(size, int)
    axis = aten_type(x).ndim - 1
    return [node.cut(x, axis, k * size // count, (k + 1) * size // count) for k in range(count)]


def _gates(node: AtenNode, h: Expr, w: Expr, bias: Expr | None) -> Expr:
    y = node.call("matmul", h, node.permuted(w, (1, 0)))
    return y if bias is None else node.call("add", y, bias)


def lstm_step(node: AtenNode, x: Expr, states: Sequence[Expr], w: Expr, bias: Expr | None) -> list[Expr]:
    """i, f, g, o: c' = f c + i g, h' = o tanh(c')."""
    i, f, g, o = _chunks(node, node.call("add", x, _gates(node, states[0], w, bias)), 4)
    i, f, o = (node.call("sigmoid", v) for v in (i, f, o))
    c = node.call("add", node.call("multiply", f, states[1]), node.call("multiply", i, node.call("tanh", g)))
    return [node.call("multiply", o, node.call("tanh", c)), c]


def gru_step(node: AtenNode, x: Expr, states: Sequence[Expr], w: Expr, bias: Expr | None) -> list[Expr]:
    """r, z, n: n = tanh(x + r (W h + b)), h' = (1 - z) n + z h."""
    own, past = _chunks(node, x, 3), _chunks(node, _gates(node, states[0], w, bias), 3)
    r, z = (node.call("sigmoid", node.call("add", a, b)) for a, b in zip(own[:2], past[:2], strict=True))
    n = node.call("tanh", node.call("add", own[2], node.call("multiply", r, past[2])))
    rest = node.call("multiply", node.call("subtract", constant_like(node, 1, z), z), n)
    return [node.call("add", rest, node.call("multiply", z, states[0]))]


def rnn_step(op: str) -> Gates:
    """A function of the sum."""
    return lambda node, x, states, w, bias: [node.call(op, node.call("add", x, _gates(node, states[0], w, bias)))]


MOST_UNROLLED = 16


def run_over_time(
    node: AtenNode, kind: RecurrentCell, x: Expr, states: Sequence[Expr], params: Sequence[Expr], back: bool
) -> Task[tuple[Expr, list[Expr]]]:
    """One direction of one layer over a sequence whose first axis is time: what each step gives, and the last
    states."""
    bias = len(params) > 2
    inputs = node.call("matmul", x, node.permuted(params[0], (1, 0)))
    inputs = node.call("add", inputs, params[2]) if bias else inputs
    w, own = params[1], params[3] if bias else None
    count: Dim = aten_type(x).shape[0]
    if isinstance(count, int) and count <= MOST_UNROLLED:
        made, now = [], list(states)
        for k in reversed(range(count)) if back else range(count):
            now = kind.step(node, node.call("take", inputs, node.constant(k, INT64), axis=0), now, w, own)
            made.append(node.shaped(now[0], 1, *aten_type(now[0]).shape))
        made = made[::-1] if back else made
        return node.call("concat", *made, axis=0) if len(made) > 1 else made[0], now
    hidden = aten_type(states[0])
    ys = node.full((count, *hidden.shape), 0, hidden.dtype)

    def step(place: Var, values: Sequence[Var]) -> Task[Sequence[Expr]]:
        at: Expr = place
        if back:
            at = node.call("subtract", node.call("subtract", node.amount(count), 1), place)
        new = kind.step(node, node.call("take", inputs, at, axis=0), values[:-1], w, own)
        row = node.shaped(new[0], 1, *hidden.shape)
        return [*new, node.call("scatter_nd", values[-1], node.shaped(at, 1, 1), row, reduction="none")]
        yield  # a task that waits for nothing

    found = yield from counted_loop(node, count, [*states, ys], step)
    return found[-1], found[:-1]


def recurrent(kind: RecurrentCell) -> AtenRule:
    """Layers, each over what the one before gives, in one direction or in both."""

    def rule(node: AtenNode) -> Task[list[Expr]]:
        x, params = node.tensor("input"), node.tensors("params")
        starts = node.tensors("hx") if kind.states == 2 else [node.tensor("hx")]
        if node.flag("train") and node.number("dropout", 0.0):
            raise node.unsupported("dropout in training")
        first, had = node.flag("batch_first"), aten_type(x).ndim == 3
        if not had:
            x = node.shaped(x, aten_type(x).shape[0], 1, aten_type(x).shape[1])
            starts = [node.shaped(s, aten_type(s).shape[0], 1, aten_type(s).shape[1]) for s in starts]
            first = False
        x = node.permuted(x, (1, 0, 2)) if first else x
        ways = 2 if node.flag("bidirectional") else 1
        each = 4 if node.flag("has_biases", True) else 2
        layers = node.whole("num_layers", 1)
        if len(params) != layers * ways * each:
            raise node.unsupported(f"{len(params)} parameters for {layers} layers, as with projections,")
        ends: list[list[Expr]] = []
        for layer in range(layers):
            given: list[Expr] = []
            for way in range(ways):
                k = layer * ways + way
                states = [node.call("take", s, node.constant(k, INT64), axis=0) for s in starts]
                own = params[k * each : (k + 1) * each]
                y, last = yield from run_over_time(node, kind, x, states, own, way == 1)
                given.append(y)
                ends.append(last)
            x = node.call("concat", *given, axis=2) if ways > 1 else given[0]
        x = node.permuted(x, (1, 0, 2)) if first else x
        finals = [_stacked(node, [e[j] for e in ends]) for j in range(kind.states)]
        if not had:
            x, *finals = [node.shaped(v, aten_type(v).shape[0], aten_type(v).shape[2]) for v in (x, *finals)]
        return [x, *finals]

    return rule


def _stacked(node: AtenNode, values: Sequence[Expr]) -> Expr:
    rows = [node.shaped(v, 1, *aten_type(v).shape) for v in values]
    return node.call("concat", *rows, axis=0) if len(rows) > 1 else rows[0]


TABLE: dict[str, AtenRule] = {
    "_scaled_dot_product_flash_attention_for_cpu": flash_attention,
    "gru": recurrent(RecurrentCell(1, gru_step)),
    "lstm": recurrent(RecurrentCell(2, lstm_step)),
    "rnn_relu": recurrent(RecurrentCell(1, rnn_step("nn.relu"))),
    "rnn_tanh": recurrent(RecurrentCell(1, rnn_step("tanh"))),
    "scaled_dot_product_attention": attention,
}
