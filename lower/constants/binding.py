"""Contents for constants from outside (row C4; specs/lower.md, "constants")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assay.lower.constants.constant_table import Array
from assay.semantics.bits import frozen
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.module import Definition, Module, with_contents
from assay.semantics.tensor import AllocateConst, PrimFunc
from assay.semantics.types import TensorType


def bind_constants(module: Module, arrays: Mapping[str, Array]) -> Module:
    """The module with other contents in constants of its table, by name, wherever they are used; at any stage after
    constants. A read-only array is not copied. A constant that was copied to other devices, as
    `NAME@DEVICE`, follows.

    Invalid where the table has no constant of a name (`bind.C1`), or it has another dtype or shape (`bind.C2`).
    """
    constants = dict(module.constants)
    for name, given in arrays.items():
        names = [n for n in constants if n == name or n.startswith(f"{name}@")]
        if name not in constants:
            known = ", ".join(constants) or "none"
            raise Invalid(
                f"the table has no constant {name}; it may have been folded into others; it has {known}",
                label="bind.C1",
            )
        for n in names:
            want, got = _type(constants[n]), _type(given)
            if str(want) != str(got):
                raise Invalid(f"constant {name} is {want}, {got} is given", label="bind.C2")
            constants[n] = frozen(given)
    changed = {n for n, a in constants.items() if a is not module.constants[n]}

    def contents(node: AllocateConst) -> Array | None:
        return constants[node.index] if node.index in changed and node.data is not None else node.data

    definitions: dict[str, Definition] = {
        n: with_contents(d, contents) if isinstance(d, PrimFunc) else d for n, d in module.definitions.items()
    }
    return replace(module, definitions=definitions, constants=constants)


def _type(array: Array) -> TensorType:
    return TensorType(array.shape, dtype(array.dtype))


def with_given_constants(module: Module, given: Mapping[str, Any]) -> tuple[Module, dict[str, Any], dict[str, Any]]:
    """The module with the arrays given under names of constants of its table in place of these, the rest of `given`,
    and these arrays. A name that a parameter has too is the parameter's. Raises what `bind_constants` does."""
    params = {p.name for d in module.graphs.values() for p in d.params}
    bound = {n: a for n, a in sorted(given.items()) if n in module.constants and n not in params}
    rest = {n: a for n, a in given.items() if n not in bound}
    return bind_constants(module, bound) if bound else module, rest, bound
