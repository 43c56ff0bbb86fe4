"""A graph as a module of PyTorch, whose forward calls a function for each operator (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from assay.lower.export_walk import (
    ExportActivation,
    ExportClosure,
    ExportedValue,
    ExportItem,
    ExportWalk,
    fields_of,
    parts_of_item,
    shaped_as,
    values_of,
)
from assay.lower.simplify.bind_params import numbers
from assay.lower.tail_loops import TailLoop
from assay.semantics import graph
from assay.semantics.dtypes import dtype
from assay.semantics.graph import Constant, Function, GlobalVar, If, MatchCast, free_variables
from assay.semantics.graph.matching import Bound, instantiate, instantiate_dim
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, show
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import ShapeType, TensorType, Type, dims
from assay.semantics.walk import occurrences, post_order, reached
from assay.verify.backends.protocol import Array


@dataclass(eq=False)
class TorchValue(ExportedValue):
    """A tensor of PyTorch. In a branch or loop that is traced it is that block's operand."""

    tensor: Any


TorchItem: TypeAlias = ExportItem[TorchValue, Bound]
TorchActivation: TypeAlias = ExportActivation[TorchValue, Bound]
Part: TypeAlias = tuple[graph.Expr, TorchActivation | None]
"""A block or function, and the activation in which its free variables stand."""
Rules: TypeAlias = Mapping[str, Callable[..., Any]]


def to_torch(torch: Any, array: Array) -> Any:
    """A tensor with the same bits. NotImplementedError: PyTorch has no such element type."""
    of = dtype(array.dtype)
    if of.numpy.isbuiltin == 1:
        return torch.from_numpy(np.array(array))
    bits = np.array(array).view(np.int16 if of.bits == 16 else np.uint8)
    if not hasattr(torch, of.name):
        raise NotImplementedError(f"no element type {of.name}")
    return torch.from_numpy(bits).view(getattr(torch, of.name))


