"""Terms in which the order of what associates and commutes is forgotten (specs/verify.md, "equivalence").

A sum becomes the sorted multiset of its addends, and so do products and whatever else associates. For integers, for
`min`, `max` and for logic that holds bit for bit. For floats it forgets the order of additions and multiplications
and drops zeros and ones: that is what "reassociated" means. Exact: nothing here is a hash that might collide.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.scalar import neutral
from assay.semantics.scalar.arithmetic import OPERATIONS, Property
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.terms import Terms

Array: TypeAlias = np.ndarray[Any, Any]
MOST_PARTS = 1 << 24
SUMS = ("add", "sub", "neg")


def normal(terms: Terms, numbers: Array, floats: bool) -> Array:
    """The normal form of each term, again as numbers of `terms`; with `floats`, float sums and products too.

    Raises `UndecidedTrace` where sums taken apart have more than `MOST_PARTS` addends together.
    """
    return _Normal(terms, floats).run(numbers)


class _Normal:
    def __init__(self, terms: Terms, floats: bool) -> None:
        self.terms, self.floats = terms, floats
        self.top = terms.count
        self.cuts = [c for c in terms.batches if c <= self.top]
        self.codes, self.left, self.right = terms.parts(np.arange(self.top))
        self.group = np.array([self.group_of(*name) for name in terms.names], np.int64)[self.codes]
        """For each term the code of what it is a sum of, 0 for other terms."""
        self.new = np.arange(self.top)
        self.parts = 0

    def group_of(self, name: str, of: DType | None) -> int:
        """The code of the multiset that an operation builds, if it associates."""
        if of is None or (of.is_float and not self.floats and name not in ("min", "max")):
            return 0
        if name in SUMS and of.kind != "bool":
            return self.terms.code("sum", of)
        if _has(name, "associates"):
            return self.terms.code(f"many {name}", of)
        return 0

    def run(self, numbers: Array) -> Array:
        needed, roots, depth = self.survey(numbers)
        del needed
        chosen = np.flatnonzero(roots & (self.codes > 0))
        ranks = depth[chosen]
        order = np.argsort(ranks, kind="stable")
        chosen, ranks = chosen[order], ranks[order]
        for part in np.split(chosen, np.flatnonzero(np.diff(ranks)) + 1):
            if len(part):
                self.level(part)
        return self.new[numbers]

    def survey(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Which terms are parts of the given ones; which of them stand other than as an addend in a sum; how deep each
        is."""
        needed, roots = np.zeros(self.top, bool), np.zeros(self.top, bool)
        needed[numbers] = roots[numbers] = True
        bounds = list(zip(self.cuts, [*self.cuts[1:], self.top], strict=True))
        for start, stop in reversed(bounds):
            here = start + np.flatnonzero(needed[start:stop] & (self.codes[start:stop] > 0))
            for operand in (self.left[here], self.right[here]):
                needed[operand] = True
                apart = (self.group[operand] != self.group[here]) | (self.group[here] == 0)
                roots[operand[apart]] = True
        depth = np.zeros(self.top, np.int64)
        for start, stop in bounds:
            here = start + np.flatnonzero(needed[start:stop] & (self.codes[start:stop] > 0))
            if len(here):
                for operand in (self.left[here], self.right[here]):
                    apart = (self.group[operand] != self.group[here]) | (self.group[here] == 0)
                    depth[here] = np.maximum(depth[here], depth[operand] + apart)
        return needed, roots, depth

    def level(self, here: Array) -> None:
        """The new terms of roots whose parts have theirs."""
        plain = here[self.group[here] == 0]
        for code in np.unique(self.codes[plain]):
            some = plain[self.codes[plain] == code]
            a, b = self.new[self.left[some]], self.new[self.right[some]]
            if _has(self.terms.names[code][0], "commutes"):
                a, b = np.minimum(a, b), np.maximum(a, b)
            self.new[some] = self.terms.intern(int(code), a, b)
        sums = here[self.group[here] != 0]
        for group in np.unique(self.group[sums]):
            some = sums[self.group[sums] == group]
            self.new[some] = self.multiset(int(group), some)

    def multiset(self, group: int, roots: Array) -> Array:
        name, of = self.terms.names[group]
        assert of is not None
        op = "add" if name == "sum" else name.removeprefix("many ")
        which, leaves = self.addends(group, roots)
        keep = ~self.is_neutral(leaves, op, of)
        which, leaves = which[keep], leaves[keep]
        order = np.lexsort((leaves, which))
        which, leaves = which[order], leaves[order]
        if _has(op, "idempotent") and len(which):
            first = np.append(True, (np.diff(which) != 0) | (np.diff(leaves) != 0))
            which, leaves = which[first], leaves[first]
        count = np.bincount(which, minlength=len(roots))
        start = np.cumsum(count) - count
        result = np.zeros(len(roots), np.int64)
        empty = count == 0
        if empty.any():
            result[empty] = self.terms.constant(neutral(op, of).value, of)
        some = np.flatnonzero(~empty)
        result[some] = leaves[start[some]]
        for k in range(1, int(count.max(initial=0))):
            some = some[count[some] > k]
            result[some] = self.terms.intern(group, result[some], leaves[start[some] + k])
        return result

    def addends(self, group: int, roots: Array) -> tuple[Array, Array]:
        """For each root its addends' new terms, negated where they are subtracted: the root's place, and the term."""
        names = self.terms.names
        of = names[group][1]
        assert of is not None
        minus = np.array([n in ("sub", "neg") for n, _ in names])
        unary = np.array([n == "neg" for n, _ in names])
        which, node, negative = np.arange(len(roots)), roots, np.zeros(len(roots), bool)
        found: list[tuple[Array, Array]] = []
        top = True
        while len(node):
            inner = np.ones(len(node), bool) if top else self.group[node] == group
            top = False
            leaf = ~inner
            if leaf.any():
                self.parts += int(leaf.sum())
                if self.parts > MOST_PARTS:
                    raise UndecidedTrace(f"sums with more than {MOST_PARTS} addends together")
                value = self.new[node[leaf]]
                less = negative[leaf]
                if less.any():
                    less = less & ~self.is_neutral(value, "add", of)  # a zero is a zero, added or subtracted
                if less.any():
                    value[less] = self.terms.intern(self.terms.code("minus", of), value[less])
                found.append((which[leaf], value))
            which, node, negative = which[inner], node[inner], negative[inner]
            code = self.codes[node]
            second = ~unary[code]
            node, which, negative = (
                np.concatenate([self.left[node], self.right[node][second]]),
                np.concatenate([which, which[second]]),
                np.concatenate([negative ^ unary[code], (negative ^ minus[code])[second]]),
            )
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([w for w, _ in found]), np.concatenate([v for _, v in found])

    def is_neutral(self, leaves: Array, op: str, of: DType) -> Array:
        """Whether a literal changes nothing (but for the sign of a zero, where floats are added)."""
        result = np.zeros(len(leaves), bool)
        literal = self.terms.literal[leaves]
        for number in np.unique(leaves[literal]):
            if self.terms.values[int(number)][1] == neutral(op, of).value:
                result[leaves == number] = True
        return result


def _has(name: str, wanted: Property) -> bool:
    """Whether a term is of an operation that has this property."""
    return name in OPERATIONS and OPERATIONS[name].has(wanted)
