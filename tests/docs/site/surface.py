"""The page of `import assay`: each name with its signature and its docstring (specs/verify.md, "From Python")."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import assay

ANNOTATION = re.compile(r"(: |-> )'([^']+)'")
"""A type in a signature, which is a text."""
EXAMPLES = re.compile(r"^(>>> .*(?:\n.+)*)", re.MULTILINE)
"""Examples up to the next empty line."""


def surface_page() -> str:
    """The page, as Markdown."""
    head = (
        "# import assay\n\nEvery name that `import assay` offers, with what it says of itself. They stay as they are:\n"
    )
    head += "[the policy](verify.md#from-python).\n"
    names = [name for name in assay.__all__ if name != "__version__"]
    return head + "".join(part for name in names for part in _entry(name, getattr(assay, name)))


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"\n## {name}\n\n"
    if inspect.isclass(value):
        yield f"```python\n{_head(f'class {name}', value)}\n```\n\n{_said(value)}\n"
        for member, found in vars(value).items():
            if not member.startswith("_") and (inspect.isfunction(found) or isinstance(found, property)):
                yield from _member(name, member, found)
    elif isinstance(value, ModuleType) and name != "verify":
        yield f"A module, `assay.{name}`.\n\n{_said(value)}\n"
    else:
        called = getattr(assay.verify, "verify", value) if name == "verify" else value
        yield f"```python\n{_head(f'assay.{name}', called)}\n```\n\n{_said(called)}\n"


def _member(of: str, name: str, found: Any) -> Iterator[str]:
    if said := _said(found):
        shown = f"{of}.{name}" if isinstance(found, property) else _head(f"{of}.{name}", found)
        yield f"\n### {of}.{name}\n\n```python\n{shown}\n```\n\n{said}\n"


def _head(name: str, value: Any) -> str:
    """A name with its signature, a line for each parameter where one line would be long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    if "*args" in str(signature) and inspect.isclass(value):  # a protocol, which nobody makes
        return name
    shown = ANNOTATION.sub(r"\1\2", str(signature))
    if len(name + shown) <= 100:
        return name + shown
    parts = ",\n".join(f"    {p}" for p in signature.parameters.values())
    back = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    return ANNOTATION.sub(r"\1\2", f"{name}(\n{parts},\n){back}")


def _said(value: Any) -> str:
    """A docstring as Markdown, which ours nearly are; one that a base class has is none."""
    own = value.__dict__.get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return EXAMPLES.sub(r"```pycon\n\1\n```", textwrap.dedent(inspect.cleandoc(own))) if own else ""
