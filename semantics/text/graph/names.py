"""Names that a module and its functions get in the text (specs/semantics.md, "Text")."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np

from assay.semantics.bits import digest
from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.graph import Expr, Function
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, variables
from assay.semantics.text.external_data import LARGEST, placeholder
from assay.semantics.text.graph.scope import ALIASES
from assay.semantics.types import FuncType, TensorType, Type, TypeVar, dims, symbols
from assay.semantics.walk import post_order

TAKEN = frozenset(
    (*keyword.kwlist, *keyword.softkwlist, *ALIASES, "cls", "Module", "metadata", "TypeVar", "float", "int", "bool",
     "range",
     "min", "max", "abs")
)  # fmt: skip


def legal(name: str, otherwise: str = "v") -> str:
    """A name that Python can say, as like `name` as can be."""
    base = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not base.strip("_"):
        return otherwise
    return f"{otherwise}_{base}" if base[0].isdigit() else base


class NamePool:
    """Hands out names that are all different."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.next: dict[str, int] = {}

    def fresh(self, name: str, otherwise: str = "v") -> str:
        """A legal name like `name` that was not handed out, `otherwise` where nothing of `name` is legal."""
        base = legal(name, otherwise)
        found = base
        while found in self.taken:
            k = self.next.get(base, 1)
            self.next[base] = k + 1
            found = f"{base}_{k}"
        self.taken.add(found)
        return found


class SymbolNames(dict[Any, str]):
    """Names of symbols; one that has none yet gets a fresh one when it is asked for."""

    def __init__(self, known: Mapping[Symbol, str], pool: NamePool) -> None:
        super().__init__(known)
        self.pool = pool
        self.declared: list[str] = []

    def get(self, of: Any, default: Any = None) -> Any:
        """The name of a symbol, a fresh one if it has none yet; `default` is never given."""
        if of not in self:
            self[of] = self.pool.fresh(of.name, "n")
            self.declared.append(self[of])
        return self[of]


@dataclass
class ModuleTexts:
    """What the functions of a module share while they are printed."""

    globals: Mapping[str, str] = field(default_factory=dict)
    """Definitions and constants: what stands in the text for their names."""
    types: Mapping[str, Type] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    type_vars: dict[TypeVar, str] = field(default_factory=dict)
    constants: list[np.ndarray[Any, Any]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    stored: Callable[[np.ndarray[Any, Any]], str] = placeholder
    """What stands for a constant that is too large for a text."""
    largest: int = LARGEST
    """Bytes of the largest constant that stands in the text."""
    devices: dict[VirtualDevice, str] | None = None
    """The names of devices, if the text has a place to say them."""

    def leave_out(self) -> None:
        """For people: no constant stands in the text but where it is used and short."""
        self.largest = -1
        self.stored = lambda data: f'A.stored("{dtype(data.dtype)}", {tuple(data.shape)}, ...)'

    def type_var(self, of: TypeVar) -> str:
        """The name of a type parameter; no two in a module have one."""
        if of not in self.type_vars:
            pool = NamePool(self.taken)
            self.type_vars[of] = pool.fresh(of.name, "t")
            self.taken = pool.taken
        return self.type_vars[of]

    def place(self, data: np.ndarray[Any, Any]) -> int:
        """The place of a constant in the section of constants; each content stands there once."""
        key = digest(data)
        if key not in self.places:
            self.places[key] = len(self.constants)
            self.constants.append(data)
        return self.places[key]

    def device(self, of: VirtualDevice) -> str:
        """A device as arguments: its name, or what it says. One that says little needs no name."""
        if self.devices is None or not (of.type and of.id >= 0 and of.target):
            return device_text(of)
        if of not in self.devices:
            name = f"{of.type}:{of.id}" + (f":{of.scope}" if of.scope not in ("", GLOBAL) else "")
            taken = set(self.devices.values())
            self.devices[of] = next(n for n in chain([name], (f"{name}#{k}" for k in count(2))) if n not in taken)
        return double_quoted(self.devices[of])


def device_text(of: VirtualDevice) -> str:
    """What a device says, as arguments: those that are open are left out."""
    given = [double_quoted(of.type), str(of.id), double_quoted(of.target), double_quoted(of.scope)]
    open_ = [not of.type, of.id < 0, not of.target, not of.scope]
    if of.type:
        while open_ and open_[-1]:
            del given[-1], open_[-1]
        return ", ".join(given)
    names = ("type", "id", "target", "scope")
    return ", ".join(f"{n}={g}" for n, g, o in zip(names, given, open_, strict=True) if not o)


def unknown_sizes(function: Function) -> set[Symbol]:
    """Sizes of the result that have no name: they stand once, in tensors of which nothing but the rank is said."""
    inside = {s for p in function.params for s in symbols(p.type)}
    found: Counter[Symbol] = Counter()
    bare: set[Symbol] = set()
    for t in post_order(function.result_type):
        found.update(v for d in dims(t) if isinstance(d, Scalar) for v in variables(d))
        if isinstance(t, TensorType) and all(
            isinstance(d, Symbol) and d.name == f"d{i}" for i, d in enumerate(t.shape)
        ):
            bare.update(d for d in t.shape if isinstance(d, Symbol))
        elif isinstance(t, FuncType):
            return set()
    bare = {s for s in bare if found[s] == 1 and s not in inside}
    if bare:
        body: Expr = function.body
        for node in post_order(body):
            bare.difference_update(symbols(node.type))
    return bare


def value_text(value: Any, scalar: Callable[[Scalar], str]) -> str:
    """The text of an attribute's value."""
    match value:
        case None | bool() | int():
            return str(value)
        case float() if value != value or abs(value) == np.inf:
            return f'float("{value}")'
        case float():
            return repr(float(value))
        case str():
            return double_quoted(str(value))
        case Scalar():
            return scalar(value)
        case list():
            return f"[{', '.join(value_text(v, scalar) for v in value)}]"
        case tuple():
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(value_text(v, scalar) for v in value)}{comma})"
        case Mapping():
            items = (f"{value_text(k, scalar)}: {value_text(v, scalar)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        case np.generic():
            return value_text(value.item(), scalar)
        case _:
            return double_quoted(str(value))


def double_quoted(text: str) -> str:
    """A string in double quotes where that is possible."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain.startswith("'") and '"' not in text else plain
