"""RNN, GRU and LSTM of ONNX, as steps of arithmetic over the sequence (specs/lower.md, "Import").

What does not depend on the state is one product for the whole sequence. A short sequence is unrolled, so that every
later stage can take the module; one that is long, or of a length that only a run knows, is a local function that calls
itself. Both make the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.lower.frontends.onnx.control import looped
from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.activations import softplus
from assay.semantics import graph
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType, TupleType

MOST_UNROLLED = 16
"""A sequence of more steps is a loop."""

Activation = Callable[[Expr], Expr]
Step = Callable[[Expr, Sequence[Expr]], Sequence[Expr]]
"""step(what the input of one step gives to the gates, states): the new states, the hidden one first."""

_DEFAULTS = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
"""Functions with parameters: alpha and beta where the node does not say. The text gives none for Affine and
ScaledTanh."""
_HAS_BETA = ("affine", "scaledtanh", "hardsigmoid")


class _Functions:
    """The activation functions of a node; parameters go to those that take them, in order."""

    def __init__(self, node: Node, default: Sequence[str], directions: int) -> None:
        names = [n.lower() for n in node.attrs["activations"] or tuple(default) * directions]
        if len(names) < len(default) * directions:  # the schema's default for RNN names two for one direction
            raise node.wrong(f"{len(names)} activations; {len(default)} for each of {directions} directions are wanted")
        self.node = node
        self._clip: float | None = node.attrs["clip"]
        if self._clip is not None and self._clip <= 0:
            raise node.wrong(f"clip is {self._clip}; a number above 0 is wanted")
        alphas, betas = iter(node.attrs["activation_alpha"] or ()), iter(node.attrs["activation_beta"] or ())
        made = [self._named(n, alphas, betas) for n in names]
        count = len(default)
        self.of = [made[count * d : count * (d + 1)] for d in range(directions)]

    def _named(self, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
        alpha, beta = _DEFAULTS.get(name, (0.0, 0.0))
        if name in _DEFAULTS:
            alpha = next(alphas, alpha)
        if name in _HAS_BETA:
            beta = next(betas, beta)
        node = self.node

        def called(op: str, t: Term, **attrs: Any) -> Term:
            return Term(node, node.call(op, t.expr, **attrs))

        def below(t: Term, otherwise: Term, bound: float = 0.0) -> Term:
            return otherwise.chosen(t < bound, t)

        known: dict[str, Callable[[Term], Term]] = {
            "relu": lambda t: called("nn.relu", t),
            "tanh": lambda t: called("tanh", t, formula=True),
            "sigmoid": lambda t: called("sigmoid", t),
            "affine": lambda t: t * alpha + beta,
            "leakyrelu": lambda t: below(t, t * alpha),
            "thresholdedrelu": lambda t: below(t, t.number(0.0), alpha),
            "scaledtanh": lambda t: called("tanh", t * beta, formula=True) * alpha,
            "hardsigmoid": lambda t: called("clip", t * alpha + beta, min=0.0, max=1.0),
            "elu": lambda t: below(t, (called("exp", t) - 1.0) * alpha),
            "softsign": lambda t: t / (abs(t) + 1.0),
            "softplus": lambda t: Term(node, softplus(node.with_(inputs=(t.expr,)))),
        }
        if name not in known:
            raise node.wrong(f"activation {name!r}; one of {', '.join(known)} is wanted")
        return lambda x: known[name](Term(node, self._clipped(x))).expr

    def _clipped(self, x: Expr) -> Expr:
        return x if self._clip is None else self.node.call("clip", x, min=-self._clip, max=self._clip)


@dataclass(eq=False)
class _Layer:
    """A node with its operands by direction, and the sequence as axis 0 of X."""

    node: Node
    gates: int
    hidden: Dim
    directions: int
    x: Expr
    """(sequence, batch, input)"""

    @staticmethod
    def of(node: Node, gates: int) -> _Layer:
        named = {"forward": 1, "reverse": 1, "bidirectional": 2}
        if node.version < 7:
            named["foward"] = 1  # so the schema of GRU-1 writes its default
        directions = named.get(node.attrs["direction"], 0)
        if not directions:
            raise node.wrong(f"direction is {node.attrs['direction']!r}; one of {', '.join(named)} is wanted")
        if node.attrs.get("layout", 0) not in (0, 1):
            raise node.wrong(f"layout is {node.attrs['layout']}; 0 or 1 is wanted")
        x, r = tensor(node[0]), tensor(node[2])
        if x.ndim != 3 or r.ndim != 3:
            raise node.wrong(f"X is {x}, R is {r}; three axes each are wanted")
        hidden = node.attrs["hidden_size"] or r.shape[2]
        made = node.call("permute_dims", node[0], axes=(1, 0, 2)) if node.attrs.get("layout") else node[0]
        size = gates * hidden
        batch, inputs = tensor(made).shape[1:]
        states = (batch, directions, hidden) if node.attrs.get("layout") else (directions, batch, hidden)
        weights, biases, holes = (directions, size, inputs), (directions, 2 * size), (directions, 3 * hidden)
        shapes = (weights, (directions, size, hidden), biases, (batch,), states, states, holes)
        for index, shape in enumerate(shapes, start=1):
            if node.has(index) and not same_shape(tensor(node[index]).shape, shape):
                name, wanted = node.schema.operand(index).name, ", ".join(map(str, shape))
                raise node.wrong(f"{name} is {node[index].type}; the shape ({wanted}) is wanted")
        return _Layer(node, gates, hidden, directions, made)

    def part(self, index: int, direction: int) -> Expr:
        """An operand of one direction."""
        return self.node.pick(self.node[index], direction, 0)

    def cut(self, x: Expr, count: int, axis: int) -> list[Expr]:
        """An axis in equal parts, one for each gate."""
        if count == 1:
            return [x]
        return self.node.fields(self.node.call("split", x, sections=(self.hidden,) * count, axis=axis), count)

    def start(self, index: int, direction: int) -> Expr:
        """A state before the first step: (batch, hidden)."""
        node = self.node
        if node.has(index):
            return node.pick(node[index], direction, 1 if node.attrs.get("layout") else 0)
        return node.full((tensor(self.x).shape[1], self.hidden), 0.0, tensor(self.x).dtype)

    def biases(self, direction: int) -> tuple[list[Expr], list[Expr]] | None:
        """For each gate the bias of the input and that of the state."""
        if not self.node.has(3):
            return None
        every = self.cut(self.part(3, direction), 2 * self.gates, 0)
        return every[: self.gates], every[self.gates :]

    def product(self, a: Expr, weights: Expr) -> Expr:
        return self.node.call("matmul", a, self.node.call("permute_dims", weights, axes=(1, 0)))

    # --- the sequence

    def run(self, states: Sequence[int], step: Callable[[int], tuple[Expr, Step]]) -> Sequence[Result]:
        """The outputs: all hidden states, then the last of each state. `states` are the operands they start from.

        step(direction) gives what the whole sequence gives to the gates, (sequence, batch, gates), and the step.
        """
        found = []
        for d in range(self.directions):
            given, one = step(d)
            backward = d == 1 or self.node.attrs["direction"] == "reverse"
            found.append(self._scan(given, one, [self.start(i, d) for i in states], backward))
        node = self.node
        batch_first = bool(node.attrs.get("layout"))
        every = self._joined([f[0] for f in found], 1)
        if batch_first:
            every = node.call("permute_dims", every, axes=(2, 0, 1, 3))
        last = [self._joined([f[1][k] for f in found], 1 if batch_first else 0) for k in range(len(states))]
        if node.attrs.get("output_sequence") == 0:
            return [Refused("the hidden states of all steps, with output_sequence 0"), *last]
        return [every, *last]

    def _joined(self, parts: Sequence[Expr], axis: int) -> Expr:
        more = [self.node.call("expand_dims", p, axis=(axis,)) for p in parts]
        return more[0] if len(more) == 1 else self.node.call("concat", *more, axis=axis)

    def _scan(self, given: Expr, step: Step, start: list[Expr], backward: bool) -> tuple[Expr, Sequence[Expr]]:
        length = tensor(given).shape[0]
        if isinstance(length, int) and length <= MOST_UNROLLED:
            return self._unrolled(given, step, start, range(length)[:: -1 if backward else 1])
        return self._loop(given, step, start, backward)

    def _stepped(self, at: Expr, given: Expr, step: Step, states: Sequence[Expr]) -> tuple[Expr, Sequence[Expr]]:
        """The hidden state that a step shows, and the states after it. A sequence that is over shows 0, and keeps its
        states: so the reverse of a shorter one starts at its own end."""
        node = self.node
        new = step(node.call("take", given, at, axis=0), states)
        if not node.has(4):
            return new[0], new
        lengths = node.call("expand_dims", node.cast(node[4], INT64), axis=(1,))
        goes_on = node.call("less", at, lengths)
        return node.call("where", goes_on, new[0], 0), [
            node.call("where", goes_on, n, s) for n, s in zip(new, states, strict=True)
        ]

    def _unrolled(
        self, given: Expr, step: Step, states: Sequence[Expr], places: Sequence[int]
    ) -> tuple[Expr, Sequence[Expr]]:
        shown: dict[int, Expr] = {}
        for t in places:
            shown[t], states = self._stepped(self.node.constant(t, INT64), given, step, states)
        if not shown:
            return self.node.full((0, *tensor(states[0]).shape), 0.0, tensor(given).dtype), states
        return self._joined([shown[t] for t in sorted(shown)], 0), states

    def _loop(self, given: Expr, step: Step, start: Sequence[Expr], backward: bool) -> tuple[Expr, Sequence[Expr]]:
        """A function of the number of the step, the states, and the hidden states of the steps so far."""
        node, runs = self.node, self.node.builder.runs
        given = node.named(given)
        length = tensor(given).shape[0]
        sizes = node.named(node.call("shape_of", given))
        steps = node.named(node.shaped(node.call("take", sizes, node.constant([0], INT64), axis=0), ()))
        none = node.full((length, *tensor(start[0]).shape), 0.0, tensor(given).dtype)
        mark = runs.mark
        t = graph.var("t", TensorType((), INT64))
        states = [graph.var(f"state{k}", s.type) for k, s in enumerate(start)]
        so_far = graph.var("shown", none.type)
        at: Expr = node.call("subtract", node.call("subtract", steps, t), 1) if backward else t
        shown, new = self._stepped(at, given, step, states)
        place = node.call("reshape", at, shape=(1, 1))
        more = node.call("scatter_nd", so_far, place, node.call("expand_dims", shown, axis=(0,)))
        params = [t, *states, so_far]
        results = TupleType(tuple(p.type for p in params[1:]))
        again = [node.call("add", t, 1), *new, more]
        first = [node.constant(0, INT64), *start, none]
        fields = looped(node, params, results, node.call("less", t, steps), again, first, mark)
        return fields[-1], fields[:-1]


def _prepared(layer: _Layer, direction: int, folded: Callable[[int], bool]) -> tuple[Expr, Expr, list[Expr] | None]:
    """What the sequence gives to the gates, with the biases of the state where `folded(gate)`; R; those biases."""
    node = layer.node
    given = layer.product(layer.x, layer.part(1, direction))
    r = node.named(layer.part(2, direction))
    biases = layer.biases(direction)
    if biases is None:
        return given, r, None
    ours = [node.call("add", w, b) if folded(k) else w for k, (w, b) in enumerate(zip(*biases, strict=True))]
    return node.call("add", given, ours[0] if len(ours) == 1 else node.call("concat", *ours, axis=0)), r, biases[1]


def rnn(node: Node) -> Sequence[Result]:
    """Translate RNN: one gate, one state for each direction."""
    layer = _Layer.of(node, 1)
    functions = _Functions(node, ("Tanh",), layer.directions)

    def direction(d: int) -> tuple[Expr, Step]:
        (f,) = functions.of[d]
        given, r, _ = _prepared(layer, d, lambda k: True)
        return given, lambda x, states: [f(node.call("add", x, layer.product(states[0], r)))]

    return layer.run((5,), direction)


def gru(node: Node) -> Sequence[Result]:
    """With `linear_before_reset` the reset gate scales the product of the state, else the state itself."""
    layer = _Layer.of(node, 3)
    functions = _Functions(node, ("Sigmoid", "Tanh"), layer.directions)
    before = bool(node.attrs.get("linear_before_reset"))

    def direction(d: int) -> tuple[Expr, Step]:
        f, g = functions.of[d]
        given, r, biases = _prepared(layer, d, lambda k: k < 2 or not before)
        call = node.call
        parts = [node.named(p) for p in layer.cut(r, 3, 0)]

        def step(x: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
            (h,) = states
            xz, xr, xh = layer.cut(x, 3, 1)
            z = f(call("add", xz, layer.product(h, parts[0])))
            reset = f(call("add", xr, layer.product(h, parts[1])))
            if before:
                part = layer.product(h, parts[2])
                part = part if biases is None else call("add", part, biases[2])
                part = call("multiply", reset, part)
            else:
                part = layer.product(call("multiply", reset, h), parts[2])
            new, rest = g(call("add", xh, part)), call("subtract", 1, z)
            return [call("add", call("multiply", rest, new), call("multiply", z, h))]

        return given, step

    return layer.run((5,), direction)


def lstm(node: Node) -> Sequence[Result]:
    """Gates input, output, forget, cell; peepholes input, output, forget, the one of the output looks at the new cell.

    With `input_forget` what is not taken in is kept.
    """
    layer = _Layer.of(node, 4)
    functions = _Functions(node, ("Sigmoid", "Tanh", "Tanh"), layer.directions)

    def direction(d: int) -> tuple[Expr, Step]:
        f, g, h = functions.of[d]
        given, r, _ = _prepared(layer, d, lambda k: True)
        call = node.call
        holes = [node.named(p) for p in layer.cut(layer.part(7, d), 3, 0)] if node.has(7) else None

        def looked(x: Expr, hole: int, cell: Expr) -> Expr:
            return x if holes is None else call("add", x, call("multiply", holes[hole], cell))

        def step(x: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
            hidden, cell = states
            xi, xo, xf, xc = layer.cut(call("add", x, layer.product(hidden, r)), 4, 1)
            taken = f(looked(xi, 0, cell))
            kept = call("subtract", 1, taken) if node.attrs["input_forget"] else f(looked(xf, 2, cell))
            cell = call("add", call("multiply", kept, cell), call("multiply", taken, g(xc)))
            return [call("multiply", f(looked(xo, 1, cell)), h(cell)), cell]

        return given, step

    return layer.run((5, 6), direction)


TABLE: dict[str, Rule] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
