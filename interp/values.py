"""What graph expressions evaluate to, and what a run shows (rule M1; specs/interp.md, "Graph")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.bounds import Bounded
from assay.semantics.graph import Constructor, ExternFunc, Function
from assay.semantics.graph.scopes import Scopes
from assay.semantics.graph.sizes import has_explicit_shapes
from assay.semantics.scalar import Var as Symbol
from assay.semantics.walk import fold, pre_order

Value: TypeAlias = Any
"""A NumPy array (or `Bounded`), a tuple of values, or one of the classes below."""


@dataclass(eq=False)
class Frame:
    """One activation of a function: what its nodes and variables have evaluated to, by identity."""

    function: Function
    parent: Frame | None
    symbols: dict[Symbol, int]
    places: dict[Symbol, str]
    scopes: Scopes
    values: dict[int, Value] = field(default_factory=dict)
    calls: dict[int, Frame] = field(default_factory=dict)
    progress: dict[int, int] = field(default_factory=dict)
    """For a node that waits: how many of its operands have values; for a let, that its variable has one."""
    slots: dict[int, int] = field(default_factory=dict)
    """The sizes that are larger expressions and have a name here, by structure (functions with explicit shapes)."""
    pending: dict[int, int] = field(default_factory=dict)
    """How many uses of a value are still to come, where that is known: it is dropped after the last."""
    depth: int = field(init=False)
    jump: Frame = field(init=False)
    """An activation further out, so that one around this one is found in logarithmic time, as in `Forest`."""

    def __post_init__(self) -> None:
        if self.parent is None:
            self.depth, self.jump = 0, self
            return
        far = self.parent.jump
        twice = self.parent.depth - far.depth == far.depth - far.jump.depth
        self.depth, self.jump = self.parent.depth + 1, far.jump if twice else self.parent

    def outwards(self, depth: int) -> Frame:
        """The activation of that depth that is this one or around it."""
        at = self
        while at.depth > depth:
            if at.jump.depth >= depth:
                at = at.jump
            else:
                assert at.parent is not None
                at = at.parent
        return at

    @property
    def explicit(self) -> bool:
        """Whether statements check the sizes of this activation, and nothing else does (rule M4.7)."""
        return has_explicit_shapes(self.function)


@dataclass(frozen=True, eq=False)
class Closure:
    """A function and the activation in which its free variables have their values."""

    function: Function
    frame: Frame | None


@dataclass(frozen=True, eq=False)
class CodeClosure:
    """A function of bytecode, by name, with its first parameters and sizes filled (`assay.interp.vm`)."""

    function: str
    captured: tuple[Value, ...]
    sizes: tuple[int, ...] = ()
    itself: int | None = None
    """Which of the captured parameters is this closure; it is not among `captured`."""


@dataclass(frozen=True, eq=False)
class External:
    """A function outside the language: its node, and what the run was given for it."""

    node: ExternFunc
    act: Callable[..., Value]


@dataclass(frozen=True, eq=False)
class Maker:
    """A constructor as a value."""

    node: Constructor


@dataclass(frozen=True, eq=False)
class Data:
    """A value of an algebraic data type: what `constructor` of `type` made of `fields`."""

    type: str
    constructor: str
    fields: tuple[Value, ...]


@dataclass(eq=False)
class Cell:
    """A reference: a cell that can be written."""

    value: Value


@dataclass(frozen=True)
class Shape:
    """A shape as a value."""

    dims: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Event:
    """One effect of a run: a print (`name` is its format), or a call of the extern function `name`."""

    kind: str
    name: str
    values: tuple[Value, ...]


Externs: TypeAlias = Mapping[str, Callable[..., Value]]


def render(format: str, values: Sequence[Value]) -> str:
    """The text of a print or of a failed assert_op: each {} in turn is a value; values left over follow."""
    pieces = format.split("{}")
    shown = [described(v) for v in values]
    text = pieces[0] + "".join(v + p for v, p in zip(shown, pieces[1:], strict=False))
    left = shown[len(pieces) - 1 :]
    return " ".join([text, *left] if text else left)


def described(value: Value) -> str:
    """A value in one line: numbers for small arrays, else the kind."""
    match value:
        case np.ndarray() | np.generic() if value.size <= 16:
            return np.array2string(np.asarray(value), separator=", ").replace("\n", "")
        case np.ndarray():
            return f"Tensor({tuple(value.shape)}, {value.dtype})"
        case Bounded():
            return repr(value)
        case Shape():
            return str(value.dims)
        case Data():
            return f"{value.constructor}({', '.join(_kind(f) for f in value.fields)})"
        case tuple():
            return f"({', '.join(_kind(f) for f in value)})"
        case _:
            return _kind(value)


def _kind(value: Value) -> str:
    match value:
        case np.ndarray() | np.generic():
            return described(value)
        case Closure() | CodeClosure() | External() | Maker():
            return "a function"
        case Cell():
            return "a reference"
        case _:
            return f"a {type(value).__name__.lower()}"


def parts(value: Value) -> Sequence[Value]:
    """The values directly inside a tuple or a data value; a cell is a leaf."""
    match value:
        case tuple():
            return value
        case Data():
            return value.fields
        case _:
            return ()


def contents(value: Value) -> Sequence[Value]:
    """What is directly inside a value, a cell's too."""
    return (value.value,) if isinstance(value, Cell) else parts(value)


def plain(value: Value) -> Value:
    """An exact interval as the array that it is; anything else as it is."""
    return value.raw.astype(value.of.numpy, copy=False) if isinstance(value, Bounded) and value.is_exact else value


def rebuilt(root: Value, leaf: Callable[[Value], Value]) -> Value:
    """A value with others in place of what is neither a tuple nor a data value."""

    def made(value: Value, inside: Sequence[Value]) -> Value:
        match value:
            case tuple():
                return tuple(inside)
            case Data():
                return Data(value.type, value.constructor, tuple(inside))
            case _:
                return leaf(value)

    return fold(root, made, parts)


def with_own_cells(root: Value, leaf: Callable[[Value], Value]) -> Value:
    """The same with cells of its own, as they are now: later writes are not seen in it."""
    cells = {id(v): (v, Cell(None)) for v in pre_order(root, contents) if isinstance(v, Cell)}

    def own(value: Value) -> Value:
        return cells[id(value)][1] if isinstance(value, Cell) else leaf(value)

    for old, new in cells.values():
        new.value = rebuilt(old.value, own)
    return rebuilt(root, own)


def copied(root: Value) -> Value:
    """A copy of a value with its own cells. Exact intervals become arrays."""

    def shown(value: Value) -> Value:
        if not isinstance(value, np.ndarray) and not (isinstance(value, Bounded) and value.is_exact):
            return value
        view = plain(value).view()
        view.flags.writeable = False  # who is shown it cannot change it
        return view

    return with_own_cells(root, shown)


def is_open(root: Value) -> bool:
    """Whether some number in a value is not known exactly."""
    return any(isinstance(v, Bounded) and not v.is_exact for v in pre_order(root, contents))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have the same dtype, shape and bits; all NaNs are one (rule M5)."""
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    with np.errstate(all="ignore"):
        bits = f"u{x.dtype.itemsize}"
        equal = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
        return bool(np.all(equal.reshape(-1) | ((x != x) & (y != y)).reshape(-1)))
