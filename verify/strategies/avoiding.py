"""What is said of a use of an operator, and which uses a maker avoids (specs/verify.md, "Programs").

A trait is a text for people that many uses have in common: `nn.conv2d`, `float16`, `nn.conv2d in float16`, `nn.conv2d
of rank 4`, `nn.conv2d with groups=2`. A maker that is told to avoid traits makes other uses, as long as there are any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from assay.semantics.graph import Call
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType, TupleType, Type
from assay.verify.strategies.operators import ValidUse

TRIES = 8
"""So often a maker draws again what is to be avoided."""


def traits(operator: Operator, operands: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """The traits of a use: the operator first, then its element types, the rank of its first operand, and the
    attributes that are not as usual."""
    tensors = [t for o in operands for t in (o.fields if isinstance(o, TupleType) else (o,))]
    found = [t for t in tensors if isinstance(t, TensorType)]
    name = operator.name
    said = [name]
    for of in dict.fromkeys(t.dtype.name for t in found):
        said += [of, f"{name} in {of}"]
    if found:
        said.append(f"{name} of rank {found[0].ndim}")
    for key, value in attrs.items():
        usual = operator.attrs[key].default if key in operator.attrs else None
        if value != usual:
            plain = value is None or isinstance(value, (bool, int, float, str))
            said.append(f"{name} with {key}={value}" if plain else f"{name} with {key}")
    return tuple(said)


def traits_of_call(node: Call) -> tuple[str, ...]:
    """The traits of an operator call of a program."""
    assert isinstance(node.op, Operator)
    return traits(node.op, [a.type for a in node.args], node.attrs)


def is_avoided(use: ValidUse, avoided: Collection[str]) -> bool:
    """Whether a use has one of the traits."""
    return bool(avoided) and not set(avoided).isdisjoint(traits(use.operator, use.operands, use.attrs))


def others(names: tuple[str, ...], avoided: Collection[str]) -> tuple[str, ...]:
    """Operators or element types without those that are avoided as a whole; all of them where none is left."""
    return tuple(n for n in names if n not in avoided) or names
