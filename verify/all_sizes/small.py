"""That index notation is the operator's value in NumPy, at small sizes (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as combinations

from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph.matching import Bound, instantiate
from assay.semantics.indexed import meaning_of
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Expr, Var, evaluate, evaluate_dim, variables
from assay.semantics.types import TensorType, flatten, same_type
from assay.verify.all_sizes.nests import as_function, use_of
from assay.verify.all_sizes.symbols import SymbolicUse
from assay.verify.equivalence import BIT_EXACT, REAL, UNKNOWN, Notion
from assay.verify.operator_terms import KernelProof, prove_kernel
from assay.verify.trials.batch import stores

SMALL = (0, 1, 2, 3)
"""What each symbol is, in all combinations."""
FURTHER = (2, 3, 4, 5)
"""What it is besides, where windows are larger than that."""
MOST_POINTS = 64
"""Combinations that are tried at once; of more, evenly spread ones."""
MOST_STORES = 4_000
"""Stores of the notation at sizes beyond which it is not run over terms."""
MOST_AT_LEAST = 80_000
"""The same as long as it was run at fewer than so many sizes: a number of groups may make each of them large."""
LEAST = 4


@dataclass(frozen=True)
class SmallProof:
    """In what sense the notation was shown to be the value at small sizes, at how many, and how many there are."""

    proof: KernelProof
    shown: int = 0
    of: int = 0


def prove_small(use: SymbolicUse, most: int = MOST_POINTS) -> SmallProof:
    """Whether the notation is the operator's value at sizes 0 to 3 of each symbol, and where its windows are larger, at
    sizes as large as a window."""
    symbols = symbols_of(use)
    window = max((n for v in use.attrs.values() if isinstance(v, tuple) for n in v if isinstance(n, int)), default=0)
    tried: list[Mapping[Var, int]] = [use.own, *points(symbols, most)]
    tried += points(symbols, most // 4, FURTHER) if use.wide else ()
    tried += points(symbols, most, (1, 2, window, window + 1)) if use.wide and window > FURTHER[-1] else ()
    every = len(SMALL) ** len(symbols)
    notion: Notion = BIT_EXACT
    reason, shown, last_bits = "", 0, True
    for above, limit, sizes in [
        (a, b, at) for a, b in ((-1, MOST_STORES), (MOST_STORES, MOST_AT_LEAST)) for at in tried
    ]:
        if above > 0 and shown >= LEAST:
            break
        proof = _at(use, sizes, above, limit)
        if proof is None:
            continue
        if not proof.holds:
            at = ", ".join(f"{v.name} = {n}" for v, n in sizes.items())
            return SmallProof(KernelProof(UNKNOWN, f"{proof.reason} ({at})" if at else proof.reason), shown, every)
        shown += 1
        last_bits &= proof.last_bits or proof.notion > REAL
        if proof.notion < notion:
            notion, reason = proof.notion, proof.reason
    if not shown:
        return SmallProof(KernelProof(UNKNOWN, "there are no small sizes at which it has a value"), 0, every)
    return SmallProof(KernelProof(notion, reason, last_bits and notion is REAL), shown, every)


def symbols_of(use: SymbolicUse) -> list[Var]:
    """The symbols of a use."""
    dims = [d for t in use.operands for d in t.shape]
    for value in use.attrs.values():
        dims += [d for d in (value if isinstance(value, tuple) else (value,)) if isinstance(d, Expr)]
    return list(dict.fromkeys(v for d in dims for v in variables(d)))


def points(symbols: list[Var], most: int, sizes: tuple[int, ...] = SMALL) -> Iterator[Mapping[Var, int]]:
    """All combinations of four sizes, or `most` of them: of 64, in which each symbol has each size with each of
    another."""
    every = len(sizes) ** len(symbols)
    if every <= most:
        for values in combinations(sizes, repeat=len(symbols)):
            yield dict(zip(symbols, values, strict=True))
        return
    for k in range(most):  # rows of an orthogonal array over four values, then a spread of the rest
        digits = [k >> (2 * d) & 3 for d in range(3)]
        row = [sizes[_row(digits, column)] for column in range(len(symbols))]
        yield dict(zip(symbols, row, strict=True))


def _row(digits: list[int], column: int) -> int:
    """An entry of the orthogonal array of 64 rows: a linear form over the field of four elements."""
    a, b = column % 4, column // 4
    return digits[0] ^ _times(a, digits[1]) ^ _times(b % 4, digits[2]) if column < 16 else digits[column % 3]


def _times(a: int, b: int) -> int:
    """The product in the field of four elements."""
    if not a or not b:
        return 0
    return (a + b - 2) % 3 + 1


def _at(use: SymbolicUse, sizes: Mapping[Var, int], above: int, limit: int) -> KernelProof | None:
    """What is shown at some sizes; None where the operator has no value there, or its notation has not so many stores:
    more than `above`, and at most `limit`."""
    bound: Bound = {v: n for v, n in sizes.items()}
    operands = tuple(t for of in use.operands if isinstance(t := instantiate(of, bound), TensorType))
    attrs: Attrs = {k: _numbers(v, sizes) for k, v in use.attrs.items()}
    meaning = meaning_of(use.op.name)
    if meaning is None:
        return KernelProof(UNKNOWN, "not stated in index notation")
    needs = meaning.needs(use_of(use.op, use.attrs, use.operands, use.result))
    try:
        if any(evaluate_dim(d, sizes) < 0 for t in flatten(use.result) for d in t.shape):
            return None
        allowed = all(bool(evaluate(e, sizes)) for e in needs)
    except Trap:  # a size is divided by one that is 0: no run has these
        return None
    result = instantiate(use.result, bound)
    try:
        told = use.op.type_rule(attrs, operands)
    except Invalid:
        if not allowed:
            return None
        told = result  # numbers may be refused that a run takes: what that gives is the value
    if not allowed:
        return KernelProof(UNKNOWN, "the notation asks more of sizes")
    if not same_type(result, told):
        return KernelProof(UNKNOWN, f"the result is {told}, not {use.result}")
    own = use_of(use.op, attrs, operands, result)
    func = as_function("notation", meaning, own)
    found = prove_kernel(func, use.op, attrs) if above < stores(func) <= limit else None
    return None if found is None or found.large else found


def _numbers(value: object, sizes: Mapping[Var, int]) -> object:
    if isinstance(value, tuple):
        return tuple(_numbers(v, sizes) for v in value)
    return evaluate_dim(value, sizes) if isinstance(value, Expr) else value
