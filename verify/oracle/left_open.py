"""What only a standard's silence allows (specs/verify.md, "Verdict").

The oracle judges by our own definition first. What is wrong by it is judged again, element by element, by a run in
which every element that an entry of `assay.semantics.left_open` opens is as wide as what the entry allows: what lies in
there is open, and what is left over is as wrong as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounding.core import plain_if_exact
from assay.semantics.bounds import Bounded, contains
from assay.semantics.graph import Constant, Expr
from assay.semantics.left_open import Opening, exactly_known, openings, use
from assay.semantics.left_open.entries import BY_OPERATOR
from assay.verify.oracle.findings import Applied, TensorFinding

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Node:
    """A node of the standard's, by the names of its tensors."""

    operator: str
    attrs: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]


@dataclass(frozen=True)
class Opened:
    """A result with what is left open in it: `upstream` is what its operands allow, `direct` what the operator itself
    opens."""

    upstream: Any
    """None where that is the result itself."""
    direct: Sequence[Opening]
    before: tuple[str, ...] = ()
    """The entries that were met before it."""
    call: int = 0
    index: int = 0
    """Which result of which call it is."""
    is_open: bool = False
    """Whether something is left open in it, or in what it was computed of."""
    of_node: int = 0
    """How many of `direct`, the first, a node of the standard's opens."""
    whole: Any = np.False_
    """Where a node of the standard's opens it, of operands in which nothing is open: there nothing but that is
    allowed."""


def closed(by: Applied, result: Value) -> Value:
    """A result in which every element that is open without more (rule M9.9) is what our definition gives; the result
    itself where there is none."""
    if (
        by.op is None
        or not by.attrs.get("open")
        or not isinstance(result, Bounded)
        or not np.isinf(result.radius).any()
    ):
        return result
    known = by.known
    with np.errstate(all="ignore"):
        if known is not None:
            return np.asarray(by.op.value(by.attrs, *known))
        ours = np.asarray(by.op.value(by.attrs, *map(exactly_known, by.operands)))
        found = list(openings(use(by.op.name, by.attrs, by.operands, ours), BY_OPERATOR))
    where = np.any([o.where for o in found], axis=0) if found else np.zeros(ours.shape, bool)
    if not where.any():
        return result
    sure = np.logical_and.reduce(
        [np.broadcast_to(a.radius == 0, ours.shape) for a in by.operands if isinstance(a, Bounded)]
    )
    where = where & sure
    return plain_if_exact(Bounded(np.where(where, ours, result.value), np.where(where, 0.0, result.radius), result.of))


def _anywhere(found: Sequence[Opening]) -> Any:
    """Where one of them is."""
    where: Any = np.False_
    for opening in found:
        where = where | opening.where
    return where


