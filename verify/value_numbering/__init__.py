"""Value numbering: two programs compute the same if their results get the same number (specs/verify.md,
"Bisimulation").

A number stands for a value as a term over the parameters: the operation and the numbers of its operands. Lets, tuples
and projections vanish; a tensor function has the operation that its attributes claim (which the legalize check holds it
to); a constant is its dtype, shape and bytes. Source and target are numbered in one table, so equal numbers mean equal
terms, for every input. This file shares no code with the passes that it judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.alias import bindings
from assay.semantics.devices import ANYWHERE
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid
from assay.semantics.graph.effects import acts
from assay.semantics.instance import replaced
from assay.semantics.linked import unlinked, with_linked
from assay.semantics.module import GROUP, Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, simplify
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type, flatten, symbols
from assay.verify.value_numbering.events import BodyEvents, Budget, patterns, walk_body
from assay.verify.value_numbering.nesting import Nesting, UndecidedNumbering, nesting, plain_symbols
from assay.verify.value_numbering.terms import Key, Table, attrs_key, dim_text, type_text

Array = np.ndarray[Any, Any]

STEPS, GROWTH = 100_000, 20
"""How many steps a walk over the paths of a function may take: so many, and some for each node."""


Fold = Callable[[graph.Expr, Sequence[Array]], Sequence[Array] | None]
"""Gives the values of a call whose operands are all constant, or None to leave it a term."""


def _claim(kernel: PrimFunc, table: Table) -> Key:
    """What a tensor function says it computes; the legalize check holds it to that."""
    plain = unlinked(kernel)
    if "operator" in plain.attrs:
        return ("operator", plain.attrs["operator"], attrs_key(plain.attrs.get("attrs", {})))
    return ("kernel", plain.name, table.text(kernel))


def step_results(
    kernel: PrimFunc,
    args: Sequence[int],
    table: Table,
    module: Module,
    types: Sequence[TensorType] = (),
    scalars: Sequence[Dim] = (),
    write: Callable[[Dim], str] | None = None,
) -> list[int]:
    """The numbers of what a tensor function writes, given those of what it reads. A group is the calls in it, and a
    function that holds constants the one that takes them.

    `types` are those of its parameters in this call, by default as it declares them; `write` writes a size in them, by
    default with each symbol as itself.
    """
    dim = write or partial(dim_text, name=lambda s: f"@{table.symbol(s)}")
    types = types or [TensorType(b.shape, b.dtype) for b in kernel.params]
    args, types = with_linked(kernel, args, table.constant), with_linked(kernel, types, _type_of)
    group = module.group(unlinked(kernel))
    if group is not None:
        sizes: dict[Symbol, Dim] = {}
        for p, t in zip(group.params, types, strict=False):
            sizes.update(
                (d, n) for d, n in zip(flatten(p.type)[0].shape, t.shape, strict=True) if isinstance(d, Symbol)
            )

        def inside(call: graph.CallTIR, read: list[int]) -> list[int]:
            flat = [t for of in (*(a.type for a in call.args), call.type) for t in flatten(of)]
            sized = [TensorType(tuple(replaced(d, sizes) for d in t.shape), t.dtype) for t in flat]
            given = [replaced(d, sizes) for d in call.scalars]
            return step_results(_member(module, call), read, table, module, sized, given, write)

        return group_results(group, args, inside)
    claim = (*_claim(kernel, table), *(dim(simplify(d)) for d in scalars))
    texts = [f"Tensor(({', '.join(dim(simplify(d)) for d in t.shape)}), {t.dtype})" for t in types]
    read = len(texts) - kernel.num_outputs
    return _results(claim, texts[:read], texts[read:], args, table)


def _type_of(array: Array) -> TensorType:
    return TensorType(array.shape, dtype(array.dtype))


def group_results(
    group: graph.Function, args: Sequence[int], call: Callable[[graph.CallTIR, list[int]], list[int]]
) -> list[int]:
    """The numbers of a group's result; `call` gives those of one call, given the numbers of what it reads."""
    holds: dict[graph.Expr, list[int]] = {p: [n] for p, n in zip(group.params, args, strict=True)}
    made: list[int] = []
    for var, value in bindings(group):
        if not isinstance(value, graph.CallTIR):
            raise Invalid(
                f"{graph.show_head(value)} in a group: only calls of tensor functions can be", label="fuse.C3"
            )
        holds[var] = made = call(value, [n for a in value.args for n in holds[a]])
    return made


