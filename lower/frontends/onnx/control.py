"""If, Loop and Scan of ONNX (specs/lower.md, "Import").

Each is a task: it waits for the results of subgraphs, given what their inputs stand for, and returns those of the node.
So the importer can translate subgraphs inside subgraphs without recursion.

A loop is a local function that calls itself. Its parameters are the number of the iteration, the condition, the
variables of the loop and what was collected so far. A size that changes from one iteration to the next is a symbol of
the function's own, found by translating the body until the types of its variables hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto

from assay.lower.frontends.onnx.containers import Shapes, either
from assay.lower.frontends.onnx.node import Node, tensor
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, Var
from assay.semantics.graph.matching import provably_different
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.tasks import Task
from assay.semantics.types import FuncType, TensorType, TupleType, Type, same_type, symbols, with_dims

Control: TypeAlias = Task[Sequence[Expr]]


def _body(node: Node, of: GraphProto, inputs: Sequence[Expr] = ()) -> Control:
    """The results of a subgraph."""
    assert node.subgraph is not None
    return node.subgraph(of, inputs)


def _as_known(node: Node, made: Expr, of: Expr, shapes: Shapes | None) -> Expr:
    """A value that holds what another does: with shapes of what is in a container, and as strings where that is."""
    return node.text_as(node.containers.note(made, shapes), of)


def _joined(node: Node, condition: Expr, then: Sequence[Expr], otherwise: Sequence[Expr]) -> Sequence[Expr]:
    """One If for all results, and its fields."""
    fitted = [node.containers.fitted(b, a.type) for a, b in zip(then, otherwise, strict=True)]
    then = [node.containers.fitted(a, b.type) for a, b in zip(then, fitted, strict=True)]
    pairs = [_opened(node, a, b) for a, b in zip(then, fitted, strict=True)]
    then, fitted = [a for a, _ in pairs], [b for _, b in pairs]
    known, texts = node.containers.shapes, node.builder.texts
    for k, (a, b) in enumerate(zip(then, fitted, strict=True)):
        if (a in texts) != (b in texts):
            raise node.wrong(f"one branch gives strings as result {k}, and the other numbers")
    shapes = [either(known(a), known(b)) for a, b in zip(then, fitted, strict=True)]
    if len(then) == 1:
        made = node.named(graph.if_(condition, then[0], fitted[0], node.span))
        return [_as_known(node, made, then[0], shapes[0])]
    made = node.named(graph.if_(condition, graph.tuple_of(*then), graph.tuple_of(*fitted), node.span))
    each = enumerate(zip(then, shapes, strict=True))
    return [_as_known(node, graph.get(made, i), a, r) for i, (a, r) in each]


def _opened(node: Node, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """What the branches give for one result. ONNX lets them differ in sizes, of which one is not known then; in ranks
    and element types too, for which we have no type."""
    if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
        return a, b
    if a.type.ndim != b.type.ndim or a.type.dtype is not b.type.dtype:
        raise Unsupported(
            f"the branches give {a.type} and {b.type}; one rank and element type is wanted", label="onnx.C14"
        )
    pairs = zip(a.type.shape, b.type.shape, strict=True)
    sizes = [Symbol("size") if provably_different(p, q) else p for p, q in pairs]
    if all(p is q for p, q in zip(sizes, a.type.shape, strict=True)):
        return a, b
    return node.text_as(graph.match_cast(a, TensorType(tuple(sizes), a.type.dtype), node.span), a), b


def if_(node: Node) -> Control:
    """Where the condition is known only that branch is translated: the other may not even fit together."""
    condition = node.shaped(node[0], ())
    known = node.builder.value(condition)
    then, otherwise = node.attrs["then_branch"], node.attrs["else_branch"]
    if len(then.output) != len(otherwise.output):
        raise node.wrong(f"the branches give {len(then.output)} and {len(otherwise.output)} results")
    if known is not None:
        return (yield from _body(node, then if known else otherwise))
    mark = node.builder.runs.mark
    try:
        yes = _around(node, (yield _body(node, then)), mark)
        no = _around(node, (yield _body(node, otherwise)), mark)
        return _joined(node, condition, yes, no)
    except Invalid:
        node.builder.runs.drop(mark)
        known = node.builder.settled(condition)
        if known is None:
            raise
    return (yield from _body(node, then if known else otherwise))


def _around(node: Node, results: Sequence[Expr], mark: int) -> list[Expr]:
    """The results of a body with the lets that its nodes asked for around all of them."""
    runs = node.builder.runs
    if runs.mark == mark:
        return list(results)
    if len(results) == 1:
        made = runs.around(results[0], mark)
        return [_as_known(node, made, results[0], node.containers.shapes(results[0]))]
    made = runs.around(graph.tuple_of(*results), mark)
    return [_as_known(node, graph.get(made, i), r, node.containers.shapes(r)) for i, r in enumerate(results)]


def captured(body: GraphProto) -> list[str]:
    """The names that a subgraph, or one inside it, uses and none of them gives."""
    found: dict[str, None] = {}
    made = {*(i.name for i in body.input), *(t.name for t in body.initializer)}
    for node in body.node:
        found.update(dict.fromkeys(n for n in reads(node) if n not in made))
        made.update(node.output)
    found.update(dict.fromkeys(o.name for o in body.output if o.name not in made))
    return list(found)


def reads(node: NodeProto) -> list[str]:
    """The tensors that a node reads, those that its subgraphs take from outside too."""
    inner = [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]
    return [*(i for i in node.input if i), *(n for g in inner for n in captured(g))]


# --- loops ---------------------------------------------------------------------------------------------------------


def looped(
    node: Node,
    params: Sequence[Var],
    results: TupleType,
    test: Expr,
    again: Sequence[Expr],
    first: Sequence[Expr],
    mark: int,
) -> list[Expr]:
    """A local function that calls itself with `again` while the test holds, called with `first`: its results, which are
    the last of its parameters. What its body asked for since `mark` is around the call of itself."""
    loop, count = graph.var("loop", FuncType(tuple(p.type for p in params), results)), len(results.fields)
    body = graph.if_(test, node.builder.runs.around(graph.call(loop, *again), mark), graph.tuple_of(*params[-count:]))
    function = graph.function(params, body, results, pure=True)
    whole = node.named(graph.let(loop, function, graph.call(loop, *first)))
    return [graph.get(whole, k, node.span) for k in range(count)]


MOST_KEPT = 1 << 20
"""So many elements are kept at most for what a loop collects that may stop earlier; more are joined as they come."""


@dataclass(eq=False)
class _Loop:
    """What a Loop and a Scan have in common."""

    node: Node
    body: GraphProto
    inputs: Callable[[Expr, Expr, Sequence[Expr]], Sequence[Expr]]
    """What the body's inputs are, given iteration, condition and variables."""
    has_condition: bool
    """Whether the body's first result says if there is a next iteration."""
    trips: Expr | None
    """How many iterations there are at most, an int64 scalar."""
    start: Expr | None
    """The condition before the first iteration."""
    initial: Sequence[Expr]
    count: Dim | None = None
    """How many iterations there are at most, where that is known before."""
    stops: bool = False
    """Whether there may be fewer."""
    reversed: Sequence[bool] = ()
    """Which scan outputs are collected from the back."""

    def run(self) -> Control:
        node, runs, made, texts = self.node, self.node.builder.runs, self.node.containers, self.node.builder.texts
        initial = self.initial
        outer = {s for x in initial for s in symbols(x.type)} | {s for t in runs.types for s in symbols(t)}
        outer.update(node.builder.symbols())
        own: set[Symbol] = set()
        # a size that is computed from others is a symbol of the loop's own: a parameter's must be plain
        types = [with_dims(x.type, lambda d: d if isinstance(d, (int, Symbol)) else _fresh(own)) for x in initial]
        shapes = [made.shapes(x) for x in initial]
        if len(self.body.input) - (2 if self.has_condition else 0) < len(initial):
            raise node.wrong(f"the body has {len(self.body.input)} inputs for {len(initial)} variables")
        while True:
            mark = runs.mark
            i, c = graph.var("i", TensorType((), INT64)), graph.var("go", TensorType((), BOOL))
            variables_ = [graph.var(f"v{k}", t) for k, t in enumerate(types)]
            for v, r, x in zip(variables_, shapes, initial, strict=True):
                _as_known(node, v, x, r)
            results = yield _body(node, self.body, self.inputs(i, c, variables_))
            go = results[0] if self.has_condition else graph.constant(True, "bool")
            results = results[1:] if self.has_condition else results
            if len(results) < len(initial):
                raise node.wrong(f"the body gives {len(results)} results for {len(initial)} variables")
            if any((r in texts) != (x in texts) for r, x in zip(results, initial, strict=False)):
                raise node.wrong("a variable holds strings before an iteration or after it, and numbers else")
            inner = [made.fitted(r, t) for r, t in zip(results, types, strict=False)]
            changed, found = _met(node, types, inner, own), [made.shapes(x) for x in inner]
            wider = [either(a, b) for a, b in zip(shapes, found, strict=True)]
            if all(same_type(a, b) for a, b in zip(changed, types, strict=True)) and wider == shapes:
                break
            runs.drop(mark)
            types, shapes = changed, wider
        return self._closed(i, c, variables_, shapes, go, inner, results[len(inner) :], mark, outer, outer - own)

    def _closed(
        self,
        i: Var,
        c: Var,
        states: Sequence[Var],
        shapes: Sequence[Shapes | None],
        go: Expr,
        inner: Sequence[Expr],
        scans: Sequence[Expr],
        mark: int,
        outer: set[Symbol],
        stays: set[Symbol],
    ) -> Sequence[Expr]:
        """The function, and its call."""
        node = self.node
        collected = [self._collected(k, tensor(x), x, i, outer) for k, x in enumerate(scans)]
        params = [i, c, *states, *(so_far for so_far, _, _ in collected)]
        # what is not known outside is a size that the run tells
        told = [with_dims(p.type, lambda d: d if isinstance(d, int) or d in stays else Symbol("d")) for p in params[2:]]
        test: Expr = c
        if self.trips is not None:
            test = node.call("logical_and", node.call("less", i, self.trips), c)
        next_ = node.call("add", i, 1)
        again = [next_, node.shaped(go, ()), *inner, *(more for _, _, more in collected)]
        go = node.constant(np.bool_(True)) if self.start is None else self.start
        first = [node.constant(np.int64(0)), go, *self.initial, *(start for _, start, _ in collected)]
        cut = [self.stops and self._has_room(x, outer) for x in scans]
        if any(cut):  # the number of iterations is a result too
            params.append(graph.var("done", TensorType((), INT64)))
            told.append(params[-1].type)
            again.append(next_)
            first.append(node.constant(np.int64(0)))
        out: list[Expr] = []
        fields = looped(node, params, TupleType(tuple(told)), test, again, first, mark)
        done = node.cut_size(fields.pop()) if any(cut) else None
        for k, field in enumerate(fields):
            if k >= len(states) and done is not None and cut[k - len(states)]:
                field = node.cut_to(field, done, 0)
            elif k >= len(states) and not self.stops and self.count is not None:
                of = tensor(field)
                field = node.named(graph.match_cast(field, TensorType((self.count, *of.shape[1:]), of.dtype)))
            out.append(_as_known(node, field, [*states, *scans][k], shapes[k] if k < len(states) else None))
        return out

    def _collected(self, k: int, of: TensorType, x: Expr, i: Var, outer: set[Symbol]) -> tuple[Var, Expr, Expr]:
        """A scan output: the parameter that holds its elements so far, its start, and its elements after `x`.

        Where it is known how many there are, each has its place from the start. Else sizes of the elements that are not
        known outside are taken from the first; without a first they are 0.
        """
        node = self.node
        if (placed := self._placed(k, of, x, i, outer)) is not None:
            return placed
        known = [isinstance(d, int) or all(v in outer for v in variables(d)) for d in of.shape]
        inside = tuple(d if ok else Symbol(f"e{a}") for a, (d, ok) in enumerate(zip(of.shape, known, strict=True)))
        so_far = graph.var(f"s{k}", TensorType((Symbol("n"), *inside), of.dtype))
        begin: tuple[Dim, ...] = (0, *(d if ok else 0 for d, ok in zip(of.shape, known, strict=True)))
        zero = node.constant(np.zeros((), of.dtype.numpy))
        start = node.call("broadcast_to", zero, shape=begin)
        new = node.call("expand_dims", x, axis=(0,))
        done: Expr = so_far
        if not all(known):
            done = graph.match_cast(so_far, TensorType((tensor(so_far).shape[0], *of.shape), of.dtype))
        ordered = (new, done) if k < len(self.reversed) and self.reversed[k] else (done, new)
        more = node.call("concat", *ordered, axis=0)
        if not all(known):
            more = graph.if_(node.call("equal", i, 0), new, more)
        return so_far, start, more

    def _placed(self, k: int, of: TensorType, x: Expr, i: Var, outer: set[Symbol]) -> tuple[Var, Expr, Expr] | None:
        """The same with room for all elements, if their number and sizes are known outside as numbers or symbols."""
        node = self.node
        whole = (self.count, *of.shape)
        if self.trips is None or not self._has_room(x, outer):
            return None
        room = TensorType(tuple(d for d in whole if d is not None), of.dtype)
        so_far = graph.var(f"s{k}", room)
        start = node.call("broadcast_to", node.constant(np.zeros((), of.dtype.numpy)), shape=room.shape)
        back = k < len(self.reversed) and self.reversed[k]
        at = node.call("subtract", node.call("subtract", self.trips, 1), i) if back else i
        place = node.call("reshape", at, shape=(1, 1))
        return so_far, start, node.call("scatter_nd", so_far, place, node.call("expand_dims", x, axis=(0,)))

    def _has_room(self, x: Expr, outer: set[Symbol]) -> bool:
        """Whether all that is collected has a size that is known before, and is no more than is kept for it."""
        if self.trips is None or x in self.node.builder.texts:
            return False
        whole = (self.count, *tensor(x).shape)
        numbers = [d for d in whole if isinstance(d, int)]
        known = all(isinstance(d, int) or d in outer for d in whole)
        return known and (not self.stops or prod(numbers) <= MOST_KEPT)


