"""Scalar expressions over lanes as NumPy calls in generated code (specs/interp.md, "Vector").

An array of lanes has one axis for each lane loop around it, of size 1 where its value does not depend on that loop,
after a first axis of size 1 that makes it an array even where there are no lanes.
Temporaries are made once, outside of the Python loops, and reused; an operation that ends a store writes to where it
is stored. The ufuncs here compute what the table of `assay.semantics.scalar` says: a test compares them on all pairs of
special values. What has no ufunc calls the table's own entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from assay.interp.vector.plan import Axes, Plan, View
from assay.interp.vector.text import Spot, Text
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var, convert, operation
from assay.semantics.walk import post_order

UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "sqrt": np.sqrt, "rint": np.rint, "floor": np.floor, "ceil": np.ceil, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "not": np.logical_not, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}  # fmt: skip
"""Operations that are one ufunc on every dtype they take."""

EXTREMES: dict[str, Callable[..., Any]] = {"min": np.minimum, "max": np.maximum}
SIGNED_BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}
"""Floats whose sign of zero is their first bit: there min and max order zeros by integer arithmetic."""


@dataclass(eq=False)
class Lane:
    """A lane axis in force: its first lane, how many lanes (Python expressions), and at most how many."""

    var: Var
    start: str
    size: str
    fixed: bool
    limit: int
    spot: Spot


@dataclass(eq=False)
class Temp:
    """A temporary array: its name, and the key under which it is reused."""

    name: str
    key: tuple[str, Axes, tuple[Var, ...]]


@dataclass(eq=False)
class Value:
    """An expression's value in generated code: its text, the lanes it depends on, its rank (None: any), its owner."""

    text: str
    axes: Axes
    rank: int | None
    temp: Temp | None = None
    view: View | None = None