def _member(module: Module, call: graph.CallTIR) -> PrimFunc:
    kernel = module.kernel(call.func)
    if GROUP in kernel.attrs:
        raise Invalid(f"{kernel.name} is a group inside a group", label="fuse.C4")
    return kernel


def _results(claim: Key, operands: list[str], results: list[str], args: Sequence[int], table: Table) -> list[int]:
    if claim[:2] == ("operator", "astype") and operands == results:
        return list(args)  # a copy: the same value
    call = table.number(*claim, tuple(operands), tuple(results), *args)
    return [table.number("result", call, i) for i in range(len(results))] or [call]  # it is something all the same


def tensors(value: int, of: Type, table: Table) -> list[int]:
    """The numbers of the tensors inside a value, left to right."""
    if not isinstance(of, TupleType):
        return [value]
    return [n for i, t in enumerate(of.fields) for n in tensors(table.field_of(value, i), t, table)]


@dataclass
class Numbered:
    """The numbers of a function's nodes, by identity, and of its result; what its bodies do, by function."""

    function: graph.Function
    result: int
    of: dict[int, int]
    order: list[graph.Expr]
    nest: Nesting
    walks: dict[int, BodyEvents]
    type_key: Callable[[Type], str]
    """A type as text: equal exactly for equal types, up to the names of symbols that were made for a node."""

    @property
    def events(self) -> int:
        """The number of what the function's body does, besides its result: failures and actions in their order."""
        return self.walks[id(self.function)].events


Seal = Callable[[graph.Function, Key, BodyEvents, "Numbering"], Key]
"""Gives the key of an inner function from the key of what it is and its events."""


