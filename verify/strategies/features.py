"""What programs of graphs may have in them (specs/verify.md, "Programs")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.strategies.kinds import COMMON

DATA_DEPENDENT = ("nonzero", "unique", "suppress")
"""Operators whose results have sizes that only a run can tell, or that want such operands."""


@dataclass(frozen=True)
class Features:
    """Switches of `assay.verify.strategies.graphs.Maker`. Without any, a program is operator calls on tensors."""

    operators: tuple[str, ...] = tuple(OPERATORS)
    """Which operators are called; empty: none, but for those that the other features need."""
    dtypes: tuple[str, ...] = COMMON
    """The element types of inputs; casts and comparisons may make others."""
    sharing: bool = True
    """A value is used more than once."""
    names: bool = False
    """Values are bound by let."""
    branches: bool = False
    """If."""
    functions: bool = False
    """Closures, applied and passed on."""
    recursion: bool = False
    """Functions that call themselves: a local one, and one of the module."""
    effects: bool = False
    """Prints, asserts, references, functions that act."""
    data: bool = False
    """An algebraic data type, and match."""
    casts: bool = False
    """Sizes that only a cast tells."""
    symbolic: bool = False
    """Symbolic dims of inputs."""
    constants: bool = True
    """Weights among the operands."""
    named_constants: bool = False
    """Weights in the module's table, by name."""
    kernels: bool = False
    """Calls of tensor functions."""
    traps: bool = False
    """Runs may fail: divisions by zero, indices out of range, sizes that differ."""
    empty: bool = False
    """Axes of size 0."""
    devices: CompilationConfig | None = None
    """Annotations of these devices, and copies between them, here and there. Some say what cannot be."""
    avoided: frozenset[str] = frozenset()
    """Traits of uses (`assay.verify.strategies.avoiding`) that are avoided, as long as there are others."""

    def __post_init__(self) -> None:
        for name in self.operators:
            if name not in OPERATORS:
                raise Invalid(f"no operator {name!r}", label="call.C8")

    @property
    def language(self) -> bool:
        """Whether there is anything but tensors, operators, branches and names."""
        return self.functions or self.recursion or self.effects or self.data or self.casts


DATAFLOW = Features()
"""Operator calls alone: what an ONNX model without control flow can say."""
LANGUAGE = Features(
    operators=(),
    names=True,
    branches=True,
    functions=True,
    recursion=True,
    effects=True,
    data=True,
    casts=True,
    traps=True,
)
"""The whole language on a few kinds of values, with runs that fail: for passes that treat all operators alike."""
EVERYTHING = replace(LANGUAGE, operators=tuple(OPERATORS), symbolic=True, named_constants=True, kernels=True)
"""All of it but devices."""


def static_operators() -> tuple[str, ...]:
    """All operators but those whose results have sizes that only a run can tell."""
    return tuple(n for n in OPERATORS if n not in DATA_DEPENDENT)


def chosen(operators: Sequence[str] | None) -> tuple[str, ...]:
    """Names of operators, each of which may end in * for all that begin so; None: all but the data-dependent ones."""
    if operators is None:
        return static_operators()
    found: dict[str, None] = {}
    for name in operators:
        if name.endswith("*"):
            matching = [n for n in OPERATORS if n.startswith(name[:-1])]
            if not matching:
                raise Invalid(f"no operator begins with {name[:-1]!r}", label="call.C8")
            found |= dict.fromkeys(matching)
        else:
            found[name] = None
    return tuple(found)
