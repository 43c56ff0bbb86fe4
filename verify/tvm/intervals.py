"""What every correct implementation of a tensor function gives, as intervals (specs/verify.md, "Inside a backend").

The definition of the tensor IR, walked with an interval for each float. What rule M9 allows an operator is allowed
here: an operation rounds faithfully, a product may be contracted with a sum, a sum into one element may be taken in any
order, and an elementary function errs by a few units in the last place. So compiled code outside of the intervals is
wrong; where there are none nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp.binding import bind_dims, bind_scalars, hidden_symbols, shape_at
from assay.interp.memory import Memory
from assay.interp.tensor import Unfinished, _Run
from assay.semantics.bounds import SLACK, Bounded, elementary, erf, gamma
from assay.semantics.dtypes import FLOAT64, DType, dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable, Unsupported
from assay.semantics.graph import CallTIR
from assay.semantics.module import Module
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, convert, operation, same
from assay.semantics.scalar.derived import DEFINITIONS
from assay.semantics.scalar.evaluation import needed, taken_branch
from assay.semantics.tensor import Assert, Buffer, Evaluate, PrimFunc, Store, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.calls import calls_of
from assay.semantics.tensor.recast import is_bytewise
from assay.semantics.types import TupleType
from assay.semantics.walk import post_order
from assay.verify.tvm.meaning import run_kernel, run_main, unclaimed

STATEMENTS = 20_000
"""A run of more stores than this is given up: intervals are slow."""

RULES: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "min": np.minimum, "max": np.maximum, "sqrt": np.sqrt, "rint": np.rint, "floor": np.floor, "ceil": np.ceil,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where,
    "fma": lambda a, b, c: a * b + c,
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": erf, "pow": np.power, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "isnan": np.isnan,
}  # fmt: skip
"""What a scalar operation does to intervals. Operations on bits are not here: nothing is known of them."""


def bounds_of_kernel(
    func: PrimFunc, inputs: Sequence[Any], scalars: Sequence[Any] = (), functions: Mapping[str, PrimFunc] | None = None
) -> tuple[Any, ...]:
    """The results of a tensor function: intervals of floats, and arrays. `inputs` are arrays or intervals.

    Unpredictable where intervals do not decide a branch or an index; Unsupported (tvm.C24) where an operation has no
    rule, memory is seen in elements of several sizes, or the run is long; Trap as the function traps.
    """
    func = unclaimed(func)
    if is_bytewise(func, functions or {}):
        raise Unsupported(f"{func.name} sees memory in elements of several sizes", label="tvm.C24")
    memory = Intervals()
    walk = IntervalRun(func, memory, STATEMENTS, functions or {}, {}, None)
    shapes = [np.broadcast_to(b.dtype.numpy.type(0), x.shape) for b, x in zip(func.inputs, inputs, strict=True)]
    dims = bind_dims(func, shapes, scalars)
    with np.errstate(all="ignore"):
        for buffer, x in zip(func.inputs, inputs, strict=True):
            memory.begin(buffer, tuple(x.shape), x)
        for buffer in func.outputs:
            memory.begin(buffer, shape_at(buffer, dims))
        walk.env.update((v, v.dtype.numpy.type(n)) for v, n in dims.items())
        walk.env.update(bind_scalars(func, scalars))
        try:
            walk.execute(func.body)
        except Unfinished:
            raise Unsupported(f"{func.name} runs more than {STATEMENTS} stores", label="tvm.C24") from None
        return tuple(_joined(memory.result(b), b.dtype) for b in func.outputs)


Known = tuple[tuple[Any, ...] | None, str]
"""Bounds, or None and why there are none."""


def known_bounds(
    func: PrimFunc, inputs: Sequence[Any], scalars: Sequence[Any] = (), functions: Mapping[str, PrimFunc] | None = None
) -> Known:
    """As `bounds_of_kernel`; a function without floats is exact."""
    try:
        if has_no_floats(func):
            return tuple(run_kernel(func, inputs, scalars=scalars, functions=functions or {})), ""
        return bounds_of_kernel(func, inputs, scalars, functions), ""
    except (Unpredictable, Unsupported, Trap) as why:
        return None, str(why)


def has_no_floats(func: PrimFunc) -> bool:
    """Whether a tensor function that calls none works on whole numbers and truth values alone."""
    if calls_of(func) or any(b.dtype.is_float for b in func.params):
        return False
    roots = (e for stmt in program_order(without_blocks(func).body) for e in stmt.expressions)
    return not any(e.dtype.is_float for root in roots for e in post_order(root))


def module_bounds(module: Module, arguments: Sequence[Any]) -> Known:
    """What every correct implementation of a module gives: operators by their own bounds, tensor functions by
    theirs."""

    def apply(node: Any, attrs: Any, operands: Sequence[Any], ordinary: Callable[..., Any]) -> Any:
        if not isinstance(node, CallTIR):
            return ordinary(*operands)
        func = module.kernel(node.func)
        if node.scalars or hidden_symbols(func) or has_no_floats(func):
            return ordinary(*operands)
        made = bounds_of_kernel(func, operands, (), module.kernels)
        return made if isinstance(node.type, TupleType) else made[0]

    try:
        return run_main(module, arguments, run_kernel, bounds=True, apply=apply), ""
    except (Unpredictable, Unsupported, Trap) as why:
        return None, str(why)


def _joined(cells: Any, of: DType) -> Any:
    """The elements of a buffer as one value."""
    if not any(isinstance(x, Bounded) for x in cells.flat):
        return np.array(list(cells.flat), of.numpy).reshape(cells.shape)
    parts = [x if isinstance(x, Bounded) else Bounded.exact(x) for x in cells.flat]
    value = np.array([float(p.value) for p in parts]).reshape(cells.shape)
    made = Bounded(value, np.array([float(p.radius) for p in parts]).reshape(cells.shape), of)
    narrow = {p.narrow for p in parts}
    made.narrow = narrow.pop() if len(narrow) == 1 else None
    return made


@dataclass(frozen=True)
class Sum:
    """How one element was summed up: the magnitudes of all terms together, and how many there are."""

    magnitude: float
    terms: int


class Intervals(Memory):
    """Memory whose elements are numbers, or intervals of floats."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[tuple[Buffer, tuple[int, ...]], Sum] = {}
        self.adding: Buffer | None = None
        """The buffer whose elements are being summed up: they are read as they stand."""

    def begin(self, buffer: Buffer, shape: tuple[int, ...], contents: Any = None) -> None:
        """Begin the life of a buffer, with contents or unwritten, and with no sums."""
        super().begin(buffer, shape, np.empty(shape, object) if contents is not None else None)
        cell = self.cells[buffer]
        cell.data = np.empty(shape, object)
        for at in np.ndindex(shape) if contents is not None else ():
            cell.data[at] = _element(contents[at])
        self.sums = {key: s for key, s in self.sums.items() if key[0] is not buffer}

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        """An element, widened by the orders in which it may have been summed."""
        value = super().load(buffer, index)
        return value if buffer is self.adding else self.reordered(buffer, tuple(map(int, index)), value)

    def reordered(self, buffer: Buffer, at: tuple[int, ...], value: Any) -> Any:
        """An element that was summed up, in whatever order."""
        known = self.sums.get((buffer, at))
        if known is None or known.terms < 2 or not isinstance(value, Bounded):
            return value
        return _wider(value, gamma(known.terms + SLACK, value.of) * known.magnitude)

    def result(self, buffer: Buffer) -> Any:
        """A buffer's contents, each element widened by the orders in which it may have been summed."""
        data = super().result(buffer).copy()
        for at in np.ndindex(data.shape):
            data[at] = self.reordered(buffer, at, data[at])
        return data


