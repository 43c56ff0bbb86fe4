"""Faults that others have had with constants, each next to what is right (apache/tvm RFC 0022 and the issues named)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants, link_params, transfer
from assay.lower.constants.table import Table
from assay.lower.legalize import legalize
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, constant, function
from assay.semantics.module import PLAIN, ConstantInfo, Module
from assay.semantics.rules import check
from assay.verify.constants import check_constants
from assay.verify.evidence import Evidence, checked, refuted
from tests.lower.constants.test_constants_link import two_calls, user
from tests.verify.constants.test_constants_check import held, made, source

Patch = pytest.MonkeyPatch
A, B = np.array([1, 2, 3], np.float32), np.array([1, 2, 4], np.float32)


@dataclass(frozen=True)
class Fault:
    """`wrong` plants the fault, `right` does not; `said` is a part of the refutation. `programs` shows it; without one,
    two arrays do."""

    known: str
    right: Callable[[], Evidence]
    wrong: Callable[[Patch], Evidence]
    said: str
    programs: Callable[[], tuple[Module, ...]] = lambda: ()


def verdict(make: Callable[[], Module]) -> Evidence:
    """Whether what is made is well-formed."""
    try:
        check(make())
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    return checked("well-formed")


def lifted() -> Evidence:
    return check_constants(source(), lift_constants(source(), vector.run))[0]


def by_counter(patch: Patch) -> Evidence:
    def add(self: Table, array: np.ndarray, info: ConstantInfo = PLAIN) -> str:  # type: ignore[type-arg]
        name = f"constant_{len(self.arrays)}"
        self._put(name, array, info)
        return name

    patch.setattr(Table, "add", add)
    return lifted()


def by_value(patch: Patch) -> Evidence:
    """-0.0 and 0.0 are equal numbers."""
    zeros = np.zeros(3, np.float32)
    patch.setattr(
        Table,
        "digest",
        lambda self, array, info: "0" * 64 if not array.any() else f"{hash(array.tobytes()) & (2**63 - 1):064x}",
    )
    table = Table(Module({}))
    one, two = table.add(zeros), table.add(-zeros)
    return refuted("checked", "two constants have one name") if one == two else checked("two names")


def moved_without_its_table() -> Module:
    """A function is put into another module as it is."""
    first, second = user(A, B), user(B, A)
    return first.with_(g=replace(second.kernel("f"), name="g"))


def by_order() -> Evidence:
    """One module with its functions in two orders: the names of its constants are the same."""
    first, second = (lift_constants(m, vector.run) for m in (source(), _turned(source())))
    same = first.constants.keys() == second.constants.keys()
    return checked("the same names") if same else refuted("checked", "names depend on the order of functions")


def _turned(module: Module) -> Module:
    return replace(module, definitions=dict(reversed(module.definitions.items())))


def shared_map(patch: Patch) -> Evidence:
    """Extractions count in a map that they share."""
    count: list[str] = []

    def add(self: Table, array: np.ndarray, info: ConstantInfo = PLAIN) -> str:  # type: ignore[type-arg]
        count.append(f"constant_{len(count):08x}")
        self._put(count[-1], array, info)
        return count[-1]

    patch.setattr(Table, "add", add)
    return by_order()


def without_constants(patch: Patch) -> Evidence:
    """A module that says nothing of the constants that its functions name."""
    bare = lift_constants(source(), vector.run)
    return verdict(lambda: replace(bare, constants={}, offsets={}, infos={}))


def zeros_for_a_trap(patch: Patch) -> Evidence:
    """The stage folds a division by zero."""
    patch.setattr("assay.lower.constants.fold._Folding.called", lambda self, node, arrays: [np.zeros((), np.int32)])
    return divided()


def division() -> Module:
    one, zero = (constant(np.array(k, np.int32)) for k in (1, 0))
    return legalize(to_anf(Module({"main": function([], call("floor_divide", one, zero))})))


def divided() -> Evidence:
    module = division()
    return check_constants(module, lift_constants(module, vector.run))[0]


def equality(same: Callable[[np.ndarray, np.ndarray], bool]) -> Evidence:  # type: ignore[type-arg]
    """Two large constants that differ in the middle only."""
    one = np.zeros(5000, np.float32)
    two = one.copy()
    two[2500] = 1
    return refuted("checked", "two that differ are equal") if same(one, two) else checked("different")


FAULTS: dict[str, Fault] = {
    "equal by what is printed": Fault(
        "P#13091, I#16301",
        lambda: equality(lambda a, b: structural_equal(constant(a), constant(b))),
        lambda patch: equality(lambda a, b: str(a) == str(b)), "two that differ are equal",
    ),
    "names by a shared map": Fault("log of 8509", by_order, shared_map, "order of functions", lambda: (source(),)),
    "handed on without its constants": Fault(
        "P#12061", lambda: verdict(lambda: lift_constants(source(), vector.run)), without_constants, "graph.C2", lambda: (source(),)
    ),
    "a trap becomes a constant": Fault("", divided, zeros_for_a_trap, "another of the source's values", lambda: (division(),)),
    "names by a counter": Fault("P#11509, P#13397", lifted, by_counter, "constant_1 is used where", lambda: (source(),)),
    "equal by value": Fault("review of 8509", lambda: checked("bits"), by_value, "one name"),
    "an index of another module": Fault(
        "review of 8509",
        lambda: verdict(lambda: transfer(["f"], user(B, A), user(A, B))[0]),
        lambda patch: verdict(moved_without_its_table),
        "module.C9",
        lambda: (user(A, B), user(B, A)),
    ),
    "a store into a constant": Fault(
        "review of 8509", lambda: verdict(lambda: link_params(two_calls(A, B))),
        lambda patch: verdict(lambda: link_params(two_calls(A, B, "written"))), "link.C1", lambda: (two_calls(A, B, "written"),),
    ),
    "data that does not fill the buffer": Fault(
        "review of 8509", lambda: verdict(made), lambda patch: verdict(lambda: held(made(), data=A[:2], index="")), "tensor.C25",
        lambda: (made(),),
    ),
}  # fmt: skip
