"""Types that are read from two files, and mean the same (specs/verify.md, "vm").

Type parameters are themselves in one module. In two that were read apart they are others, and are told by their order.
"""

from __future__ import annotations

from dataclasses import replace

from assay.semantics.types import DataDef, FuncType, TupleType, Type, TypeVar, same_type
from assay.semantics.walk import post_order, rewrite

KINDS: list[TypeVar] = []
"""What stands for type parameters, by their order."""


def numbered(of: Type) -> Type:
    """A type with its type parameters by the order in which they come."""
    found: dict[TypeVar, TypeVar] = {}
    root: Type = of
    for t in post_order(root):
        for v in (t,) if isinstance(t, TypeVar) else t.type_params if isinstance(t, FuncType) else ():
            found.setdefault(v, _kind(len(found)))
    if not found:
        return of

    def change(t: Type) -> Type:
        if isinstance(t, TypeVar):
            return found[t]
        return replace(t, type_params=tuple(found[v] for v in t.type_params)) if isinstance(t, FuncType) else t

    return rewrite(root, change)


def _kind(index: int) -> TypeVar:
    while len(KINDS) <= index:
        KINDS.append(TypeVar(f"type_{len(KINDS)}"))
    return KINDS[index]


def are_alike(a: Type, b: Type) -> bool:
    """Whether two types are one, up to the names of what they bind."""
    return same_type(numbered(a), numbered(b))


def is_same_data(a: DataDef, b: object) -> bool:
    """Whether two definitions of data types are one."""
    if not isinstance(b, DataDef) or a.name != b.name or list(a.constructors) != list(b.constructors):
        return False
    made = [
        FuncType(tuple(map(TupleType, d.constructors.values())), TupleType(()), type_params=d.type_params)
        for d in (a, b)
    ]
    return len(a.type_params) == len(b.type_params) and are_alike(*made)
