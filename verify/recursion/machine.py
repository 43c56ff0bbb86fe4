"""A function over frames, read as what it is: its parts, and what its parameters are for (specs/verify.md,
"recursion").

Nothing is known of how it was made. What is found here is what the proof is tried with; whether it holds is decided by
`assay.verify.recursion.put_back`, which asks for each rule again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, Constant, Expr, Function, If, Let, Var
from assay.semantics.graph.bindings import introduced
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol, apply
from assay.semantics.tensor import Assert, Buffer, PrimFunc, program_order, seq, store
from assay.semantics.types import TensorType, same_type, symbols
from assay.semantics.walk import post_order, reached


class BrokenRule(Exception):
    """The function does not keep the rules of frames; the text says where."""


def breaks_rule(why: str) -> NoReturn:
    """A rule that is not kept."""
    raise BrokenRule(why)


def number_of(value: Expr) -> int | None:
    """The whole number that a constant is."""
    if isinstance(value, Constant) and value.data.shape == () and value.data.dtype == np.int64:
        return int(value.data)
    return None


def operator_name(value: Expr) -> str:
    """The operator that is called; "" for anything else."""
    return value.op.name if isinstance(value, Call) and isinstance(value.op, Operator) else ""


@dataclass(eq=False)
class FrameFunction:
    """A function that runs parts. `names` says whether an operand is the function itself."""

    name: str
    function: Function
    names: Callable[[Expr], bool]
    module: Module

    @property
    def params(self) -> tuple[Var, ...]:
        """Part, level, and the others."""
        return self.function.params

    def calls(self, node: Expr) -> bool:
        """Whether a node is a call of the function itself."""
        return isinstance(node, Call) and isinstance(node.op, Expr) and self.names(node.op)

    @cached_property
    def again(self) -> list[Call]:
        """All calls of itself."""
        return [n for n in post_order(self.function.body) if isinstance(n, Call) and self.calls(n)]

    @cached_property
    def calling(self) -> set[int]:
        """The nodes that are such a call, or have one inside, by identity."""
        found: set[int] = set()
        for node in post_order(self.function.body):
            if self.calls(node) or any(id(c) in found for c in node.children):
                found.add(id(node))
        return found

    @cached_property
    def kept(self) -> set[int]:
        """The places of parameters that every call of itself hands on as they are."""
        return {j for j, p in enumerate(self.params) if j > 1 and all(c.args[j] is p for c in self.again)}

    @cached_property
    def values(self) -> dict[Var, Expr]:
        """What each variable is bound to."""
        return {n.var: n.value for n in post_order(self.function.body) if isinstance(n, Let)}

    def root(self, value: Expr) -> Expr:
        """What a name of a name stands for."""
        while isinstance(value, Var) and isinstance(self.values.get(value), Var):
            value = self.values[value]
        return value

    def bound(self, value: Expr) -> Expr:
        """What a name is bound to; a parameter is itself."""
        root = self.root(value)
        return self.values.get(root, root) if isinstance(root, Var) else root

    @cached_property
    def stacks(self) -> set[int]:
        """The places of parameters that a row is put into somewhere."""
        found: set[int] = set()
        for value in self.values.values():
            if operator_name(value) == "scatter_nd":
                found.update(j for j, p in enumerate(self.params) if self.root(value.children[0]) is p)
        return found

    @cached_property
    def returns(self) -> int:
        """The place of the stack that tells where a value goes: its row is the next part of some call."""
        found: set[int] = set()
        for call in self.again:
            value = self.bound(call.args[0])
            if operator_name(value) == "take":
                found.update(j for j, p in enumerate(self.params) if self.root(value.children[0]) is p)
        return found.pop() if len(found) == 1 else breaks_rule(f"{self.name} does not go back by one stack")

    @cached_property
    def depth(self) -> int:
        """How many rows each stack has."""
        rows = {p.type.shape[:1] for p in self._stack_params() if isinstance(p.type, TensorType)}
        if len(rows) != 1:
            breaks_rule(f"the stacks of {self.name} have {len(rows)} heights")
        (one,) = rows.pop()
        return one if isinstance(one, int) else breaks_rule(f"the stacks of {self.name} have {one} rows")

    def _stack_params(self) -> Iterator[Var]:
        return (self.params[j] for j in sorted({*self.stacks, self.returns}))

    def is_frame(self, name: str) -> bool:
        """Whether a tensor function gives one more than it is given, where that is no more than the rows there are,
        and traps elsewhere."""
        kernel = self.module.definitions.get(name)
        if not isinstance(kernel, PrimFunc) or len(kernel.params) != 2 or kernel.num_outputs != 1:
            return False
        said = next((s.message for s in program_order(kernel.body) if isinstance(s, Assert)), "")
        level, out = (Buffer(b.name, (), INT64) for b in kernel.params)
        check = Assert(apply("lt", level[()], self.depth), said)
        wanted = seq(check, store(out, (), apply("add", level[()], 1)))
        return first_difference(PrimFunc(kernel.name, (level, out), 1, wanted, kernel.attrs), kernel) is None

    def require_one_size(self) -> None:
        """BrokenRule: it calls itself with arguments of other sizes; several parts tell one size, so that no run would
        compare what they tell."""
        several = next((s for s, count in self.told.items() if count > 1), None)
        if several is not None:
            breaks_rule(f"{self.name} is told {several.name} in several places")
        for call in self.again:
            if not all(same_type(p.type, a.type) for p, a in zip(self.params, call.args, strict=True)):
                breaks_rule(f"{self.name} calls itself with arguments of other sizes")

    @cached_property
    def told(self) -> dict[Symbol, int]:
        """The sizes that a run of a part tells, each with how many nodes do."""
        known = {s for p in self.params for s in symbols(p.type)}
        nodes = post_order(self.function.body, lambda n: () if isinstance(n, Function) else n.children)
        return Counter(s for n in nodes for s in introduced(n) if s not in known)

    def tells(self, number: int) -> bool:
        """Whether a run of a part tells a size."""
        nodes = post_order(self.part(number), lambda n: () if isinstance(n, Function) else n.children)
        return any(s in self.told for n in nodes for s in introduced(n))

    # --- parts -------------------------------------------------------------------------------------------------------

    def part(self, number: int) -> Expr:
        """The code of a part: what is left where the parameter `part` is a number."""
        chain = self.function.body
        numbers: dict[Expr, int] = {}
        tests: dict[Expr, bool] = {}
        while isinstance(chain, Let):
            value = chain.value
            constant = number_of(value)
            if constant is not None:
                numbers[chain.var] = constant
            elif operator_name(value) == "less" and value.children[0] is self.params[0]:
                tests[chain.var] = number < numbers.get(value.children[1], number)
            elif isinstance(value, If) and value.condition in tests and chain.body is chain.var:
                chain = value.then if tests[value.condition] else value.otherwise
                continue
            else:
                break
            chain = chain.body
        return chain

    def goes_to(self, number: int) -> list[tuple[int, Call]]:
        """Where a part goes on without a frame, by the calls that do."""
        found: list[tuple[int, Call]] = []
        for node in post_order(self.part(number)):
            if isinstance(node, Call) and self.calls(node) and self.root(node.args[1]) is self.params[1]:
                to = number_of(self.bound(node.args[0]))
                if to is not None:
                    found.append((to, node))
        return found

    def leads_to(self, one: int, other: int) -> bool:
        """Whether a part leads to another one without a frame."""
        return other in reached([to for to, _ in self.goes_to(one)], lambda n: [to for to, _ in self.goes_to(n)])

    def reads(self, number: int) -> set[int]:
        """The places of parameters whose values a part needs, or hands on to one that does."""
        parts = reached([number], lambda n: [to for to, _ in self.goes_to(n)])
        return {j for n in parts for j in self._reads_itself(n)}

    def _reads_itself(self, number: int) -> set[int]:
        at = {p: j for j, p in enumerate(self.params)}
        found: set[int] = set()
        for node in post_order(self.part(number)):
            handed_on = self.params if self.calls(node) else ()
            for i, c in enumerate(node.args if isinstance(node, Call) else node.children):
                if isinstance(c, Var) and c in at and not (handed_on and handed_on[i] is c):
                    found.add(at[c])
        return found
