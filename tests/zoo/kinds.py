"""What a kind of fault is: where it may be in a model, and what it changes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx import NodeProto

from tests.zoo.edit import Edit, Facts

Params: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Site:
    """A place for a fault: its node, what the change needs to know, other nodes that must be there too, and tensors
    that must not be shown."""

    node: str
    params: dict[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A kind of miscompilation. `shows` says on what it shows: ordinary inputs, those with NaN, or a second run."""

    name: str
    said: str
    sites: Callable[[Facts], Iterator[Site]]
    change: Callable[[Edit, NodeProto, Params], None]
    shows: str = "ordinary"


KINDS: dict[str, Kind] = {}
"""All kinds by name."""


def kind(
    name: str, said: str, sites: Callable[[Facts], Iterator[Site]], shows: str = "ordinary"
) -> Callable[[Callable[[Edit, NodeProto, Params], None]], Callable[[Edit, NodeProto, Params], None]]:
    """Register what it decorates, the change, as a kind."""

    def register(change: Callable[[Edit, NodeProto, Params], None]) -> Callable[[Edit, NodeProto, Params], None]:
        KINDS[name] = Kind(name, said, sites, change, shows)
        return change

    return register
