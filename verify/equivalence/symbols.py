"""What values of a trace are, over terms, and what may trap on which data (specs/verify.md, "equivalence")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import BOOL, DType
from assay.verify.equivalence.events import TraceRead
from assay.verify.equivalence.terms import UNWRITTEN, Terms

Array: TypeAlias = np.ndarray[Any, Any]
Words: TypeAlias = Any


class Symbols:
    """The domain of terms. A value is a number of `terms`; methods take those of many lanes at once, or one for all. It
    notes what may trap: its kind, its operands, and the condition under which it is reached."""

    def __init__(self, terms: Terms, first: Sequence[int], scalars: Sequence[int]) -> None:
        self.terms = terms
        self.first, self.scalars = first, scalars
        self.names = [f"input {k}" for k in range(len(first))]
        self.traps: list[Array] = []
        self.unwritten = UNWRITTEN
        self.always = terms.true

    def element(self, input: int, places: Any) -> Words:
        """The terms of elements of an input, which are numbered one after another."""
        return self.first[input] + np.asarray(places)

    def scalar(self, number: int) -> Words:
        """The term of a scalar parameter."""
        return self.scalars[number]

    def constant(self, value: Any, of: DType) -> Words:
        """The term of a literal."""
        return self.terms.constant(value, of)

    def apply(self, op: str, of: DType, to: DType, args: Sequence[Words], guards: Words) -> Words:
        """The term of an operation; noted if it may trap."""
        words = self.terms.apply(op, of, to, *args)
        may = self.terms.can_trap(op, args, of)
        if may.any():
            self.note(op, words, guards, may)
        return words

    def cast(self, of: DType, to: DType, arg: Words, guards: Words) -> Words:
        """The term of a conversion; from float to integer it is noted, unless its operand is a literal."""
        words = self.terms.cast(of, to, arg)
        if of.is_float and to.is_integer:
            self.note("cast", words, guards, ~self.terms.literal[words])
        return words

    def gather(self, read: TraceRead, of: DType, indices: Sequence[Words], guards: Words) -> Words:
        """The term of a read at indices that are terms, which may be out of bounds."""
        name = self.names[read.number] if read.number >= 0 else f"constant {self.content(read)}"
        words = self.terms.gather(name, of, indices)
        self.note("bounds", words, guards, np.ones(np.shape(words), bool))
        return words

    def content(self, read: TraceRead) -> int:
        """A number for the contents of a constant: equal ones are one buffer."""
        assert read.data is not None
        return self.terms.code(f"contents {read.data.shape} {read.data.dtype} {read.data.tobytes()!r}")

    def memory(self, words: Words, guards: Words) -> Words:
        """The terms that were loaded; noted where memory may not be written yet."""
        may = self.terms.partial[words] | (np.asarray(words) == UNWRITTEN)
        if may.any():
            self.note("unwritten", words, guards, may)
        return words

    def guard(self, before: Words, condition: Words, holds: bool) -> Words:
        """The conjunction of a guard and a condition or its negation."""
        condition = condition if holds else self.terms.negation(condition)
        return condition if before is self.always else self.terms.apply("and", BOOL, BOOL, before, condition)

    def stored(self, guards: Words, value: Words, old: Words, of: DType) -> Words:
        """A choice between the new value and the old one, marked where the old one was not wholly written."""
        words = np.asarray(self.terms.select(of, guards, value, old))
        partial = (old == UNWRITTEN) | self.terms.partial[old]
        self.terms.partial[words[partial & (words != value)]] = True
        return words

    def asserted(self, condition: Words, guards: Words) -> None:
        """Note the condition of an assertion, unless it is true for all data."""
        self.note("assert", condition, guards, np.asarray(condition) != self.terms.true)

    def note(self, kind: str, words: Words, guards: Words, where: Array) -> None:
        """Note a trap of this kind where `where` holds, as a term of operands and guards, each once."""
        words, guards, where = np.broadcast_arrays(words, guards, where)
        some = self.terms.intern(self.terms.code(f"trap {kind}"), words[where], guards[where])
        self.traps.append(np.unique(some))