def _element(x: Any) -> Any:
    """One element: a float as an interval, a whole number as itself."""
    if isinstance(x, Bounded):
        return x
    return Bounded.exact(np.asarray(x)) if dtype(x.dtype).is_float else x


def _wider(x: Bounded, by: float) -> Bounded:
    """An interval that is wider; what is no finite number stays."""
    return Bounded(x.value, np.where(np.isfinite(x.value), x.radius + by, x.radius), x.of)


class IntervalRun(_Run):
    """One run on intervals."""

    memory: Intervals

    def perform(self, node: Store | Assert | Evaluate) -> None:
        """Do a statement; a store that adds a term to its element counts as a step of a sum."""
        if not isinstance(node, Store) or node.buffer in self.views:  # through a view each step of a sum is widened
            super().perform(node)
            return
        at = tuple(int(self.value(i)) for i in node.indices)
        term = _term(node)
        if term is None:
            super().perform(node)
            self.memory.sums.pop((node.buffer, at), None)
            return
        before = self.memory.sums.get((node.buffer, at))
        if before is None:
            first = self.memory.load(node.buffer, at)
            before = Sum(_magnitude(first), 1)
        after = Sum(before.magnitude + _magnitude(self.value(term)), before.terms + 1)
        self.memory.adding = node.buffer
        super().perform(node)
        self.memory.adding = None
        self.memory.sums[node.buffer, at] = after

    def compile(self, expr: Expr) -> Callable[[], Any]:
        """A function that evaluates the expression on intervals."""
        return lambda: self.evaluated(expr)

    def evaluated(self, root: Expr, env: Mapping[Var, Any] | None = None) -> Any:
        """The value of an expression, both ways of a choice only where they are taken."""
        value: dict[int, Any] = {}
        for node in needed(root, value):
            if isinstance(node, Choice):
                value[id(node)] = value[id(taken_branch(node, value))]
            else:
                value[id(node)] = self.meaning(node, [value[id(c)] for c in node.children], env)
        return value[id(root)]

    def meaning(self, node: Expr, args: list[Any], env: Mapping[Var, Any] | None) -> Any:
        """The value of a node from those of its operands. Unsupported (`tvm.C24`) if it has none on intervals."""
        match node:
            case Const():
                return _element(node.value) if node.dtype.is_float else node.value
            case Var():
                if env is not None:
                    return env[node]
                try:
                    return _element(self.env[node]) if node.dtype.is_float else self.env[node]
                except KeyError:
                    raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7") from None
            case Load():
                return self.load(node.buffer, tuple(args))
            case _ if not any(isinstance(a, Bounded) for a in args):
                made = (
                    convert(args[0], node.dtype)
                    if isinstance(node, Cast)
                    else operation(node.op).meaning(*args)
                    if isinstance(node, Apply)
                    else None
                )
                return _element(made) if node.dtype.is_float else made
            case Cast():
                return _plain(_narrowed(args[0], node.dtype))
            case Apply() if node.op in RULES:
                return _plain(RULES[node.op](*args))
            case Apply() if node.op in DEFINITIONS:
                x = Var("x", args[0].of)
                return self.evaluated(DEFINITIONS[node.op][0](x), {x: args[0]})
            case Apply() if all(a.is_exact for a in args if isinstance(a, Bounded)):  # its bits are known
                return _element(operation(node.op).meaning(*(a.raw[()] if isinstance(a, Bounded) else a for a in args)))
        raise Unsupported(f"{node} on intervals", label="tvm.C24")


def _narrowed(x: Bounded, to: DType) -> Any:
    """A conversion. What was computed in float64 stands for a function of the narrower type, which errs as those do."""
    made = x.astype(to.numpy)
    if isinstance(made, Bounded) and x.of is FLOAT64 and to.is_float and not x.is_exact:
        made = _wider(made, elementary("exp", to) * abs(float(made.value)) + made.of.smallest_subnormal)
    return made


def _plain(x: Any) -> Any:
    return x[()] if isinstance(x, np.ndarray) else x


def _magnitude(x: Any) -> float:
    low, high = x.interval() if isinstance(x, Bounded) else (x, x)
    return float(max(abs(low), abs(high)))


def _term(node: Store) -> Expr | None:
    """What is added to an element of floats, if that is what a store does."""
    value = node.value
    if not (isinstance(value, Apply) and value.op == "add" and value.dtype.is_float):
        return None
    for this, other in (value.args, value.args[::-1]):
        if isinstance(this, Load) and this.buffer is node.buffer and all(map(same, this.indices, node.indices)):
            inside = any(isinstance(e, Load) and e.buffer is node.buffer for e in post_order(other))
            return None if inside else other
    return None
