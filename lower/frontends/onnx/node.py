"""What a translation rule works with: a node of the model with typed operands (specs/lower.md, "Import").

A `Builder` makes expressions and remembers what is known of them: which depend on no input, so that the interpreter
can say what they hold, and what small integer tensors hold where sizes are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, TensorProto

from assay.lower.frontends import stretching
from assay.lower.frontends.onnx.containers import Containers
from assay.lower.frontends.onnx.contents import Contents, derive, follows, is_small, is_symbolic, objects
from assay.lower.frontends.onnx.dynamic_shapes import MOST_SETTLED, Runs
from assay.lower.frontends.onnx.open_values import is_open
from assay.lower.frontends.onnx.signatures import Schema
from assay.lower.frontends.onnx.string_table import Strings, texts_of
from assay.lower.frontends.onnx.tensors import array_of, onnx_dtype
from assay.semantics import graph
from assay.semantics.budget import claim
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Invalid, Span, Trap, Unsupported
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.operator import Operator
from assay.semantics.ops.common import normalize_axes, normalize_axis
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal
from assay.semantics.tasks import Task
from assay.semantics.text.relax.build import python_number
from assay.semantics.types import TensorType, flatten
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
Evaluate = Callable[[Expr], Array]

MOST_ELEMENTS = 1 << 22
"""The largest tensor that import computes. Shapes and axes are tiny; a larger one on their way is a damaged model."""


@dataclass(frozen=True)
class Refused:
    """An output that a rule does not give, and why: Unsupported where something uses it."""

    reason: str


Result: TypeAlias = Expr | Refused


class Builder:
    """Makes typed expressions and remembers what is known of them."""

    def __init__(
        self,
        evaluate: Evaluate,
        folder: Path | None,
        values: Mapping[str, Array] | None = None,
        only_sizes: bool = False,
    ) -> None:
        self.folder = folder
        """Where data outside the model is looked for."""
        self.runs = Runs(evaluate, values or {}, only_sizes)
        self.containers = Containers()
        self.symbols: Callable[[], Collection[Symbol]] = tuple
        """The sizes of the model that have names."""
        self.strings = Strings()
        """Numbers for strings."""
        self.draws: np.random.RandomState | None = None
        """Where random numbers come from, where the caller wants models with random operators."""
        self.texts: set[Expr] = set()
        self.open_texts: dict[str, None] = {}
        """What of the strings that were computed here the standard leaves open, in words."""
        """The tensors of int64 that stand for strings."""
        self.columns: dict[Expr, tuple[str | int, ...]] = {}
        """The matrices that stand for a map for each row, and what its keys are."""
        self._evaluate = evaluate
        self._closed: set[Expr] = set()
        self._values: dict[Expr, Constant] = {}
        self._open: set[Expr] = set()
        """Of these values, those that hang on what ONNX leaves open."""
        self._contents: dict[Expr, Contents | tuple[Contents, ...]] = {}

    def constant(self, data: Any, of: DType | None = None, span: Span | None = None) -> Constant:
        """A constant of a dtype, by default NumPy's for the data. Invalid (`onnx.C12`) if a number does not fit."""
        try:
            with np.errstate(over="ignore"):
                array = np.asarray(data, None if of is None else of.numpy)
        except OverflowError:
            raise Invalid(f"{data} does not fit {of}", label="onnx.C12") from None
        return graph.constant(array, span=span)

    def call(self, op: str, args: Sequence[Expr], attrs: Mapping[str, Any], span: Span | None) -> Expr:
        """A typed call; a constant instead, where the call only computes sizes and these turn out to be numbers."""
        args = [self._values.get(a, a) for a in args]
        try:
            made = graph.call(op, *args, span=span, **attrs)
        except Invalid as wrong:
            fitting = stretching.mended(self, op, wrong.label, args, attrs, span)
            if fitting is None:
                raise
            made = graph.call(op, *fitting, span=span, **attrs)
        if all(self.is_closed(a) for a in args) and all(t.is_static for t in flatten(made.type)):
            self._closed.add(made)  # a size that is a symbol depends on an input
            return made
        if op == "shape_of":
            found: Contents | tuple[Contents, ...] | None = objects(tensor(args[0]).shape, (tensor(args[0]).ndim,))
        elif any(a in self._contents for a in args):
            known = [self.contents(a) for a in args]
            filled = made.op.check_attrs(attrs) if isinstance(made.op, Operator) else attrs
            every = [k for k in known if k is not None]
            found = derive(op, filled, every, made.type) if len(every) == len(known) else None
        else:
            return made
        return self._remember(made, found, span)

    def named(self, x: Expr) -> Expr:
        """A name for a value, with what is known of it. What depends on no input stays as it is."""
        if isinstance(x, Var) or self.is_closed(x):
            return x
        name = self.runs.named(x)
        if x in self._contents:
            self._contents[name] = self._contents[x]
        self.containers.copy(x, name)
        if x in self.texts:
            self.texts.add(name)
        return name

    def claimed(self, x: Expr, shape: Sequence[Dim], span: Span | None) -> Expr:
        """`x` with a shape that a run checks."""
        made = graph.match_cast(x, TensorType(tuple(shape), tensor(x).dtype), span)
        if self.is_closed(x):
            self._closed.add(made)
        return made

    def field(self, value: Expr, index: int, span: Span | None) -> Expr:
        """One of the tensors of a call that gives several."""
        made = graph.get(value, index, span)
        if value in self._closed:
            self._closed.add(made)
            return made
        found = self._contents.get(value)
        return self._remember(made, found[index] if isinstance(found, tuple) else None, span)

    def _remember(self, made: Expr, found: Contents | tuple[Contents, ...] | None, span: Span | None) -> Expr:
        if isinstance(found, np.ndarray) and not is_symbolic(found) and isinstance(made.type, TensorType):
            return self.constant(found.astype(made.type.dtype.numpy), span=span)
        if found is not None:
            self._contents[made] = found
        return made

    def is_closed(self, expr: Expr) -> bool:
        """Whether the expression depends on no input of the model."""
        return isinstance(expr, Constant) or expr in self._closed

    def value(self, expr: Expr) -> Array | None:
        """The value of an expression that depends on no input, as the interpreter has it; else None."""
        if isinstance(expr, Constant):
            return expr.data
        if expr not in self._closed:
            return None
        # Node by node, and each kept: what is asked for next is mostly a few nodes further.
        known: dict[Expr, Expr] = {}
        for node in post_order(expr, lambda n: () if n in self._values else n.children):
            parts = [self._values.get(c) or known[c] for c in node.children] if node not in self._values else []
            if isinstance(node.type, TensorType) and not isinstance(node, Constant) and node not in self._values:
                call = node.with_children(parts)
                self._values[node] = made = self._computed(call)
                if is_open(call, made, self._open):
                    self._open.add(made)
            elif node not in self._values:
                known[node] = node.with_children(parts)
        if self._values[expr] in self._open:
            raise Invalid("a size or an axis has no value: ONNX leaves open what it is", label="onnx.C13")
        return self._values[expr].data

    def _computed(self, expr: Expr) -> Constant:
        """The value of a call of constants; it must not be large."""
        of = tensor(expr)
        if not of.is_static or prod(of.static_shape) > MOST_ELEMENTS:
            raise Unsupported(
                f"a size or an axis is computed from {of}, more than {MOST_ELEMENTS} elements", label="onnx.C13"
            )
        try:
            return self.constant(self._evaluate(expr), span=expr.span)
        except Trap as trap:
            raise Invalid(f"a size or an axis has no value: {trap}", label="onnx.C13") from None

    def settled(self, expr: Expr, most: int = MOST_SETTLED, *, sizes: bool = False) -> Array | None:
        """The value, also where it depends on inputs for which the caller gives values: the module asserts these.
        `sizes` says that it holds nothing but sizes."""
        known = self.value(expr)
        if known is None and (known := self.runs.settled(expr, most, sizes)) is not None:
            self._values[expr] = self.constant(known, span=expr.span)
            self._closed.add(expr)
        return known

    def contents(self, expr: Expr) -> Contents | None:
        """The elements of a small integer or bool tensor, numbers or dims, where they are known."""
        known = self._contents.get(expr)
        if known is not None:
            return known if isinstance(known, np.ndarray) else None
        if not isinstance(expr.type, TensorType) or not follows(expr.type):
            return None
        value = self.value(expr)
        return None if value is None else objects(value, value.shape)


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the model: what a rule translates. `version` is that of the operator, by the schema that holds."""

    builder: Builder
    schema: Schema
    inputs: tuple[Expr | None, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    span: Span | None
    look: Callable[[str], Expr | None] | None = None
    """The tensor of a name, for the few operators whose attributes name tensors."""
    subgraph: Callable[[GraphProto, Sequence[Expr]], Task[Sequence[Expr]]] | None = None
    """The results of a subgraph, given what its inputs stand for, for If, Loop and Scan."""

    def named_tensor(self, name: str) -> Expr:
        """The tensor of a name of the model; Invalid (onnx.C4) where there is none."""
        found = None if self.look is None else self.look(name)
        if found is None or not isinstance(found.type, TensorType):
            raise Invalid(f"{self}: nothing before gives the tensor {name!r}", label="onnx.C4")
        return found

    @property
    def version(self) -> int:
        """The version of the operator, by the schema that holds."""
        return self.schema.version

    def __str__(self) -> str:
        return str(self.schema)

    @property
    def containers(self) -> Containers:
        """The sequences and optionals of the model."""
        return self.builder.containers

    def named(self, x: Expr) -> Expr:
        """A name for a value, so that it is evaluated once and what follows may use the sizes in its type."""
        return self.builder.named(x)

    # --- strings

    @property
    def strings(self) -> Strings:
        """The numbers of strings."""
        return self.builder.strings

    def text(self, numbers: Expr) -> Expr:
        """A tensor of int64 that stands for strings, remembered as such."""
        self.builder.texts.add(numbers)
        return numbers

    def leaves_open(self, what: str) -> None:
        """Say what of the strings that are made here the standard leaves open."""
        self.builder.open_texts[f"{self}: {what}"] = None

    def text_as(self, made: Expr, of: Expr) -> Expr:
        """A value that stands for strings where another does."""
        return self.text(made) if of in self.builder.texts else made

    # --- attributes

    def choice(self, name: str, *words: str) -> str:
        """An attribute that must be one of these words."""
        given: str = self.attrs[name]
        if given not in words:
            raise self.wrong(f"{name} is {given!r}; {', '.join(words[:-1])} or {words[-1]} is wanted")
        return given

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """The dtype that an attribute names; the given default where it is left out."""
        number: Any = self.attrs.get(name)
        if default is not None and number == self.schema.defaults.get(name):
            return default
        return onnx_dtype(number, f"{self}: {name}")

    def axis(self, rank: int, given: int | None = None) -> int:
        """An axis counted from the front: that of the attribute, unless another is given."""
        return normalize_axis(str(self), self.attrs["axis"] if given is None else given, rank)

    def axes(self, rank: int, given: Sequence[int]) -> tuple[int, ...]:
        """Axes counted from the front, in the order that they are given; none twice."""
        normalize_axes(str(self), given, rank)
        return tuple(self.axis(rank, a) for a in given)

    def stored(self, name: str) -> Array:
        """The tensor in an attribute; of strings, their numbers."""
        given: TensorProto = self.attrs[name]
        if given.data_type == TensorProto.STRING:
            return self.strings.numbers(texts_of(given, f"{self}: {name}"))
        return array_of(given, f"{self}: {name}", self.builder.folder)

    # --- operands

    def has(self, index: int) -> bool:
        """Whether the operand of this index is given; an optional one may be left out."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def __getitem__(self, index: int) -> Expr:
        """The operand of that number, which the schema requires."""
        found = self.inputs[index]
        assert found is not None
        return found

    def operands(self) -> list[Expr]:
        """All operands of a variadic operator."""
        return [i for i in self.inputs if i is not None]

    def wants(self, output: int) -> bool:
        """Whether the model names the output of that number."""
        return output < len(self.outputs) and self.outputs[output] != ""

    def dims(self, index: int) -> tuple[Dim, ...]:
        """The elements of an operand that gives sizes or axes; Unsupported (onnx.C13) where they are not known."""
        found = self.builder.contents(self[index])
        if found is None:
            value = self.known(index)
            found = objects(value, value.shape)
        return tuple(found.reshape(-1))

    def known(self, index: int, most: int = MOST_SETTLED, decides: str = "the shape of the result") -> Array:
        """The value of an operand that `decides` what has to be known; Unsupported (onnx.C13) where it is not known,
        and no value, of at most so many elements, is given for the input that it comes from."""
        value = self.builder.settled(self[index], most)
        if value is None:
            raise Unsupported(
                f"{self}: operand {self.schema.operand(index).name} decides {decides}, and is only known when the model"
                " runs; a constant or something computed from shapes is wanted. assay run, judge, check and build take"
                f" up to {most} elements from --inputs, where it comes from inputs of the model",
                label="onnx.C13",
            )
        return value

    def sizes(self, index: int) -> tuple[Dim, ...]:
        """The elements of an operand that holds nothing but sizes: numbers or dims where they are known, else symbols
        that the run measures. Unsupported (onnx.C13) where it is no vector of int64."""
        operand = self[index]
        if self.builder.contents(operand) is None and self.builder.settled(operand, sizes=True) is None:
            measured = self.builder.runs.measured(operand, self.schema.operand(index).name)
            if measured is not None:
                return measured
        return self.dims(index)

    def ints(self, index: int) -> tuple[int, ...]:
        """The elements of an operand that must be numbers; Unsupported (onnx.C13) where they are not."""
        found = self.dims(index)
        numbers = tuple(d for d in found if isinstance(d, int))
        if len(numbers) != len(found):
            raise Unsupported(
                f"{self}: operand {self.schema.operand(index).name} holds {', '.join(map(str, found))};"
                " numbers are wanted, so give the symbolic dims values",
                label="onnx.C13",
            )
        return numbers

    def counts(self, index: int) -> tuple[int, ...]:
        """Whole numbers in an operand of a float type, which version 1 of some operators has for sizes."""
        found = self.known(index)
        name = self.schema.operand(index).name
        numbers = [float(v) for v in found.reshape(-1)]
        if not all(n.is_integer() for n in numbers):
            raise self.wrong(f"operand {name} holds {numbers}; whole numbers are wanted")
        return tuple(map(int, numbers))

    def scalar(self, index: int) -> Any:
        """The one element of a constant operand as a Python number; None where it is left out or not constant."""
        value = self.builder.value(self[index]) if self.has(index) else None
        if value is None:
            return None
        if value.size != 1:
            name = self.schema.operand(index).name
            raise Invalid(f"{self}: operand {name} has the shape {value.shape}; a scalar is wanted", label="onnx.C12")
        return python_number(value.reshape(()))

    # --- results

    def call(self, op: str, *args: Expr | float, **attrs: Any) -> Expr:
        """Call an operator of the language, with the span of this node. A number is a constant of the dtype of the last
        operand that is a tensor."""
        of = next((tensor(a).dtype for a in reversed(args) if isinstance(a, Expr)), None)
        operands = [a if isinstance(a, Expr) else self.constant(a, of) for a in args]
        return self.builder.call(op, operands, attrs, self.span)

    def full(self, shape: Sequence[Dim], value: float, of: DType) -> Expr:
        """One number in every place of a shape."""
        return self.call("full", shape=tuple(shape), fill_value=value, dtype=of.name)

    def pick(self, x: Expr, index: int, axis: int) -> Expr:
        """The slice at a place of an axis, which goes."""
        return self.call("take", x, self.constant(index, INT64), axis=axis)

    def fields(self, value: Expr, count: int) -> list[Expr]:
        """The first `count` fields of a tuple."""
        return [self.builder.field(value, i, self.span) for i in range(count)]

    def constant(self, data: Any, of: DType | None = None) -> Expr:
        """A constant with the span of this node."""
        return self.builder.constant(data, of, self.span)

    def shaped(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` in another shape; `x` itself where it has that shape already."""
        if same_shape(tensor(x).shape, shape):
            return x
        x, shape = stretching.to_reshape(self.builder, x, shape, self.span)
        return self.call("reshape", x, shape=tuple(shape))

    def stretched(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` broadcast to a shape; `x` itself where it has that shape already."""
        return x if same_shape(tensor(x).shape, shape) else self.call("broadcast_to", x, shape=tuple(shape))

    def cut_size(self, count: Expr) -> Dim:
        """The one element of a vector of int64 as a size: a number where it is known, else a symbol."""
        known = self.builder.contents(count)
        if known is not None:
            size: Dim = known.reshape(-1)[0]
            return size
        measured = self.builder.runs.measured(self.shaped(count, (1,)), "count")
        assert measured is not None
        return measured[0]

    def cut_to(self, x: Expr, size: Dim, axis: int) -> Expr:
        """The first `size` slices along an axis, which has as many; the result's size there is just that one."""
        part = self.call("strided_slice", x, axes=(axis,), begin=(0,), end=(size,))
        shape = tuple(size if a == axis else d for a, d in enumerate(tensor(x).shape))
        return part if same_shape(tensor(part).shape, shape) else self.builder.claimed(part, shape, self.span)

    def cut(self, x: Expr, count: Expr, axis: int) -> Expr:
        """The first slices along an axis, as many as the one element of `count` says."""
        return self.cut_to(x, self.cut_size(count), axis)

    def cast(self, x: Expr, to: DType) -> Expr:
        """ONNX leaves open what a float becomes that the integers do not have."""
        of = tensor(x).dtype
        more = {"open": True} if of.is_float and to.is_integer else {}
        return x if of is to else self.call("astype", x, dtype=to.name, **more)

    def quotient(self, op: str, a: Expr, b: Expr) -> Expr:
        """An integer quotient; ONNX leaves open what it is by 0."""
        known = self.builder.value(b) if is_small(tensor(b)) else None
        return self.call(op, a, b, **({} if known is not None and known.all() else {"open": True}))

    def wrong(self, message: str) -> Invalid:
        """What to raise where attributes and operands do not fit the operator."""
        return Invalid(f"{self}: {message}", label="onnx.C12")

    def unsupported(self, message: str) -> Unsupported:
        """What to raise for a form of the operator that is not translated."""
        return Unsupported(f"{self}: {message}", label="onnx.C14")

    def require_room(self, count: int) -> None:
        """BudgetSpent (budget.C1) where a constant of so many elements, of 8 bytes, is more than the run may take."""
        claim(8 * count, f"{self}: a constant of {count} elements", self.span)

    def with_(self, **changes: Any) -> Node:
        """A copy of the node with other fields."""
        return replace(self, **changes)


Rule: TypeAlias = Callable[[Node], Result | Sequence[Result]]


def tensor(of: Expr) -> TensorType:
    """The type of a tensor; every value of a model is one."""
    assert isinstance(of.type, TensorType)
    return of.type


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal for all values of their symbols, as far as linear arithmetic shows."""
    return len(a) == len(b) and all(map(provably_equal, a, b))
