"""Elements of 8 bits and less in C: floats by tables, whole numbers by their lowest bits (specs/lower.md, "c").

What a pattern of bits stands for, and to which pattern a number is rounded, is asked of the dtype itself: the tables
hold the number of each pattern, and where the patterns change as a magnitude grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from assay.semantics.dtypes import DTYPES, DType

Array = np.ndarray[Any, Any]

NARROW = {name: of for name, of in DTYPES.items() if of.is_float and of.bits <= 8}
"""The floats of 8 bits and less."""
SMALL = {name: of for name, of in DTYPES.items() if of.is_integer and of.bits < 8}
"""The whole numbers of less than 8 bits."""
INFINITY = 0x7F800000
"""The bits of float32's infinity: those of a magnitude are at most that."""

_LOAD = """
/* The NAME with these bits. */
static float @load_KEY(uint8_t bits)
{
    static const uint32_t numbers[LENGTH] = {
NUMBERS
    };
    return @f32(numbers[bits & LASTu]);
}
"""
_STORE = """
/* The bits of the NAME nearest to a number, ties to even: how many of the borders its magnitude has reached. */
static uint8_t @store_KEY(float value)
{
    static const uint32_t borders[COUNT] = {
BORDERS
    };
    static const uint8_t codes[2][COUNT + 1] = {
        {
POSITIVE
        },
        {
NEGATIVE
        }
    };
    const uint32_t bits = @bits_f32(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const int negative = (bits >> 31) != 0u;
    int low = 0;
    int high = COUNT;
    if (magnitude > 0x7f800000u) {
        return negative ? NANSBELOW : NANSABOVE;
    }
    while (low < high) {
        const int middle = (low + high) / 2;
        if (borders[middle] <= magnitude) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return codes[negative][low];
}
"""
_ROUND = """
static float @round_KEY(float value)
{
    return @load_KEY(@store_KEY(value));
}
"""
_INT = (
    """
/* The SIGNEDNAME in the lowest bits of a byte; what the others are says nothing. */
static TYPE @load_KEY(uint8_t bits)
{
    return VALUE;
}
""",
    """
static uint8_t @store_KEY(TYPE value)
{
    return (uint8_t)((uint8_t)value & MASKu);
}
""",
)
_WRAP_INT = """
/* A number's lowest BITS bits as a signed number. */
static int8_t @wrap_iBITS(int32_t value)
{
    return (int8_t)((int32_t)(((uint32_t)value & MASKu) ^ TOPu) - TOP);
}
"""


def key_of(of: DType) -> str:
    """How the helpers of a narrow dtype are called: `f8e4m3fn`, `i4`, `u4`."""
    return of.name.replace("float", "f").replace("uint", "u").replace("int", "i").replace("_", "")


def patterns(numbers: Array, of: DType) -> Array:
    """The bits of float32 numbers in a narrow dtype."""
    with np.errstate(all="ignore"):
        found: Array = numbers.astype(np.float32).astype(of.numpy).view(np.uint8)
        return found


def borders_of(of: DType) -> Array:
    """The magnitudes, as bits of float32, at which the pattern of a number changes, in their order."""
    every = np.arange(256 if of.bits == 8 else 1 << of.bits, dtype=np.uint8).view(of.numpy).astype(np.float32)
    finite = np.unique(np.abs(every[np.isfinite(every)]))
    ends = np.unique([0, *finite.view(np.uint32).tolist(), INFINITY]).astype(np.uint32)
    low, high = ends[:-1].copy(), ends[1:].copy()
    before = patterns(low.view(np.float32), of)
    changes = before != patterns(high.view(np.float32), of)
    low, high, before = low[changes], high[changes], before[changes]
    while bool((high - low > 1).any()):
        middle = low + (high - low) // 2
        same = patterns(middle.view(np.float32), of) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    made: Array = high
    return made


def helpers() -> Iterator[tuple[str, str]]:
    """The rows of the table of helpers: `load_KEY`, `store_KEY` and `round_KEY` for each narrow float."""
    for of in NARROW.values():
        borders = borders_of(of)
        least = np.concatenate([np.zeros(1, np.uint32), borders])
        count = 1 << of.bits
        numbers = np.arange(count, dtype=np.uint8).view(of.numpy).astype(np.float32).view(np.uint32)
        nans = patterns(np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32), of)
        words = {
            "NUMBERS": _rows(f"0x{n:08x}u" for n in numbers.tolist()),
            "BORDERS": _rows(f"0x{n:08x}u" for n in borders.tolist()),
            "POSITIVE": _rows(map(str, patterns(least.view(np.float32), of).tolist())),
            "NEGATIVE": _rows(map(str, patterns((least | 0x80000000).view(np.float32), of).tolist())),
            "NANSABOVE": str(nans[0]),
            "NANSBELOW": str(nans[1]),
            "LENGTH": str(count),
            "LAST": str(count - 1),
            "COUNT": str(len(borders)),
            "NAME": of.name,
            "KEY": key_of(of),
        }
        for name, text in (("load", _LOAD), ("store", _STORE), ("round", _ROUND)):
            for word, said in words.items():
                text = text.replace(word, said)
            yield f"{name}_{key_of(of)}", text
    for of in SMALL.values():
        signed, mask, top = of.kind == "int", (1 << of.bits) - 1, 1 << (of.bits - 1)
        low = f"((uint32_t)bits & {mask}u)"
        words = {
            "SIGNEDNAME": of.name,
            "TYPE": "int8_t" if signed else "uint8_t",
            "KEY": key_of(of),
            "VALUE": f"(int8_t)((int32_t)({low} ^ {top}u) - {top})" if signed else f"(uint8_t){low}",
            "MASK": str(mask),
        }
        for name, text in zip(("load", "store"), _INT, strict=True):
            for word, said in words.items():
                text = text.replace(word, said)
            yield f"{name}_{key_of(of)}", text
        if signed:
            text = _WRAP_INT.replace("BITS", str(of.bits)).replace("MASK", str(mask)).replace("TOP", str(top))
            yield f"wrap_i{of.bits}", text


def _rows(texts: Iterable[str]) -> str:
    """Texts in lines of an initialiser."""
    every = list(texts)
    return ",\n".join("        " + ", ".join(every[i : i + 8]) for i in range(0, len(every), 8))
