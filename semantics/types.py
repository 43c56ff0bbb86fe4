"""Types of graph expressions and the virtual device on which a value lives (specs/semantics.md, "Types")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics import scalar
from assay.semantics.dtypes import DType, size_in_bytes
from assay.semantics.errors import Invalid
from assay.semantics.walk import TreeNode, Worklist, commas, ids, occurrences, post_order, rewrite, spelled

MOST_AXES = 64
"""Axes of a tensor that a program makes: NumPy has no array of more."""


class TypeNode(TreeNode["Type"]):
    """Base of types. Two are equal, by `==`, as `same_type` says; so their hash knows no dims."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TypeNode):
            return NotImplemented
        a: Any = self
        b: Any = other
        return same_type(a, b)

    def __hash__(self) -> int:
        return hash((type(self), len(self.children)))

    def __str__(self) -> str:
        of: Any = self
        return show_type(of)

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class TensorType(TypeNode):
    """A dense tensor: one dim for each axis (rule M4), and an element type (rule M4.5)."""

    shape: tuple[scalar.Dim, ...]
    dtype: DType

    def __hash__(self) -> int:
        return hash((len(self.shape), self.dtype.name))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a number."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as numbers; Invalid where a dim is symbolic."""
        shape = tuple(d for d in self.shape if isinstance(d, int))
        if len(shape) != len(self.shape):
            raise Invalid(f"{self} has symbolic dims where sizes must be known", label="type.C1")
        return shape

    @property
    def nbytes(self) -> int:
        """The bytes that it takes; Invalid where a dim is symbolic."""
        return size_in_bytes(self.static_shape, self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class TupleType(TypeNode):
    """A tuple of values, each of the type of its field."""

    parts = "*fields"
    fields: tuple[Type, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FuncType(TypeNode):
    """A function of the graph language. Symbols of its parameters, and `type_params`, are bound at each call.

    A function that is not `pure` may act (rule M1): print, call outside, or use a reference. Symbols that stand in the
    result alone are sizes that only a run can tell.
    """

    parts = "*params result"
    params: tuple[Type, ...]
    result: Type
    type_params: tuple[TypeVar, ...] = field(default=(), kw_only=True)
    pure: bool = field(default=True, kw_only=True)


@dataclass(frozen=True, eq=False, repr=False)
class RefType(TypeNode):
    """A reference to a mutable cell that holds a value."""

    parts = "value"
    value: Type


@dataclass(frozen=True, eq=False, repr=False)
class DataType(TypeNode):
    """An algebraic data type of the module, by name, at type arguments."""

    parts = "*args"
    name: str
    args: tuple[Type, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class ShapeType(TypeNode):
    """A shape as a value: a list of sizes, of known length."""

    dims: tuple[scalar.Dim, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TypeVar(TypeNode):
    """A type parameter of a function or a data type; compared by identity."""

    name: str

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class ObjectType(TypeNode):
    """Something that only extern functions look into."""


Type: TypeAlias = TensorType | TupleType | FuncType | RefType | DataType | ShapeType | TypeVar | ObjectType
UNIT = TupleType(())
"""The type of what has no result: print, assert_op, a write to a reference."""


@dataclass(frozen=True)
class DataDef:
    """The definition of an algebraic data type: its type parameters, and the fields of each constructor."""

    name: str
    type_params: tuple[TypeVar, ...]
    constructors: Mapping[str, tuple[Type, ...]]

    @property
    def type(self) -> DataType:
        """The data type at its own type parameters."""
        return DataType(self.name, self.type_params)


Names: TypeAlias = Mapping[scalar.Var | TypeVar, scalar.Var | TypeVar]


def same_type(a: Type, b: Type) -> bool:
    """Whether two types are equal: dims by linear arithmetic, what a function type binds up to its names
    (rule M4.4)."""
    if a is b:
        return True
    none: Names = {}
    work = Worklist([(a, b, none)], ids)
    for x, y, names in work:
        if x is y and not names:
            continue
        match x, y:
            case TensorType(), TensorType():
                if x.dtype is not y.dtype or not _same_dims(x.shape, y.shape, names):
                    return False
                continue
            case ShapeType(), ShapeType():
                if not _same_dims(x.dims, y.dims, names):
                    return False
                continue
            case TypeVar(), TypeVar():
                if names.get(x, x) is not y:
                    return False
                continue
            case FuncType(), FuncType():
                if x.pure != y.pure or len(x.type_params) != len(y.type_params):
                    return False
                if x.type_params or symbols(x):
                    own: dict[scalar.Var | TypeVar, scalar.Var | TypeVar] = {}
                    own.update(zip(x.type_params, y.type_params, strict=True))
                    own.update(zip(symbols(x), symbols(y), strict=False))
                    if any(v not in names or names[v] is not w for v, w in own.items()):
                        names = {**names, **own}
            case (TupleType(), TupleType()) | (RefType(), RefType()) | (ObjectType(), ObjectType()):
                pass
            case DataType(), DataType():
                if x.name != y.name:
                    return False
            case _:
                return False
        if len(x.children) != len(y.children):
            return False
        work.add((p, q, names) for p, q in zip(x.children, y.children, strict=True))
    return True


def _same_dims(x: Sequence[scalar.Dim], y: Sequence[scalar.Dim], names: Names) -> bool:
    return len(x) == len(y) and all(scalar.provably_equal(_named(d, names), e) for d, e in zip(x, y, strict=True))


def _named(d: scalar.Dim, names: Names) -> scalar.Dim:
    """A dim under other names."""
    if not names or not isinstance(d, scalar.Expr):
        return d
    by = {v: w for v in scalar.variables(d) if isinstance(w := names.get(v), scalar.Var)}
    return scalar.substitute(d, by) if by else d


def dims(of: Type) -> tuple[scalar.Dim, ...]:
    """The dims that stand in a type itself, not in its parts."""
    match of:
        case TensorType():
            return of.shape
        case ShapeType():
            return of.dims
        case _:
            return ()


def show_type(of: Type) -> str:
    """A type as it stands in messages, however deep its tuples are."""

    def pieces(t: Type) -> list[Type | str]:
        match t:
            case TupleType():
                return ["Tuple(", *commas(t.fields), ")"]
            case FuncType():
                return ["Callable((", *commas(t.params), "), ", t.result, ")" if t.pure else ", impure)"]
            case RefType():
                return ["Ref(", t.value, ")"]
            case DataType() if t.args:
                return [f"{t.name}[", *commas(t.args), "]"]
            case DataType() | TypeVar():
                return [t.name]
            case TensorType():
                return [f"Tensor(({', '.join(map(scalar.show, t.shape))}), {t.dtype})"]
            case ShapeType():
                return [f"Shape(({', '.join(map(scalar.show, t.dims))}))"]
            case ObjectType():
                return ["Object"]

    return spelled(of, pieces)


def with_dims(of: Type, change: Callable[[scalar.Dim], scalar.Dim]) -> Type:
    """`of` with `change` applied to every dim in it."""

    def leaf(t: Type) -> Type:
        match t:
            case TensorType():
                return TensorType(tuple(map(change, t.shape)), t.dtype)
            case ShapeType():
                return ShapeType(tuple(map(change, t.dims)))
            case _:
                return t

    if isinstance(of, TensorType):
        return leaf(of)
    root: Type = of
    return rewrite(root, leaf)


def flatten(of: Type) -> list[TensorType]:
    """The tensors inside a type, left to right; Invalid for what is not tensors and tuples of them."""
    fields = of.fields if isinstance(of, TupleType) else (of,)
    out = [t for t in fields if isinstance(t, TensorType)]
    if len(out) == len(fields):  # most are flat
        return out
    out = []
    for t in occurrences(of, lambda t: t.fields if isinstance(t, TupleType) else ()):
        if isinstance(t, TensorType):
            out.append(t)
        elif not isinstance(t, TupleType):
            raise Invalid(f"{t} is not data: tensors and tuples of them are", label="type.C2")
    return out


def symbols(of: Type) -> tuple[scalar.Var, ...]:
    """The symbolic dims in a type, in order of first occurrence; a type remembers them."""
    if isinstance(of, TensorType) and of.is_static:
        return ()
    for t in post_order(of, lambda t: () if "symbols" in t.__dict__ else t.children):
        if "symbols" not in t.__dict__:
            found = dict.fromkeys(v for d in dims(t) if isinstance(d, scalar.Expr) for v in scalar.variables(d))
            for part in t.children:
                found.update(dict.fromkeys(part.__dict__["symbols"]))
            t.__dict__["symbols"] = tuple(found)
    known: tuple[scalar.Var, ...] = of.__dict__["symbols"]
    return known


def open_symbols(of: Type) -> tuple[scalar.Var, ...]:
    """The symbols that a value of this type gives a number: whole dims of tensors and shapes, in tuples or not, in
    order of first occurrence. What is inside a reference, a data type or a function cannot be asked. A type remembers
    them.
    """
    if not isinstance(of, (TensorType, ShapeType, TupleType)) or not symbols(of):
        return ()
    root: Type = of
    known = "open_symbols"
    for t in post_order(root, lambda t: t.fields if isinstance(t, TupleType) and known not in t.__dict__ else ()):
        if known not in t.__dict__:
            found = dict.fromkeys(d for d in dims(t) if isinstance(d, scalar.Var))
            for part in t.fields if isinstance(t, TupleType) else ():
                found.update(dict.fromkeys(part.__dict__[known]))
            t.__dict__[known] = tuple(found)
    result: tuple[scalar.Var, ...] = of.__dict__[known]
    return result


def free_type_vars(of: Type) -> tuple[TypeVar, ...]:
    """The type parameters that a type mentions and no function type in it binds; a type remembers them."""
    if isinstance(of, (TensorType, ShapeType)):
        return ()
    root: Type = of
    for t in post_order(root, lambda t: () if "type_vars" in t.__dict__ else t.children):
        if "type_vars" not in t.__dict__:
            own = {t: None} if isinstance(t, TypeVar) else {}
            for part in t.children:
                own.update(dict.fromkeys(part.__dict__["type_vars"]))
            bound = t.type_params if isinstance(t, FuncType) else ()
            t.__dict__["type_vars"] = tuple(v for v in own if v not in bound)
    known: tuple[TypeVar, ...] = of.__dict__["type_vars"]
    return known
