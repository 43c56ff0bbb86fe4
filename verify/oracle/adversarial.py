"""A backend that is right and nasty (specs/verify.md, "Adversarial runs").

`Adversary` runs a graph as rule M9 allows and no other backend would: sums of products in a random order and tree,
rounded in their own dtype at every step; elementwise results anywhere in their interval, at its ends too; subnormal
numbers flushed, all, none or by each operator as it likes; tensor functions with independent iterations shuffled and
fresh memory full of garbage. A seed replays exactly.

What the oracle calls wrong here is a false alarm of the oracle; what a test calls wrong is too strict a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.semantics.bounds import Bounded, contains, windows
from assay.semantics.dtypes import FLOAT64, dtype
from assay.semantics.graph import Call, CallTIR, Constant
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.verify.backends.protocol import Prepared, Subject, cannot
from assay.verify.oracle.declarations import Accepts, flushed
from assay.verify.oracle.disturbed import Disturbed
from assay.verify.oracle.dot import TERMS
from assay.verify.oracle.scaled_integers import MOVES, exact_result
from assay.verify.oracle.walk import Places, places

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
PIECES = 6


@dataclass(frozen=True)
class Adversary:
    """The backend. `flush` says whether all subnormal numbers are flushed; None lets the seed decide, for all or for
    each operator by itself."""

    seed: int = 0
    flush: bool | None = None
    name: str = "adversarial"
    accepts: Accepts = Accepts(flushes=True)

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Give a function that runs the module once, in its own way. Invalid (backend.C2) for tensors it cannot see."""
        main = subject.module.main
        outputs = subject.outputs
        where = places(subject.module, subject.tensors)
        made = {t for found in where.values() for t, _ in found}
        given = {n: e for n, e in subject.tensors.items() if isinstance(e, Constant) or e in main.params}
        for name in wanted:
            if name not in outputs and name not in made and name not in given:
                raise cannot(self.name, f"the tensor {name} is made by a choice or a call")

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            attempt = Attempt(subject.module, np.random.default_rng(self.seed), self.flush, where)
            results = attempt.run(inputs)
            known = {n: e.data if isinstance(e, Constant) else inputs[e.name] for n, e in given.items()}
            known |= attempt.seen | results
            for name in wanted:
                if name not in known:
                    raise cannot(self.name, f"the tensor {name} is in a branch that was not taken")
            return {n: known[n] for n in wanted}

        return run


