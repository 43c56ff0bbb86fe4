"""The table of numbers that the programs under comparison share, and the keys of its entries (specs/verify.md,
"Bisimulation")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.analyses.equality import structural_equal
from assay.semantics.bits import digest
from assay.semantics.linked import in_numbers, linked, unlinked
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, show, substitute, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import DataType, FuncType, RefType, ShapeType, TensorType, TupleType, Type, TypeVar
from assay.semantics.walk import post_order, spelled

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]


def constant_key(array: Array) -> Key:
    """Two constants are one exactly if dtype, shape and bytes are equal."""
    return ("constant", digest(array))


def _is_believed(one: PrimFunc, other: PrimFunc) -> bool:
    """Whether two tensor functions that are said to have been of one name are one: where neither holds constants, or in
    the sizes that its constants fix, the texts are the same."""
    if linked(one) is None and linked(other) is None:
        return True
    pairs = ((in_numbers(one, other), other), (one, in_numbers(other, one)))
    return any(structural_equal(*(replace(unlinked(k), attrs={}) for k in pair)) for pair in pairs)


@dataclass
class Table:
    """Numbers of terms, shared by the programs that are compared."""

    numbers: dict[Key, int] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)
    known: dict[int, Symbol | TypeVar] = field(default_factory=dict)
    types: dict[int, tuple[str, Type]] = field(default_factory=dict)
    texts: dict[str, list[PrimFunc]] = field(default_factory=dict)
    told: dict[int, tuple[PrimFunc, int]] = field(default_factory=dict)
    sizes: dict[tuple[int, int], Symbol] = field(default_factory=dict)
    """The symbol that stands for an element of a vector, by the vector's number and the place."""

    def text(self, kernel: PrimFunc) -> int:
        """Which of the tensor functions of its name one is that claims no operator: a name is believed, but not what
        one that holds constants says that it was (`assay.semantics.linked`): that is so where the texts are one."""
        if id(kernel) not in self.told:
            name = unlinked(kernel).name
            known = self.texts.setdefault(name, [])
            found = next((i for i, other in enumerate(known) if _is_believed(other, kernel)), len(known))
            if found == len(known):
                known.append(kernel)
            self.told[id(kernel)] = kernel, found  # kept alive, so that no other object gets its identity
        return self.told[id(kernel)][1]

    def number(self, *key: Any) -> int:
        """The number of a key, a new one if it has none."""
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return found

    def constant(self, array: Array) -> int:
        """The number of an array by dtype, shape and bytes."""
        number = self.number(*constant_key(array))
        self.constants.setdefault(number, array)
        return number

    def symbol(self, of: Symbol | TypeVar) -> int:
        """The number of a symbol or type parameter that a person wrote: it is itself."""
        self.known[id(of)] = of  # kept alive, so that no other object gets its identity
        return self.number("symbol", id(of))

    def type_key(self, of: Type) -> str:
        """A type without symbols as text of bounded length: a chain of growing tuples costs each tuple once."""
        for t in post_order(of, lambda t: () if id(t) in self.types else t.children):
            if id(t) not in self.types:
                if t.children:
                    key = f"t{self.number('type', type_head(t, self), *(self.types[id(c)][0] for c in t.children))}"
                else:
                    key = type_text(t, str, self)
                self.types[id(t)] = key, t  # kept alive, so that no other object gets its identity
        return self.types[id(of)][0]

    def field_of(self, value: int, index: int) -> int:
        """The number of a projection: that of the field where the tuple is known."""
        key = self.keys[value]
        return int(key[1][index]) if key[0] == "tuple" else self.number("field", value, index)


def attrs_key(attrs: Mapping[str, Any], dim: Callable[[Dim], str] = show) -> str:
    """Attributes as text: equal exactly if each has the same type and value, the sign of zero and NaN included."""
    return repr(sorted((k, _attr_key(v, dim)) for k, v in attrs.items())) if attrs else ""


def _attr_key(value: Any, dim: Callable[[Dim], str]) -> str:
    if isinstance(value, (tuple, list)):
        return f"({','.join(_attr_key(v, dim) for v in value)})"
    if isinstance(value, Scalar):
        return f"dim {dim(value)}"
    return f"{type(value).__name__} {value.hex() if isinstance(value, float) else value}"


def dim_text(dim: Dim, name: Callable[[Symbol], str]) -> str:
    """A dim as text, each symbol by the name that `name` gives it."""
    if isinstance(dim, Symbol):
        return name(dim)
    if not isinstance(dim, Scalar):
        return str(dim)
    return show(substitute(dim, {s: Symbol(name(s)) for s in variables(dim)}))


def type_head(of: Type, table: Table) -> str:
    """What a compound type is besides its parts."""
    head = of.name if isinstance(of, DataType) else type(of).__name__
    if isinstance(of, FuncType):
        head += f"{'' if of.pure else '!'}{[table.symbol(p) for p in of.type_params]}"
    return head


def type_text(of: Type, dim: Callable[[Dim], str], table: Table) -> str:
    """A type as text, each dim as `dim` writes it; two types of one text are one."""

    def pieces(t: Type) -> list[Type | str]:
        match t:
            case TensorType():
                return [f"Tensor(({', '.join(map(dim, t.shape))}), {t.dtype})"]
            case ShapeType():
                return [f"Shape({', '.join(map(dim, t.dims))})"]
            case TypeVar():
                return [f"%{table.symbol(t)}"]
            case TupleType() | RefType() | DataType() | FuncType():
                return [f"{type_head(t, table)}(", *(piece for c in t.children for piece in (c, ", ")), ")"]
            case _:
                return [str(t)]

    return spelled(of, pieces)
