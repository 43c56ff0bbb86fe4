"""How many kernels are shown to be their operators for every input, at the sizes that are tried (specs/verify.md,
"legalize")."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.semantics.graph import Call
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.types import TensorType, TupleType
from assay.verify.all_sizes.for_operator import use_proof
from assay.verify.all_sizes.symbols import SymbolicUse
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion
from assay.verify.operator_terms import KernelProof, prove_kernel
from assay.verify.symbolic.function import size_symbols
from assay.verify.trials.batch import stores
from assay.verify.trials.sizes import Sizes

MOST = 1_500
"""Stores of a kernel that is run over terms."""
ORDINARY = 2
"""Sizes of a kernel with symbols beside a 0 and a 1."""
MOST_OF_ALL = 10_000
"""Stores of all kernels of one check that are."""
MOST_GENERAL = 24
"""Kernels of one check that are tried for all sizes."""
MOST_SYMBOLS = 1
"""Symbols of a kernel that is; of a short one any number."""
SHORT = 8
"""Statements of a short one."""
POINTS = 16
"""Small sizes at which its operator's index notation is compared with the definition."""


@dataclass
class KernelProofs:
    """What was shown of each kernel, at all of its sizes together."""

    left: int = MOST_OF_ALL
    found: dict[str, Notion] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Of what was not shown, or only up to something: the reason."""
    tried: dict[str, list[Sizes]] = field(default_factory=dict)
    """Of kernels with symbols the sizes."""
    general: dict[str, Notion] = field(default_factory=dict)
    """Of kernels with symbols that were tried for all sizes, what was shown."""

    def add(self, kernel: PrimFunc, call: Call, sizes: Sizes) -> None:
        """Try one kernel at numbers; what is shown of it is the least of all its sizes. Of a kernel with symbols these
        are the first two, of which no two are alike, and the first with a 0 and with a 1."""
        if sizes:
            known = self.tried.setdefault(kernel.name, [])
            special = {0, 1} & set(sizes.values()) - {n for at in known for n in at.values()}
            if len(known) >= ORDINARY and not special:
                return
            known.append(sizes)
        if self.found.get(kernel.name) is UNKNOWN:
            return
        proof = self._tried(kernel, call)
        self.found[kernel.name] = min(self.found.get(kernel.name, BIT_EXACT), proof.notion)
        if proof.reason:
            self.why[kernel.name] = proof.reason

    def add_general(self, kernel: PrimFunc, call: Call) -> None:
        """Try one kernel with symbols for all sizes."""
        symbols = size_symbols(kernel)
        long = len(symbols) > MOST_SYMBOLS and sum(1 for _ in program_order(kernel.body)) > SHORT
        if not symbols or long or len(self.general) >= MOST_GENERAL or any(True for _ in sizes_in(call.attrs.values())):
            return
        assert isinstance(call.op, Operator)
        own = dict.fromkeys(symbols, 3)
        operands = tuple(TensorType(b.shape, b.dtype) for b in kernel.inputs)
        given = tuple(TensorType(b.shape, b.dtype) for b in kernel.outputs)
        result = given[0] if len(given) == 1 else TupleType(given)
        use = SymbolicUse(call.op, call.op.check_attrs(call.attrs), operands, result, own)
        proof = use_proof(use, kernel, POINTS)
        self.general[kernel.name] = proof.notion
        if not proof.holds:
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
        """Whether all kernels are shown to be their operators at all sizes that the program has, numbers or any, in an
        order that rule M9 allows."""
        wide = all(self.general.get(name, UNKNOWN) >= REASSOCIATED for name in self.tried)
        return wide and self.count(REASSOCIATED) == len(self.found)

    def __str__(self) -> str:
        shown, exact, order = self.count(REAL), self.count(BIT_EXACT), self.count(REASSOCIATED)
        less = [f"{order - exact} of them up to the order of additions"] if order > exact else []
        less += [f"{shown - order} as functions of real numbers"] if shown > order else []
        sizes = max(map(len, self.tried.values()), default=0)
        at = f" at up to {sizes} sizes" if sizes > 1 else ""
        said = f"{shown} of {len(self.found)} proved equal for every input{at}"
        said += "".join(f", {part}" for part in less)
        wide = sum(n >= REAL for n in self.general.values())
        return said + (f"; {wide} of {len(self.tried)} for all sizes" if self.tried else "")

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
            **({"for_all_sizes": sorted(n for n, how in self.general.items() if how >= REAL)} if self.tried else {}),
            "not_proved": {n: self.why.get(n, "") for n, notion in self.found.items() if notion is UNKNOWN},
        }
