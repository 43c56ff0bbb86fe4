"""The function that runs the parts of a group, one after another (specs/lower.md, "recursion").

Its parameters are the number of the next part, how many frames are taken, what is handed on as it is, registers, and
stacks: of the parts to come back to, and of values. It calls itself as the last thing that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from assay.lower.recursion.devices import device_of, placed
from assay.lower.recursion.groups import RecursiveGroup, require_cuttable
from assay.lower.recursion.parts import Fork, Give, Go, PartCode, Parts, packed
from assay.lower.recursion.sizes import require_one_size
from assay.semantics import graph
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Var
from assay.semantics.graph.matching import Bound, instantiate, match_types
from assay.semantics.scalar import Expr as Scalar, apply
from assay.semantics.tasks import Task, run_task
from assay.semantics.telling import Apart
from assay.semantics.tensor import Assert, Buffer, PrimFunc, seq, store
from assay.semantics.types import FuncType, TensorType, Type, same_type
from assay.semantics.walk import post_order

COUNT = TensorType((), INT64)
FRAMES = "frames"
"""The attribute of the tensor function that takes a frame: how many there are."""


class Machine:
    """The function of a group. What a step does is a method: so tests can plant faults."""

    parts: type[Parts] = Parts

    def __init__(self, group: RecursiveGroup, depth: int) -> None:
        require_cuttable(group)
        require_one_size(group)
        self.group = group
        self.depth = depth
        self.device = device_of(group)
        self.part = graph.var("part", COUNT)
        self.kept = {p: graph.var(p.name, p.type) for p in _handed_on(group)}
        made = self.parts(group, self.kept, depth)
        self.entries = made.entries
        self.level = made.level
        self.codes = run_task(made.cut())
        self.result = group.members[0][1].result_type
        self.value = made.registers.take([self.result])[0]
        self.registers = [v for _, v in made.registers.all]
        self.returns = graph.var("returns", TensorType((depth,), INT64))
        self.stacks = [self.returns, *(v for _, v in made.stacks.all)]
        self.params = (self.part, self.level, *self.kept.values(), *self.registers, *self.stacks)
        self.pure = all(f.func_type.pure for _, f in group.members)
        self.kind = FuncType(tuple(p.type for p in self.params), self.result, pure=self.pure)

    def function(self, ref: Var | GlobalVar, kernel: str) -> Function:
        """The function, which `ref` names; `kernel` is the tensor function that takes a frame."""
        self.ref, self.kernel = ref, kernel
        parts = [(k, run_task(self.text(code))) for k, code in enumerate(self.codes)]
        while len(parts) > 1:  # neighbours become one, so that a part is found in few steps
            pairs = zip(parts[::2], parts[1::2], strict=False)
            whole = [(k, self.either(one, first, other)) for (k, one), (first, other) in pairs]
            parts = whole + parts[2 * len(whole) :]
        return placed(Function(self.kind, self.params, parts[0][1]), self.device)

    def either(self, one: Expr, first: int, other: Expr) -> Expr:
        """The parts before `first`, or those from it on."""
        return graph.if_(graph.call("less", self.part, _count(first)), one, other)

    def frame_kernel(self, name: str) -> PrimFunc:
        """The tensor function that takes a frame: how many are taken then. It traps where there is no more."""
        level, out = Buffer("level", (), INT64), Buffer("out", (), INT64)
        said = (
            f"{self.group.title()}: recursion takes more than {self.depth} frames; --passes recursion[depth=N], or the"
            " attribute recursion_depth of the function, says how many there are"
        )
        check = Assert(self.room(level[()]), said)
        taken = store(out, (), apply("add", level[()], 1))
        return PrimFunc(name, (level, out), 1, seq(check, taken), {FRAMES: self.depth})

    def room(self, level: Scalar) -> Scalar:
        """Whether there is one more frame."""
        return apply("lt", level, self.depth)

    def wrapper(self, member: int, ref: Var | GlobalVar, function: Function) -> Function:
        """A function of the group, as it is in the source, as a call of the new one, which `ref` names."""
        own = list(function.params)
        kept = [p in self.kept for p in self.group.members[member][1].params]
        given: dict[Var, Expr] = dict(
            zip(self.kept.values(), (p for p, k in zip(own, kept, strict=True) if k), strict=True)
        )
        given.update(zip(self.entries[member], (p for p, k in zip(own, kept, strict=True) if not k), strict=True))
        sizes: Bound = {}
        theirs = self.group.members[member][1]
        match_types([p.type for p in theirs.params], [p.type for p in own], sizes)
        first = [_count(member), _count(0)]
        rest = [given.get(p) or nothing(instantiate(p.type, sizes)) for p in self.params[2:]]
        value = graph.var("value", function.result_type)
        body = graph.let(value, Call(function.result_type, ref, (*first, *rest)), value)
        return placed(replace(function, body=body), self.device)

    def text(self, code: PartCode) -> Task[Expr]:
        """Code as an expression."""
        match code.end:
            case Give(value):
                body = self.back(value)
            case Fork(condition, then, otherwise):
                first: Expr = yield self.text(then)
                second: Expr = yield self.text(otherwise)
                body = graph.if_(condition, first, second)
            case Go(back=None) as end:
                body = self.again({**end.registers, self.part: _count(end.to)})
            case Go() as end:
                body = self.deeper(end)
        for var, value in reversed(code.lets):
            body = graph.let(var, value, body)
        return body

    def back(self, value: Expr) -> Expr:
        """The value of a function: that of the whole where no frame is taken, else for the part that waits for it."""
        level, part = graph.var("above", COUNT), graph.var("next", COUNT)
        again = self.again({self.part: part, self.level: level, self.value: value})
        again = graph.let(part, graph.call("take", self.returns, level, axis=0), again)
        again = graph.let(level, graph.call("subtract", self.level, _count(1)), again)
        return graph.if_(graph.call("equal", self.level, _count(0)), value, again)

    def deeper(self, end: Go) -> Expr:
        """A call: a frame is taken, and filled."""
        assert end.back is not None
        level = graph.var("below", COUNT)
        place = graph.var("place", TensorType((1, 1), INT64))
        rows = {self.returns: _count(end.back), **end.saved}
        pushed: dict[Var, Expr] = {stack: self.pushed(stack, value, place) for stack, value in rows.items()}
        again = self.again({**end.registers, **pushed, self.part: _count(end.to), self.level: level})
        again = graph.let(place, graph.call("reshape", self.level, shape=(1, 1)), again)
        return graph.let(level, graph.call_tir(self.kernel, [self.level], COUNT), again)

    def pushed(self, stack: Var, value: Expr, place: Expr) -> Expr:
        """A stack with a value in the row of the frame that is taken."""
        return graph.call("scatter_nd", stack, place, graph.call("expand_dims", value, axis=(0,)))

    def again(self, new: Mapping[Var, Expr]) -> Expr:
        """The function anew, with new values for some parameters."""
        given = tuple(new.get(p, p) for p in self.params)
        odd = next((a.type for p, a in zip(self.params, given, strict=True) if not same_type(p.type, a.type)), None)
        if odd is not None:
            where = self.group.members[0][1].span
            words = Apart((self.result, odd))
            why = f"it gives {words.type(odd)} where {words.type(self.result)} is declared{words.note}"
            self.group.refuse(why, where, "recursion.C2")
        return Call(self.result, self.ref, given)


def _handed_on(group: RecursiveGroup) -> list[Var]:
    """The parameters that each call of the group hands on as they are, where it is one function."""
    if len(group.members) > 1:
        return []
    ((_, function),) = group.members
    kept = dict.fromkeys(function.params)
    for node in post_order(function.body):
        if group.callee(node) is not None:
            assert isinstance(node, Call)
            changed = [p for p, a in zip(function.params, node.args, strict=True) if a is not p]
            for p in changed:
                kept.pop(p, None)
    return list(kept)


def _count(number: int) -> Expr:
    return graph.constant(np.int64(number))


def nothing(of: Type) -> Expr:
    """A value of a type for what nobody reads."""

    def zeros(t: Type) -> Expr:
        assert isinstance(t, TensorType)
        zero = graph.constant(np.zeros((), t.dtype.numpy))
        return graph.call("broadcast_to", zero, shape=t.shape) if t.shape else zero

    return packed(of, zeros)
