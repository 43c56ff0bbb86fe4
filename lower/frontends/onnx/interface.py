"""Types that a model declares: of its inputs, which we take, and of everything else, which we check.

A size that has a name is a symbol, one for each name; one that has none gets the name of its input and axis
(specs/lower.md, "Import").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import GraphProto, TensorShapeProto, TypeProto

from assay.lower.frontends.onnx.containers import Shapes, any_tensor
from assay.lower.frontends.onnx.schema import printable, text
from assay.lower.frontends.onnx.string_table import without_strings
from assay.lower.frontends.onnx.tensors import onnx_dtype
from assay.semantics.builder.prelude import list_of, option_of
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph.matching import provably_different
from assay.semantics.scalar import Dim, Var
from assay.semantics.types import TensorType, Type, same_type

KINDS = {
    "sequence_type": "a sequence",
    "map_type": "a map",
    "optional_type": "an optional value",
    "sparse_tensor_type": "a sparse tensor",
    "opaque_type": "an opaque value",
}


class NamedSizes:
    """The named sizes of a model: numbers where the caller gives them, else symbols."""

    def __init__(self, graph: GraphProto, dims: Mapping[str, int]) -> None:
        self._declared = _names(graph)
        self._bound = dict(dims)
        self._symbols: dict[str, Var] = {}
        for name, value in dims.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise Invalid(
                    f"dim {name} is given as {value!r}; a whole number of at least 0 is wanted", label="onnx.C3"
                )

    def named(self, name: str) -> Dim:
        """The size of that name."""
        if name in self._bound:
            return self._bound[name]
        return self._symbols.setdefault(name, Var(printable(name)))

    def unnamed(self, tensor: str, axis: int) -> Dim:
        """The size of an axis for which the model gives neither a number nor a name."""
        name = f"{tensor}_{axis}"
        while name in self._declared:
            name += "_"
        self._declared.append(name)
        return self.named(name)

    def names(self) -> dict[Var, str]:
        """What the caller calls each of the symbols that there are so far."""
        return {s: name for name, s in self._symbols.items()}

    def known(self) -> list[Var]:
        """The symbols that there are so far."""
        return list(self._symbols.values())

    def check(self) -> None:
        """Invalid (onnx.C3) where the caller names a dim that the model does not have."""
        for name in self._bound:
            if name not in self._declared:
                known = ", ".join(map(printable, dict.fromkeys(self._declared))) or "none"
                raise Invalid(f"the model has no symbolic dim {name!r}; it has {known}", label="onnx.C3")


def _names(graph: GraphProto) -> list[str]:
    found: list[str] = []
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.HasField("tensor_type"):
            found += [text(d.dim_param, "a dim") for d in info.type.tensor_type.shape.dim if d.dim_param]
    return found


def input_type(name: str, declared: TypeProto, symbols: NamedSizes) -> TensorType:
    """The type of a parameter. Unsupported (onnx.C3) where it is no tensor, or one of unknown rank."""
    what = f"input {name!r}"
    tensor = tensor_type(what, declared)
    of = onnx_dtype(tensor.elem_type, what)
    if not tensor.HasField("shape"):
        raise Unsupported(f"{what} has no shape: at least the number of its axes must be known", label="onnx.C3")
    shape: list[Dim] = []
    for axis, d in enumerate(_dims(tensor.shape, symbols)):
        shape.append(symbols.unnamed(name, axis) if d is None else d)
    return TensorType(tuple(shape), of)


def declared_inputs(graph: GraphProto) -> tuple[dict[str, TensorType], dict[Var, str]]:
    """The types of the inputs that are tensors and have no initializer, and the names of their symbolic sizes. A string
    is the number that it has in the table. Raises what `input_type` does."""
    symbols, stored = NamedSizes(graph, {}), {t.name for t in graph.initializer}
    tensors = [i for i in graph.input if i.name not in stored and i.type.HasField("tensor_type")]
    types = {i.name: input_type(i.name, without_strings(i.type), symbols) for i in tensors}
    return types, symbols.names()


def declared_type(what: str, declared: TypeProto) -> Type:
    """The type of a sequence or of an optional value; of a tensor in one of these, its dtype is what counts.

    A tensor's sizes are 0 here: a tensor of any shape in a container has no others.
    """
    wraps: list[bool] = []
    while declared.WhichOneof("value") in ("sequence_type", "optional_type"):
        wraps.append(declared.HasField("sequence_type"))
        declared = declared.sequence_type.elem_type if wraps[-1] else declared.optional_type.elem_type
    tensor = tensor_type(what, declared)
    of = onnx_dtype(tensor.elem_type, what)
    made: Type = TensorType((0,) * len(tensor.shape.dim), of)
    for is_sequence in reversed(wraps):
        held = any_tensor(of).type if isinstance(made, TensorType) else made
        made = list_of(held) if is_sequence else option_of(held)
    return made


def declared_shapes(declared: TypeProto) -> Shapes | None:
    """The shape of the tensors in a declared sequence or optional value; None where it does not say."""
    while declared.WhichOneof("value") in ("sequence_type", "optional_type"):
        is_sequence = declared.HasField("sequence_type")
        declared = declared.sequence_type.elem_type if is_sequence else declared.optional_type.elem_type
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return None
    return frozenset({tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)})


def is_container(declared: TypeProto) -> bool:
    """Whether a declaration is that of a sequence or of an optional value."""
    return declared.WhichOneof("value") in ("sequence_type", "optional_type")


def is_map_rows(declared: TypeProto) -> bool:
    """Whether a declaration is that of what ZipMap makes: a sequence of maps."""
    return bool(declared.HasField("sequence_type") and declared.sequence_type.elem_type.HasField("map_type"))


def tensor_type(what: str, declared: TypeProto) -> TypeProto.Tensor:
    """The tensor type of a declaration; Unsupported (onnx.C8) where it is something else."""
    if declared.HasField("tensor_type"):
        return declared.tensor_type
    kind = declared.WhichOneof("value")
    if kind is None:
        raise Invalid(f"{what} has no type", label="onnx.C3")
    raise Unsupported(f"{what} is {KINDS.get(kind, kind)}; only tensors are supported", label="onnx.C8")


def check_declared(name: str, declared: TypeProto, ours: Type, symbols: NamedSizes) -> None:
    """Invalid (onnx.C11) where a declared type contradicts the one that our rules give.

    Two dims contradict each other if they differ whatever their symbols are. What the model leaves out is not asked.
    """
    if declared.WhichOneof("value") is None:
        return
    if is_container(declared) or not isinstance(ours, TensorType):
        if not is_container(declared) or not same_type(wanted := declared_type(f"value {name!r}", declared), ours):
            kind = str(wanted) if is_container(declared) else "a tensor"
            raise Invalid(f"{name!r} is declared as {kind}, but it is {ours}", label="onnx.C11")
        return
    tensor = tensor_type(f"value {name!r}", declared)
    fits = not tensor.elem_type or onnx_dtype(tensor.elem_type, f"value {name!r}") is ours.dtype
    if fits and tensor.HasField("shape"):
        pairs = zip(_dims(tensor.shape, symbols), ours.shape, strict=False)
        fits = len(tensor.shape.dim) == ours.ndim and not any(
            d is not None and provably_different(d, size) for d, size in pairs
        )
    if not fits:
        raise Invalid(f"{name!r} is declared as {_show(tensor)}, but it is {ours}", label="onnx.C11")


def _dims(shape: TensorShapeProto, symbols: NamedSizes) -> Iterator[Dim | None]:
    """The sizes of a declared shape; None for one that is not said, for which old converters write -1."""
    for d in shape.dim:
        if d.dim_param:
            yield symbols.named(text(d.dim_param, "a dim"))
        else:
            yield d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None


def _show(tensor: TypeProto.Tensor) -> str:
    of = str(onnx_dtype(tensor.elem_type, "it")) if tensor.elem_type else "?"
    if not tensor.HasField("shape"):
        return f"Tensor(?, {of})"
    dims = [str(d.dim_value) if d.HasField("dim_value") else printable(d.dim_param or "?") for d in tensor.shape.dim]
    return f"Tensor(({', '.join(dims)}), {of})"
