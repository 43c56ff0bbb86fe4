"""What is proved for all sizes of an operator that is used as in an example (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from dataclasses import dataclass

from assay.semantics.indexed import meaning_of
from assay.semantics.indexed.fold import notation
from assay.semantics.indexed.meaning import Use
from assay.semantics.operator import Example, Operator
from assay.semantics.scalar import Expr, Var, show
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import flatten
from assay.verify.all_sizes import AllSizesProof, prove_for_all_sizes
from assay.verify.all_sizes.nests import use_of
from assay.verify.all_sizes.small import MOST_POINTS, SmallProof, prove_small
from assay.verify.all_sizes.symbols import SymbolicUse, symbolic_use
from assay.verify.equivalence import BIT_EXACT, UNKNOWN, Notion
from assay.verify.operator_terms import KernelProof


@dataclass(frozen=True)
class GeneralProof:
    """An example with symbols for sizes: the notation against the definition at small sizes, the kernel against the
    notation at all."""

    use: SymbolicUse
    small: SmallProof
    kernel: AllSizesProof

    @property
    def notion(self) -> Notion:
        """In what sense the kernel is shown to be the operator for all sizes."""
        return self.small.proof.notion if self.kernel.holds and self.small.proof.holds else UNKNOWN

    @property
    def reason(self) -> str:
        """Why no more is shown."""
        return self.kernel.reason if not self.kernel.holds else self.small.proof.reason

    @property
    def holds(self) -> bool:
        """Whether anything is shown for all sizes."""
        return self.notion > UNKNOWN


def general_proof(op: Operator, example: Example, most: int = MOST_POINTS) -> GeneralProof:
    """What is proved for all sizes of an operator that is used as in an example."""
    use = symbolic_use(op, example)
    return use_proof(use, use.kernel(), most)


def use_proof(
    use: SymbolicUse, kernel: PrimFunc, most: int = MOST_POINTS, small: SmallProof | None = None
) -> GeneralProof:
    """What is proved for all sizes of a kernel of an operator at these types; `small`, where that is known, of the
    notation at small sizes."""
    op = use.op
    if meaning_of(op.name) is None:
        why = f"{op.name} is not stated in index notation"
        return GeneralProof(use, SmallProof(KernelProof(UNKNOWN, why)), AllSizesProof(False, why))
    small = small or prove_small(use, most)
    if not small.proof.holds:  # nothing would rest on the kernel
        why = f"that the index notation is the definition is not shown: {small.proof.reason}"
        return GeneralProof(use, small, AllSizesProof(False, why))
    return GeneralProof(use, small, prove_for_all_sizes(kernel, op, use.attrs))


def general_proofs(op: Operator, most: int = MOST_POINTS) -> list[GeneralProof]:
    """The same of each example; none of a view, which has no kernel."""
    return [] if op.view else [general_proof(op, e, most) for e in op.examples]


def least_general(proofs: list[GeneralProof]) -> Notion:
    """What is proved in all of them."""
    return min((p.notion for p in proofs), default=BIT_EXACT)


def notation_text(use: SymbolicUse) -> list[str]:
    """What an operator gives at each index, as it is read: `out[i, j] = sum(k < n: ...)`."""
    meaning = meaning_of(use.op.name)
    if meaning is None:
        return []
    own = use_of(use.op, use.attrs, use.operands, use.result)
    lines = []
    for number, t in enumerate(flatten(use.result)):
        place = [Var(n) for n in index_names(len(t.shape), use)]
        here = Use(own.attrs, own.operands, own.results, number)
        value = notation(meaning.element(here, *place))
        at = ", ".join(v.name for v in place)
        lines.append(f"{here.out.name}[{at}] = {value}")
    return lines


def index_names(rank: int, use: SymbolicUse) -> list[str]:
    """Names for an index that are no names of sizes."""
    taken = {v.name for v in use.own}
    letters = [c for c in "ijabcdefgh" if c not in taken]
    return letters[:rank] if rank <= len(letters) else [f"i{k}" for k in range(rank)]


def sizes_left(use: SymbolicUse) -> list[int]:
    """The sizes above 1 that stayed numbers."""
    return sorted({d for t in use.operands for d in t.shape if isinstance(d, int) and d > 1})


def shape_text(use: SymbolicUse) -> str:
    """The operands with their names."""
    names = use_of(use.op, use.attrs, use.operands, use.result).operands
    return ", ".join(f"{b.name}[{', '.join(map(show, b.shape))}]" for b in names)


def needs_text(use: SymbolicUse) -> list[str]:
    """What is asked of sizes, as it is read."""
    meaning = meaning_of(use.op.name)
    if meaning is None:
        return []
    asked: list[Expr] = list(meaning.needs(use_of(use.op, use.attrs, use.operands, use.result)))
    return list(dict.fromkeys(map(notation, asked)))
