"""Calls of tensor functions in graph programs (rules M4 and M9; specs/interp.md, "Graph")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from assay.interp import tensor
from assay.interp.binding import hidden_symbols
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.graph.named_sizes import Sizes
from assay.interp.values import Event, Externs, Frame, Value, plain
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import CallTIR
from assay.semantics.linked import with_linked
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.scalar import Expr as Scalar, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.semantics.tensor.elementary import elementary_functions
from assay.semantics.types import TupleType, flatten
from assay.semantics.walk import occurrences


class Kernel(Protocol):
    """How a tensor function runs: `interp.vector.run`, or `interp.tensor.run`, the definition."""

    def __call__(self, func: PrimFunc, inputs: Sequence[Value], *, scalars: Sequence[Any] = ()) -> Sequence[Value]:
        """The outputs of `func` run on `inputs`, with a value for each of its scalar parameters in `scalars`."""


class Filler:
    """Runs the tensor functions of a module. Symbols that only results have as dims are handed over as scalars."""

    def __init__(
        self, module: Module, kernel: Kernel, known: Sizes, bounds: bool, externs: Externs, trace: list[Event]
    ) -> None:
        self.module = module
        self.externs = externs
        self.trace = trace
        self.bounds = bounds
        self.kernel = kernel
        self.known = known
        self.opened: dict[PrimFunc, PrimFunc] = {}
        self.choosing: dict[PrimFunc, bool] = {}

    def fill(self, node: CallTIR, args: Sequence[Value], frame: Frame) -> Value:
        """The results of a tensor function. Sizes of results that no operand tells are those of the node's type.

        On intervals: what is exact is computed as it stands, for the order of a tensor function's operations is its
        meaning (rule M10). Otherwise the bound is that of the operator that the function claims to be. Unpredictable
        where it claims none.
        """
        func = self.module.kernel(node.func)
        given = flat(args)
        arrays = [plain(a) for a in given]
        if self.bounds and (any(isinstance(a, Bounded) for a in arrays) or self.chooses(func)):
            return self.claimed(node, func, given)
        scalars = [self.known.value(d, frame) for d in node.scalars]
        hidden = hidden_symbols(func)
        if hidden:
            made = flatten(node.type)
            sizes: dict[Symbol, int] = {}
            for b, t in zip(func.outputs, made, strict=True):
                sizes |= {d: self.known.value(n, frame) for d, n in zip(b.shape, t.shape, strict=True) if d in hidden}
            func = self.opened.setdefault(func, replace(func, scalars=(*func.scalars, *hidden)))
            scalars += [sizes[s] for s in hidden]
        try:
            # host functions are short, and each run may bring other sizes: not worth compiling
            kernel: Kernel = tensor.run if func.attrs.get("host") is True else self.kernel
            more: dict[str, Any] = {}
            if calls_of(func):
                more = {"functions": self.module.kernels, "externs": self.externs, "trace": self.trace}
            with memory_traps():
                out = tuple(kernel(func, arrays, scalars=scalars, **more))
        except Trap as trap:
            raise trap.at(node.span) from None
        except Invalid as wrong:  # the sizes of this run are not those that the function takes
            raise Trap("shape", wrong.message, where=node.span, label="call.T2") from None
        return out if isinstance(node.type, TupleType) else out[0]

    def chooses(self, func: PrimFunc) -> bool:
        """Whether the function uses an operation of which a correct implementation has a choice (rule M10.4)."""
        if calls_of(func):
            return True  # what it calls is not looked at
        if func not in self.choosing:
            self.choosing[func] = bool(elementary_functions(func))
        return self.choosing[func]

    def claimed(self, node: CallTIR, func: PrimFunc, given: Sequence[Value]) -> Value:
        """The bound of the operator that the function claims to be."""
        given = with_linked(func, given, lambda x: Bounded.exact(x) if dtype(x.dtype).is_float else x)
        claim, attrs = func.attrs.get("operator"), func.attrs.get("attrs")
        if not isinstance(claim, str) or attrs is None or any(isinstance(v, Scalar) for v in attrs.values()):
            raise Unpredictable(
                f"no bound is known for the tensor function {node.func}: it claims no operator, and its operands are"
                " not exact, or it uses a transcendental function",
                where=node.span,
                label="bounds.C3",
            )
        try:
            return operator(claim).value(attrs, *given)
        except (Trap, Unpredictable) as wrong:
            raise wrong.at(node.span) from None


def flat(values: Sequence[Value]) -> list[Value]:
    """The arrays in nested tuples, left to right."""
    inside = occurrences(tuple(values), lambda v: v if isinstance(v, tuple) else ())
    return [v for v in inside if not isinstance(v, tuple)]
