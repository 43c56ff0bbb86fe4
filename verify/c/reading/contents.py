"""The contents of tables of constants as bytes (specs/verify.md, "c")."""

from __future__ import annotations

import hashlib
import re

import numpy as np

from assay.verify.c.reading.preprocess import NotRead

NUMPY = {
    "float": "<f4",
    "double": "<f8",
    **{f"{u}int{b}_t": f"<{'u' if u else 'i'}{b // 8}" for u in ("", "u") for b in (8, 16, 32, 64)},
    "unsigned char": "<u1",
}
_SPECIAL = {"NAN": "nan", "(double)NAN": "nan", "INFINITY": "inf", "(double)INFINITY": "inf"}
_LEAST = {"INT32_MIN": -(2**31), "INT64_MIN": -(2**63)}
_PLAIN = r"(0x[0-9a-fA-F]+|0|[1-9][0-9]*)"
_NUMBER = re.compile(rf"(-?)(?:U?INT64_C\((-?){_PLAIN}\)|{_PLAIN}[uUlL]*)")


def content_key(of: str, data: bytes) -> str:
    """What names an array that nobody writes to, by its type and contents."""
    return f"constant {of} {hashlib.sha256(data).hexdigest()}"


def element_bytes(of: str, count: int, text: str) -> bytes:
    """The bytes of a table, from the text of its elements; little-endian. NotRead where a number is not exact."""
    words = [w.strip() for w in text.replace("\n", " ").split(",") if w.strip()]
    if len(words) != count or of not in NUMPY:
        raise NotRead(f"a table of {count} {of} has {len(words)} elements")
    kind = np.dtype(NUMPY[of])
    if kind.kind == "f":
        numbers = [_real(w, of) for w in words]
        made = np.array(numbers, np.float64).astype(kind)
        finite = np.isfinite(numbers)
        if not np.array_equal(made.astype(np.float64)[finite], np.array(numbers)[finite]):
            raise NotRead(f"a number of a table is none of {of}")
        return bytes(made.tobytes())
    whole = [_whole(w) for w in words]
    if any(not np.iinfo(kind).min <= n <= np.iinfo(kind).max for n in whole):
        raise NotRead(f"a number of a table is none of {of}")
    return bytes(np.array(whole, kind).tobytes())


def _real(word: str, of: str) -> float:
    sign = -1.0 if word.startswith("-") else 1.0
    plain = word.removeprefix("-")
    if plain in _SPECIAL:
        return sign * float(_SPECIAL[plain])
    if of == "float":
        if plain[-1] not in "fF":
            raise NotRead(f"the number {word} of a table is no float")
        plain = plain[:-1]
    try:
        if plain.lower().startswith("0x"):
            if "p" not in plain.lower():
                raise NotRead(f"the number {word} of a table is none in C")
            return sign * float.fromhex(plain)
        return sign * float(plain)
    except ValueError:
        raise NotRead(f"the number {word} of a table is not read") from None


def _whole(word: str) -> int:
    if word in _LEAST:
        return _LEAST[word]
    found = _NUMBER.fullmatch(word)
    if found is None or (found[1] and found[2]):
        raise NotRead(f"the number {word} of a table is not read")
    return (-1 if found[1] or found[2] else 1) * int(found[3] or found[4], 0)
