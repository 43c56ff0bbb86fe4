"""One run of a program with bounds, in which given tensors may take the place of ours (specs/verify.md,
"Verdict")."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.graph import Call, CallTIR, Expr, Let, TupleGetItem, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order
from assay.verify.oracle.claims import call_title, meant
from assay.verify.oracle.declarations import (
    EVERYTHING_KEPT,
    Accepts,
    holding_zero,
    one_of_many,
    open_subnormals,
    with_steps,
)
from assay.verify.oracle.dot import TERMS
from assay.verify.oracle.excess_precision import Kept, own
from assay.verify.oracle.findings import Applied, TensorFinding
from assay.verify.oracle.follows import Follows, mixes
from assay.verify.oracle.inner_overflow import Inside
from assay.verify.oracle.layers import DECIDES, excused, judge_result
from assay.verify.oracle.left_open import Silence, closed
from assay.verify.oracle.products import least_partial_product, loosened
from assay.verify.oracle.scaled_integers import MOVES
from assay.verify.oracle.signs import carried_over, marked

Array = np.ndarray[Any, Any]
Places = dict[int, list[tuple[str, int | None]]]
"""For a call, by identity: the tensors that are its result, or field `index` of it."""

NO_MAKER = None, None, 0
"""What stands for a value of which it is not known how it was made."""


def places(module: Module, tensors: Mapping[str, Expr]) -> Places:
    """Which call of main makes which of the named tensors. Inputs, constants, results of choices and
    of calls of functions have none."""
    if not tensors:
        return {}
    bound = {id(e.var): e.value for e in post_order(module.main) if isinstance(e, Let)}
    found: Places = {}
    for name, node in tensors.items():
        index = None
        while isinstance(node, Var) and id(node) in bound:
            node = bound[id(node)]
        if isinstance(node, TupleGetItem):
            index, node = node.index, node.value
            while isinstance(node, Var) and id(node) in bound:
                node = bound[id(node)]
        if isinstance(node, CallTIR) or (isinstance(node, Call) and isinstance(node.op, Operator)):
            found.setdefault(id(node), []).append((name, index))
    return found


@dataclass
class BoundedRun:
    """`run` gives what M9 allows for the outputs. A tensor among `theirs` is judged where it is made, on the operands
    that were used, and is used in place of ours from there on. Where only some are `asked` for, the others among them
    are used as they are: what makes those is not computed."""

    module: Module
    where: Places = field(default_factory=dict)
    theirs: Mapping[str, Array] = field(default_factory=dict)
    accepts: Accepts = EVERYTHING_KEPT
    flushing: bool = False
    findings: dict[str, TensorFinding] = field(default_factory=dict)
    """In the order of evaluation."""
    makers: dict[int, tuple[Value, Applied, int]] = field(default_factory=dict)
    """Results that come of operands known exactly, or of a decision, and how; for judging outputs that are such
    results."""
    kept: Kept = field(default_factory=Kept)
    narrowed: bool = False
    """Whether an element is open, and was taken for what our definition gives."""
    follows: Follows | None = None
    """What errors hang together by, where that is followed."""
    mixed: bool = False
    """Whether a contraction mixed what was not exact."""
    asked: Mapping[str, Expr] | None = None
    """The tensors that are judged, with the calls of main that make them, in the order of evaluation; None for all of
    `theirs`."""
    inside: Inside = field(init=False)

    def __post_init__(self) -> None:
        watched = self.follows is not None and not self.accepts.within
        self.inside = Inside(self.module, self.accepts.within, watched)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Value]:
        """Run the module on inputs: each output with its bounds."""
        first = [] if self.asked is None else [*self.asked.values()]
        known = {} if self.asked is None else self.standing(self.asked)
        found = graph.run(self.module, inputs, bounds=True, apply=self.apply, known=known, first=first)
        return {n: self.kept.show(v) for n, v in found.items()} if self.accepts.holds else found

    def apply(
        self, node: Call | CallTIR, attrs: Mapping[str, Any], args: Sequence[Value], ordinary: Callable[..., Value]
    ) -> Value:
        """Compute a node with bounds and judge the given tensors that it makes, which are used from there on."""
        found = meant(node, attrs, self.module)
        op, given = found if found is not None else (None, {})
        args = self.inside.read(node, args)
        used: Sequence[Value] = args
        computes = not _moves(op, given)
        if self.flushing and computes:
            used = [open_subnormals(a) if isinstance(a, Bounded) else a for a in args]
        self.mixed |= mixes(op, used)
        if self.follows is not None:
            used = self.follows.operands(node, op, used)
        result = self.kept.apply(op, given, used, ordinary) if self.accepts.holds else ordinary(*used)
        if self.flushing and computes:
            result = self.opened(op, given, args, result)
        result = loosened(self.accepts, op, given, args, result)
        result, within = self.inside.made(node, op, given, used, result)
        by = Applied(op, given, args, call_title(node))
        judged = self.where.get(id(node), [])
        before = marked(op, given, args, result)
        result = carried_over(before, self.settled(by, before, judged))
        if not any(t in self.theirs for t, _ in judged):
            if by.known is not None or (op is not None and op.name in DECIDES):
                for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
                    self.makers[id(part)] = part, by, k
            return self.inside.hold(node, self.kept.carry(result) if self.accepts.holds else result, within)
        several = isinstance(result, tuple)
        parts = list(result) if several else [result]
        if self.accepts.holds:
            parts = [self.kept.carry(p) for p in parts]
        for tensor, index in judged:
            if tensor not in self.theirs or (index is None and several):
                continue
            i = index or 0
            got = np.asarray(self.theirs[tensor])
            wanted = result[i] if several else result
            self.findings[tensor] = self.found(tensor, by, wanted, got, i)
            if tuple(wanted.shape) == got.shape and wanted.dtype == got.dtype:
                parts[i] = self.used(got)
        return self.inside.hold(node, tuple(parts) if several else parts[0], within)

    def used(self, got: Array) -> Value:
        """A given tensor as the operators that read it take it."""
        return own(got) if self.accepts.holds else Bounded.exact(got) if dtype(got.dtype).is_float else got

    def standing(self, asked: Container[str]) -> dict[int, Value]:
        """The given tensors that nobody asked for, by the identity of the call that makes them and nothing else."""
        found: dict[int, Value] = {}
        for call, names in self.where.items():
            given = [t for t, _ in names if t in self.theirs]
            alone = all(i is None and t not in asked for t, i in names if t in self.theirs)
            if given and alone and call not in self.inside.parts:
                found[call] = self.used(np.asarray(self.theirs[given[-1]]))
        return found

    def settled(self, by: Applied, result: Value, judged: Sequence[tuple[str, int | None]]) -> Value:
        """The result by our own definition, where the standard leaves an element open and its interval holds
        anything."""
        ours = closed(by, result)
        self.narrowed |= ours is not result
        return ours

    def found(self, tensor: str, by: Applied, wanted: Any, got: Array, index: int) -> TensorFinding:
        """The verdict on a given tensor."""
        return judge_result(tensor, by, wanted, got, self.accepts, index)

    def opened(self, op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], result: Value) -> Value:
        """Results that may be flushed, and what flushing within the operator adds."""
        if isinstance(result, tuple):
            return tuple(self.opened(op, attrs, args, part) for part in result)
        if isinstance(result, np.ndarray) and dtype(result.dtype).is_float:
            result = Bounded.exact(result)
        if not isinstance(result, Bounded):
            return result
        terms = TERMS[op.name](attrs, args) if op is not None and op.name in TERMS else 0
        if op is not None and op.family == "normalization":
            terms = int(result.size)
        if attrs.get("reduction") == "add" or (op is not None and op.name == "cumsum"):  # all may meet in one element
            terms = int(np.size(args[-1])) + 1
        if op is not None and result.of.is_float:
            result = one_of_many(result, args[0]) if op.name in CHOICES else with_steps(op.name, result)
        made = open_subnormals(result, result.of.smallest_normal * terms if result.of.is_float else 0.0)
        least = least_partial_product(op, attrs, args) if made.of.is_float else None
        return made if least is None else holding_zero(made, least < made.of.smallest_normal)


CHOICES = frozenset({"max", "min", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"})
"""Operators that give one of many numbers, by comparing."""


def _moves(op: Operator | None, attrs: Mapping[str, Any]) -> bool:
    """Whether an operator gives elements as they are, and computes nothing of them."""
    return op is not None and op.family in MOVES and attrs.get("reduction", "none") == "none"


@dataclass
class OpenWalk(BoundedRun):
    """The same with all that a standard leaves open: what the walk before, of which `before` are the findings, calls
    wrong is judged again."""

    before: Mapping[str, TensorFinding] = field(default_factory=dict)
    silence: Silence = field(default_factory=Silence)

    def settled(self, by: Applied, result: Value, judged: Sequence[tuple[str, int | None]]) -> Value:
        """Widen the result by what a standard leaves open at this node."""
        self.others = {i or 0: np.asarray(self.theirs[t]) for t, i in judged if t in self.theirs}
        return self.silence.widen(by, result, judged)

    def found(self, tensor: str, by: Applied, wanted: Any, got: Array, index: int) -> TensorFinding:
        """Keep the earlier verdict if it stands; judge a tensor again where openness may excuse it."""
        before = self.before.get(tensor)
        if before is None:
            return judge_result(tensor, by, wanted, got, self.accepts, index)
        if not before.may_be_excused:
            return before
        return excused(before, wanted, self.silence, got, self.others, self.theirs, self.accepts, index)


@dataclass
class RecordingRun(BoundedRun):
    """The same, which keeps tensors: by our definition (`ours`), and as they were used."""

    ours: dict[str, Any] = field(default_factory=dict)

    def found(self, tensor: str, by: Applied, wanted: Any, got: Array, index: int) -> TensorFinding:
        """Nothing is judged here."""
        return TensorFinding(tensor, "")

    def settled(self, by: Applied, result: Value, judged: Sequence[tuple[str, int | None]]) -> Value:
        """Settle as before and keep each tensor by our definition."""
        made = super().settled(by, result, judged)
        for tensor, i in judged:
            if i is not None or not isinstance(made, tuple):
                self.ours[tensor] = made[i or 0] if isinstance(made, tuple) else made
        return made
