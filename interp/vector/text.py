"""Generated Python source, with places that are filled in later (specs/interp.md, "Vector")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Spot:
    """A place in the text to which lines are added after what follows it was written."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Adds a line here, at the indentation of this place."""
        self.lines.append("    " * self.depth + line)


class Text:
    """Lines of Python, indented, and the objects that they refer to by name, of which `names` are the first."""

    def __init__(self, **names: Any) -> None:
        self.globals = names
        self.depth = 0
        self.spots: list[Spot] = [Spot(0)]
        self.count = 0

    def add(self, line: str) -> None:
        """Adds a line at the end, at the indentation in force."""
        self.spots[-1].lines.append("    " * self.depth + line)

    def spot(self) -> Spot:
        """A place right here."""
        here = Spot(self.depth)
        self.spots += [here, Spot(self.depth)]
        return here

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """What is added within is the body of `head`."""
        self.add(head)
        self.depth += 1
        self.add("pass")
        yield
        self.depth -= 1

    def name(self, prefix: str) -> str:
        """A name that is not in use."""
        self.count += 1
        return f"{prefix}{self.count}"

    def known(self, value: Any, prefix: str) -> str:
        """The name of an object that the text refers to."""
        return self.shared(value, self.name(prefix))

    def shared(self, value: Any, name: str = "") -> str:
        """The name, by default its own, by which the text refers to an object that is the same wherever it is used."""
        name = name or value.__name__
        self.globals[name] = value
        return name

    def compiled(self, function: str, of: str) -> Callable[..., Any]:
        """A function that the text defines; `of` stands in tracebacks."""
        exec(compile(str(self), f"<{of}>", "exec"), self.globals)
        found: Callable[..., Any] = self.globals[function]
        return found

    def __str__(self) -> str:
        return "\n".join(line for s in self.spots for line in s.lines) + "\n"
