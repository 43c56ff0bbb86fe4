"""Answers and reports of commands, read again from files that anybody may have written (specs/verify.md, "Command
line").
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from assay.semantics.errors import Invalid
from assay.semantics.files import read_text

T = TypeVar("T")


def read_answer(path: Path, made: Callable[[Any], T], what: str, label: str) -> T:
    """What `made` makes of an answer in a file. Invalid, with this label: it cannot be read, or is none, which `what`
    says."""
    try:
        return made(json.loads(read_text(path)))
    except FileNotFoundError:
        raise Invalid("no such file", where=str(path), label=label) from None
    except OSError as wrong:
        raise Invalid(f"cannot be read: {wrong.strerror or wrong}", where=str(path), label=label) from None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as wrong:
        said = f"{type(wrong).__name__}: {wrong}"[:200]
        raise Invalid(f"is {what} ({said})", where=str(path), label=label) from None
