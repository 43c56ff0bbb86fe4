"""Inputs whose elements are categories of an encoder (specs/verify.md, "judge").

ONNX's OneHotEncoder may demand that every element is one of its categories, and on others its program traps. Which
columns of which inputs it reads, and through what, is found by runs: a column that holds a category leaves fewer
elements that are none than one that holds none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.graph import AssertOp, Call, CallTIR, Constant, Expr, Let
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order
from assay.verify.border.inputs import random_array
from assay.verify.oracle.data import MOST_COMPUTED, make_inputs

Array = np.ndarray[Any, Any]
MOST_RUNS = 2048
"""Runs by which the categories of an input are looked for; where its columns take more, it is taken for one, and where
that does too, for none."""


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
class Demand:
    """What is asserted of an encoder: the condition, the least of its marks, which are 1 where an element is a
    category, and the categories."""

    condition: Expr
    least: Expr
    kinds: Array


def categories(module: Module, given: Mapping[str, Any], seed: int) -> dict[str, Encoded]:
    """The inputs, of those that are not given, some of whose elements have to be categories; a program without symbolic
    sizes."""
    demands = [*_demands(module)]
    if not demands:
        return {}
    inputs = make_inputs(module, "random", seed, {}, given)
    numbers = np.unique(np.concatenate([d.kinds.reshape(-1) for d in demands]))
    free = [n for n, v in inputs.items() if n not in given and isinstance(v, np.ndarray)]
    found = (Encoded(n, inputs[n], [*_columns(module, inputs, n, numbers, demands)]) for n in free)
    return {e.name: e for e in found if e.columns}


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


def _demands(module: Module) -> Iterator[Demand]:
    nodes = [*post_order(module.main.body)]
    if not any(isinstance(n, AssertOp) for n in nodes):
        return
    named: dict[int, Expr] = {id(n.var): n.value for n in nodes if isinstance(n, Let)}
    for node in nodes:
        if isinstance(node, AssertOp):
            chain = _chain(node.condition, ("equal", "min", "max", "astype", "equal"), named)
            if chain and isinstance(kinds := chain[-1].args[1], Constant):
                yield Demand(chain[0], chain[1], kinds.data)


def _chain(node: Expr, names: Sequence[str], named: Mapping[int, Expr]) -> list[Call]:
    """Calls of these operators, each the first operand of the one before; none where there are others."""
    found: list[Call] = []
    for name in names:
        node = named.get(id(node), node)
        if not isinstance(node, Call) or not isinstance(node.op, Operator) or node.op.name != name:
            return []
        found.append(node)
        node = node.args[0]
    return found


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
    conditions, leasts = {id(d.condition) for d in demands}, {id(d.least) for d in demands}
    unmet, computed = 0, count()

    def apply(node: Call | CallTIR, attrs: Any, args: Sequence[Any], ordinary: Callable[..., Any]) -> Any:
        nonlocal unmet
        if next(computed) > MOST_COMPUTED:
            raise Trap("", "a run that is too long")
        if id(node) in conditions:
            return np.array(True)
        if id(node) in leasts:
            unmet += int(np.count_nonzero(args[0] != 1))
        return ordinary(*args)

    try:
        graph.run(module, inputs, apply=apply)
    except Trap:
        return 2**62
    return unmet
