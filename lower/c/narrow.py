"""Elements of 8 bits and less in C: floats by tables, whole numbers by their lowest bits (specs/lower.md, "c").

What a pattern of bits stands for, and to which pattern a number is rounded, is asked of the dtype itself: the tables
hold the number of each pattern, and where the patterns change as a magnitude grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
_LOAD_INT = """
/* The NAME in the lowest bits of a byte; what the others are says nothing. */
static TYPE @load_KEY(uint8_t bits)
{
    return VALUE;
}
"""
_STORE_INT = """
static uint8_t @store_KEY(TYPE value)
{
    return (uint8_t)((uint8_t)value & MASKu);
}
"""
_WRAP_INT = """
/* The NAME that the lowest bits of a number are. */
static int8_t @wrap_KEY(int32_t value)
{
    return (int8_t)((int32_t)(((uint32_t)value & MASKu) ^ TOPu) - TOP);
}
"""


def key_of(of: DType) -> str:
    """How the helpers of a narrow dtype are called: `f8e4m3fn`, `i4`, `u4`."""
    return of.kind[0] + of.name.removeprefix(of.kind).replace("_", "")


def patterns(numbers: Array, of: DType) -> Array:
    """The bits of float32 numbers in a narrow dtype."""
    with np.errstate(all="ignore"):
        found: Array = numbers.astype(np.float32).astype(of.numpy).view(np.uint8)
        return found


def numbers_of(of: DType) -> Array:
    """The float32 number of each pattern of a narrow float."""
    return np.arange(1 << of.bits, dtype=np.uint8).view(of.numpy).astype(np.float32)


def borders_of(of: DType) -> Array:
    """The magnitudes, as bits of float32, at which the pattern of a number changes, in their order."""
    every = numbers_of(of)
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
    """The rows of the table of helpers: `load_KEY` and `store_KEY` of each, `round_KEY` of floats, and `wrap_KEY` of
    signed integers."""
    for of in NARROW.values():
        words, made = _float_words(of), [("load", _LOAD), ("store", _STORE), ("round", _ROUND)]
        yield from ((f"{name}_{key_of(of)}", _filled(text, words)) for name, text in made)
    for of in SMALL.values():
        words, made = _integer_words(of), [("load", _LOAD_INT), ("store", _STORE_INT)]
        made += [("wrap", _WRAP_INT)] if of.kind == "int" else []
        yield from ((f"{name}_{key_of(of)}", _filled(text, words)) for name, text in made)


def _float_words(of: DType) -> dict[str, str]:
    """What stands for the words of the texts of a float."""
    borders = borders_of(of)
    least = np.concatenate([np.zeros(1, np.uint32), borders])
    nans = patterns(np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32), of)
    return {
        "NUMBERS": _rows(f"0x{n:08x}u" for n in numbers_of(of).view(np.uint32).tolist()),
        "BORDERS": _rows(f"0x{n:08x}u" for n in borders.tolist()),
        "POSITIVE": _rows(map(str, patterns(least.view(np.float32), of).tolist())),
        "NEGATIVE": _rows(map(str, patterns((least | 0x80000000).view(np.float32), of).tolist())),
        "NANSABOVE": str(nans[0]),
        "NANSBELOW": str(nans[1]),
        "LENGTH": str(1 << of.bits),
        "LAST": str((1 << of.bits) - 1),
        "COUNT": str(len(borders)),
        "NAME": of.name,
        "KEY": key_of(of),
    }


def _integer_words(of: DType) -> dict[str, str]:
    """What stands for the words of the texts of a small integer."""
    mask, top = (1 << of.bits) - 1, 1 << (of.bits - 1)
    low = f"((uint32_t)bits & {mask}u)"
    signed = of.kind == "int"
    return {
        "NAME": of.name,
        "TYPE": "int8_t" if signed else "uint8_t",
        "KEY": key_of(of),
        "VALUE": f"(int8_t)((int32_t)({low} ^ {top}u) - {top})" if signed else f"(uint8_t){low}",
        "MASK": str(mask),
        "TOP": str(top),
    }


def _filled(text: str, words: Mapping[str, str]) -> str:
    """A text with what stands for its words, of which none begins another."""
    for word, said in words.items():
        text = text.replace(word, said)
    return text


def _rows(texts: Iterable[str]) -> str:
    """Texts in lines of an initialiser."""
    every = list(texts)
    return ",\n".join("        " + ", ".join(every[i : i + 8]) for i in range(0, len(every), 8))
