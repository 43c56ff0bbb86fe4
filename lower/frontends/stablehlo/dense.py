"""The elements of `dense<...>` (specs/lower.md, "StableHLO").

A list of numbers, one number for all, or the bytes of all elements, little-endian, as a text of hexadecimal digits. A
float may be given by its bits, as `0x7FC00000`.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from assay.lower.frontends.places import Places
from assay.lower.frontends.stablehlo.syntax import Array, Dense, RefusedType, TensorText
from assay.semantics.budget import claim
from assay.semantics.digits import MOST
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.errors import Invalid, Unsupported

_ITEM = re.compile(r"\s*(?:([\[\],])|(true|false|-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)))")


def dense_array(dense: Dense, of: object, places: Places) -> Array:
    """The array that is written, of the shape and element type of its type.

    Invalid (`stablehlo.C8`): there are too few or too many elements, or one is no number of the type. Unsupported
    (`stablehlo.C4`): the type has no meaning here, or its sizes are not written.
    """
    if isinstance(of, RefusedType):
        raise places.failure(Unsupported, dense.start, dense.start + 1, f"{of.reason} are not handled", "stablehlo.C4")
    if not isinstance(of, TensorText) or None in of.shape:
        raise _wrong(dense, places, f"dense<...> is {of}; a tensor type with all its sizes is wanted")
    shape = tuple(d for d in of.shape if d is not None)
    claim(prod(shape) * of.dtype.itemsize, "a constant", places.span(dense.start))
    text = dense.text.strip()
    if text.startswith('"'):
        return _from_bytes(dense, text[1:-1], shape, of.dtype, places)
    values, found = _elements(dense, places)
    is_splat = found == () and len(values) == 1
    if not is_splat and (found != shape or len(values) != prod(shape)) and not (prod(shape) == 0 and not values):
        raise _wrong(dense, places, f"the elements stand as {found}; the shape is {shape}")
    numbers = _numbers(dense, values, of.dtype, places)
    return np.full(shape, numbers[0], of.dtype.numpy) if is_splat else numbers.reshape(shape)


def _wrong(dense: Dense, places: Places, message: str) -> Invalid:
    return places.failure(Invalid, dense.start, dense.start + max(len(dense.text), 1), message, "stablehlo.C8")


def _from_bytes(dense: Dense, text: str, shape: tuple[int, ...], of: DType, places: Places) -> Array:
    """Elements from a text of their bytes; one element stands for all. Bools are bits, the first the lowest."""
    if not re.fullmatch(r"0x(?:[0-9A-Fa-f]{2})*", text):
        raise _wrong(dense, places, 'a text in dense<...> is bytes, such as "0x0000803F"')
    data = bytes.fromhex(text[2:])
    count = prod(shape)
    if of is BOOL and len(data) == (count + 7) // 8 and len(data) != 1:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count]
        return bits.astype(np.bool_).reshape(shape)
    if of is BOOL:
        if len(data) == 1 and data[0] in (0, 255):
            return np.full(shape, bool(data[0]))
        if len(data) == 1 and count <= 8:
            return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count].astype(bool).reshape(shape)
    if len(data) not in (of.itemsize, of.itemsize * count) or of is BOOL:
        wanted = (count + 7) // 8 if of is BOOL else of.itemsize * count
        raise _wrong(dense, places, f"{len(data)} bytes; {wanted} are wanted, or {of.itemsize} for one element")
    little = of.numpy.newbyteorder("<") if of.numpy.kind in "iuf" else of.numpy
    found = np.frombuffer(data, little).astype(of.numpy)
    return np.full(shape, found[0], of.numpy) if len(found) != count else found.reshape(shape)


def _elements(dense: Dense, places: Places) -> tuple[list[str], tuple[int, ...]]:
    """The numbers as they are written, and the shape in which they stand; () where there is one without brackets."""
    text, at = dense.text, 0
    values: list[str] = []
    counts: list[int] = []
    sizes: dict[int, int] = {}
    while text[at:].strip() if len(text) - at < 64 else True:
        found = _ITEM.match(text, at)
        if found is None:
            raise places.failure(
                Invalid, dense.start + at, dense.start + at + 1, "a number, '[' or ']' expected", "stablehlo.C8"
            )
        at, (sign, number) = found.end(), found.groups()
        if number is not None:
            if len(number) > MOST and not number.startswith("0x"):
                raise _wrong(dense, places, f"a number of more than {MOST} digits")
            values.append(number)
            if counts:
                counts[-1] += 1
        elif sign == "[":
            counts.append(0)
        elif sign == "]" and counts:
            count = counts.pop()
            if sizes.setdefault(len(counts), count) != count:
                raise _wrong(dense, places, f"lists of {sizes[len(counts)]} and of {count} elements side by side")
            if counts:
                counts[-1] += 1
        elif sign == "]":
            raise _wrong(dense, places, "a ']' without its '['")
    if counts:
        raise _wrong(dense, places, "a '[' without its ']'")
    return values, tuple(sizes[k] for k in sorted(sizes))


def _numbers(dense: Dense, values: list[str], of: DType, places: Places) -> Array:
    """The numbers in their dtype."""
    try:
        if of is BOOL:
            return np.array([{"true": True, "false": False}[v] for v in values], np.bool_)
        if of.is_integer:
            return np.array([_whole(v, of) for v in values], object).astype(of.numpy)
        return _floats(values, of)
    except (KeyError, ValueError, OverflowError):
        raise _wrong(dense, places, f"a number that {of} does not have") from None


def _whole(text: str, of: DType) -> int:
    """A whole number of a dtype; hexadecimal digits are its bits."""
    value = int(text, 0) if "x" in text else int(text)
    if "x" in text and of.kind == "int" and value >= 1 << (of.bits - 1):
        value -= 1 << of.bits
    if not of.min <= value <= of.max:
        raise ValueError
    return value


def _floats(values: list[str], of: DType) -> Array:
    """Decimal numbers rounded to nearest even, and bits."""
    if not any("x" in v for v in values):
        return _rounded(values, of)
    out = _rounded(["0" if "x" in v else v for v in values], of)
    bits = np.dtype(f"u{of.itemsize}")
    for k, v in enumerate(values):
        if "x" in v:
            number = int(v, 16)
            if not 0 <= number < 1 << of.bits:
                raise ValueError
            out[k] = np.array([number], bits).view(of.numpy)[0]
    return out


def _rounded(values: list[str], of: DType) -> Array:
    with np.errstate(over="ignore"):
        if of.bits >= 32:
            return np.array([of.numpy.type(v) for v in values], of.numpy)
        wide: Any = np.array([float(v) for v in values], np.float64)
        return np.asarray(wide.astype(of.numpy))
