"""Types of graph functions out of live TVM objects (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.tvm.objects import Object, prim_dtype, type_key
from assay.lower.frontends.tvm.scalars import Scalars, VariableTable
from assay.semantics.devices import ANYWHERE, TYPES, VirtualDevice
from assay.semantics.errors import Crash, Unsupported
from assay.semantics.scalar import Dim, Var
from assay.semantics.tensor import Buffer
from assay.semantics.types import FuncType, ObjectType, ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, occurrences


class Types:
    """Reads the types of one function, which messages name by `where`."""

    def __init__(self, symbols: VariableTable, where: str) -> None:
        self.where = where
        self.scalars = Scalars(symbols, where, self.no_buffer)

    def no_buffer(self, o: Object) -> Buffer:
        """Crash: the type of a graph function never refers to a buffer."""
        raise Crash("a buffer in a graph function")

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`tvm.C9`) for a type that is not handled."""
        return Unsupported(f"{what} is not handled", where=self.where, label="tvm.C9")

    def read(self, root: Object) -> Type:
        """The type of a TVM type. A dim that it does not say is a fresh symbol."""
        return fold_scoped(root, parts, self.build)

    def build(self, o: Object, below: Sequence[Type]) -> Type:
        """Make a type from a TVM type and the types of its parts."""
        match type_key(o):
            case "relax.TensorType":
                return self.tensor(o)
            case "ir.TupleType":
                return TupleType(tuple(below))
            case "relax.FuncType":
                if o.params is None:
                    raise self.unsupported("a function type without parameters")
                return FuncType(tuple(below[:-1]), below[-1], pure=bool(o.purity))
            case "relax.ShapeType":
                if o.values is not None:
                    return ShapeType(tuple(map(self.scalars.dim, o.values)))
                return ShapeType(self.unknown(int(o.ndim), o))
            case "ir.PrimType":
                return TensorType((), prim_dtype(o, self.where))
            case "relax.AnyType" | "ir.OpaqueType" | "relax.PackedFuncType":
                return ObjectType()
            case key:
                raise self.unsupported(f"the type {key}")

    def tensor(self, o: Object) -> TensorType:
        """A tensor type, with a new symbol for each size that is not said. Unsupported for unknown dtype or rank."""
        if o.dtype is None:
            raise self.unsupported("a tensor of unknown dtype")
        of = prim_dtype(o.dtype, self.where)
        if says_shape(o):
            return TensorType(tuple(map(self.scalars.dim, o.shape.values)), of)
        return TensorType(self.unknown(int(o.ndim), o), of)

    def unknown(self, ndim: int, o: Object) -> tuple[Dim, ...]:
        """A new symbol for each of `ndim` sizes; Unsupported if the rank is unknown."""
        if ndim < 0:
            raise self.unsupported(f"{type_key(o)} of unknown rank")
        return tuple(Var(f"unknown{k}") for k in range(ndim))


def says_shape(o: Object) -> bool:
    """Whether a tensor type says its dims."""
    return o.shape is not None and type_key(o.shape) == "relax.expr.ShapeExpr"


def parts(o: Object) -> list[Object]:
    """The TVM types directly inside one: fields of a tuple, or parameters and result of a function."""
    match type_key(o):
        case "ir.TupleType":
            return list(o.fields)
        case "relax.FuncType":
            return [*(o.params or ()), o.ret]
        case _:
            return []


def is_exact(root: Object) -> bool:
    """Whether a type says every dim in it."""
    for o in occurrences(root, parts):
        match type_key(o):
            case "relax.TensorType" if not says_shape(o) or o.dtype is None:
                return False
            case "relax.ShapeType" if o.values is None:
                return False
            case "ir.Type" | "relax.AnyType":
                return False
    return True


def type_device(root: Object) -> VirtualDevice:
    """The virtual device that a tensor type names; of a tuple, that of its fields."""
    found = ANYWHERE
    for o in occurrences(root, lambda o: list(o.fields) if type_key(o) == "ir.TupleType" else ()):
        if type_key(o) == "relax.TensorType" and o.vdevice is not None:
            both = found.join(vdevice(o.vdevice))
            if both is None:
                message = (
                    f"a tuple whose fields live on {found} and {vdevice(o.vdevice)} is not handled: a tuple lives on"
                    " one device"
                )
                raise Unsupported(message, label="tvm.C9")
            found = both
    return found


def vdevice(o: Object) -> VirtualDevice:
    """A virtual device of TVM."""
    kind = str(o.target.kind.name)
    return VirtualDevice(TYPES.get(kind, kind), int(o.vdevice_id), kind, str(o.memory_scope))
