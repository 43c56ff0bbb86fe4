"""Types of the graph IR in the text format (specs/semantics.md, "Text").

A type that is written may leave things open: `R.Tensor(ndim=2, dtype="float32")` says no sizes. `Written` is such a
type. Where a value is at hand, its type fills what is open; a parameter's unknown sizes become symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.semantics import types
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.walk import Tree, commas, fold, post_order, spelled

Kind: TypeAlias = Literal["tensor", "tuple", "func", "ref", "data", "shape", "typevar", "object"]


@dataclass(frozen=True, eq=False)
class Written:
    """A type as it is written; None stands for what is left open.

    `parts` are the fields of a tuple, the parameters and the result of a function, the arguments of a data type.
    """

    kind: Kind
    parts: tuple[Written, ...] | None = ()
    dims: tuple[Dim | None, ...] | None = None
    dtype: DType | None = None
    pure: bool = True
    name: str = ""
    type_params: tuple[types.TypeVar, ...] = ()
    device: VirtualDevice = ANYWHERE

    @property
    def children(self) -> Sequence[Written]:
        """The types that it is made of."""
        return self.parts or ()

    def with_children(self, children: Sequence[Written]) -> Written:
        """Itself: a type as written is not built anew."""
        return self

    @property
    def is_open(self) -> bool:
        """Whether more than sizes is left open somewhere in it."""
        return any(
            w.parts is None
            or (w.kind == "tensor" and (w.dims is None or w.dtype is None))
            or (w.kind == "shape" and w.dims is None)
            for w in post_order(self)
        )


def exact(root: Written) -> types.Type:
    """The type that stands there; sizes that are left open become symbols. Unsupported where more is left open."""
    return fold(root, _exact)


def _exact(w: Written, parts: list[types.Type]) -> types.Type:
    if w.parts is None:
        raise Unsupported(f"a {w.kind} type without its parts says too little here", label="text.C17")
    match w.kind:
        case "tensor":
            if w.dims is None or w.dtype is None:
                what = "rank" if w.dims is None else "dtype"
                raise Unsupported(
                    f'a tensor of unknown {what} is not handled here; write R.Tensor((n, 4), dtype="float32"), or'
                    ' R.Tensor(ndim=2, dtype="float32") for unknown sizes',
                    label="text.C17",
                )
            return types.TensorType(_sizes(w.dims), w.dtype)
        case "tuple":
            return types.TupleType(tuple(parts))
        case "func":
            return types.FuncType(tuple(parts[:-1]), parts[-1], type_params=w.type_params, pure=w.pure)
        case "ref":
            return types.RefType(parts[0])
        case "data":
            return types.DataType(w.name, tuple(parts))
        case "shape":
            if w.dims is None:
                raise Unsupported("a shape of unknown length is not handled here", label="text.C17")
            return types.ShapeType(_sizes(w.dims))
        case "typevar":
            return w.type_params[0]
        case "object":
            return types.ObjectType()


def _sizes(dims: tuple[Dim | None, ...]) -> tuple[Dim, ...]:
    return tuple(Symbol(f"d{i}") if d is None else d for i, d in enumerate(dims))


def filled(written: Written, derived: types.Type) -> types.Type:
    """The written type with what it leaves open taken from `derived`; Invalid where they are of different kinds."""
    if written.kind == "tensor" and isinstance(derived, types.TensorType) and None not in (written.dims or (None,)):
        assert written.dims is not None
        if written.dtype is derived.dtype and len(written.dims) == derived.ndim:
            return derived if written.dims == derived.shape else exact(written)
    return run_task(_filled(written, derived, derived))


def _filled(w: Written, t: types.Type, whole: types.Type) -> Task[types.Type]:
    match w.kind, t:
        case "tensor", types.TensorType():
            if (w.dtype is not None and w.dtype is not t.dtype) or (w.dims is not None and len(w.dims) != t.ndim):
                raise _wrong(whole)
            return types.TensorType(_merged(w.dims, t.shape), t.dtype)
        case "shape", types.ShapeType():
            if w.dims is not None and len(w.dims) != len(t.dims):
                raise _wrong(whole)
            return types.ShapeType(_merged(w.dims, t.dims))
        case (
            ("tuple", types.TupleType())
            | ("ref", types.RefType())
            | ("data", types.DataType())
            | ("func", types.FuncType())
        ):
            if w.parts is None or (isinstance(t, types.FuncType) and (t.type_params or w.type_params)):
                return t if w.parts is None else exact(w)
            if len(w.parts) != len(t.children) or (isinstance(t, types.DataType) and t.name != w.name):
                raise _wrong(whole)
            if isinstance(t, types.FuncType) and not any(p.is_open for p in w.parts):
                return exact(w)
            parts: list[types.Type] = []
            for p, c in zip(w.parts, t.children, strict=True):
                parts.append((yield _filled(p, c, whole)))
            made: types.Type = t.with_children(parts)
            return made
        case "typevar", types.TypeVar() if w.type_params[0] is t:
            return t
        case "object", _:
            return t  # everything is an object
        case _:
            raise _wrong(whole)


def _wrong(of: types.Type) -> Invalid:
    return Invalid(f"the annotation does not hold: the value is {of}", label="text.C14")


def _merged(dims: tuple[Dim | None, ...] | None, of: tuple[Dim, ...]) -> tuple[Dim, ...]:
    if dims is None:
        return of
    return tuple(b if a is None else a for a, b in zip(dims, of, strict=True))


# --- writing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypePrinter:
    """Writes types. `dim` writes a dim, `names` has those of type parameters and data types."""

    dim: Callable[[Dim], str]
    type_vars: Callable[[types.TypeVar], str]
    data_types: Mapping[str, str]
    unknown: Collection[Symbol] = ()
    """Sizes that have no name."""

    def text(self, of: types.Type, quoted: bool = False) -> str:
        """The type; with `quoted`, composite dims stand in strings, as TVM wants them in signatures."""

        def size(d: Dim) -> str:
            text = self.dim(d)
            return text if isinstance(d, (int, Symbol)) or not quoted else f'"{text}"'

        def pieces(t: types.Type) -> list[types.Type | str]:
            match t:
                case types.TensorType() if self.unknown and t.shape and all(d in self.unknown for d in t.shape):
                    return [f'R.Tensor(dtype="{t.dtype}", ndim={t.ndim})']
                case types.TensorType():
                    return [f'R.Tensor({tuple_text([size(d) for d in t.shape])}, dtype="{t.dtype}")']
                case types.ShapeType():
                    return [f"R.Shape([{', '.join(map(size, t.dims))}])"]
                case types.TupleType(fields=()):
                    return ["R.Tuple"]
                case types.TupleType():
                    return ["R.Tuple(", *commas(t.fields), ")"]
                case types.FuncType():
                    params = [self.type_vars(p) for p in t.type_params]
                    tail = f", type_params={tuple_text(params)})" if params else ")"
                    comma = "," if len(t.params) == 1 else ""
                    return ["R.Callable((", *commas(t.params), comma + "), ", t.result, f", {t.pure}{tail}"]
                case types.RefType():
                    return ["A.Ref(", t.value, ")"]
                case types.DataType():
                    name = self.data_types.get(t.name, t.name)
                    return [name, "[", *commas(t.args), "]"] if t.args else [name]
                case types.TypeVar():
                    return [self.type_vars(t)]
                case types.ObjectType():
                    return ["R.Any"]

        return spelled(of, pieces)


def tuple_text(items: Sequence[str]) -> str:
    """Texts as a Python tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def height(of: Tree) -> int:
    """How deep a type or a pattern is nested."""

    def above(_: Tree, parts: list[int]) -> int:
        return 1 + max(parts, default=0)

    return fold(of, above)
