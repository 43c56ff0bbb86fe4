"""How many kernels are shown to be their operators for every input, at the sizes that are tried (specs/verify.md,
"legalize")."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from assay.semantics.errors import Invalid
from assay.semantics.graph import Call
from assay.semantics.operator import Example, Operator
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.types import TensorType, TupleType
from assay.verify.all_sizes.for_operator import GeneralProof, needs_text, notation_text, use_proof
from assay.verify.all_sizes.small import SmallProof, prove_small
from assay.verify.all_sizes.symbols import SymbolicUse, symbolic_use
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, TOLD, UNKNOWN, Notion
from assay.verify.legalize.shared import in_order, is_instance, spelled_use
from assay.verify.legalize.uses import KernelUse
from assay.verify.operator_terms import KernelProof, prove_kernel
from assay.verify.proof_texts import keeping, note_proof
from assay.verify.symbolic.function import size_symbols
from assay.verify.trials.batch import stores
from assay.verify.trials.sizes import Sizes, claimed_attributes

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
OVER_TERMS = "both over terms"
READ = "its loops read and held against the index notation"
SHARED = "its statements are those of a kernel that is held against the index notation for all sizes"
POINTS = 16
"""Small sizes at which its operator's index notation is compared with the definition."""


@dataclass
class KernelProofs:
    """What was shown of each kernel, at all of its sizes together."""

    thorough: bool = False
    """Whether kernels of more stores are read, and so shown to be their operator's index notation."""
    texts: dict[str, str] | None = None
    """Where what z3 was asked is kept."""
    left: int = MOST_OF_ALL
    found: dict[str, Notion] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Of what was not shown, or only up to something: the reason."""
    open_bits: dict[str, bool] = field(default_factory=dict)
    """Of what is shown as functions of real numbers: whether nothing but the last bits of elementary functions, which
    the standard leaves open, keeps it from more."""
    small: dict[str, SmallProof] = field(default_factory=dict)
    """That index notation is the definition, by operator, attributes and types."""
    shared: dict[str, tuple[PrimFunc, bool]] = field(default_factory=dict)
    """Kernels with symbols of which others may be instances, by use, and whether they are shown for all sizes."""
    tried: dict[str, list[Sizes]] = field(default_factory=dict)
    """Of kernels with symbols the sizes."""
    by: dict[str, str] = field(default_factory=dict)
    """How each was shown at numbers."""
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
        self._note_bits(kernel.name, proof.notion, proof.last_bits)
        if proof.reason:
            self.why[kernel.name] = proof.reason

    def add_general(self, kernel: PrimFunc, sample: KernelUse) -> None:
        """Try one kernel with symbols for all sizes. Those in its attributes are its own, which all its calls give the
        values that they have there."""
        call = sample.call
        symbols = size_symbols(kernel)
        long = len(symbols) > MOST_SYMBOLS and sum(1 for _ in program_order(kernel.body)) > SHORT
        many = not self.thorough and (long or len(self.general) >= MOST_GENERAL)
        if not symbols or many or not sample.agreed:
            return
        assert isinstance(call.op, Operator)
        own = dict.fromkeys(symbols, 3)
        operands = tuple(TensorType(b.shape, b.dtype) for b in kernel.inputs)
        given = tuple(TensorType(b.shape, b.dtype) for b in kernel.outputs)
        result = given[0] if len(given) == 1 else TupleType(given)
        use = SymbolicUse(call.op, call.op.check_attrs(claimed_attributes(kernel)), operands, result, own)
        proof = self._proof(use, kernel)
        self.general[kernel.name] = proof.notion
        self._note_bits(kernel.name, proof.notion, proof.small.proof.last_bits)
        if not proof.holds:
            self.why[kernel.name] = proof.reason

    def _note_bits(self, name: str, notion: Notion, last_bits: bool) -> None:
        if notion is REAL:
            self.open_bits[name] = self.open_bits.get(name, True) and last_bits

    def _tried(self, kernel: PrimFunc, call: Call) -> KernelProof:
        count = stores(kernel)
        assert isinstance(call.op, Operator)
        if count > min(MOST, self.left):
            if self.thorough:
                return self._read(kernel, call.op, call)
            return KernelProof(UNKNOWN, f"{count} stores are more than are run over terms; --prove reads the loops")
        self.left -= count
        return prove_kernel(kernel, call.op, call.attrs)

    def _read(self, kernel: PrimFunc, op: Operator, call: Call) -> KernelProof:
        """What is shown of a kernel as it is read: that it is the operator's index notation, which is the definition at
        small sizes."""
        example = Example(tuple((tuple(map(int, b.shape)), b.dtype.name) for b in kernel.inputs), dict(call.attrs))  # type: ignore[arg-type]
        try:
            use = symbolic_use(op, example)
        except Invalid as wrong:
            return KernelProof(UNKNOWN, f"no symbols stand for its sizes: {wrong.message}")
        use = in_order(use)
        key = spelled_use(use)
        if key not in self.small:
            self.small[key] = prove_small(use, POINTS)
        self.by[kernel.name] = READ
        if self._is_shared(key, use, kernel):
            self.by[kernel.name] = SHARED
            return self.small[key].proof
        found = self._proof(replace(use, attrs=op.check_attrs(call.attrs)), kernel, self.small[key])
        return found.small.proof if found.holds else KernelProof(UNKNOWN, found.reason)

    def _is_shared(self, key: str, use: SymbolicUse, kernel: PrimFunc) -> bool:
        """Whether a kernel has the statements of one with symbols that is shown for all sizes; that is tried once."""
        if key not in self.shared:
            general = replace(use.kernel(), name=kernel.name)
            alike = is_instance(kernel, general, use)
            self.shared[key] = general, alike and self._proof(use, general, self.small[key]).holds
        general, holds = self.shared[key]
        return holds and is_instance(kernel, general, use)

    def _proof(self, use: SymbolicUse, kernel: PrimFunc, small: SmallProof | None = None) -> GeneralProof:
        """What is shown of a kernel as it is read; its text is kept."""
        with keeping(self.texts, f"legalize-{kernel.name}") as subject:
            note_proof(f"the kernel {kernel.name} is {use.op.name}", *notation_text(use), *needs_text(use))
            found = use_proof(use, kernel, POINTS, small)
            subject.holds = found.holds
        return found

    def part(self) -> KernelProofs:
        """Proofs of some of the kernels, which know nothing of others: what is kept hangs on no order."""
        return KernelProofs(self.thorough, None if self.texts is None else {})

    def without_kernels(self) -> KernelProofs:
        """What was shown, without the kernels and notations that it rests on."""
        return replace(self, small={}, shared={}, tried={n: [{}] * len(at) for n, at in self.tried.items()})

    def join(self, other: KernelProofs) -> None:
        """Take over what another has shown of other kernels."""
        for own, more in (
            (self.found, other.found), (self.why, other.why), (self.open_bits, other.open_bits), (self.by, other.by),
            (self.tried, other.tried), (self.general, other.general), (self.texts, other.texts),
        ):  # fmt: skip
            if own is not None and more is not None:
                own.update(more)  # type: ignore[arg-type]

    def count(self, least: Notion) -> int:
        """How many kernels were shown in that notion or a stronger one."""
        return sum(n >= least for n in self.found.values())

    @property
    def holds(self) -> bool:
        """Whether all kernels are shown to be their operators at all sizes that the program has, numbers or any, in an
        order that rule M9 allows, and with elementary functions whose last bits may be others."""
        wide = all(self._as_allowed(name, self.general.get(name, UNKNOWN)) for name in self.tried)
        return wide and all(self._as_allowed(name, notion) for name, notion in self.found.items())

    def _as_allowed(self, name: str, notion: Notion) -> bool:
        """Whether what was shown leaves nothing but what the rules leave open."""
        return notion >= REASSOCIATED or (notion is REAL and self.open_bits[name])

    def __str__(self) -> str:
        shown, exact, order = self.count(REAL), self.count(BIT_EXACT), self.count(REASSOCIATED)
        less = [f"{order - exact} of them up to the order of additions"] if order > exact else []
        bits = sum(self.open_bits[n] for n, notion in self.found.items() if notion is REAL)
        less += [f"{bits} but for the last bits of elementary functions"] if bits else []
        less += [f"{shown - order - bits} as functions of real numbers"] if shown > order + bits else []
        sizes = max(map(len, self.tried.values()), default=0)
        at = f" at up to {sizes} sizes" if sizes > 1 else ""
        said = f"{shown} of {len(self.found)} proved equal for every input{at}"
        said += "".join(f", {part}" for part in less)
        wide = sum(n >= REAL for n in self.general.values())
        return said + (f"; {wide} of {len(self.tried)} for all sizes" if self.tried else "")

    def told(self, name: str) -> str:
        """In what sense a kernel is shown to be its operator, and how."""
        wide = self.general.get(name, UNKNOWN)
        how = [f"{TOLD[self.found[name]]}, {self.by.get(name, OVER_TERMS)}"]
        return "; ".join([*how, *([f"for all sizes {TOLD[wide]}, {READ}"] if wide > UNKNOWN else [])])

    @property
    def data(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "how": {n: self.told(n) for n, notion in self.found.items() if notion > UNKNOWN},
            "proved": {
                "bit-exact": self.count(BIT_EXACT),
                "reassociated": self.count(REASSOCIATED) - self.count(BIT_EXACT),
                "real": self.count(REAL) - self.count(REASSOCIATED),
                "kernels": len(self.found),
            },
            **({"for_all_sizes": sorted(n for n, how in self.general.items() if how >= REAL)} if self.tried else {}),
            "not_proved": {n: self.why.get(n, "") for n, notion in self.found.items() if notion is UNKNOWN},
        }