@dataclass
class Silence:
    """What is left open on one run: filled while the program runs, read where something is judged."""

    of_nodes: Mapping[str, Sequence[Opening]] = field(default_factory=dict)
    """What is left open in tensors as results of nodes of the standard's."""
    entries: dict[str, None] = field(default_factory=dict)
    results: dict[int, tuple[ref[Any], Opened]] = field(default_factory=dict)
    """By the identity of results, as long as somebody else needs these: a run's tensors with their errors together are
    much more than any of them."""
    calls: int = 0
    nodes: Mapping[str, Node] = field(default_factory=dict)
    open_names: set[str] = field(default_factory=set)
    """The tensors in which something is left open, or in what they were computed of."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def widen(self, by: Applied, result: Value, judged: Sequence[tuple[str, int | None]]) -> Value:
        """A result that holds what is left open too."""
        parts = list(result) if isinstance(result, tuple) else [result]
        direct: list[list[Opening]] = [[] for _ in parts]
        nodes = [(t, i or 0) for t, i in judged if t in self.of_nodes and (i is not None or len(parts) == 1)]
        for tensor, i in nodes:
            direct[i] += self.of_nodes[tensor]
        of_node = [len(found) for found in direct]
        if by.op is not None:
            with np.errstate(all="ignore"):
                ours = closed(by, result) if by.attrs.get("open") else result
                for opening in openings(use(by.op.name, by.attrs, by.operands, ours), BY_OPERATOR):
                    # what the standard's own node opens is said there
                    where = opening.where & ~_anywhere(
                        [o for t, i in nodes if i == opening.index for o in self.of_nodes[t]]
                    )
                    if where.any():
                        direct[opening.index].append(replace(opening, where=where))
        made = []
        before = tuple(self.entries)
        self.calls += 1
        shaped = self._shaped(by, parts[0])
        reads_open = any((a := self.of(x)) is not None and a.is_open for x in by.operands)
        for i, (part, found) in enumerate(zip(parts, direct, strict=True)):
            wide = part
            for opening in found:
                wide = opening.widened(wide)
                assert opening.entry is not None
                self.entries[opening.entry.name] = None
            is_open = reads_open or bool(found)
            whole = _anywhere([o for t, at in nodes if at == i and self.reads_known(t) for o in self.of_nodes[t]])
            if is_open:
                self.open_names.update(t for t, at in judged if (at or 0) == i)
            if isinstance(wide, (Bounded, np.ndarray)):
                upstream = closed(by, part) if found else None
                opened = Opened(upstream, found, before, self.calls, i, is_open, of_node[i], whole)
                self._keep(wide, opened if found or shaped is None else replace(shaped, call=self.calls, whole=whole))
                self.shapes.update((t, tuple(wide.shape)) for t, at in judged if (at or 0) == i)
            made.append(wide)
        return tuple(made) if isinstance(result, tuple) else made[0]

    def _shaped(self, by: Applied, result: Value) -> Opened | None:
        """What an operator opened in a tensor is open in the same elements in another shape, and nothing else is."""
        if by.op is None or by.op.name != "reshape" or not isinstance(result, (Bounded, np.ndarray)):
            return None
        (x,), shape = by.operands, result.shape
        opened = self.of(x)
        if opened is None or not opened.direct or opened.of_node:
            return None
        upstream = x if opened.upstream is None else opened.upstream
        direct = [o.reshaped(x.shape, shape) for o in opened.direct]
        return replace(opened, upstream=upstream.reshape(shape), direct=direct, index=0)

    def _keep(self, wide: Any, opened: Opened) -> None:
        """Say this of a result until nobody needs it."""
        at, results = id(wide), self.results

        def gone(it: ref[Any]) -> None:
            if at in results and results[at][0] is it:
                del results[at]

        results[at] = ref(wide, gone), opened

    def of(self, result: Any) -> Opened | None:
        """What is said of a result."""
        it, opened = self.results.get(id(result), (None, None))
        return opened if it is not None and it() is result else None

    def reads_known(self, tensor: str) -> bool:
        """Whether nothing is left open in what the node of a tensor reads."""
        return tensor in self.nodes and not any(n in self.open_names for n in self.nodes[tensor].inputs)

    def beside(self, tensor: str, given: Mapping[str, Any]) -> dict[int, Array]:
        """What was given for the results of the node that makes a tensor, by place, if it is of their shape."""
        node = self.nodes.get(tensor)
        names = node.outputs if node is not None else ()
        return {
            i: np.asarray(given[n])
            for i, n in enumerate(names)
            if n in given and np.shape(given[n]) == self.shapes.get(n)
        }

    def admitted(
        self, wide: Any, strict: Any, got: Array, others: Mapping[int, Array], node: Mapping[int, Array]
    ) -> tuple[Array, tuple[str, ...]]:
        """Where given elements are what is left open, and by which entries."""
        opened = self.of(wide)
        found = np.zeros(got.shape, bool)
        by: dict[str, None] = {}
        for place, opening in enumerate(opened.direct if opened is not None else ()):
            with np.errstate(all="ignore"):
                fields = node if opened is not None and place < opened.of_node else others
                here = np.broadcast_to(opening.admits(got, fields), got.shape)
            if here.any() and opening.entry is not None:
                by[opening.entry.name] = None
                found |= here
        upstream = opened.upstream if opened is not None and opened.upstream is not None else wide
        if isinstance(upstream, Bounded):
            alone = strict if isinstance(strict, Bounded) else Bounded.exact(np.asarray(strict))
            here = contains(upstream, got) & ~contains(alone, got) & ~found
            if opened is not None:
                here &= ~opened.whole
            if here.any():
                by.update(dict.fromkeys(opened.before if opened is not None else self.entries))
                found |= here
        return found, tuple(by)


def without_value(finding: TensorFinding, by: Applied | None, allowed: Any, index: int) -> TensorFinding:
    """A finding of which elements are undecided, without those that have no value at all: an entry says so of them."""
    if (
        not finding.open
        or finding.wrong
        or by is None
        or by.op is None
        or by.known is None
        or not isinstance(allowed, Bounded)
    ):
        return finding
    if by.op.name not in BY_OPERATOR:
        return finding
    with np.errstate(all="ignore"):
        ours = by.op.value(by.attrs, *by.known)
        found = [
            o
            for o in openings(use(by.op.name, by.attrs, by.operands, ours), BY_OPERATOR)
            if o.index == index and o.low is None and o.only is None
        ]
    where = np.logical_or.reduce([np.zeros(allowed.shape, bool), *(o.where for o in found)]) & np.isinf(allowed.radius)
    if not where.any():
        return finding
    silent = tuple(dict.fromkeys(o.entry.name for o in found if o.entry is not None))
    return replace(finding, unknown=finding.unknown & ~where, excused=int(np.count_nonzero(where)), silent=silent)


def of_nodes(
    nodes: Mapping[str, Node],
    ours: Mapping[str, Any],
    used: Mapping[str, Any],
    tensors: Mapping[str, Expr],
    inputs: Mapping[str, Any],
) -> dict[str, list[Opening]]:
    """What is left open in the results of nodes of the standard's, by tensor. `ours` has their results by our
    definition, `used` what was computed with."""
    found: dict[str, list[Opening]] = {}
    for node in {id(n): n for n in nodes.values()}.values():
        operands = [_value(n, used, tensors, inputs) for n in node.inputs if n]
        results = [ours.get(n) for n in node.outputs]
        if any(a is None for a in operands) or any(r is None for r in results):
            continue
        for opening in openings(use(node.operator, node.attrs, operands, tuple(results)), BY_OPERATOR):
            found.setdefault(node.outputs[opening.index], []).append(opening)
    return found


def _value(name: str, used: Mapping[str, Any], tensors: Mapping[str, Expr], inputs: Mapping[str, Any]) -> Any:
    if name in used:
        return used[name]
    if name in inputs:
        return inputs[name]
    node = tensors.get(name)
    return node.data if isinstance(node, Constant) else None
