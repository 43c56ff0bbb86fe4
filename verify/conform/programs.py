"""A program with cases: one text that has a module, inputs, and what must come of them (specs/verify.md, "Programs with
cases").

    program = read_program(Path("division.py"))
    program.cases["by_zero"].expected.trap           # "division by zero"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Function, GlobalVar
from assay.semantics.leaves import output_names
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import entry_name
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]

TRAPS = (
    "assertion", "cast", "clobbered", "carried dependence", "division by zero", "extern", "match", "memory",
    "misaligned", "out of bounds", "race", "recursion", "shape", "shift", "store to constant", "undeclared access",
    "unwritten output", "unwritten read", "use outside lifetime", "wrong device", "wrong scope",
)  # fmt: skip
"""The kinds of traps that a program may be expected to end with (specs/semantics.md, "Traps")."""


@dataclass(frozen=True, eq=False)
class ExpectedResults:
    """What a run must come to: a trap of a kind; or results by name, in Python's form.

    `open` says where elements of tensors may be anything, by the names that parts have in a file. `within` names the
    results that only have to lie within the definition's bounds. `refuted` results are planted: they are what another
    meaning gives, and must be found wrong. The message of a trap `says` some words. `invalid` is the label by which the
    inputs are refused. `unpredictable` says that no useful set of results can be given (rule M1.3)."""

    results: Mapping[str, Any] = field(default_factory=dict)
    open: Mapping[str, Array] = field(default_factory=dict)
    within: frozenset[str] = frozenset()
    trap: str = ""
    says: str = ""
    refuted: bool = False
    invalid: str = ""
    unpredictable: bool = False

    @property
    def fails(self) -> bool:
        """Whether a program that ends so is one that must fail, or whose results must be found wrong."""
        return bool(self.trap or self.refuted or self.invalid or self.unpredictable)


@dataclass(frozen=True, eq=False)
class ProgramCase:
    """One case: inputs by name in Python's form, and what must come of them.

    A case is *meaning* where the results are those of the definition itself, bit for bit, also where implementations
    have a choice. `function` is the function that is called, "" for the entry. `source` says where the expectation is
    from. `rules` are those that it shows. `prints` are the texts that the run prints, where the case says them.
    `externs` are functions outside of the language by name, each given by a function of the module. With `offsets` the
    program is lowered, these slots are put at these bytes of the pool, and memory is watched (rule M7)."""

    name: str
    inputs: Mapping[str, Any]
    expected: ExpectedResults
    meaning: bool = False
    function: str = ""
    source: str = ""
    where: Span | None = None
    rules: tuple[str, ...] = ()
    prints: tuple[str, ...] | None = None
    externs: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RefusedText:
    """A text that is no program: the rule of the `label` refuses it, when it is read or by one of the `stages`, which
    plan for `devices`."""

    name: str
    text: str
    label: str
    stages: tuple[str, ...] = ()
    devices: str = ""
    rules: tuple[str, ...] = ()
    source: str = ""
    where: Span | None = None


@dataclass(frozen=True)
class Likeness:
    """Whether a function of the module, `after` some stages one after another, which plan for `devices`, is `other` as
    it is written (specs/semantics.md, "Equality")."""

    name: str
    function: str
    other: str
    equal: bool
    after: tuple[str, ...] = ()
    devices: str = ""
    rules: tuple[str, ...] = ()
    source: str = ""
    where: Span | None = None


@dataclass(frozen=True, eq=False)
class ProgramText:
    """A module and its cases by name, and what else is claimed beside it. `title` is the text at the head of the
    file."""

    module: Module
    cases: Mapping[str, ProgramCase]
    title: str = ""
    file: str = ""
    claims: Mapping[str, RefusedText | Likeness] = field(default_factory=dict)

    def case(self, name: str) -> ProgramCase:
        """The case of that name. Invalid (case.C6): there is none."""
        if name not in self.cases:
            known = ", ".join(self.cases) or "none"
            raise Invalid(f"there is no case {name!r}; there are {known}", where=self.file or None, label="case.C6")
        return self.cases[name]

    def function(self, case: ProgramCase) -> str:
        """The name of the function that a case calls."""
        return entry_name(self.module, case.function or None)

    def with_entry(self, case: ProgramCase) -> Module | None:
        """The module with what a case calls as its main; None where that is no graph function, or another function
        calls the main that it would replace."""
        name = self.function(case)
        target = self.module.definitions[name]
        if name == "main" and isinstance(target, Function):
            return self.module
        if not isinstance(target, Function) or "main" in _called(self.module):
            return None
        return replace(self.module, definitions={**self.module.definitions, "main": target})


def _called(module: Module) -> set[str]:
    """The functions that graph functions of a module call by name."""
    return {n.name for f in module.graphs.values() for n in post_order(f) if isinstance(n, GlobalVar)}


def input_types(module: Module, name: str) -> dict[str, Type]:
    """The inputs of a function by name. Invalid (text.C16): it is none that can be run."""
    target = module.definitions[name]
    if isinstance(target, Function):
        return {p.name: p.type for p in target.params}
    if isinstance(target, PrimFunc):
        types: dict[str, Type] = {b.name: TensorType(b.shape, b.dtype) for b in target.inputs}
        return types | {s.name: TensorType((), s.dtype) for s in target.scalars}
    raise Invalid(f"{name} is no function that can be run", label="text.C16")


def result_types(module: Module, name: str) -> dict[str, Type]:
    """The results of a function by name."""
    target = module.definitions[name]
    if isinstance(target, PrimFunc):
        return {b.name: TensorType(b.shape, b.dtype) for b in target.outputs}
    assert isinstance(target, Function)
    of = target.result_type
    parts: Sequence[Type] = of.fields if isinstance(of, TupleType) else (of,)
    return dict(zip(output_names(target), parts, strict=True))
