"""What a check says (specs/verify.md, "Evidence")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

How = Literal["proved", "checked", "tested"]
"""*proved*: for every input, by value numbering or by z3. *checked*: every claim of the stage, on the stage's own
output. *tested*: on the inputs of this run."""


@dataclass(frozen=True)
class Evidence:
    """One verdict. `detail` says what was shown or, where it does not hold, what is wrong and where."""

    how: How
    holds: bool
    detail: str
    data: dict[str, Any] = field(default_factory=dict)


def proved(detail: str, **data: Any) -> Evidence:
    return Evidence("proved", True, detail, data)


def checked(detail: str, **data: Any) -> Evidence:
    return Evidence("checked", True, detail, data)


def tested(detail: str, **data: Any) -> Evidence:
    return Evidence("tested", True, detail, data)


def refuted(how: How, detail: str, **data: Any) -> Evidence:
    return Evidence(how, False, detail, data)


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 10_000:
            return f"{count} {unit}"
        count = round(count / 1000)
    return f"{count} GB"