def _fresh(own: set[Symbol]) -> Symbol:
    made = Symbol("d")
    own.add(made)
    return made


def _met(node: Node, before: Sequence[Type], after: Sequence[Expr], own: set[Symbol]) -> list[Type]:
    """The types of the variables that hold before and after an iteration."""
    found: list[Type] = []
    for k, (a, x) in enumerate(zip(before, after, strict=True)):
        b = x.type
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype is b.dtype and a.ndim == b.ndim:
            pairs = zip(a.shape, b.shape, strict=True)
            dims = tuple(d if d in own or provably_equal(d, e) else _fresh(own) for d, e in pairs)
            found.append(TensorType(dims, a.dtype))
        elif same_type(a, b):
            found.append(a)
        else:
            raise node.wrong(f"variable {k} of the loop is {a} before an iteration and {b} after it")
    return found


def loop(node: Node) -> Control:
    """Translate Loop: a trip count and a start condition, either of which may be left out, and the states."""
    trips = node.cast(node.shaped(node[0], ()), INT64) if node.has(0) else None
    start = node.shaped(node[1], ()) if node.has(1) else None
    initial = [node[k] for k in range(2, len(node.inputs))]

    body = node.attrs["body"]
    count, stops = _count(node, trips), not _goes_on(node, body, start)
    whole = _Loop(node, body, lambda i, c, states: (i, c, *states), True, trips, start, initial, count, stops)
    return (yield from whole.run())


