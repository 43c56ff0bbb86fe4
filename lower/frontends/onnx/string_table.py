"""Strings of ONNX as numbers: the table (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto

from assay.semantics.errors import Invalid

Array = np.ndarray[Any, Any]


class Strings:
    """A number for each string, from 0 on in the order in which they are asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        """How many strings have a number."""
        return len(self._texts)

    def number(self, text: str) -> int:
        """The number of a string, a new one where it has none."""
        found = self._numbers.setdefault(text, len(self._texts))
        if found == len(self._texts):
            self._texts.append(text)
        return found

    def numbers(self, texts: Any) -> Array:
        """The numbers of an array of strings, in its shape, int64."""
        given = np.asarray(texts, object)
        flat = [self.number(t.decode() if isinstance(t, bytes) else str(t)) for t in given.reshape(-1)]
        return np.array(flat, np.int64).reshape(given.shape)

    def texts(self, numbers: Any) -> Array:
        """The strings of an array of numbers, as an array of objects. Invalid (onnx.C8) for a number of none."""
        given = np.asarray(numbers)
        wrong = [int(n) for n in given.reshape(-1) if not 0 <= n < len(self._texts)]
        if wrong:
            raise Invalid(f"{wrong[0]} is the number of no string; there are {len(self._texts)}", label="onnx.C8")
        found = np.empty(given.shape, object)
        found.reshape(-1)[:] = [self._texts[int(n)] for n in given.reshape(-1)]
        return found


def texts_of(tensor: TensorProto, what: str) -> Array:
    """The strings of a stored tensor; Invalid (onnx.C9) where there are not as many as its shape says, or one is not
    UTF-8."""
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape) or int(np.prod(shape)) != len(tensor.string_data):
        raise Invalid(f"{what} has the shape {shape}, but {len(tensor.string_data)} strings", label="onnx.C9")
    found = np.empty(len(tensor.string_data), object)
    try:
        found[:] = [s.decode() for s in tensor.string_data]
    except UnicodeDecodeError:
        raise Invalid(f"{what} holds a string that is not UTF-8", label="onnx.C9") from None
    return found.reshape(shape)


def is_text(of: TypeProto) -> bool:
    """Whether a declared type is that of a tensor of strings."""
    return of.HasField("tensor_type") and of.tensor_type.elem_type == TensorProto.STRING


def text_names(values: Iterable[ValueInfoProto]) -> list[str]:
    """Which of the inputs or outputs of a model are declared as strings."""
    return [v.name for v in values if is_text(v.type)]


def without_strings(of: TypeProto) -> TypeProto:
    """The type itself, or that of the numbers where it is a tensor of strings."""
    if not is_text(of):
        return of
    made = TypeProto()
    made.CopyFrom(of)
    made.tensor_type.elem_type = TensorProto.INT64
    return made


NUMBERS = "the strings "
"""How the name of a node begins that is put between strings at the border of a model and their numbers."""


def node_title(node: NodeProto) -> str:
    """A node for people: its operator and its name; one between strings and their numbers by the strings."""
    return node.name if node.name.startswith(NUMBERS) else f"{node.op_type} {node.name}".strip()
