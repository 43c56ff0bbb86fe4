"""Large tensors of a model that stay in files, which are mapped (specs/lower.md, "Import").

    light, files = with_data_outside(model, folder, new_folder)
    import_onnx(light, ...)                # its large constants are views of the files

Weights are most of a model, and no protobuf message holds 2 GiB. So `light` says of its large initializers where their
bytes are: in the user's own files, or in one that is written for what stood in the model. They are in memory once, as
pages of a file, for everybody who has a model with such initializers: pieces of it, and other processes. They are found
so only while `files` are held, and only here: no model of a stranger can name a file so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from onnx import GraphProto, ModelProto, TensorProto

from assay.lower.frontends.onnx.data_files import ALIGNMENT, DataFile, is_held, mapped_file
from assay.lower.frontends.onnx.reading import put_inside, tensors_of
from assay.lower.frontends.onnx.schema import printable
from assay.lower.frontends.onnx.tensors import Place, array_of, bytes_held, external_place, onnx_dtype
from assay.semantics.bits import raw
from assay.semantics.errors import Invalid

LARGE = 1 << 16
"""Bytes from which on a tensor may stay outside."""
MOST_INSIDE = 32 << 20
"""A model of at most so many bytes of large tensors holds them itself."""
DATA = frozenset(
    ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "raw_data")
)  # fmt: skip
"""The fields of a tensor in which its elements may be."""
PLACE = frozenset(("external_data", "data_location"))

Message = TypeVar("Message", ModelProto, GraphProto, TensorProto)


def with_data_outside(
    model: ModelProto, folder: Path | None, new_folder: Callable[[], Path]
) -> tuple[ModelProto, tuple[DataFile, ...]]:
    """The model with its large initializers outside, and the files that must be held while it is used so; the model
    itself where it is small. Other tensors are inside, wherever they were. What is in no file yet is written into one
    in `new_folder()`. The model that is given stays as it is.

    Invalid (onnx.C10): a file in `folder` that the model names cannot be had. OSError: nothing can be written.
    """
    stored = model.graph.initializer
    nothing_outside = all(t.data_location != TensorProto.EXTERNAL for t in tensors_of(model))
    large = sum(size for t in stored if (size := t.ByteSize()) >= LARGE)
    if nothing_outside and large <= MOST_INSIDE:
        return model, ()
    light = without(model, {"graph"})
    light.graph.CopyFrom(without(model.graph, {"initializer"}))
    for tensor in tensors_of(light):
        put_inside(tensor, folder)
    with ExitStack() as opened:
        writer = _Writer(opened, new_folder) if large > MOST_INSIDE else None
        places = [_place(t, folder, writer) for t in stored]
    for tensor, at in zip(stored, places, strict=True):
        if at is None:
            light.graph.initializer.append(tensor)
            put_inside(light.graph.initializer[-1], folder)
            continue
        made = light.graph.initializer.add()
        made.CopyFrom(without(tensor, DATA | PLACE))
        made.data_location = TensorProto.EXTERNAL
        for key, value in (("location", at.path), ("offset", at.offset), ("length", at.length)):
            made.external_data.add(key=key, value=str(value))
    return light, tuple(mapped_file(path) for path in dict.fromkeys(at.path for at in places if at is not None))


def with_data_inside(model: ModelProto) -> ModelProto:
    """The model as one object, with what lies in files that are held; itself where nothing does."""
    if not files_of(model):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        put_inside(tensor, None)
    return made


def files_of(model: ModelProto) -> tuple[str, ...]:
    """The files that are held in which initializers of a model lie, by their whole paths."""
    return tuple(dict.fromkeys(at for t in model.graph.initializer if (at := _location(t))))


def size_of(model: ModelProto) -> int:
    """The bytes of a model and of its initializers that lie in files that are held."""
    return int(model.ByteSize()) + sum(
        len(data) for t in model.graph.initializer if _location(t) and (data := bytes_held(t)) is not None
    )


def make_relative(model: ModelProto) -> Path | None:
    """Say in the model where its data is from a folder on, and give that; None where nothing is outside. What does not
    know that our files are held, ONNX Runtime, wants it so."""
    files = files_of(model)
    if not files:
        return None
    folder = Path(os.path.commonpath([os.path.dirname(f) for f in files]))
    for tensor in model.graph.initializer:
        if at := _location(tensor):
            entry = next(e for e in tensor.external_data if e.key == "location")
            entry.value = os.path.relpath(at, folder)
    return folder


def data_of(tensor: TensorProto) -> bytes | memoryview:
    """The bytes of a tensor that has them as such, wherever they are; none of one that has numbers."""
    held = bytes_held(tensor) if tensor.data_location == TensorProto.EXTERNAL else None
    data: bytes = tensor.raw_data
    return data if held is None else held


def without(message: Message, names: Collection[str]) -> Message:
    """A copy of a protobuf message without some of its fields; these are not copied on the way."""
    made = type(message)()
    for field, value in message.ListFields():
        if field.name in names:
            continue
        if hasattr(value, "extend"):
            getattr(made, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(made, field.name).CopyFrom(value)
        else:
            setattr(made, field.name, value)
    return made


def _location(tensor: TensorProto) -> str:
    """The whole path of the file in which a tensor lies, if that is held; else ""."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return ""
    found = next((e.value for e in tensor.external_data if e.key == "location"), "")
    return found if is_held(found) else ""


def _place(tensor: TensorProto, folder: Path | None, writer: _Writer | None) -> Place | None:
    """Where the data of an initializer is or is written; None where it belongs inside."""
    if tensor.data_location == TensorProto.EXTERNAL:
        what = f"initializer {printable(tensor.name)!r}"
        at = external_place(tensor, what, folder)
        return at if at.length >= LARGE else None
    data = _data(tensor) if writer is not None and tensor.ByteSize() >= LARGE else b""
    return writer.written(data) if writer is not None and len(data) >= LARGE else None


def _data(tensor: TensorProto) -> bytes | memoryview:
    """The bytes of an initializer as they stand in a file; none of one that is no plain tensor of numbers."""
    if tensor.HasField("raw_data"):
        data: bytes = tensor.raw_data
        return data
    try:
        return raw(array_of(tensor, tensor.name, None)) if _is_plain(tensor) else b""
    except Invalid:  # the import says why
        return b""


def _is_plain(tensor: TensorProto) -> bool:
    return onnx_dtype(tensor.data_type, tensor.name).bits >= 8


class _Writer:
    """A file of tensors that is being written."""

    def __init__(self, opened: ExitStack, new_folder: Callable[[], Path]) -> None:
        self.path = new_folder().resolve() / "tensors"
        self.file = opened.enter_context(self.path.open("xb"))
        os.chmod(self.path, 0o400)

    def written(self, data: bytes | memoryview) -> Place:
        """Where the data is from now on."""
        self.file.write(bytes(-self.file.tell() % ALIGNMENT))
        place = Place(self.path, self.file.tell(), len(data))
        self.file.write(data)
        return place