def _count(node: Node, trips: Expr | None) -> Dim | None:
    """How many iterations there are at most, if that is a number or a symbol that is known before."""
    found = None if trips is None else node.builder.contents(trips)
    if found is None:
        return None
    count = np.asarray(found, object).item()
    return count if isinstance(count, Symbol) else max(int(count), 0) if isinstance(count, int) else None


def _goes_on(node: Node, body: GraphProto, start: Expr | None) -> bool:
    """Whether the condition is true at first, and handed on as it is."""
    begins = start is None or (value := node.builder.settled(start)) is not None and bool(value)
    if not begins or len(body.input) < 2 or not body.output:
        return False
    same = {body.input[1].name}
    for n in body.node:
        if n.op_type == "Identity" and n.input[0] in same:
            same.add(n.output[0])
    return body.output[0].name in same


def _length(node: Node, x: Expr, axis: int) -> tuple[Dim, Expr]:
    """The size of an axis, as a dim and as an int64 scalar."""
    at = node.call("take", node.call("shape_of", x), node.constant([axis], INT64), axis=0)
    return tensor(x).shape[axis], node.shaped(at, ())


def _scan(node: Node, operands: Sequence[Expr], options: Mapping[str, Sequence[int]]) -> Control:
    """Scan as it is since version 9; `operands` are the variables, then what is scanned."""
    body, count = node.attrs["body"], node.attrs["num_scan_inputs"]
    states = len(operands) - count
    if count < 1 or states < 0:
        raise node.wrong(f"num_scan_inputs is {count} of {len(operands)} operands")
    scanned = [node.named(x) for x in operands[states:]]
    if any(tensor(x).ndim == 0 for x in scanned):
        raise node.wrong("a scalar is scanned; at least one axis is wanted")
    outs = len(body.output) - states
    given = {k: list(v) for k, v in options.items()}
    for key, n in (("scan_input_axes", count), ("scan_input_directions", count),
                   ("scan_output_axes", outs), ("scan_output_directions", outs)):  # fmt: skip
        values = given.setdefault(key, [])
        if values and len(values) != n:
            raise node.wrong(f"{key} has {len(values)} elements; {n} are wanted")
        given[key] = values or [0] * n
    places = zip(given["scan_input_axes"], scanned, strict=True)
    axes = [node.axis(tensor(x).ndim, a) for a, x in places]
    size, length = _length(node, scanned[0], axes[0])
    last = node.call("subtract", length, 1)

    def inputs(i: Expr, _: Expr, variables_: Sequence[Expr]) -> Sequence[Expr]:
        parts = []
        for x, axis, back in zip(scanned, axes, given["scan_input_directions"], strict=True):
            place = node.call("subtract", last, i) if back else i
            parts.append(node.text_as(node.call("take", x, place, axis=axis), x))
        return (*variables_, *parts)

    backwards = [d == 1 for d in given["scan_output_directions"]]
    whole = _Loop(node, body, inputs, False, length, None, list(operands[:states]), size, reversed=backwards)
    results = list((yield from whole.run()))
    for k, a in enumerate(given["scan_output_axes"]):
        rank = tensor(results[states + k]).ndim
        axis = node.axis(rank, a)
        if axis:
            order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
            found = results[states + k]
            results[states + k] = node.text_as(node.call("permute_dims", found, axes=tuple(order)), found)
    return results


