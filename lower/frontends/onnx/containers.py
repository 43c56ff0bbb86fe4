"""Sequences and optionals of ONNX as data of the language (specs/lower.md, "Import").

A sequence is the prelude's List, an optional value its Option. The tensors of a sequence have one dtype and any shapes,
so an element is a value of the data type `Any_DTYPE`: for each rank a constructor, and in it a function without
parameters that gives the tensor. A function type binds its own sizes (rule M4), which is what "of any shape" needs.
What is known of a sequence at import, its elements or their shapes, is remembered, so that shapes stay known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from assay.lower.frontends.onnx.tensors import ONNX_NAMES
from assay.semantics import graph
from assay.semantics.builder import Builder as ModuleBuilder
from assay.semantics.builder.prelude import LIST, OPTION, cons, list_of, none, option_of, some
from assay.semantics.dtypes import DTYPES, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Bind, Constructor, Expr, GlobalVar, Made, Var, Wildcard
from assay.semantics.module import Definition, Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, DataType, FuncType, TensorType, Type, TypeVar
from assay.semantics.walk import pre_order

MOST_RANK = 8
"""Tensors of a sequence have at most so many axes."""
PREFIX = "Any_"
NUMBER = TensorType((), INT64)
Shape = tuple[int | None, ...]
Shapes = frozenset[Shape]
"""What is known of the shapes of some tensors: one for each rank that they may have; None is a size that is not
known."""


def shapes_of(found: Iterable[Shape]) -> Shapes:
    """The shapes of tensors, those of one rank as one: a size on which they differ is not known."""
    by_rank: dict[int, Shape] = {}
    for shape in found:
        known = by_rank.get(len(shape), shape)
        by_rank[len(shape)] = tuple(a if a == b else None for a, b in zip(known, shape, strict=True))
    return frozenset(by_rank.values())


def either(a: Shapes | None, b: Shapes | None) -> Shapes | None:
    """The shapes of what is one or the other."""
    return None if a is None or b is None else shapes_of((*a, *b))


def shape_of(of: TensorType) -> Shape:
    """The shape of a tensor type, with None for each size that is not a number."""
    return tuple(d if isinstance(d, int) else None for d in of.shape)


@cache
def any_tensor(of: DType) -> DataDef:
    """The data type of tensors of one dtype and any shape: constructors rank0 to rank8."""
    fields = {
        f"rank{r}": (FuncType((), TensorType(tuple(Symbol(f"d{i}") for i in range(r)), of)),)
        for r in range(MOST_RANK + 1)
    }
    return DataDef(PREFIX + of.name, (), fields)


def sequence_type(of: DType) -> DataType:
    """The type of a sequence of tensors of a dtype, of any shapes."""
    return list_of(any_tensor(of).type)


def element_dtype(of: Type) -> DType | None:
    """The dtype of the tensors of a sequence; None for what is no sequence."""
    if isinstance(of, DataType) and of.name == LIST.name:
        return any_dtype(of.args[0])
    return None


def any_dtype(of: Type) -> DType | None:
    """The dtype of a tensor of any shape; None for what is none."""
    return DTYPES[of.name.removeprefix(PREFIX)] if isinstance(of, DataType) and of.name.startswith(PREFIX) else None


def inside_option(of: Type) -> Type | None:
    """What an optional value holds; None for what is no optional value."""
    return of.args[0] if isinstance(of, DataType) and of.name == OPTION.name and of.args else None


def onnx_name(of: Type) -> str:
    """How ONNX writes a type in its schemas: tensor(float), seq(tensor(float)), optional(seq(tensor(float)))."""
    wraps: list[str] = []
    while isinstance(of, DataType) and of.args:
        wraps.append("seq" if of.name == LIST.name else "optional")
        of = of.args[0]
    inner = of.dtype if isinstance(of, TensorType) else any_dtype(of)
    text = f"tensor({ONNX_NAMES.get(inner.name)})" if inner is not None else str(of)
    for w in reversed(wraps):
        text = f"{w}({text})"
    return text


@cache
def library() -> Module:
    """The functions over lists that sequences need; numbers are int64."""
    b = ModuleBuilder()
    b.data(LIST)
    a = TypeVar("A")
    xs_of = list_of(a)
    with b.function("sequence_length", xs=xs_of, result=NUMBER, type_params=(a,)) as f:
        b.result(
            b.cases(
                f["xs"], (graph.constructor(LIST, "nil"), lambda: b.constant(0, "int64")),
                ((cons, "_", "tail"), lambda tail: b.add(f(tail), 1)),
            )
        )  # fmt: skip
    with b.function("sequence_at", xs=xs_of, index=NUMBER, result=a, type_params=(a,)) as g:
        b.result(
            b.choose(
                b.equal(g["index"], 0),
                lambda: b.cases(g["xs"], ((cons, "head", "_"), lambda head: head), partial=True),
                lambda: b.cases(
                    g["xs"], ((cons, "_", "tail"), lambda tail: g(tail, b.subtract(g["index"], 1))), partial=True
                ),
            )
        )
    with b.function("sequence_insert", xs=xs_of, index=NUMBER, item=a, result=xs_of, type_params=(a,)) as h:

        def before(head: Var, tail: Var) -> Var:
            return b.call(cons, head, h(tail, b.subtract(h["index"], 1), h["item"]))

        b.result(
            b.choose(
                b.equal(h["index"], 0),
                lambda: b.call(cons, h["item"], h["xs"]),
                lambda: b.cases(h["xs"], ((cons, "head", "tail"), before), partial=True),
            )
        )
    with b.function("sequence_erase", xs=xs_of, index=NUMBER, result=xs_of, type_params=(a,)) as e:

        def kept(head: Var, tail: Var) -> Var:
            return b.call(cons, head, e(tail, b.subtract(e["index"], 1)))

        b.result(
            b.choose(
                b.equal(e["index"], 0),
                lambda: b.cases(e["xs"], ((cons, "_", "tail"), lambda tail: tail), partial=True),
                lambda: b.cases(e["xs"], ((cons, "head", "tail"), kept), partial=True),
            )
        )
    return b.module()


@dataclass(eq=False)
class Containers:
    """The containers of a model: what is known of them, and the definitions that they need."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    _elements: dict[Expr, tuple[Expr, ...]] = field(default_factory=dict)
    _shapes: dict[Expr, Shapes] = field(default_factory=dict)
    _inside: dict[Expr, Expr | None] = field(default_factory=dict)

    # --- what is known

    def elements(self, sequence: Expr) -> tuple[Expr, ...] | None:
        """The tensors of a sequence, where they are known one by one."""
        return self._elements.get(sequence)

    def shapes(self, value: Expr) -> Shapes | None:
        """The shapes that the tensors in a sequence or optional value may have; None where not even a rank is known."""
        return self._shapes.get(value)

    def note(self, value: Expr, shapes: Shapes | None) -> Expr:
        """Remember the shapes of what is inside."""
        if shapes is not None and isinstance(value.type, DataType):
            self._shapes[value] = shapes
        return value

    def copy(self, value: Expr, name: Expr) -> None:
        """What is known of a value is known of its name."""
        tables: tuple[dict[Expr, Any], ...] = (self._elements, self._shapes, self._inside)
        for known in tables:
            if value in known:
                known[name] = known[value]

    # --- types

    def need(self, of: Type) -> Type:
        """A type, with the definitions that it mentions."""
        for t in pre_order(of):
            if isinstance(t, DataType):
                inner, other = any_dtype(t), LIST if t.name == LIST.name else OPTION
                self.definitions[t.name] = other if inner is None else any_tensor(inner)
        return of

    def function(self, name: str) -> GlobalVar:
        """A function of the library of containers, which becomes a definition of the module."""
        found = library().definitions[name]
        assert isinstance(found, graph.Function)
        self.definitions[name] = found
        self.definitions[LIST.name] = LIST
        return GlobalVar(found.type, name)

    # --- tensors of any shape

    def closed(self, x: Expr) -> Expr:
        """A tensor as one of any shape. `x` should be a name: it is evaluated whenever the result is opened."""
        of = x.type
        assert isinstance(of, TensorType)
        if of.ndim > MOST_RANK:
            raise Unsupported(f"a tensor in a sequence has {of.ndim} axes; at most {MOST_RANK}", label="onnx.C14")
        self.need(any_tensor(of.dtype).type)
        return graph.call(self._rank(of.dtype, of.ndim), graph.function([], x, pure=True))

    def opened(self, item: Expr, shapes: Shapes | None, what: str) -> Expr:
        """The tensor, whose rank must be known: sizes that are not known are new symbols, and those that are a run
        compares."""
        of = any_dtype(item.type)
        assert of is not None
        if shapes is None or len(shapes) != 1:
            known = (
                "none is known" if not shapes else f"it may be {', '.join(str(n) for n in sorted(map(len, shapes)))}"
            )
            raise Unsupported(f"{what}: the rank of the element must be known at import; {known}", label="onnx.C14")
        (shape,) = shapes
        made = self._rank(of, len(shape))
        assert isinstance(made.type, FuncType)
        get = graph.var("tensor", made.type.params[0])
        got: Expr = graph.call(get)
        if any(d is not None for d in shape):
            assert isinstance(got.type, TensorType)
            sizes = [own if d is None else d for d, own in zip(shape, got.type.shape, strict=True)]
            got = graph.match_cast(got, TensorType(tuple(sizes), of))
        return graph.match(item, (Made(made, (Bind(get),)), got), partial=True)

    def _rank(self, of: DType, rank: int) -> Constructor:
        return graph.constructor(any_tensor(of), f"rank{rank}")

    # --- sequences

    def sequence(self, of: DType, items: Sequence[Expr]) -> Expr:
        """The sequence of these tensors, which are names."""
        element = any_tensor(of).type
        self.need(list_of(element))
        made: Expr = graph.call(graph.constructor(LIST, "nil"), type_args=(element,))
        for item in reversed(items):
            made = graph.call(cons, self.closed(item), made)
        self._elements[made] = tuple(items)
        return self.note(made, shapes_of(shape_of(i.type) for i in items if isinstance(i.type, TensorType)))

    # --- optional values

    def optional(self, inner: Expr | None, of: Type) -> Expr:
        """The optional value that holds a tensor or a sequence of type `of`, or nothing. A tensor is a name."""
        if inner is None:
            held = any_tensor(of.dtype).type if isinstance(of, TensorType) else of
            self.need(option_of(held))
            made = graph.call(none, type_args=(held,))
            self.note(made, frozenset())
        else:
            closed = self.closed(inner) if isinstance(of, TensorType) else inner
            self.need(option_of(closed.type))
            made = graph.call(some, closed)
            self.note(made, frozenset({shape_of(of)}) if isinstance(of, TensorType) else self.shapes(inner))
        self._inside[made] = inner
        return made

    def has_element(self, value: Expr) -> Expr | bool:
        """Whether an optional value holds something: known, or a bool scalar. What is none always does."""
        if inside_option(value.type) is None:
            return True
        if value in self._inside:
            return self._inside[value] is not None
        held = Made(some, (Wildcard(),))
        yes, no = graph.constant(True, "bool"), graph.constant(False, "bool")
        return graph.match(value, (held, yes), (Wildcard(), no))

    def get_element(self, value: Expr, what: str) -> Expr:
        """What an optional value holds; a run in which it holds nothing traps (match.T1)."""
        inner = inside_option(value.type)
        if inner is None:
            return value
        if (known := self._inside.get(value)) is not None:
            return known
        held = graph.var("held", inner)
        body: Expr = held
        if any_dtype(inner) is not None:
            body = self.opened(held, self.shapes(value), what)
        return self.note(graph.match(value, (Made(some, (Bind(held),)), body), partial=True), self.shapes(value))

    def fitted(self, value: Expr, of: Type) -> Expr:
        """A value where one of type `of` is wanted: ONNX takes an optional value and what it holds for each other."""
        if inside_option(of) is not None and inside_option(value.type) is None:
            return self.optional(value, value.type)
        if inside_option(value.type) is not None and inside_option(of) is None:
            return self.get_element(value, "the value")
        return value
