"""The three failures of rule M1, which never mix, and what cannot be told (specs/semantics.md, "Observation").

*Invalid* is said before anything runs, *Trap* is a run that fails as the rules say, *Crash* cannot happen. Beside them
stands *EnvironmentFailure*, which is about none of them: the surroundings failed, or a budget is spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """A place in a source: the file or model, and what in it (a node's name, or line and column)."""

    source: str
    place: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.source}{at}" + (f" ({self.place})" if self.place else "")


class AssayError(Exception):
    """Base of the failures that Assay raises: the three of rule M1, what cannot be told, what the surroundings lack.

    `message` says what is wrong and what would be right; `where` says where; `label` names the broken rule, such as
    `concat.C2`, as it stands in specs/ (rules M1.1, M1.5).

    >>> try:
    ...     assay.run("model.onnx", {"x": numpy.ones(3, "float32")})
    ... except assay.AssayError as wrong:
    ...     print(type(wrong).__name__, wrong.label)
    Invalid input.C3
    """

    def __init__(self, message: str, *, where: Span | str | None = None, label: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.label = label

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        return f"{head}{self.message}" + (f" [{self.label}]" if self.label else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)  # to another process, whatever its parts are called

    def at(self, where: Span | str | None) -> AssayError:
        """The same failure with a place, unless it has one already."""
        if self.where is None:
            self.where = where
        return self

    def told_of(self, name: str) -> AssayError:
        """The same failure with the name of what it is about first, unless it stands there already."""
        if not self.message.startswith(name):
            self.message = f"{name}: {self.message}"
        return self


def _restored(of: type[AssayError], args: tuple[Any, ...], state: dict[str, Any]) -> AssayError:
    error = of.__new__(of, *args)
    error.__dict__.update(state)
    return error


class Invalid(AssayError):
    """The program or its input is ill-formed; nothing has run.

    >>> try:
    ...     assay.load("model.onnx", dims={"M": 2})
    ... except assay.Invalid as wrong:
    ...     print(wrong)
    model.onnx: the model has no symbolic dim 'M'; it has N [onnx.C3]
    """


class Unsupported(Invalid):
    """Well-formed, but outside what this stage handles yet; the message names the construct and the stage.

    >>> text = '#[version = "0.0.5"]\\ndef @main(%x: Tensor[(2), float32]) { nn.unheard_of(%x) }'
    >>> pathlib.Path("m.relay").write_text(text)
    78
    >>> try:
    ...     assay.load("m.relay")
    ... except assay.Unsupported as wrong:
    ...     print(wrong.message.splitlines()[0])
    the operator nn.unheard_of is not handled
    """


class Unpredictable(AssayError):
    """No useful set of results can be given, for the reason that is said (rule M1.3): neither the program nor the run
    is wrong. A comparison is waived, and that is reported."""


class EnvironmentFailure(AssayError):
    """What Assay needs from its surroundings is not there or does not work: the C compiler, the disk, a standard
    stream. It says nothing about the program.

    >>> issubclass(assay.EnvironmentFailure, assay.AssayError)
    True
    """


class BudgetSpent(EnvironmentFailure):
    """The work wants more memory or time than it may take. It says nothing about the program; a larger budget may.

    >>> try:
    ...     assay.plan("buffers.csv", time_limit=1e-9)
    ... except assay.BudgetSpent as wrong:
    ...     print(wrong.label)
    memory.C9
    """


class Trap(AssayError):
    """The run failed as the rules say. `kind` is one of the names listed in specs/semantics.md, "Traps"; "" where a
    backend knows no more than that it failed.

    The message is made of parts, which are kept: `what` is wrong, the `iteration` (each loop variable around with its
    value, outermost first), and what would have been `right`. `buffer` and `index` are those that it is about, "" and
    None where there are none.

    >>> b = assay.builder.Builder()
    >>> ints = assay.builder.tensor(2, of="int32")
    >>> with b.function("main", x=ints, y=ints) as f:
    ...     b.result(b.floor_divide(f.x, f.y))
    >>> try:
    ...     assay.run(b.module(), {"x": numpy.int32([1, 2]), "y": numpy.int32([1, 0])})
    ... except assay.Trap as trap:
    ...     print(trap.kind)
    division by zero
    """

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        right: str = "",
        buffer: str = "",
        index: tuple[int, ...] | None = None,
        iteration: tuple[tuple[str, int], ...] = (),
        where: Span | str | None = None,
        label: str = "",
    ) -> None:
        loops = f", in iteration {', '.join(f'{v}={n}' for v, n in iteration)}" if iteration else ""
        super().__init__(f"{what}{loops}{f'; {right}' if right else ''}", where=where, label=label)
        self.kind, self.what, self.right = kind, what, right
        self.buffer, self.index, self.iteration = buffer, index, iteration

    def but(self, **parts: Any) -> Trap:
        """The same trap with other parts: `what`, `iteration`, `where` and so on, by name."""
        names = ("kind", "what", "right", "buffer", "index", "iteration", "where", "label")
        return Trap(**{n: getattr(self, n) for n in names} | parts)

    def __str__(self) -> str:
        return f"trap{f' ({self.kind})' if self.kind else ''}: {super().__str__()}"


class Crash(AssayError):
    """A fault in Assay itself: this cannot happen for a valid module.

    >>> issubclass(assay.Crash, assay.Invalid)
    False
    """


@contextmanager
def placed(where: Span | str | None) -> Iterator[None]:
    """What is found wrong in here is said to be there, unless it has a place already."""
    try:
        yield
    except (Invalid, BudgetSpent) as wrong:
        raise wrong.at(where) from None