def torch_module(torch: Any, table: Rules, of: Module, traced: bool) -> Any:
    """A module of PyTorch whose forward does what main does. Results are copies: none is an input. Sizes that main
    learns from elements are read from them in each run, and stand in `sizes` after it. Where it is `traced`, branches
    and loops are PyTorch's `cond` and `while_loop`; else they are Python's."""
    graphs = (d for d in of.definitions.values() if isinstance(d, Function))
    found = (n.data for d in graphs for n in post_order(d) if isinstance(n, Constant))
    constants = {id(data): data for data in (*found, *of.constants.values())}
    walk = TorchWalk(torch, table, of, traced)

    class Main(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sizes: Bound = {}
            for i, c in enumerate(constants.values()):
                self.register_buffer(f"c{i}", to_torch(torch, c))

        def forward(self, *args: Any) -> Any:
            walk.held = {c: TorchValue(getattr(self, f"c{i}")) for i, c in enumerate(constants)}
            results, self.sizes = walk.run(args)
            return tuple(r.clone() for r in results)

    return Main()


class TorchWalk(ExportWalk[TorchValue, Bound]):
    """The walk over a program by which its operators are called, one after another."""

    LANGUAGE = "PyTorch"
    LABELS = "backend"
    UNSAID: ClassVar[Mapping[str, str]] = {}

    def __init__(self, torch: Any, table: Rules, module: Module, traced: bool) -> None:
        super().__init__(module)
        self.torch, self.table, self.traced = torch, table, traced
        self.held: dict[int, TorchValue] = {}
        """The tensors of constants, by the identity of the array."""

    def run(self, args: Sequence[Any]) -> tuple[list[Any], Bound]:
        """The tensors that main gives, and the sizes that it learned."""
        main = self.anf(self.module.main)
        self.active = [id(self.module.main)]
        at = self.bound(main, [TorchValue(a) for a in args], None)
        return [v.tensor for v in values_of(run_task(self.body(main.body, at)))], at.sizes

    # --- what the language says

    def new_sizes(self, outer: Bound | None) -> Bound:
        """Those of the outer one: all are numbers."""
        return dict(outer or {})

    def constant(self, data: Any, name: str = "") -> TorchValue:
        """The tensor of a constant."""
        return self.held[id(data)]

    def shape(self, dims: Sequence[Dim], at: TorchActivation) -> TorchValue:
        """Numbers as a vector."""
        return TorchValue(self.torch.tensor([instantiate_dim(d, at.sizes) for d in dims], dtype=self.torch.int64))

    def shape_of(self, value: TorchValue) -> TorchValue:
        """The sizes of a tensor as a vector."""
        return TorchValue(self.torch.tensor(list(value.tensor.shape), dtype=self.torch.int64))

    def matched(self, node: MatchCast, item: TorchItem, at: TorchActivation) -> TorchItem:
        """The value itself, whose sizes are learned."""
        if learns(node):
            if not isinstance(item, TorchValue):
                raise self.no_word(node)
            _learn(node, item.tensor, at.sizes)
        return item

    def bind(self, at: TorchActivation, var: graph.Var, item: TorchItem) -> None:
        """Let a variable mean a value, and the symbols that stand alone in its type the value's sizes."""
        at.values[var] = item
        leaves = [t for t in occurrences(var.type, fields_of) if isinstance(t, TensorType)]
        for t, v in zip(leaves, values_of(item), strict=False):
            for d, n in zip(t.shape, v.tensor.shape, strict=True):
                if isinstance(d, Symbol):
                    at.sizes.setdefault(d, int(n))

    def rule(
        self,
        op: Operator,
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
        values: Sequence[TorchValue],
        of: Type,
        at: TorchActivation,
    ) -> TorchValue | Sequence[TorchValue] | None:
        """The call of an operator's function."""
        if op.name not in self.table:
            return None
        known = {k: numbers(v, at.sizes) for k, v in attrs.items()}
        made = self.table[op.name](known, instantiate(of, at.sizes), *(v.tensor for v in values))
        return [TorchValue(t) for t in made] if isinstance(made, tuple) else TorchValue(made)

    # --- branches and loops

    def branches(self, node: If, at: TorchActivation) -> Task[TorchItem]:
        """The block that is taken; where it is traced, both as operands of `cond`."""
        condition = yield self.value(node.condition, at)
        assert isinstance(condition, TorchValue)
        item: TorchItem
        if not self.traced:
            item = yield self.body(node.then if bool(condition.tensor) else node.otherwise, self.inside(at))
            return item
        there = self.captured([(node.then, at), (node.otherwise, at)])

        def block(part: graph.Expr) -> Callable[..., Any]:
            return lambda *operands: self.region(there, operands, self.body(part, self.inside(at)))

        cond = self.torch.ops.higher_order.cond
        given = cond(condition.tensor, block(node.then), block(node.otherwise), tuple(v.tensor for v in there))
        return shaped_as(node.type, map(TorchValue, given))

    def looped(self, loop: TailLoop, function: Function, at: TorchActivation) -> Task[TorchItem]:
        """Round after round; where it is traced, as a `while_loop`. What decides runs before each and behind the
        last."""
        state = [v for p in function.params for v in values_of(at.values[p])]
        if self.traced:
            there = self.captured([(function, at.outer)])

            def block(part: Callable[[TorchActivation], Task[TorchItem]]) -> Callable[..., tuple[Any, ...]]:
                def traced(*operands: Any) -> tuple[Any, ...]:
                    inside = self.bound(function, [*map(TorchValue, operands[: len(state)])], at.outer)
                    return self.region(there, operands[len(state) :], part(inside))

                return traced

            def after(inside: TorchActivation) -> Task[TorchItem]:
                yield self.decided(loop, inside)
                item: TorchItem = yield self.again(loop, inside)
                return item

            decides = block(lambda inside: self.decided(loop, inside))

            def test(*operands: Any) -> Any:
                (found,) = decides(*operands)
                return found if loop.goes_on else found.logical_not()

            carried, others = tuple(v.tensor.contiguous().clone() for v in state), tuple(v.tensor for v in there)
            given = self.torch.ops.higher_order.while_loop(test, block(after), carried, others)
            at = self.bound(function, [*map(TorchValue, given)], at.outer)
            yield self.bindings(loop.before, at)
        else:
            while bool((yield self.decided(loop, at)).tensor) == loop.goes_on:
                item = yield self.again(loop, at)
                at = self.bound(function, values_of(item), at.outer)
        result: TorchItem = yield self.body(loop.end, at)
        return result

    def decided(self, loop: TailLoop, at: TorchActivation) -> Task[TorchItem]:
        """What a loop's condition is, for its state."""
        yield self.bindings(loop.before, at)
        item: TorchItem = yield self.value(loop.condition, at)
        return item

    def again(self, loop: TailLoop, at: TorchActivation) -> Task[TorchItem]:
        """The state behind a round that was decided."""
        yield self.bindings(loop.round, at)
        return tuple((yield self.values(loop.again, at)))

    def region(self, there: Sequence[TorchValue], operands: Sequence[Any], task: Task[TorchItem]) -> tuple[Any, ...]:
        """The tensors that a block gives which is traced, copied: none may be an operand, and those of two blocks lie
        in the same order. In it the values from outside are its operands."""
        in_order = self.torch.contiguous_format
        with standing_for(there, operands):
            return tuple(v.tensor.clone(memory_format=in_order) for v in values_of(run_task(task)))

    def captured(self, parts: Sequence[Part]) -> list[TorchValue]:
        """The tensors from outside that blocks and functions use, and constants."""
        used = (item for part in reached(parts, self.functions_in) for item in self.used(part))
        return list(dict.fromkeys(v for item in used for v in values_of(item)))

    def functions_in(self, part: Part) -> list[Part]:
        """The functions that a block uses, each where it was made."""
        used = (c for item in self.used(part) for c in occurrences(item, parts_of_item))
        return [(c.function, c.outer) for c in used if isinstance(c, ExportClosure)]

    def used(self, part: Part) -> list[TorchItem]:
        """What a block names: what stands outside of it, constants, and functions of the module."""
        expr, at = part
        items: list[TorchItem] = [] if at is None else [at.look(v) for v in free_variables(expr)]
        for node in post_order(expr):
            if isinstance(node, Constant):
                items.append(self.constant(node.data))
            elif isinstance(node, GlobalVar):
                items.append(run_task(self.value(node, at or self.inside(None))))
        return items


@contextmanager
def standing_for(values: Sequence[TorchValue], operands: Sequence[Any]) -> Iterator[None]:
    """Within it these values are these operands."""
    before = [v.tensor for v in values]
    try:
        for v, tensor in zip(values, operands, strict=True):
            v.tensor = tensor
        yield
    finally:
        for v, tensor in zip(values, before, strict=True):
            v.tensor = tensor


def learns_sizes(function: Function) -> bool:
    """Whether a function has sizes that only a run tells, beside those of its inputs."""
    return any(learns(node) for node in post_order(function.body) if isinstance(node, MatchCast))


def learns(node: MatchCast) -> bool:
    """Whether a cast gives sizes names."""
    return any(isinstance(d, Symbol) for d in dims(node.type))


def _learn(node: MatchCast, found: Any, sizes: Bound) -> None:
    """The sizes that a match-cast gives names to: the elements of a vector of sizes, or those of a tensor."""
    read = [int(n) for n in found] if isinstance(node.type, ShapeType) else list(found.shape)
    for d, n in zip(dims(node.type), read, strict=True):
        if isinstance(d, Symbol):
            sizes.setdefault(d, n)
        known = instantiate_dim(d, sizes)
        if isinstance(known, int) and known != n or n < 0:
            raise ValueError(f"a size is {n}, and {show(d)} is {known}")
