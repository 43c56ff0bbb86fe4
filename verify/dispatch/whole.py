"""Whether main as a whole may be padded, and at which sizes (specs/verify.md, "Kernels for unknown sizes").

Inputs are padded once and results cut once, and all that is between runs at the padded sizes. That is right where
padding is neutral for every tensor function along what is padded in its call (`assay.verify.dispatch.neutral`), and
every view keeps what is padded at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assay.semantics import graph
from assay.semantics.errors import Trap
from assay.semantics.instance import sizes_of_call
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Expr, Var, apply, as_expr, evaluate_dim, provably_equal, simplify, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, flatten, same_type
from assay.verify.dispatch.neutral import NotNeutral

Why = Callable[[PrimFunc, Collection[Var]], str]
"""Why padding along some symbols of a tensor function is not neutral; "" where it is."""


@dataclass(eq=False)
class WholeProof:
    """The proof for main, along symbols of these names."""

    module: Module
    names: frozenset[str]
    why: Why
    dims: dict[int, Dim] = field(default_factory=dict)
    """The dims in main that speak of a padded symbol: none may get smaller."""

    @cached_property
    def symbols(self) -> frozenset[Var]:
        """The symbols of main's inputs that are padded."""
        types = (p.type for p in self.module.main.params)
        dims = (d for t in types if isinstance(t, TensorType) for d in t.shape)
        return frozenset(v for d in dims for v in variables(d) if v.name in self.names)

    @cached_property
    def refused(self) -> str:
        """Why main is not padded as a whole; "" where it may be."""
        if not self.symbols:
            return f"no input has a dim that is {' or '.join(sorted(self.names))}"
        try:
            for p in self.module.main.params:
                self.type(p.type, f"input {p.name!r}")
            chain, result = graph.let_chain(self.module.main.body)
            for let in chain:
                self.value(let.value)
            self.value(result)
        except NotNeutral as reason:
            return str(reason)
        return ""

    def type(self, of: Type, what: str) -> None:
        """What a type speaks of has to be known before a run."""
        match of:
            case TensorType():
                for d in of.shape:
                    if any(v not in self.known for v in variables(d)):
                        raise NotNeutral(f"a size of {what} is told by the run only")
                    if self.is_grown(d):
                        self.dims[id(d)] = d
            case TupleType():
                for t in flatten(of):
                    self.type(t, what)
            case ShapeType():
                if any(self.is_grown(d) for d in of.dims):
                    raise NotNeutral(f"{what} holds a size that would be padded")
            case _:
                raise NotNeutral(f"{what} is {of}")

    @cached_property
    def known(self) -> frozenset[Var]:
        """The symbols that the inputs tell."""
        types = (p.type for p in self.module.main.params)
        return frozenset(d for t in types if isinstance(t, TensorType) for d in t.shape if isinstance(d, Var))

    def is_grown(self, d: Dim) -> bool:
        """Whether a dim speaks of a padded symbol."""
        return any(v in self.symbols for v in variables(d))

    def value(self, node: graph.Expr) -> None:
        """What main computes in one step."""
        match node:
            case graph.Var() | graph.Constant() | graph.TupleGetItem() | graph.Tuple():
                for child in node.children:
                    self.value(child)
            case graph.CallTIR():
                self.call(node)
            case graph.Call(op=Operator() as op) if op.view and len(node.args) == 1:
                self.view(node, op)
            case graph.MatchCast() if same_type(node.type, node.value.type):
                self.value(node.value)
            case graph.OnDevice():
                self.value(node.value)
            case graph.ShapeExpr():
                self.type(node.type, "a shape")
            case graph.MatchCast():
                raise NotNeutral(f"main casts to {node.type} while it runs")
            case graph.Call():
                raise NotNeutral("main calls a function")
            case _:
                raise NotNeutral(f"main has a {type(node).__name__.lower()}, of which nothing is shown")
        self.type(node.type, "a value")

    def call(self, node: graph.CallTIR) -> None:
        """A tensor function is to be neutral along what grows in this call of it."""
        func = self.module.kernel(node.func)
        sizes = sizes_of_call(node, func)
        grown = {v for v, d in sizes.items() if self.is_grown(d)}
        self.dims.update((id(sizes[v]), sizes[v]) for v in grown)
        left = {v for b in func.params for d in b.shape for v in variables(d)} - set(sizes)
        if left:
            raise NotNeutral(f"{node.func} has sizes that its call does not tell")
        reason = self.why(func, grown)
        if reason:
            claim = func.attrs.get("operator")
            raise NotNeutral(f"{node.func}{f' ({claim})' if claim else ''}: {reason}")

    def view(self, node: graph.Call, op: Operator) -> None:
        """A view has the same bytes in a row: padding that was at the end has to be there."""
        before, after = node.args[0].type, node.type
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            raise NotNeutral(f"{op.name} of {before}")
        for some, others in groups(before.shape, after.shape):
            grown = [d for d in (*some, *others) if self.is_grown(d)]
            single = len(some) == len(others) == 1
            if grown and not single and not (self.leads(some) and self.leads(others)):
                raise NotNeutral(f"{op.name} from {before} to {after} mixes padding with what is not")

    def leads(self, dims: Sequence[Dim]) -> bool:
        """Whether of some dims only the first may be padded, 1s before it not counted."""
        left = list(dims)
        while left and left[0] == 1:
            left.pop(0)
        return not any(self.is_grown(d) for d in left[1:])

    def fits(self, sizes: Mapping[Var, int], target: Mapping[Var, int]) -> bool:
        """Whether no dim, and no size that is handed over, is below 0 at the sizes or less at the target."""
        try:
            return all(0 <= evaluate_dim(d, sizes) <= evaluate_dim(d, target) for d in self.dims.values())
        except Trap:
            return False


def groups(before: Sequence[Dim], after: Sequence[Dim]) -> Iterator[tuple[list[Dim], list[Dim]]]:
    """The dims of a view in stretches of equal products, as short as they are seen to be."""
    some: list[Dim] = []
    others: list[Dim] = []
    left, right = list(before), list(after)
    while left or right:
        if left and (not some or not right or _less(some, others)):
            some.append(left.pop(0))
        elif right:
            others.append(right.pop(0))
        else:
            some.append(left.pop(0))
        if some and others and provably_equal(_product(some), _product(others)):
            yield some, others
            some, others = [], []
    if some or others:
        yield some, others


def _less(some: Sequence[Dim], others: Sequence[Dim]) -> bool:
    """Which side of a stretch is to be made longer: the one with fewer symbols or the smaller factor."""
    return (_symbols(some), _factor(some)) < (_symbols(others), _factor(others))


def _symbols(dims: Sequence[Dim]) -> int:
    return sum(isinstance(d, Expr) for d in dims)


def _factor(dims: Sequence[Dim]) -> int:
    found = 1
    for d in dims:
        found *= d if isinstance(d, int) else 1
    return found


def _product(dims: Sequence[Dim]) -> Dim:
    found: Expr = as_expr(1)
    for d in dims:
        found = apply("mul", found, as_expr(d))
    return simplify(found)