@dataclass
class Attempt:
    """One run, with everything that it picks."""

    module: Module
    rng: np.random.Generator
    flush: bool | None = None
    where: Places | None = None
    seen: dict[str, Array] = field(init=False, default_factory=dict)
    flushes: float = field(init=False)
    """How probable it is that an operator takes its subnormal operands for zeros, and a subnormal result."""

    def __post_init__(self) -> None:
        self.flushes = float(self.rng.integers(3)) / 2 if self.flush is None else float(self.flush)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The outputs of main by name; tensors that are asked for by `where` are in `seen`."""
        kernel = Disturbed(self.rng)
        return graph.run(self.module, inputs, apply=self.apply, kernel=kernel.run)

    def apply(self, node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]) -> Value:
        """Compute a node in this run's own way, and keep the tensors that are asked for."""
        # of a tensor function the order of operations is the meaning (rule M10): only its loops are free
        result = self.value(node.op, attrs, args, ordinary) if isinstance(node, Call) else ordinary(*args)
        for tensor, index in (self.where or {}).get(id(node), []):
            part = result[index] if index is not None and isinstance(result, tuple) else result
            if isinstance(part, np.ndarray):
                self.seen[tensor] = part
        return result

    def value(self, op: Any, attrs: Attrs, args: Sequence[Any], ordinary: Callable[..., Value]) -> Any:
        """One member of the set of results that are right on these operands."""
        if op.family in MOVES or not all(isinstance(a, np.ndarray) for a in args):
            return ordinary(*args)
        if self.rng.random() < self.flushes:
            args = [flushed(a) for a in args]
        with np.errstate(all="ignore"):
            if op.name in TERMS and dtype(args[0].dtype).is_float:
                result = self.in_pieces(op, attrs, args)
            else:
                result = self.noisy(op, attrs, args, ordinary)
        return tuple(map(self.some_flushed, result)) if isinstance(result, tuple) else self.some_flushed(result)

    def some_flushed(self, result: Any) -> Any:
        """A result with zeros for some of its subnormal elements."""
        if not self.flushes:
            return result
        return np.where(self.rng.random(np.shape(result)) < self.flushes, flushed(result), result)

    # --- sums of products in any order and tree ---------------------------------------------------------------------

    def in_pieces(self, op: Operator, attrs: Attrs, args: Sequence[Array]) -> Array:
        """A contraction or sum as partial results over pieces of an axis, added up in a random tree."""
        of = args[0].dtype
        match op.name:
            case "matmul":
                a, b = args
                parts = [
                    op.value(attrs, np.take(a, p, a.ndim - 1), np.take(b, p, max(b.ndim - 2, 0)))
                    for p in self.pieces(a.shape[-1])
                ]
            case "sum" | "mean" if args[0].ndim and (attrs["axis"] is None or attrs["axis"]):
                (x,) = args
                axes = range(x.ndim) if attrs["axis"] is None else [a % x.ndim for a in attrs["axis"]]
                axis = int(self.rng.choice(list(axes)))
                total = {**attrs, "axis": tuple(axes)}
                parts = [_sum(total, np.take(x, p, axis)) for p in self.pieces(x.shape[axis])]
                if op.name == "mean" and parts:
                    count = int(np.prod([x.shape[a] for a in axes]))
                    return np.asarray(self.tree(parts) / of.type(count), of)
            case name if name.startswith("nn.conv"):
                x, w, *bias = args
                if attrs["groups"] == 1 and w.shape[1] > 1:
                    parts = [op.value(attrs, x[:, p], w[:, p]) for p in self.pieces(x.shape[1])]
                elif np.isfinite(w).all():  # few channels are added up, or none: the pieces are of windows
                    parts = [op.value(attrs, p, w) for p in self.shares(x)]
                else:
                    parts = self.of_taps(attrs, x, w)
                if bias and parts:
                    flat = bias[0].reshape((-1, *(1,) * (x.ndim - 2)))
                    parts.append(np.broadcast_to(flat, parts[0].shape))
            case name if name.startswith("nn.avg_pool"):
                parts = [op.value(attrs, p) for p in self.shares(args[0])]
            case _:
                parts = []
        return self.tree(parts) if parts else np.asarray(op.value(attrs, *args))

    def pieces(self, size: int) -> list[Array]:
        """The places 0 to size - 1 in random order, in a few pieces of random sizes; none is empty."""
        if size == 0:
            return []
        cuts: Any = np.unique(self.rng.integers(0, size, int(self.rng.integers(PIECES)))) if size > 1 else []
        return [p for p in np.split(self.rng.permutation(size), cuts) if p.size]

    def shares(self, x: Array) -> list[Array]:
        """Arrays that add up to x: each element is in one of them, and a zero of its sign in the others."""
        pieces = self.pieces(PIECES)
        owner = self.rng.integers(0, len(pieces), x.shape)
        return [np.where(owner == k, x, np.copysign(x.dtype.type(0), x)) for k in range(len(pieces))]

    def of_taps(self, attrs: Attrs, x: Array, w: Array) -> list[Array]:
        """Parts of a convolution by the terms that are in them, of all channels and places of a window: no term is
        multiplied by a zero that it has not."""
        rank, groups = w.ndim - 2, attrs["groups"]
        x = np.pad(x, [(0, 0), (0, 0), *zip(attrs["padding"][:rank], attrs["padding"][rank:], strict=True)])
        taps = windows(x, w.shape[2:], attrs["strides"], attrs["dilation"])
        plane = taps.shape[2 : 2 + rank]
        taps = taps.reshape((len(x), groups, w.shape[1], *plane, *w.shape[2:]))
        columns = np.moveaxis(taps, 2, 2 + rank).reshape((len(x), groups, prod(plane), prod(w.shape[1:])))
        rows = w.reshape((groups, -1, columns.shape[-1])).swapaxes(1, 2)
        made = [
            operator("matmul").value({}, columns[..., p], rows[:, p]).swapaxes(2, 3)
            for p in self.pieces(columns.shape[-1])
        ]
        return [m.reshape((len(x), len(w), *plane)) for m in made]

    def tree(self, parts: Sequence[Array]) -> Array:
        """The sum of the parts, two at random at a time."""
        left = list(parts)
        while len(left) > 1:
            a = left.pop(int(self.rng.integers(len(left))))
            b = left.pop(int(self.rng.integers(len(left))))
            left.append(np.asarray(a + b, a.dtype))
        return np.asarray(left[0])

    # --- anywhere in the interval -----------------------------------------------------------------------------------

    def noisy(self, op: Operator, attrs: Attrs, args: Sequence[Array], ordinary: Callable[..., Value]) -> Any:
        """A result picked anywhere within the operator's bound, or the exact one."""
        plain: Any = ordinary(*args)
        if exact_result(op, attrs, args) is not None:
            return plain
        allowed = op.value(attrs, *[Bounded.exact(a) if dtype(a.dtype).is_float else a for a in args])
        if isinstance(plain, tuple):
            return tuple(self.pick(w, p) for w, p in zip(allowed, plain, strict=True))
        return self.pick(allowed, plain)

    def pick(self, allowed: Any, plain: Array) -> Array:
        """An array within the intervals; `plain` is one."""
        if not isinstance(allowed, Bounded) or allowed.is_decided or not allowed.of.is_float:
            return plain
        how = int(self.rng.integers(3))
        shape = allowed.shape
        place = self.rng.uniform(-1, 1, shape) if how else self.rng.choice([-1.0, 1.0], shape)
        place = np.full(shape, self.rng.choice([-1.0, 1.0])) if how == 2 else place
        if allowed.of is FLOAT64:
            place = place / 2  # there about half of a radius is for the roundings of the bound itself
        picked = np.asarray(allowed.value + place * np.where(np.isfinite(allowed.radius), allowed.radius, 0.0))
        picked = picked.astype(plain.dtype)
        return np.where(contains(allowed, picked), picked, plain)


def _sum(attrs: Attrs, x: Array) -> Array:
    return np.asarray(operator("sum").value(attrs, x))
