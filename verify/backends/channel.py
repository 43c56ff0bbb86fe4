"""What crosses the border to a backend's process: names, texts and arrays, and nothing else (specs/verify.md,
"Backends").

    head = HEAD bytes: the length of the description, the length of all the contents
    description: JSON; null, true, numbers and texts stand for themselves, [tag, ...] for what else there is
    contents: the bytes of one array after the other, each at a multiple of ALIGNMENT

Nothing that is read is run or looked up by name, but for element types, which are in a table. What is not of this form
is `Garbled`. The other side may be hostile: every length is checked before anything is made of that size.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from assay.semantics.dtypes import DTYPES

HEAD = struct.Struct(">QQ")
ALIGNMENT = 64
LONGEST = 1 << 26
"""Bytes of a description, in which texts are."""
RANKS = 64
DEEPEST = 100
"""How deep lists and tuples may lie in one another."""

_PLAIN = {
    f"{kind}{size}"
    for kind, sizes in {"i": "1248", "u": "1248", "f": "248", "c": ("8", "16")}.items()
    for size in sizes
} | {"b1"}
"""NumPy's own types, as `dtype.str` has them behind the order of the bytes."""


class Garbled(ValueError):
    """Not a message of this form, or a value that none can hold; why."""


def pack(value: Any) -> bytes:
    """A message that holds `value`: None, bool, int, str, bytes, arrays, NumPy's scalars, and lists, tuples and
    mappings of them."""
    return b"".join(packed(value))


def packed(value: Any) -> list[bytes | memoryview]:
    """The same in parts that lie one behind the other. Those of arrays are these, not copies."""
    parts: list[bytes | memoryview] = []
    size = 0

    def content(data: Any) -> int:
        nonlocal size
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        parts.extend((bytes(-size % ALIGNMENT), view))
        size += -size % ALIGNMENT + len(view)
        return len(view)

    def array(of: np.ndarray[Any, Any]) -> list[Any]:
        shape = list(of.shape)
        name = element_name(of)
        if name == "texts":
            return [name, shape, [_text(x) for x in of.reshape(-1).tolist()]]
        flat = np.ascontiguousarray(of).reshape(-1).view(np.uint8) if of.size else np.empty(0, np.uint8)
        return ["array", name, shape, content(flat)]

    def described(v: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise Garbled(f"lists deeper than {DEEPEST}")
        if v is None or isinstance(v, (bool, str)):
            return v
        if isinstance(v, int) and not isinstance(v, np.generic):
            return int(v)
        if isinstance(v, (bytes, bytearray)):
            return ["bytes", content(v)]
        if isinstance(v, (np.ndarray, np.generic)):
            return array(np.asarray(v))
        if isinstance(v, (list, tuple)):
            return ["tuple" if isinstance(v, tuple) else "list", [described(x, depth + 1) for x in v]]
        if isinstance(v, Mapping):
            return ["map", [[_text(k), described(x, depth + 1)] for k, x in v.items()]]
        raise Garbled(f"a {type(v).__name__}; an array is wanted")

    text = json.dumps(described(value), separators=(",", ":")).encode("ascii")
    if len(text) > LONGEST:
        raise Garbled(f"{len(text)} bytes of names and texts; at most {LONGEST} may cross")
    return [HEAD.pack(len(text), size), text, *parts]


def _text(of: Any) -> str:
    if isinstance(of, bytes):
        of = of.decode("utf-8", "surrogateescape")
    if not isinstance(of, str):
        raise Garbled(f"a {type(of).__name__} where a text is wanted")
    return of


def element_name(array: np.ndarray[Any, Any]) -> str:
    """What the elements are called in a message: a type of numbers, or "texts". Garbled: no tensor has such."""
    of = array.dtype
    if of.kind in "OUST":
        odd = [type(x).__name__ for x in array.reshape(-1).tolist() if not isinstance(x, (str, bytes))]
        if odd:
            raise Garbled(f"an array of objects, such as {odd[0]}; numbers or texts are wanted")
        return "texts"
    known = next((name for name, d in DTYPES.items() if d.numpy == of), None)
    if known is not None:
        return known
    if of.kind in "biufc" and of.isnative and of.str[1:] in _PLAIN:
        return str(of.str[1:])
    raise Garbled(f"an array of {of}")


def lengths(head: bytes | bytearray, most: int) -> tuple[int, int]:
    """The lengths of description and contents, where they are together at most `most` bytes."""
    description, contents = HEAD.unpack(head)
    if description > LONGEST or description + contents > most:
        raise Garbled(f"it would be {description + contents} bytes; at most {most} are taken")
    return description, contents


def unpack(description: bytes | bytearray, contents: bytes | bytearray) -> Any:
    """The value that a message holds. Arrays may be written."""
    try:
        data = json.loads(str(description, "ascii"))
    except (ValueError, RecursionError) as wrong:
        raise Garbled(f"its description is no JSON: {wrong}") from None
    whole = memoryview(contents if isinstance(contents, bytearray) else bytearray(contents))
    at = 0

    def content(size: Any) -> memoryview:
        nonlocal at
        at += -at % ALIGNMENT
        if type(size) is not int or not 0 <= size <= len(whole) - at:
            raise Garbled("contents that are not there")
        at += size
        return whole[at - size : at]

    def value(v: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise Garbled(f"lists deeper than {DEEPEST}")
        match v:
            case None | bool() | int() | str():
                return v
            case ["bytes", size]:
                return bytes(content(size))
            case ["texts", list(shape), list(texts)] if all(type(t) is str for t in texts):
                if _elements(shape) != len(texts):
                    raise Garbled("texts of another number than the shape says")
                made = np.empty(len(texts), object)
                made[:] = texts
                return made.reshape(shape)
            case ["array", str(name), list(shape), size]:
                return _array(name, shape, size, content(size))
            case ["list", list(items)]:
                return [value(x, depth + 1) for x in items]
            case ["tuple", list(items)]:
                return tuple(value(x, depth + 1) for x in items)
            case ["map", list(pairs)]:
                found: dict[str, Any] = {}
                for pair in pairs:
                    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or pair[0] in found:
                        raise Garbled("a mapping whose names are no names, or not different")
                    found[pair[0]] = value(pair[1], depth + 1)
                return found
            case _:
                raise Garbled("a value of no known form")

    made = value(data)
    if at != len(whole):
        raise Garbled("more contents than it describes")
    return made


def _elements(shape: list[Any]) -> int:
    if len(shape) > RANKS or any(type(n) is not int or not 0 <= n < 1 << 62 for n in shape):
        raise Garbled("a shape that no array has")
    return prod(shape)


def _array(name: str, shape: list[Any], size: int, data: memoryview) -> np.ndarray[Any, Any]:
    of = DTYPES[name].numpy if name in DTYPES else np.dtype(name) if name in _PLAIN else None
    if of is None:
        raise Garbled("an element type that there is not")
    if _elements(shape) * of.itemsize != size:
        raise Garbled("an array of another size than its shape says")
    flat = np.frombuffer(data, np.uint8) if size else np.empty(0, np.uint8)
    if of == np.bool_ and size and flat.max() > 1:
        raise Garbled("an array of bool with a byte that is neither 0 nor 1")
    try:
        return flat.view(of).reshape(shape)
    except ValueError as wrong:  # an empty array of sizes that NumPy cannot say
        raise Garbled(f"a shape that no array has: {wrong}") from None
