"""Numbers that people and files write in digits (specs/semantics.md, "Files").

Python converts no text of more than 4,300 digits, and prints no longer number. No number of ours is as long: what is
read is looked at here first.
"""

from __future__ import annotations

MOST = 300
"""Digits of a number in a program's text; a float64 in full has fewer before its point."""


def is_digits(text: str) -> bool:
    """Whether a text is decimal digits and nothing else: those of ASCII, of the many that Python reads as numbers."""
    return text.isascii() and text.isdecimal()


def is_size(text: str) -> bool:
    """Whether a text is digits that say a number below 2^63."""
    return is_digits(text) and (
        len(text) < 19 or (len(text.lstrip("0")) <= 19 and int(text.lstrip("0") or "0") < 1 << 63)
    )