class Values:
    """Emits expressions. What is in force around them (lanes, names of arrays and views) is kept by `Emitter`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.text = Text(np=np, copyto=np.copyto, empty=np.empty, array=np.array)
        self.prologue = self.text.spots[0]
        self.lanes: list[Lane] = []
        self.numbers: dict[Var, str] = {}
        self.bound: dict[Var, Value] = {}
        self.strides: dict[View, dict[Var, int]] = {}
        self.free: dict[tuple[str, Axes, tuple[Var, ...]], list[Temp]] = {}
        self.vectors: dict[tuple[Var, int], str] = {}

    # --- names ---------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The rank of an array of lanes: one axis for each lane loop in force, after the first of size 1."""
        return 1 + len(self.lanes)

    @property
    def all_axes(self) -> Axes:
        """The variables of all lane loops in force."""
        return frozenset(lane.var for lane in self.lanes)

    # --- temporaries ---------------------------------------------------------------------------------------------

    def acquire(self, of: DType, axes: Axes) -> Temp:
        """A temporary array for the lanes in `axes`, declared where their sizes are known."""
        key = (of.name, axes, tuple(lane.var for lane in self.lanes))
        free = self.free.setdefault(key, [])
        if free:
            return free.pop()
        temp = Temp(self.text.name("t"), key)
        shape = self.shape(axes)
        line = f"{temp.name} = empty({shape}, {self.dtype_name(of)})"
        open_lanes = [lane for lane in self.lanes if lane.var in axes and not lane.fixed]
        (open_lanes[-1].spot if open_lanes else self.prologue).add(line)
        return temp

    def release(self, temp: Temp | None) -> None:
        """Gives a temporary back, to be used again; None is no temporary."""
        if temp is not None:
            self.free[temp.key].append(temp)

    def shape(self, axes: Axes) -> str:
        """The text of the shape that an array over these lanes has: 1 for each lane loop that is not among `axes`."""
        sizes = (lane.size if lane.var in axes else "1" for lane in self.lanes)
        return f"({', '.join(['1', *sizes])},)"

    def dtype_name(self, of: DType) -> str:
        """The name of a NumPy dtype in generated code."""
        return self.text.shared(of.numpy, f"d_{of.name}")

    # --- values --------------------------------------------------------------------------------------------------

    def aligned(self, value: Value) -> str:
        """The value's text with an axis for every lane loop now in force."""
        if value.rank is None or value.rank == self.rank:
            return value.text
        return f"{value.text}[{', '.join(['...'] + ['None'] * (self.rank - value.rank))}]"

    def value(self, expr: Expr, out: str | None = None) -> Value:
        """Emit `expr`. It may be computed in `out`, an array over all lanes; the caller releases its temporary."""
        nodes = list(post_order(expr, self.parts))
        uses = Counter(id(c) for n in nodes for c in self.parts(n))
        values: dict[int, Value] = {}
        for node in nodes:
            parts = self.parts(node)
            args = [values[id(c)] for c in parts]
            uses.subtract(id(c) for c in parts)
            last = {id(c) for c in parts if uses[id(c)] == 0}
            dying = [t for t in (values[k].temp for k in last) if t is not None]
            values[id(node)] = self.node(node, args, dying, out if node is expr else None)
        return values[id(expr)]

    def parts(self, node: Expr) -> Sequence[Expr]:
        """The parts that must have values: the indices of a view need none."""
        return () if isinstance(node, Load) and id(node) in self.plan.views else node.children

    def node(self, node: Expr, args: list[Value], dying: list[Temp], out: str | None) -> Value:
        """The value of one node from those of its operands; `dying` are temporaries that nothing uses after it."""
        match node:
            case Const():
                return Value(self.text.known(node.value, "c"), frozenset(), None)
            case Var():
                return self.variable(node)
            case Load():
                result = self.load(node, args)
            case Cast():
                result = self.cast(node, args[0], out)
            case Apply():
                return self.apply(node, args, dying, out)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")
        for t in dying:
            self.release(t)
        return result

    def variable(self, var: Var) -> Value:
        """The value of a variable: bound to a value, counted by a Python loop, or one of the lane loops in force."""
        if var in self.bound:
            return replace(self.bound[var], temp=None)  # the binding owns it
        if var in self.numbers:
            number = self.text.shared(var.dtype.numpy.type, f"n_{var.dtype.name}")
            return Value(f"{number}({self.numbers[var]})", frozenset(), None)
        for k, lane in enumerate(self.lanes):
            if lane.var is var:
                return Value(self.vector(k, lane), frozenset({var}), self.rank)
        raise Crash(f"scalar {var.name} has no value here")

    def vector(self, place: int, lane: Lane, offset: bool = True) -> str:
        """The numbers of the lanes along one axis, from the block's first on; without `offset` from 0 on."""
        key = (lane.var, self.rank if offset else -1 - self.rank)
        if key not in self.vectors:
            name = self.vectors[key] = self.text.name("v")
            shape = "(1, " + "1, " * place + "-1, " + "1, " * (len(self.lanes) - place - 1) + ")"
            start = f" + {lane.start}" if offset and lane.start != "0" else ""
            line = (
                f"{name} = (np.arange({lane.size}){start}).astype({self.dtype_name(lane.var.dtype)}).reshape({shape})"
            )
            (lane.spot if not lane.fixed or start else self.prologue).add(line)
        return self.vectors[key]

    def load(self, node: Load, index: list[Value]) -> Value:
        """The value of an element at `index`; `Emitter` says how."""
        raise NotImplementedError

    def union(self, args: Sequence[Value]) -> Axes:
        """The lanes that any of the values depends on."""
        return frozenset().union(*(a.axes for a in args))

    def plain(self, call: str, args: Sequence[Value]) -> Value:
        """A value that is a new array or scalar."""
        name = self.text.name("x")
        self.text.add(f"{name} = {call}")
        scalar = all(a.rank is None for a in args)
        return Value(name, self.union(args), None if scalar else self.rank)

    def into(self, of: DType, axes: Axes, out: str | None) -> Value:
        """Where a result over `axes` goes: `out` if it fits, else a temporary."""
        if out is not None and axes == self.all_axes:
            return Value(out, axes, self.rank)
        temp = self.acquire(of, axes)
        return Value(temp.name, axes, self.rank, temp)

    def cast(self, node: Cast, arg: Value, out: str | None) -> Value:
        """Emits a conversion: `copyto` between NumPy's own dtypes where nothing can trap, else a call of `convert`."""
        to, source = node.dtype, node.arg.dtype
        checked = source.is_float and to.is_integer
        native = source.numpy.isbuiltin == to.numpy.isbuiltin == 1
        if not arg.axes or checked or not native:
            name = self.text.shared(convert)
            return self.plain(f"{name}({self.aligned(arg)}, {self.text.known(to, 'd')})", [arg])
        result = self.into(to, arg.axes, out)
        self.text.add(f'copyto({result.text}, {self.aligned(arg)}, casting="unsafe")')
        return result

    def apply(self, node: Apply, args: list[Value], dying: list[Temp], out: str | None) -> Value:
        """Emits an operation: a ufunc where one computes the same bits, else a call of the scalar table's own entry."""
        axes, of = self.union(args), node.args[-1].dtype
        op = node.op
        if axes and (op in UFUNCS or (op in EXTREMES and not of.is_float and of.numpy.kind != "V")):
            return self.ufunc(UFUNCS.get(op) or EXTREMES[op], op, node, args, dying, out)
        if axes and op in EXTREMES and of.name in SIGNED_BITS:
            other = _constant(node)
            if other is not None and other != 0 and not np.isnan(other):
                return self.ufunc(EXTREMES[op], op, node, args, dying, out)
            if op == "max" and other is not None and other == 0 and not np.signbit(other):
                # relu: adding +0 makes -0 to +0 and changes nothing else
                result = self.ufunc(np.maximum, op, node, args, dying, out)
                zero = self.text.known(of.numpy.type(0), "c")
                self.text.add(f"{self.text.shared(np.add, 'f_add')}({result.text}, {zero}, {result.text})")
                return result
            result = self.extreme(node, args, axes)
        elif axes and op == "select":
            result = self.into(node.dtype, axes, None)
            condition, then, otherwise = map(self.aligned, args)
            self.text.add(f"copyto({result.text}, {otherwise})")
            self.text.add(f"copyto({result.text}, {then}, where={condition})")
        else:
            name = self.text.shared(operation(op).meaning, f"m_{op}")
            call = f"{name}({', '.join(map(self.aligned, args))})"
            # a reinterpretation of bits is a window on its operand
            result = self.plain(f"array({call})[()]" if operation(op).result == "bits" else call, args)
        for t in dying:
            self.release(t)
        return result

    def ufunc(
        self, f: Callable[..., Any], op: str, node: Apply, args: list[Value], dying: list[Temp], out: str | None
    ) -> Value:
        """Emits a call of a ufunc with `out`: where the result is stored, or a temporary, perhaps that of an
        operand."""
        axes = self.union(args)
        texts = []
        for a in args:
            texts.append(self.aligned(a))
            if a.view is not None and self.is_worth_packing(a, axes):
                packed = self.acquire(node.args[0].dtype, a.axes)
                self.text.add(f"copyto({packed.name}, {texts[-1]})")
                texts[-1] = packed.name
                dying.append(packed)
        for t in dying:  # elementwise: the result may take an operand's place
            self.release(t)
        result = self.into(node.dtype, axes, out)
        self.text.add(f"{self.text.shared(f, f'f_{op}')}({', '.join(texts)}, out={result.text})")
        return result

    def extreme(self, node: Apply, args: list[Value], axes: Axes) -> Value:
        """min or max of floats: NumPy's, then zeros put in order. Of equal zeros, max is -0 if both are, min if one is.

        So max keeps the sign bit only where both operands have it, and min takes it where one has it; for what is not
        zero this changes nothing.
        """
        of = node.dtype
        bits = DTYPES[SIGNED_BITS[of.name]]
        result, mask = self.into(of, axes, None), self.acquire(bits, axes)
        t, m = result.text, mask.name
        a, b = map(self.aligned, args)
        view = f".view({self.dtype_name(bits)})"
        lowest = self.text.known(bits.numpy.type(bits.min if node.op == "min" else bits.max), "c")
        combine, clear, last = ("or", "and", "or") if node.op == "min" else ("and", "or", "and")
        both, keep, put = (self.text.shared(UFUNCS[f"bit{x}"], f"f_bit{x}") for x in (combine, clear, last))
        self.text.add(f"{self.text.shared(EXTREMES[node.op], f'f_{node.op}')}({a}, {b}, out={t})")
        self.text.add(f"{both}({a}{view}, {b}{view}, {m})")
        self.text.add(f"{keep}({m}, {lowest}, {m})")
        bits_of = self.text.name("x")
        self.text.add(f"{bits_of} = {t}{view}")
        self.text.add(f"{put}({bits_of}, {m}, {bits_of})")
        self.release(mask)
        return result

    def is_worth_packing(self, operand: Value, axes: Axes) -> bool:
        """Whether a strided operand is read often enough to be copied together first.

        NumPy then sees its axes as one long axis instead of many short ones.
        """
        assert operand.view is not None
        reuse = prod(lane.limit for lane in self.lanes if lane.var in axes - operand.axes)
        stride = 1
        strides = self.strides[operand.view]
        for lane in reversed(self.lanes):
            if lane.var in operand.axes:
                if strides.get(lane.var, 0) != stride:
                    return reuse >= 4
                stride *= lane.limit
        return False


def _constant(node: Apply) -> Any | None:
    """The operand of a binary operation that is a literal, if there is one."""
    for a in node.args:
        if isinstance(a, Const):
            return a.value
    return None
