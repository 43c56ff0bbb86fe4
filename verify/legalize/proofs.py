"""How many kernels are shown to be their operators for every input, at the sizes that are tried (specs/verify.md,
"legalize")."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.semantics.graph import Call
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion
from assay.verify.operator_terms import KernelProof, prove_kernel
from assay.verify.trials.batch import stores

MOST = 2_000
"""Stores of a kernel that is run over terms."""
MOST_OF_ALL = 20_000
"""Stores of all kernels of one check that are."""


@dataclass
class KernelProofs:
    """What was shown of each kernel, at all of its sizes together."""

    left: int = MOST_OF_ALL
    found: dict[str, Notion] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Of what was not shown, or only up to something: the reason."""
    with_symbols: set[str] = field(default_factory=set)
    sizes: int = 0
    """At how many sizes one was tried at most."""

    def add(self, kernel: PrimFunc, call: Call) -> None:
        """Try one kernel at numbers; what is shown of it is the least of all its sizes."""
        if self.found.get(kernel.name) is UNKNOWN:
            return
        proof = self._tried(kernel, call)
        self.found[kernel.name] = min(self.found.get(kernel.name, BIT_EXACT), proof.notion)
        if proof.reason:
            self.why[kernel.name] = proof.reason

    def _tried(self, kernel: PrimFunc, call: Call) -> KernelProof:
        count = stores(kernel)
        if count > min(MOST, self.left):
            return KernelProof(UNKNOWN, f"{count} stores are more than are run over terms")
        self.left -= count
        assert isinstance(call.op, Operator)
        return prove_kernel(kernel, call.op, call.attrs)

    def count(self, least: Notion) -> int:
        """How many kernels were shown in that notion or a stronger one."""
        return sum(n >= least for n in self.found.values())

    @property
    def holds(self) -> bool:
        """Whether all kernels are shown to be their operators at all sizes that the program has, in an order that rule
        M9 allows."""
        return not self.with_symbols and self.count(REASSOCIATED) == len(self.found)

    def __str__(self) -> str:
        shown, exact, order = self.count(REAL), self.count(BIT_EXACT), self.count(REASSOCIATED)
        less = [f"{order - exact} of them up to the order of additions"] if order > exact else []
        less += [f"{shown - order} as functions of real numbers"] if shown > order else []
        at = f" at up to {self.sizes} sizes" if self.sizes > 1 else ""
        said = f"{shown} of {len(self.found)} proved equal for every input{at}"
        return said + "".join(f", {part}" for part in less)

    @property
    def data(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "proved": {
                "bit-exact": self.count(BIT_EXACT),
                "reassociated": self.count(REASSOCIATED) - self.count(BIT_EXACT),
                "real": self.count(REAL) - self.count(REASSOCIATED),
                "kernels": len(self.found),
            },
            "not_proved": {n: self.why.get(n, "") for n, notion in self.found.items() if notion is UNKNOWN},
        }
