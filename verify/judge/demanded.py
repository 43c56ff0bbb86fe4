"""Inputs of which a program asserts what they hold (specs/verify.md, "judge"): it traps on others.

ONNX's OneHotEncoder may demand that every element is one of its categories. Which columns of which inputs it reads, and
through what, is found by runs: a column that holds a category leaves fewer elements that are none than one that holds
none. PyTorch's searches demand boundaries that ascend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np

from assay.interp import graph
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.graph import AssertOp, Call, CallTIR, Constant, Expr, Let, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order
from assay.verify.border.inputs import random_array
from assay.verify.oracle.data import MOST_COMPUTED, make_inputs, takes

Array = np.ndarray[Any, Any]
MOST_RUNS = 2048
"""Runs by which the categories of an input are looked for; where its columns take more, it is taken for one, and where
that does too, for none."""


class Demanded(Protocol):
    """An input of which something is asserted."""

    def drawn(self, rng: np.random.Generator) -> Array:
        """Such an input."""
        ...


@dataclass(frozen=True)
class Encoded:
    """An input, and what the elements of some of its parts may be."""

    name: str
    like: Array
    columns: Sequence[tuple[Any, Array]]

    def drawn(self, rng: np.random.Generator) -> Array:
        """Such an input; the elements of its other parts are any."""
        made = random_array(self.name, self.like.shape, dtype(self.like.dtype), rng)
        for part, allowed in self.columns:
            made[part] = rng.choice(allowed, made[part].shape)
        return made


@dataclass(frozen=True)
class Ascending:
    """An input whose elements ascend along its last axis."""

    name: str
    like: Array

    def drawn(self, rng: np.random.Generator) -> Array:
        """Such an input: floats are whole numbers in half of the draws, which others then meet."""
        made = random_array(self.name, self.like.shape, dtype(self.like.dtype), rng)
        return np.sort(np.rint(made) if made.dtype.kind == "f" and rng.random() < 0.5 else made, axis=-1)


@dataclass(frozen=True)
class Demand:
    """What is asserted of an encoder: the condition, how many elements are no category, and the categories."""

    condition: Expr
    unmet: Expr
    kinds: Array


def demanded(module: Module, given: Mapping[str, Any], seed: int) -> dict[str, Demanded]:
    """The inputs, of those that are not given, of which a program without symbolic sizes asserts what they hold."""
    asserted = _Asserted(module)
    searched, demands = [*asserted.ascending()], [*asserted.demands()]
    if not searched and not demands:
        return {}
    inputs = make_inputs(module, "random", seed, {}, given)
    free = {n: v for n, v in inputs.items() if n not in given and isinstance(v, np.ndarray)}
    found: dict[str, Demanded] = {n: Ascending(n, free[n]) for n in searched if n in free and free[n].ndim}
    if found and not takes(module, {**inputs, **{n: np.sort(free[n], axis=-1) for n in found}}, whole=True):
        found = {}
    numbers = np.unique(np.concatenate([d.kinds.reshape(-1) for d in demands])) if demands else np.empty(0)
    for name, value in free.items() if demands else ():
        columns = [*_columns(module, inputs, name, numbers, demands)]
        if columns:
            found[name] = Encoded(name, value, columns)
    return found


def _columns(
    module: Module, inputs: Mapping[str, Any], name: str, numbers: Array, demands: Sequence[Demand]
) -> Iterator[tuple[Any, Array]]:
    """The parts of an input where some of these numbers leave fewer elements that are none, and those of the numbers
    that leave the fewest."""
    value = inputs[name]
    some = _held(numbers, value)
    if not some.size:
        return
    none = np.full_like(value, some[-1] + 1)
    before = _unmet(module, {**inputs, name: none}, demands)
    for part in _parts(value, MOST_RUNS // len(some)) if before else ():
        left = np.array([_unmet(module, {**inputs, name: _filled(none, part, c)}, demands) for c in some])
        if left.min() < before:
            yield part, some[left == left.min()]


class _Asserted:
    """What the main function of a module asserts."""

    ORDER = ("equal", "sum", "astype", "logical_not", "less_equal", "strided_slice")
    CATEGORY = ("equal", "sum", "astype", "equal", "max", "astype", "equal")

    def __init__(self, module: Module) -> None:
        nodes = [*post_order(module.main.body)]
        self.params = module.main.params
        self.conditions = [n.condition for n in nodes if isinstance(n, AssertOp)]
        self.named: dict[Var, Expr] = {n.var: n.value for n in nodes if isinstance(n, Let)} if self.conditions else {}

    def demands(self) -> Iterator[Demand]:
        """Those of encoders."""
        for chain in self._chains(self.CATEGORY):
            if isinstance(kinds := chain[-1].args[1], Constant):
                yield Demand(chain[0], chain[1], kinds.data)

    def ascending(self) -> Iterator[str]:
        """The parameters of which what ascends is computed."""
        for chain in self._chains(self.ORDER):
            found = {*post_order(chain[-1].args[0], self._parts)}
            yield from (p.name for p in self.params if p in found)

    def _parts(self, node: Expr) -> Sequence[Expr]:
        return (self.named[node],) if isinstance(node, Var) and node in self.named else node.children

    def _chains(self, names: Sequence[str]) -> Iterator[list[Call]]:
        """Conditions that are calls of these operators, each the first operand of the one before."""
        for node in self.conditions:
            found: list[Call] = []
            for name in names:
                node = self.named.get(node, node) if isinstance(node, Var) else node
                if not isinstance(node, Call) or not isinstance(node.op, Operator) or node.op.name != name:
                    break
                found.append(node)
                node = node.args[0]
            else:
                yield found


def _held(numbers: Array, value: Array) -> Array:
    """Those of some whole numbers that a tensor can hold, and the one behind them."""
    if not value.size or value.dtype.kind not in "iuf":
        return np.empty(0)
    of = dtype(value.dtype)
    some = numbers.astype(value.dtype)
    same = (some.astype(numbers.dtype) == numbers) & (numbers < int(min(of.max, 2**53)))
    return np.asarray(some[same])


def _parts(value: Array, most: int) -> list[Any]:
    """The columns of a tensor, or, where they are too many, all of it."""
    if value.ndim and value.shape[-1] <= most:
        return [(..., j) for j in range(value.shape[-1])]
    return [...] if most else []


def _filled(value: Array, part: Any, number: Any) -> Array:
    made = value.copy()
    made[part] = number
    return made


def _unmet(module: Module, inputs: Mapping[str, Any], demands: Sequence[Demand]) -> int:
    """How many elements are no category, in a run that goes on all the same; many, where it traps."""
    conditions, counts = {id(d.condition) for d in demands}, {id(d.unmet) for d in demands}
    unmet, computed = 0, count()

    def apply(node: Call | CallTIR, attrs: Any, args: Sequence[Any], ordinary: Callable[..., Any]) -> Any:
        nonlocal unmet
        if next(computed) > MOST_COMPUTED:
            raise Trap("", "a run that is too long")
        if id(node) in conditions:
            return np.array(True)
        made = ordinary(*args)
        unmet += int(made) if id(node) in counts else 0
        return made

    try:
        graph.run(module, inputs, apply=apply)
    except Trap:
        return 2**62
    return unmet