_OPTIONS = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


def scan(node: Node) -> Control:
    """Since version 9 without the batch axis that version 8 has."""
    if node.version >= 9:
        return (yield from _scan(node, node.operands(), {k: node.attrs[k] or () for k in _OPTIONS}))
    if node.has(0):
        raise node.unsupported("sequence_lens is given; sequences of one length are wanted")
    operands = [node[k] for k in range(1, len(node.inputs))]
    batch = tensor(operands[0]).shape[0] if tensor(operands[0]).ndim else 0
    if not isinstance(batch, int) or batch < 1:
        raise node.unsupported(f"the batch has the size {batch}; a number of at least 1 is wanted")
    back = {"scan_input_directions": node.attrs["directions"] or ()}
    each: list[Sequence[Expr]] = []
    for k in range(batch):
        one = [node.text_as(node.pick(x, k, 0), x) for x in operands]
        each.append((yield from _scan(node, one, back)))
    joined = []
    for same in zip(*each, strict=True):
        parts = [node.call("expand_dims", x, axis=(0,)) for x in same]
        joined.append(node.text_as(parts[0] if batch == 1 else node.call("concat", *parts, axis=0), same[0]))
    return joined


CONTROL: dict[str, Callable[[Node], Control]] = {"If": if_, "Loop": loop, "Scan": scan}
"""By the operator's name in the domain ai.onnx."""
