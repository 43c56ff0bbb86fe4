"""What is inside a value that comes from outside: references, data and functions (rule M4; specs/interp.md, "Graph").

`assay.interp.graph.boundary` asks what a run asks again and again: kinds, ranks, element types and sizes of tensors, in
tuples or not. What is inside a reference, a data value or a function no run looks at, for the static rules vouch for
it. So a caller's values are looked through here, once, to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.interp.graph.boundary import Meeting, Path, compare_sizes, shown, type_of_value
from assay.interp.values import Cell, Closure, Data, External, Maker, Shape, Value
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Constructor, Expr, ExternFunc, Function, GlobalVar
from assay.semantics.graph.matching import serves
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import (
    DataDef,
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    dims,
    same_type,
)
from assay.semantics.walk import Worklist, post_order, rewrite


def check_contents(
    meetings: Sequence[Meeting], sizes: Mapping[Symbol, int], module: Module, externs: Collection[str] = ()
) -> None:
    """Raise Invalid, with the path into the value, unless each value is all through of its type.

    `sizes` are those that are known already; a symbol that stands only inside a reference or a data type must be one
    number wherever it stands. A function must be of a type that serves, and what it calls must be in `module` or, by
    name, among `externs`.
    """
    if any(_hides(of) for of, _, _ in meetings):
        _Check(module, externs, dict(sizes)).run(meetings)


def _hides(of: Type) -> bool:
    """Whether a value of the type has parts that no run looks at."""
    return any(isinstance(t, (RefType, DataType, FuncType)) for t in post_order(of))


@dataclass(eq=False)
class _Check:
    module: Module
    externs: Collection[str]
    sizes: dict[Symbol, int]
    places: dict[Symbol, str] = field(default_factory=dict)
    later: list[tuple[Dim, int, int, Path]] = field(default_factory=list)
    """Dims that are compared when every symbol has its number: with the axis, and the path to the value."""
    work: Worklist[Meeting] = field(default_factory=lambda: Worklist([], lambda m: (id(m[0]), id(m[1]))))
    cells: dict[int, tuple[Cell, Type]] = field(default_factory=dict)
    types: dict[tuple[object, ...], Type] = field(default_factory=dict)
    """Types that were made here, each once, so that a list's tail has the type object of the list."""
    functions: set[int] = field(default_factory=set)

    def run(self, meetings: Sequence[Meeting]) -> None:
        self.work.add(meetings)
        for of, value, path in self.work:
            self.look(of, value, path)
        compare_sizes(self.later, self.sizes, self.places)

    def look(self, of: Type, value: Value, path: Path) -> None:
        """One value against its type; its parts are left for later."""
        match of:
            case TensorType() if _is_array(value, of):
                self.sized(of, value.shape, path)
            case ShapeType() if isinstance(value, Shape) and len(value.dims) == len(of.dims):
                self.sized(of, value.dims, path)
            case TupleType() if isinstance(value, tuple) and len(value) == len(of.fields):
                self.parts(of.fields, value, [(path, str(i)) for i in range(len(value))])
            case RefType() if isinstance(value, Cell):
                _, before = self.cells.setdefault(id(value), (value, of))
                if before is of:
                    self.parts([of.value], [value.value], [(path, "value")])
                elif not same_type(before, of):
                    raise Invalid(
                        f"{shown(path)} is a reference that stands elsewhere as {before}, expected {of}",
                        label="input.C8",
                    )
            case DataType() if isinstance(value, Data) and value.type == of.name:
                fields = self.fields(of, value.constructor)
                if fields is None or not isinstance(value.fields, tuple) or len(fields) != len(value.fields):
                    made = f"{value.constructor} of {len(value.fields)} fields"
                    raise Invalid(f"{shown(path)} is {made}, expected {of}", label="input.C3")
                self.parts(fields, value.fields, [((path, value.constructor), str(i)) for i in range(len(fields))])
            case FuncType():
                self.function(of, value, path)
            case TypeVar() | ObjectType():
                pass
            case _:
                raise self.wrong(of, value, path)

    def parts(self, types: Sequence[Type], values: Sequence[Value], paths: Sequence[Path]) -> None:
        self.work.add(zip(types, values, paths, strict=True))

    def wrong(self, of: Type, value: Value, path: Path) -> Invalid:
        return Invalid(f"{shown(path)} is {type_of_value(value)}, expected {of}", label="input.C3")

    def sized(self, of: Type, sizes: Sequence[int], path: Path) -> None:
        for axis, (d, n) in enumerate(zip(dims(of), sizes, strict=True)):
            if isinstance(d, Symbol) and d not in self.sizes:
                self.sizes[d], self.places[d] = int(n), f"axis {axis} of {shown(path)}"
            elif d is not n and (not isinstance(d, Symbol) or self.sizes[d] != n):
                self.later.append((d, int(n), axis, path))

    def fields(self, of: DataType, name: str) -> Sequence[Type] | None:
        """The types of a constructor's fields; None where the data type has no such constructor."""
        data = self.module.data(of.name)
        if name not in data.constructors:
            return None
        if not data.type_params:
            return data.constructors[name]
        by = dict(zip(data.type_params, of.args, strict=True))
        return [rewrite(t, lambda part: self.one(part, by)) for t in data.constructors[name]]

    def one(self, of: Type, by: Mapping[TypeVar, Type]) -> Type:
        """The type in which type parameters stand for others, as one object for equal parts."""
        if isinstance(of, TypeVar):
            return by.get(of, of)
        if isinstance(of, (TensorType, ShapeType, ObjectType)):
            return of
        own: tuple[object, ...] = (of.name,) if isinstance(of, DataType) else ()
        own = (of.type_params, of.pure) if isinstance(of, FuncType) else own
        return self.types.setdefault((type(of), own, *map(id, of.children)), of)

    # --- functions ---------------------------------------------------------------------------------------------------

    def function(self, of: FuncType, value: Value, path: Path) -> None:
        match value:
            case Closure():
                given: Type = value.function.type
                self.needs(value.function, path)
            case External() if callable(value.act):
                given = value.node.type
            case Maker():
                given = value.node.type
                self.needs(value.node, path)
            case _:
                raise self.wrong(of, value, path)
        if not isinstance(given, FuncType) or not serves(given, of):
            raise Invalid(f"{shown(path)} is a function of type {given}, expected {of}", label="input.C9")

    def needs(self, root: Expr, path: Path) -> None:
        """What a function calls is there."""
        if id(root) in self.functions:
            return
        self.functions.add(id(root))
        for node in post_order(root):
            match node:
                case ExternFunc() if node.name not in self.externs:
                    missing = f"the extern function {node.name}"
                case GlobalVar() if not self.has(node):
                    missing = f"{node.name}: {node.type}"
                case CallTIR() if not isinstance(self.module.definitions.get(node.func), PrimFunc):
                    missing = f"the tensor function {node.func}"
                case Constructor() if not isinstance(self.module.definitions.get(node.data), DataDef):
                    missing = f"the data type {node.data}"
                case _:
                    continue
            raise Invalid(f"{shown(path)} is a function that needs {missing}, which is not there", label="input.C10")

    def has(self, name: GlobalVar) -> bool:
        """Whether the module has what is called so, of a type that will do."""
        found = self.module.definitions.get(name.name)
        if isinstance(found, Function):
            return isinstance(name.type, FuncType) and serves(found.func_type, name.type)
        return name.name in self.module.constants


def _is_array(value: Any, of: TensorType) -> bool:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return False
    try:
        return (value.of if isinstance(value, Bounded) else dtype(value.dtype)) is of.dtype and len(
            value.shape
        ) == of.ndim
    except Invalid:  # of no dtype that we know
        return False
