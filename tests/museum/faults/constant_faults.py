"""Faults that others have had with constants, each next to what is right (apache/tvm RFC 0022 and the issues named)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants, link_params
from assay.lower.constants.constant_table import ConstantTable
from assay.lower.legalize import legalize
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, constant, function
from assay.semantics.module import PLAIN, ConstantInfo, Module
from assay.semantics.rules import check
from assay.semantics.tensor import AllocateConst
from assay.semantics.walk import rewrite
from assay.verify.constants import check_constants
from assay.verify.evidence import Evidence, checked, refuted
from tests.lower.constants.test_constants_link import two_calls, user
from tests.museum.judges import of_evidence
from tests.museum.planted import Patch, PlantedFault, size
from tests.verify.constants.test_constants_check import held, made, source

A, B = np.array([1, 2, 3], np.float32), np.array([1, 2, 4], np.float32)


def fault(
    name: str,
    layer: str,
    known: str,
    right: Callable[[], Evidence],
    wrong: Callable[[], Evidence],
    said: str,
    programs: Callable[[], tuple[Module, ...]] = lambda: (),
    plant: Callable[[Patch], None] | None = None,
) -> PlantedFault:
    """`right` and `wrong` say what the check finds, the one without the fault. `programs` shows it; without one, two
    arrays do."""
    return PlantedFault(
        name, layer, (judge,), programs, lambda _: wrong(), lambda _: right(), said, plant, known, size=size_of_programs
    )


def judge(source: tuple[Module, ...], made: Evidence) -> str | None:
    return of_evidence(made)


def size_of_programs(source: tuple[Module, ...], made: Evidence) -> str:
    return size(*source) or "2 arrays"


def verdict(make: Callable[[], Module]) -> Evidence:
    """Whether what is made is well-formed."""
    try:
        check(make())
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    return checked("well-formed")


def lifted() -> Evidence:
    return check_constants(source(), lift_constants(source(), vector.run))[0]


def by_counter(patch: Patch) -> None:
    def add(self: ConstantTable, array: np.ndarray, info: ConstantInfo = PLAIN) -> str:  # type: ignore[type-arg]
        name = f"constant_{len(self.arrays)}"
        self._put(name, array, info)
        return name

    patch.setattr(ConstantTable, "add", add)


def by_value(patch: Patch) -> None:
    """-0.0 and 0.0 are equal numbers."""
    patch.setattr(
        ConstantTable,
        "digest",
        lambda self, array, info: "0" * 64 if not array.any() else f"{hash(array.tobytes()) & (2**63 - 1):064x}",
    )


def two_zeros() -> Evidence:
    """Zeros of both signs in one table."""
    zeros = np.zeros(3, np.float32)
    table = ConstantTable(Module({}))
    one, two = table.add(zeros), table.add(-zeros)
    return refuted("checked", "two constants have one name") if one == two else checked("two names")


def moved_with_its_constant() -> Module:
    """A function is put into another module, and its constant into the table under a name of its own."""
    whole, other = moved_without_its_table(), user(B, A).constants["w"]
    g = whole.kernel("g")
    body = rewrite(g.body, lambda s: replace(s, index="w_1") if isinstance(s, AllocateConst) else s)
    return replace(whole.with_(g=replace(g, body=body)), constants={**whole.constants, "w_1": other})


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


def shared_map(patch: Patch) -> None:
    """Extractions count in a map that they share."""
    count: list[str] = []

    def add(self: ConstantTable, array: np.ndarray, info: ConstantInfo = PLAIN) -> str:  # type: ignore[type-arg]
        count.append(f"constant_{len(count):08x}")
        self._put(count[-1], array, info)
        return count[-1]

    patch.setattr(ConstantTable, "add", add)


def without_constants() -> Evidence:
    """A module that says nothing of the constants that its functions name."""
    bare = lift_constants(source(), vector.run)
    return verdict(lambda: replace(bare, constants={}, offsets={}, infos={}))


def zeros_for_a_trap(patch: Patch) -> None:
    """The stage folds a division by zero."""
    patch.setattr("assay.lower.constants.fold._Folding.called", lambda self, node, arrays: [np.zeros((), np.int32)])


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


FAULTS: tuple[PlantedFault, ...] = (
    fault(
        "equal by what is printed",
        "constants",
        "P#13091, I#16301",
        lambda: equality(lambda a, b: structural_equal(constant(a), constant(b))),
        lambda: equality(lambda a, b: str(a) == str(b)),
        "two that differ are equal",
    ),
    fault(
        "names by a shared map",
        "constants",
        "log of 8509",
        by_order,
        by_order,
        "order of functions",
        lambda: (source(),),
        shared_map,
    ),
    fault(
        "handed on without its constants",
        "well-formed",
        "P#12061",
        lambda: verdict(lambda: lift_constants(source(), vector.run)),
        without_constants,
        "graph.C2",
        lambda: (source(),),
    ),
    fault(
        "a trap becomes a constant",
        "constants",
        "",
        divided,
        divided,
        "another of the source's values",
        lambda: (division(),),
        zeros_for_a_trap,
    ),
    fault(
        "names by a counter",
        "constants",
        "P#11509, P#13397",
        lifted,
        lifted,
        "constant_1 is used where",
        lambda: (source(),),
        by_counter,
    ),
    fault("equal by value", "constants", "review of 8509", two_zeros, two_zeros, "one name", plant=by_value),
    fault(
        "an index of another module",
        "well-formed",
        "review of 8509",
        lambda: verdict(moved_with_its_constant),
        lambda: verdict(moved_without_its_table),
        "module.C9",
        lambda: (user(A, B), user(B, A)),
    ),
    fault(
        "a store into a constant",
        "well-formed",
        "review of 8509",
        lambda: verdict(lambda: link_params(two_calls(A, B))),
        lambda: verdict(lambda: link_params(two_calls(A, B, "written"))),
        "link.C1",
        lambda: (two_calls(A, B, "written"),),
    ),
    fault(
        "data that does not fill the buffer",
        "well-formed",
        "review of 8509",
        lambda: verdict(made),
        lambda: verdict(lambda: held(made(), data=A[:2], index="")),
        "tensor.C25",
        lambda: (made(),),
    ),
)
