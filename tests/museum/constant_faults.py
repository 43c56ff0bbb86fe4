"""Faults that others have had with constants, each next to what is right (apache/tvm RFC 0022 and the issues named)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.constants import lift_constants, link_params, transfer
from assay.lower.constants.table import Table
from assay.semantics.errors import Invalid
from assay.semantics.module import PLAIN, ConstantInfo, Module
from assay.semantics.rules import check
from assay.verify.constants_check import check_constants
from assay.verify.evidence import Evidence, checked, refuted
from tests.lower.test_constants_link import two_calls, user
from tests.verify.test_constants_check import held, made, source

Patch = pytest.MonkeyPatch
A, B = np.array([1, 2, 3], np.float32), np.array([1, 2, 4], np.float32)


@dataclass(frozen=True)
class Fault:
    """`wrong` plants the fault, `right` does not; `said` is a part of the refutation."""

    upstream: str
    right: Callable[[], Evidence]
    wrong: Callable[[Patch], Evidence]
    said: str


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
    patch.setattr(Table, "digest", lambda self, array, info: "0" * 64 if not array.any() else f"{hash(array.tobytes()) & (2**63 - 1):064x}")
    table = Table(Module({}))
    one, two = table.add(zeros), table.add(-zeros)
    return refuted("checked", "two constants have one name") if one == two else checked("two names")


def moved_without_its_table() -> Module:
    """A function is put into another module as it is."""
    first, second = user(A, B), user(B, A)
    return first.with_(g=replace(second.kernel("f"), name="g"))


FAULTS: dict[str, Fault] = {
    "names by a counter": Fault("apache/tvm#11509, #13397", lifted, by_counter, "constant_1 is used where"),
    "equal by value": Fault("RFC 0022 review", lambda: checked("bits"), by_value, "one name"),
    "an index of another module": Fault(
        "RFC 0022 review",
        lambda: verdict(lambda: transfer(["f"], user(B, A), user(A, B))[0]),
        lambda patch: verdict(moved_without_its_table),
        "module.C9",
    ),
    "a store into a constant": Fault(
        "RFC 0022 review", lambda: verdict(lambda: link_params(two_calls(A, B))),
        lambda patch: verdict(lambda: link_params(two_calls(A, B, "written"))), "link.C1",
    ),
    "data that does not fill the buffer": Fault(
        "RFC 0022 review", lambda: verdict(made), lambda patch: verdict(lambda: held(made(), data=A[:2], index="")), "tensor.C25",
    ),
}  # fmt: skip
