"""Functions that call one another any number of levels deep, without recursion (specs/semantics.md).

A task is a generator that yields the tasks whose results it needs and returns its own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from assay.semantics.errors import AssayError

T = TypeVar("T")
Task: TypeAlias = Generator[Any, Any, T]


def run_task(task: Task[T]) -> T:
    """The result of a task. A failure of a task is raised where its result was waited for."""
    stack: list[Task[Any]] = [task]
    result: Any = None
    error: AssayError | None = None
    while stack:
        try:
            child = stack[-1].send(result) if error is None else stack[-1].throw(error)
        except StopIteration as end:
            stack.pop()
            result, error = end.value, None
        except AssayError as wrong:  # for the one who waits, who may say where it was
            stack.pop()
            error = wrong
        else:
            stack.append(child)
            result, error = None, None
    if error is not None:
        raise error
    final: T = result
    return final
