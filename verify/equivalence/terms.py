"""Terms over the inputs, each stored once: equal numbers are equal terms (specs/verify.md, "equivalence").

A term is an operation and the numbers of its operands. Terms are interned many at a time, in a hash table of NumPy
arrays. What is simplified here holds bit for bit: operations on literals are done by the scalar table, addition and
multiplication commute, a `select` whose condition is known or whose sides are equal is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import BOOL, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.scalar import OPERATIONS, convert, operation
from assay.verify.equivalence.order import UndecidedTrace

Array: TypeAlias = np.ndarray[Any, Any]
Words: TypeAlias = Any
"""One number for each lane, or one for all."""

OPERAND_BITS = 26
MASK = (1 << OPERAND_BITS) - 1
MOST_TERMS = 1 << OPERAND_BITS
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
UNWRITTEN = 0
MIRRORED = {"gt": "lt", "ge": "le"}
"""Comparisons that are another one of swapped operands."""


class Terms:
    """The table. Number 0 is what was never written; inputs have consecutive numbers, element by element."""

    def __init__(self) -> None:
        self.keys = np.zeros(1 << 12, np.uint64)
        """By number: the operation and operands; 0 for inputs and literals."""
        self.literal = np.zeros(1 << 12, bool)
        self.partial = np.zeros(1 << 12, bool)
        """Terms that may be unwritten: what is stored under a condition on data into memory that was not."""
        self.count = 1
        self.slots = np.zeros(1 << 14, np.uint64)
        self.numbers = np.zeros(1 << 14, np.int32)
        self.names: list[tuple[str, DType | None]] = [("", None)]
        self.codes: dict[tuple[str, DType | None], int] = {}
        self.inputs: list[tuple[str, tuple[int, ...], int]] = []
        """Name, shape and first number."""
        self.literals: dict[tuple[DType, bytes], int] = {}
        self.values: dict[int, tuple[DType, Any]] = {}
        self.batches: list[int] = [1]
        """Where batches begin: the operands of a term are of earlier batches."""
        self.true = int(self.constant(np.bool_(True), BOOL))
        self.false = int(self.constant(np.bool_(False), BOOL))

    # --- the table -----------------------------------------------------------------------------------------------

    def reserve(self, more: int) -> None:
        """Make room for so many more terms; UndecidedTrace if there would be more than `MOST_TERMS`."""
        if self.count + more > MOST_TERMS:
            raise UndecidedTrace(f"more than {MOST_TERMS} terms")
        size = len(self.keys)
        if self.count + more > size:
            while self.count + more > size:
                size *= 2
            for name in ("keys", "literal", "partial"):
                old = getattr(self, name)
                new = np.zeros(size, old.dtype)
                new[: self.count] = old[: self.count]
                setattr(self, name, new)
        if 2 * (self.count + more) > len(self.slots):
            room = len(self.slots)
            while 2 * (self.count + more) > room:
                room *= 4
            self.slots, self.numbers = np.zeros(room, np.uint64), np.zeros(room, np.int32)
            known = np.flatnonzero(self.keys[: self.count])
            self._place(self.keys[known], known)

    def _place(self, keys: Array, given: Array | None = None) -> Array:
        """The number of each key; a new key gets a new number, or the given one."""
        slots, numbers = self.slots, self.numbers
        mask = len(slots) - 1
        shift = np.uint64(64 - (len(slots) - 1).bit_length())
        result = np.empty(len(keys), np.int64)
        at = ((keys * MULTIPLIER) >> shift).astype(np.int64)
        left: Array | None = None
        while True:
            found = slots[at]
            hit = found == keys
            empty = np.flatnonzero(found == 0)
            if len(empty):
                place, wanted = at[empty], keys[empty]
                order = np.arange(len(empty))
                slots[place] = wanted  # of several lanes with one slot the last one wins, here and in the next line
                numbers[place] = order
                first = numbers[place] == order
                if given is None:
                    new = self.count + np.arange(np.count_nonzero(first))
                    self.keys[new] = wanted[first]
                    self.count += len(new)
                else:
                    new = (given if left is None else given[left])[empty[first]]
                numbers[place[first]] = new
                hit[empty] = slots[place] == wanted
            if left is None:
                if hit.all():
                    result[:] = numbers[at]
                    return result
                left = np.arange(len(keys))
            result[left[hit]] = numbers[at[hit]]
            miss = ~hit
            left, keys, at = left[miss], keys[miss], (at[miss] + 1) & mask
            if not len(left):
                return result

    def intern(self, code: int, a: Words, b: Words = 0) -> Words:
        """The terms of one operation on operands."""
        a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
        shape = np.broadcast_shapes(a.shape, b.shape)
        key = ((np.int64(code) << 2 * OPERAND_BITS) | (a << OPERAND_BITS) | b).astype(np.uint64)
        flat = np.broadcast_to(key, shape).reshape(-1)
        self.reserve(len(flat))
        before = self.count
        result = self._place(flat).reshape(shape)
        if self.count != before:
            self.batches.append(self.count)
        return result

    def code(self, name: str, of: DType | None = None) -> int:
        """The number of an operation by its name and dtype; UndecidedTrace if there are too many."""
        found = self.codes.get((name, of))
        if found is None:
            found = self.codes[name, of] = len(self.names)
            self.names.append((name, of))
            if found >= 1 << (63 - 2 * OPERAND_BITS):
                raise UndecidedTrace("too many operations")
        return found

    def parts(self, numbers: Words) -> tuple[Array, Array, Array]:
        """Codes and both operands; code 0 for inputs and literals."""
        keys = self.keys[numbers].astype(np.int64)
        return keys >> 2 * OPERAND_BITS, (keys >> OPERAND_BITS) & MASK, keys & MASK

    # --- leaves --------------------------------------------------------------------------------------------------

    def input(self, name: str, shape: tuple[int, ...]) -> int:
        """The number of the first element of an input; the others follow."""
        size = int(np.prod(shape, dtype=np.int64))
        self.reserve(size)
        first = self.count
        self.inputs.append((name, shape, first))
        self.count += size
        self.batches.append(self.count)
        return first

    def constant(self, value: Any, of: DType) -> Words:
        """Literals: by their bits, which are told of NaNs too (rule M5.11)."""
        value = np.asarray(value)
        if value.ndim == 0:
            return np.int64(self._literal(value[()], of))
        bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        _, first, place = np.unique(bits, return_index=True, return_inverse=True)
        flat = value.reshape(-1)
        return np.array([self._literal(flat[k], of) for k in first], np.int64)[place].reshape(value.shape)

    def _literal(self, value: Any, of: DType) -> int:
        key = of, value.tobytes()
        if key not in self.literals:
            self.reserve(1)
            self.literals[key] = self.count
            self.values[self.count] = (of, value)
            self.literal[self.count] = True
            self.count += 1
            self.batches.append(self.count)
        return self.literals[key]

    def known(self, numbers: Array) -> Array:
        """The values of literals of one dtype."""
        unique, place = np.unique(numbers, return_inverse=True)
        return np.array([self.values[int(n)][1] for n in unique])[place]

    # --- operations ----------------------------------------------------------------------------------------------

    def apply(self, op: str, of: DType, to: DType, *args: Words) -> Words:
        """An operation of the scalar table on operands of dtype `of`."""
        if op == "select":
            return self.select(of, *args)
        rest = partial(self._operation, op, of)
        return self._folded(args, to, operation(op).meaning, rest) if op in OPERATIONS else rest(args)

    def _operation(self, op: str, of: DType, args: Sequence[Words]) -> Words:
        if len(args) == 1:
            return self.intern(self.code(op, of), args[0])
        a, b = args
        if op in MIRRORED:
            op, a, b = MIRRORED[op], b, a
        if operation(op).has("commutes"):
            a, b = np.minimum(a, b), np.maximum(a, b)
        return self.intern(self.code(op, of), a, b)

    def _folded(
        self, args: Sequence[Words], to: DType, value: Callable[..., Any], rest: Callable[[Sequence[Words]], Words]
    ) -> Words:
        """Where all operands are literals, what `value` gives for theirs, as literals of a dtype; else `rest`."""
        if not all(np.any(self.literal[a]) for a in args):
            return rest(args)
        lanes = np.broadcast_arrays(*args)
        known = np.logical_and.reduce([self.literal[a] for a in lanes])
        try:
            with np.errstate(all="ignore"):
                made = _plain_nans([self.known(a[known]) for a in lanes], value) if known.any() else None
        except Trap:  # stays a term: whether it is evaluated is another question
            made = None
        if made is None:
            return rest(args)
        result = np.empty(known.shape, np.int64)
        result[known] = self.constant(made.astype(to.numpy), to)
        if not known.all():
            result[~known] = rest([a[~known] for a in lanes])
        return result[()]

    def cast(self, of: DType, to: DType, arg: Words) -> Words:
        """Convert: literals at once, other terms as a new term."""
        code = self.code(f"cast {of}", to)
        return self._folded([arg], to, lambda x: convert(x, to), lambda args: self.intern(code, args[0]))

    def select(self, of: DType, condition: Words, then: Words, otherwise: Words) -> Words:
        """Choose by a condition: at once where it is a literal or both sides are one, else as a new term."""
        condition, then, otherwise = np.broadcast_arrays(condition, then, otherwise)
        result: Array = np.asarray(np.where(condition == self.false, otherwise, then))
        open_ = (condition != self.true) & (condition != self.false) & (then != otherwise)
        if np.any(open_):
            pair = self.intern(self.code("else"), then[open_], otherwise[open_])
            result[open_] = self.intern(self.code("select", of), condition[open_], pair)
        return result[()]

    def gather(self, name: str, of: DType, indices: Sequence[Words]) -> Words:
        """The element of a read-only buffer at indices that are data."""
        rest: Words = UNWRITTEN
        for i in reversed(indices):
            rest = self.intern(self.code("at"), i, rest)
        return self.intern(self.code(f"element of {name}", of), rest)

    def negation(self, condition: Words) -> Words:
        """The negation of a condition."""
        return self.apply("not", BOOL, BOOL, condition)

    def can_trap(self, op: str, args: Sequence[Words], of: DType) -> Array:
        """In which lanes an operation may trap, depending on data."""
        last, row = np.atleast_1d(args[-1]), operation(op)
        if not row.fails:
            return np.zeros(last.shape, bool)
        may = ~self.literal[last]
        if not may.all():
            may[~may] = row.fails_at(self.known(last[~may]), of.bits)
        return np.asarray(may)


def _plain_nans(operands: Sequence[Array], value: Callable[..., Any]) -> Array:
    """What `value` gives. Which NaN a float operation gives is not observed (rule M5.5): it is one NaN here."""
    made = np.asarray(value(*operands))
    if not (dtype(made.dtype).is_float and dtype(operands[-1].dtype).is_float):
        return made
    return np.asarray(np.where(np.isnan(made), np.asarray(np.nan).astype(made.dtype), made))
