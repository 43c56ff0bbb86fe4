"""The files of the checkout as trees: several rules and pages read the same ones, in one process."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Python looks for no circles of garbage meanwhile, nor ever among what is there at the end: where millions of
    objects are made that stay, it walks over all of them again and again, which takes longer than to make them."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if on:
            gc.enable()


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a text, made once; whoever reads it leaves it as it is."""
    with nothing_collected():
        return ast.parse(text)


LEAVES = frozenset({ast.Name, ast.Constant})
"""Half of the nodes: there are none below these but the context of a name."""
PLAIN = frozenset(
    {"ctx", "id", "attr", "arg", "name", "asname", "module", "level", "kind", "type_comment", "conversion"}
)
"""Fields that hold a word or a number, and the context of a name, which is one of three objects."""


@cache
def parts(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node below which there may be nodes."""
    return () if kind in LEAVES else tuple(n for n in kind._fields if n not in PLAIN)


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """The nodes of a tree in the order of `ast.walk`, which takes many times as long, found once; contexts of names are
    left out."""
    found: list[ast.AST] = [tree]
    with nothing_collected():
        for node in found:
            for name in parts(type(node)):
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    found.append(value)
                elif isinstance(value, list):
                    found += (v for v in value if isinstance(v, ast.AST))
    return found
