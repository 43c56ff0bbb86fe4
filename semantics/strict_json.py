"""JSON that has one reading (specs/semantics.md, "Storing").

Python's reader lets the last of two equal keys win, and takes NaN, Infinity and 1.5 where a text of ours has none. Two
readers could then see two things in one text. What is read here has one value for every key, and only numbers that are
wanted.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

DIGITS = 100
"""A number has at most so many digits."""


def parse_json(text: str, *, fractions: bool = False) -> Any:
    """The value of a text. ValueError: it is no JSON, a key comes twice, or a number is not whole. `fractions`: a
    number may be 1.5, but no NaN and no Infinity."""
    parse_float = float if fractions else _float
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_float=parse_float, parse_constant=_float, parse_int=_int
        )
    except RecursionError:
        raise ValueError("the values lie too deep in one another") from None


def typed(kind: type, value: Any) -> Any:
    """A value of exactly this type: True is no int. ValueError: it is of another."""
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} where a {kind.__name__} is wanted")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} comes twice in one object")
            seen.add(key)
    return found


def _float(text: str) -> NoReturn:
    raise ValueError(f"{text[:80]} is no number that may stand here")


def _int(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a number has {len(text)} digits, and at most {DIGITS} are read")
    return int(text)