class Numbering:
    """Numbers one top-level function. See `number_function`."""

    def __init__(
        self, function: graph.Function, module: Module, table: Table, exact: bool, least: Mapping[int, int]
    ) -> None:
        self.function, self.module, self.table, self.exact = function, module, table, exact
        self.nest = nesting(function, module, least)
        self.budget = Budget(STEPS + GROWTH * len(self.nest.order))
        self.of: dict[int, int] = {}
        self.walks: dict[int, BodyEvents] = {}
        self.symbols: dict[Symbol, int] = {}
        self.maker: dict[Symbol, graph.Expr] = {}
        self.recursive = any(isinstance(let.value, graph.Function) for let in self.nest.lets.values())
        self.open: dict[int, frozenset[int]] = {}
        """For a node the recursive functions around it, by identity, that it names from inside."""

    def run(self, fold: Fold | None, seal: Seal | None) -> Numbered:
        """Number all nodes, operands first, with a rule that folds constants and one for inner functions."""
        for node in self.nest.order:
            if not isinstance(node, graph.Var):
                self.of[id(node)] = self._number(node, fold, seal)
                self._introduce(node)
        for node in self.nest.order:
            if isinstance(node, graph.Var):
                self.of[id(node)] = self.at(node)
        result = self.at(self.function.body)
        return Numbered(self.function, result, self.of, self.nest.order, self.nest, self.walks, self.type_key)

    def at(self, node: graph.Expr) -> int:
        """The number of a node that is numbered, or of a variable wherever it is used."""
        known = self.of.get(id(node)) if not isinstance(node, graph.Var) else None
        return known if known is not None else self._name(self.nest.resolve(node))

    def _name(self, node: graph.Expr) -> int:
        table, nest = self.table, self.nest
        if id(node) in self.of:
            return self.of[id(node)]
        if isinstance(node, graph.Function):
            # inside its own body: two recursive functions are one if their bodies agree under this assumption
            return table.number("recursive", nest.height[id(node)])
        if isinstance(node, graph.Var) and node in nest.params:
            owner, i = nest.params[node]
            if owner is self.function:
                return table.number("parameter", i)
            return table.number("bound", nest.height[id(owner)], i)
        if isinstance(node, graph.Var) and node in nest.made:
            match, way = nest.made[node]
            number = self.at(match.value)
            for name, i in way:
                number = table.number("field", number, name, i) if name else table.field_of(number, i)
            return number
        name = node.name if isinstance(node, graph.Var) else graph.show_head(node)
        raise Invalid(f"variable {name} is used before it is bound", where=node.span, label="graph.C1")

    # --- one node ------------------------------------------------------------------------------------------------

    def _number(self, node: graph.Expr, fold: Fold | None, seal: Seal | None) -> int:
        if self.recursive:
            self._watch_recursion(node)
        args = [self.at(c) for c in node.children]
        table = self.table
        match node:
            case graph.Let():
                return args[-1]
            case graph.GlobalVar() if node.name in self.module.constants:
                return table.constant(self.module.constants[node.name])
            case graph.GlobalVar():
                return table.number("global", node.name)
            case graph.ExternFunc():
                return table.number("extern", node.name, self.type_key(node.type))
            case graph.Constructor():
                return table.number("constructor", node.data, node.name)
            case graph.Constant():
                number = table.constant(node.data)
            case graph.Tuple():
                number = table.number("tuple", tuple(args))
            case graph.TupleGetItem():
                number = table.field_of(args[0], node.index)
            case graph.If():
                number = table.number("if", *args)
            case graph.Match():
                number = table.number("match", patterns(node), *args)
            case graph.Function():
                number = self._function(node, args[0], seal)
            case _ if acts(node):
                function, i = self.nest.places[id(node)]
                high = 0 if function is self.function else self.nest.height[id(function)]
                number = table.number("acted", high, i)
            case graph.Call() if isinstance(node.op, graph.Expr):
                number = table.number("apply", tuple(map(self.type_key, node.type_args)), *args)
            case graph.MatchCast():
                number = table.number("match_cast", self.type_key(node.type), *args)
            case graph.OnDevice() if self.exact:
                number = table.number("on_device", repr(node.wanted), node.constrain_body, node.constrain_result, *args)
            case graph.OnDevice():
                return args[0]
            case graph.ShapeExpr():
                number = table.number("shape", *map(self.dim_key, node.dims))
            case graph.ShapeOf():
                number = table.number("shape_of", "" if self.exact else self.type_key(node.value.type), *args)
            case _:
                number = self._call(node, args, fold)
        if self.exact and node.device != ANYWHERE:
            number = table.number("on", number, repr(node.device))
        return number

    def _call(self, node: graph.Expr, args: list[int], fold: Fold | None) -> int:
        """The number of an operator's or a tensor function's call.

        Unless asked to be exact, a view is its operand's bytes and has their number, and a tensor function is what it
        claims to be.
        """
        table = self.table
        if fold is not None and all(a in table.constants for a in args):
            values = fold(node, [table.constants[a] for a in args])
            if values is not None:
                return self._several([table.constant(v) for v in values], node)
        match node:
            case graph.Call() if isinstance(node.op, Operator):
                if node.op.view and not self.exact:
                    return args[0]
                claim: Key = ("operator", node.op.name, attrs_key(node.attrs, self.dim_key))
            case graph.CallTIR() if self.exact:
                claim = ("kernel", node.func, *map(self.dim_key, node.scalars), self.type_key(node.type))
            case graph.CallTIR():
                kernel, types = self.module.kernel(node.func), [t for c in (*node.args, node) for t in flatten(c.type)]
                made = step_results(kernel, args, table, self.module, types, node.scalars, self.dim_key)
                return self._several(made, node)
            case _:
                raise Crash(f"no operation in {graph.show_head(node)}")
        if self.exact:
            return table.number(*claim, *args)
        operands = [self.type_key(c.type) for c in node.children]
        results = [self.type_key(t) for t in flatten(node.type)]
        return self._several(_results(claim, operands, results, args, table), node)

    def _several(self, numbers: list[int], node: graph.Expr) -> int:
        return numbers[0] if isinstance(node.type, TensorType) else self.table.number("tuple", tuple(numbers))

    def _function(self, node: graph.Function, body: int, seal: Seal | None) -> int:
        walk = walk_body(node, self.nest, self.module, self.table, self.at, self._action, self.budget, spans=self.exact)
        self.walks[id(node)] = walk
        key: Key = ("function", self._signature(node), body)
        if seal is not None and node is not self.function:
            key = seal(node, key, walk, self)
        else:
            key = (*key, walk.events)
        return self.table.number(*key)

    def _signature(self, node: graph.Function) -> Key:
        """What a caller sees. A symbol that only the result has is a size that a run tells (rule M4)."""
        of, nest = node.func_type, self.nest
        body = nest.parts[id(node), 0]
        own: dict[Symbol, str] = {}

        def result_symbol(s: Symbol) -> str:
            by = self.maker.get(s)
            if s in nest.named or (by is not None and not nest.regions.inside(nest.region.get(id(by), 0), body)):
                return self._symbol(s)
            return own.setdefault(s, f"?{len(own)}")

        params = tuple(self.type_key(p.type) for p in node.params)
        kinds = tuple(self.table.symbol(t) for t in of.type_params)
        result = type_text(of.result, lambda d: dim_text(d, result_symbol), self.table)
        return (params, result, kinds, of.pure, attrs_key(node.attrs, self.dim_key))

    def _action(self, node: graph.Expr) -> Key:
        """What an action does, and to what."""
        what = (node.format,) if isinstance(node, (graph.Print, graph.AssertOp)) else ()
        types = () if self.exact else tuple(self.type_key(c.type) for c in node.children)
        return (type(node).__name__, *what, tuple(map(self.at, node.children)), types)

    # --- symbols and types -----------------------------------------------------------------------------------------

    def _introduce(self, node: graph.Expr) -> None:
        """The symbols that were made for the node's type are its dims; those that a person wrote are themselves."""
        for i, s in enumerate(plain_symbols(node.type)):
            if s not in self.nest.named and s not in self.symbols:
                self.symbols[s] = self.table.number("dim", self.of[id(node)], i)
                self.maker[s] = node

    def _symbol(self, of: Symbol) -> str:
        return f"#{self.symbols[of]}" if of in self.symbols else f"@{self.table.symbol(of)}"

    def dim_key(self, dim: Dim) -> str:
        """A size as text, the same for the same size."""
        return dim_text(dim, self._symbol)

    def type_key(self, of: Type) -> str:
        """A type as text, the same for equal types."""
        if isinstance(of, TensorType) and of.is_static:
            return str(of)
        return type_text(of, self.dim_key, self.table) if symbols(of) else self.table.type_key(of)

    # --- recursion ---------------------------------------------------------------------------------------------------

    def _watch_recursion(self, node: graph.Expr) -> None:
        """A node that names a function from inside it must stay inside: outside, the name means something else."""
        inside: frozenset[int] = frozenset()
        for child in node.children:
            if isinstance(child, graph.Var):
                child = self.nest.resolve(child)
                if isinstance(child, graph.Function) and id(child) not in self.of:
                    inside |= {id(child)}
            inside |= self.open.get(id(child), frozenset())
        inside -= {id(node)}
        if inside:
            self.open[id(node)] = inside
            here = self.nest.region.get(id(node), 0)
            if not all(self.nest.regions.inside(here, self.nest.parts[f, 0]) for f in inside):
                at = f" at {node.span}" if node.span else ""
                raise UndecidedNumbering(
                    f"{graph.show_head(node)}{at} names a recursive function, and is used in its body and outside"
                )


def number_function(
    function: graph.Function,
    module: Module,
    table: Table,
    fold: Fold | None = None,
    *,
    exact: bool = False,
    seal: Seal | None = None,
    least: Mapping[int, int] | None = None,
) -> Numbered:
    """Number every node of a top-level function, and the events of every body.

    With `fold`, calls on constants become constants. With `exact`, nothing vanishes but lets and projections: views
    and copies are operations, devices count, and so do the places of what can fail. Undecided where a proof would need
    too many steps. `least` are heights that functions have at least, see `assay.verify.value_numbering.nesting`.
    """
    return Numbering(function, module, table, exact, least or {}).run(fold, seal)
