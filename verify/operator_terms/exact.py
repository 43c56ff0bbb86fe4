"""Terms with more of what holds bit for bit (specs/verify.md, "legalize").

Both an operator's value and its kernel are evaluated over one such table, so that a zero that is added, a bound that
nothing crosses or a double negation do not tell them apart. All NaNs are one (rule M5).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, isnan
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.bounding.movement import holds
from assay.semantics.dtypes import BOOL, DTYPES, DType
from assay.semantics.scalar import neutral
from assay.semantics.scalar.arithmetic import OPERATIONS
from assay.verify.equivalence.terms import Terms

Array: TypeAlias = np.ndarray[Any, Any]
Words: TypeAlias = Any

OPEN = {"larger": "max", "smaller": "min"}
"""NumPy's maximum and minimum: those of the scalar table, but which zero of two they give is open."""
ROUNDINGS = ("floor", "ceil", "rint")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
WIDENED = tuple(DTYPES[n] for n in ("float16", "bfloat16", "float32"))
"""Floats of which a step in a wider dtype may be one in their own; these have all whole numbers beside theirs."""
CLASSES = {"eq": True, "ne": False, "lt": False}
"""What a comparison gives of an integer and itself."""


def _held(of: DType, by: DType) -> bool:
    """Whether what is converted from one dtype to another, and back, is what it was."""
    if of is BOOL or by is BOOL:
        return of is BOOL
    if of.is_float != by.is_float:
        return False
    return holds(by, of) if of.is_float else by.bits >= of.bits


class ExactTerms(Terms):
    """The table, which knows of a term whether it may have the sign bit, and whether it may be -0."""

    def __init__(self) -> None:
        self.plus = np.zeros(1 << 12, bool)
        """Floats that are NaN or have no sign bit, whatever the data."""
        self.unsigned_zero = np.zeros(1 << 12, bool)
        """Floats that are never -0."""
        self.closed = np.zeros(1 << 12, np.int64)
        """Of an open maximum the same by the scalar table, all the way down: equal but for the sign of a zero. Of other
        terms 0."""
        self.units: dict[tuple[str, DType], int] = {}
        super().__init__()

    def reserve(self, more: int) -> None:
        """Make room, here too."""
        super().reserve(more)
        for name in ("plus", "unsigned_zero", "closed"):
            old = getattr(self, name)
            if len(old) < len(self.keys):
                setattr(self, name, np.concatenate([old, np.zeros(len(self.keys) - len(old), old.dtype)]))

    def _literal(self, value: Any, of: DType) -> int:
        number = super()._literal(value, of)
        if of.is_float:
            negative = not isnan(float(value)) and copysign(1.0, float(value)) < 0
            self.plus[number], self.unsigned_zero[number] = not negative, not (negative and float(value) == 0)
        return number

    # --- operations ----------------------------------------------------------------------------------------------

    def _operation(self, op: str, of: DType, args: Sequence[Words]) -> Words:
        if op in ("le", "ge") and not of.is_float:  # an order in which one of two holds
            a, b = args
            return self.negation(self.apply("lt", of, BOOL, *((b, a) if op == "le" else (a, b))))
        made = np.asarray(super()._operation(op, of, args))
        lanes = [np.broadcast_to(a, made.shape) for a in args]
        if of.is_float and (op in ROUNDINGS or op in COMPARISONS):
            made = self._narrowed(op, of, lanes, made)
        if len(lanes) == 2:
            made = self._simpler(op, of, lanes[0], lanes[1], made)
        elif len(lanes) == 1 and op in ("not", "neg"):
            codes, inner, _ = self.parts(lanes[0])
            made = np.where(codes == self.code(op, of), inner, made)
        if of.is_float:
            self._mark(op, lanes, made)
        return made[()]

    def unit(self, op: str, of: DType) -> int:
        """The literal that changes nothing as an operand."""
        if (op, of) not in self.units:
            self.units[op, of] = int(self.constant(neutral(op, of).value, of))
        return self.units[op, of]

    def _simpler(self, op: str, of: DType, a: Array, b: Array, made: Array) -> Array:
        for x, y in ((a, b), (b, a)):
            if op == "add" and of.is_float:
                made = np.where(y == self.constant(of.numpy.type(-0.0), of), x, made)
                zero = y == self.constant(of.numpy.type(0.0), of)
                made = np.where(zero & self.unsigned_zero[x], x, made)
                made = self._settled(of, zero, x, y, made)
            elif op in OPERATIONS and OPERATIONS[op].unit is not None:
                made = np.where(y == self.unit(op, of), x, made)
            if of is BOOL and op in ("and", "or"):
                last = self.true if op == "or" else self.false
                codes, negated, _ = self.parts(y)
                made = np.where((y == last) | ((codes == self.code("not", BOOL)) & (negated == x)), last, made)
            if op == "or":
                made = self._less_or_equal(x, y, made)
        if op in ("sub", "div"):
            unit = of.numpy.type(0.0 if op == "sub" else 1.0)
            made = np.where(b == self.constant(unit, of), a, made)
        same = a == b
        if op in OPERATIONS and OPERATIONS[op].has("idempotent"):
            made = np.where(same, a, made)
        if op in CLASSES and not of.is_float:
            made = np.where(same, self.true if CLASSES[op] else self.false, made)
        return np.asarray(made)

    def _less_or_equal(self, x: Array, y: Array, made: Array) -> Array:
        """`a < b or a == b` as `a <= b`, which holds of NaN too."""
        codes, a, b = self.parts(x)
        others, c, d = self.parts(y)
        for code in np.unique(codes):
            name, of = self.names[code]
            if name != "lt" or of is None:
                continue
            pair = ((a == c) & (b == d)) | ((a == d) & (b == c))
            some = (codes == code) & (others == self.code("eq", of)) & pair
            if some.any():
                made = np.array(made)
                made[some] = self.apply("le", of, BOOL, a[some], b[some])
        return made

    def _narrowed(self, op: str, of: DType, lanes: Sequence[Array], made: Array) -> Array:
        """The whole number beside a float in a wider dtype as that beside the float; and its comparison with a number
        of its own dtype as one there."""
        whole = op in ROUNDINGS
        for narrow in self._narrower(of):
            inner = [self._in(narrow, of, x) for x in lanes]
            some = np.logical_and.reduce([x > 0 for x in inner])
            some &= ~np.logical_and.reduce([self.literal[x] for x in lanes])
            if some.any():
                made = np.array(made)
                found = self.apply(op, narrow, narrow if whole else BOOL, *(x[some] for x in inner))
                made[some] = self.cast(narrow, of, found) if whole else found
        return made

    def _narrower(self, of: DType) -> list[DType]:
        """The floats that are converted somewhere to a wider one."""
        return [d for d in WIDENED if d is not of and _held(d, of) and (f"cast {d}", of) in self.codes]

    def _in(self, narrow: DType, of: DType, x: Array) -> Array:
        """What was converted to terms from a narrower dtype, literals with the same values too; 0 where that is
        nothing."""
        codes, inner, _ = self.parts(x)
        found = np.where(codes == self.code(f"cast {narrow}", of), inner, 0)
        for number in np.unique(x[self.literal[x]]):
            value = self.values[int(number)][1]
            with np.errstate(all="ignore"):
                there = np.asarray(value).astype(narrow.numpy)[()]
            if there.astype(of.numpy).tobytes() == value.tobytes():
                found[x == number] = self.constant(there, narrow)
        return found

    def _settled(self, of: DType, zero: Array, x: Array, y: Array, made: Array) -> Array:
        """+0 added to a maximum of which the sign of a zero is open: it is +0 whichever it was."""
        codes, left, right = self.parts(x)
        for name, op in OPEN.items():
            some = zero & (codes == self.code(name, of))
            if some.any():
                made = np.array(made)
                made[some] = self.apply("add", of, of, self.apply(op, of, of, left[some], right[some]), y[some])
        return made

    def _mark(self, op: str, lanes: Sequence[Array], made: Array) -> None:
        plus, unsigned = [self.plus[x] for x in lanes], [self.unsigned_zero[x] for x in lanes]
        if op in ("abs", "exp"):
            sure: Any = True
        elif op == "max":
            sure = plus[0] | plus[1]
        elif op in ("add", "div", "min"):
            sure = plus[0] & plus[1]
        elif op == "mul":
            sure = (plus[0] & plus[1]) | (lanes[0] == lanes[1])
        else:
            sure = plus[0] if op == "sqrt" else False
        never: Any = sure
        if op == "add":
            never = sure | unsigned[0] | unsigned[1]
        elif op in ("max", "min"):
            never = sure | (unsigned[0] & unsigned[1])
        self.plus[made] |= sure
        self.unsigned_zero[made] |= never

    def open_extreme(self, name: str, of: DType, a: Words, b: Words) -> Words:
        """NumPy's maximum ("larger") or minimum ("smaller"): that of the scalar table where the operands are not zeros
        of both signs."""
        a, b = np.broadcast_arrays(a, b)
        sure = (a == b) | (self.unsigned_zero[a] & self.unsigned_zero[b]) | self._not_zero(a) | self._not_zero(b)
        if not of.is_float or sure.all():
            return self.apply(OPEN[name], of, of, a, b)
        made = np.asarray(self.intern(self.code(name, of), np.minimum(a, b), np.maximum(a, b)))
        left, right = (np.where(self.closed[x], self.closed[x], x) for x in (a, b))
        closed = self.apply(OPEN[name], of, of, left, right)
        self.closed[made] = closed
        if sure.any():
            made[sure] = self.apply(OPEN[name], of, of, a[sure], b[sure])
        return made[()]

    def _not_zero(self, x: Array) -> Array:
        """Literals that are no zero."""
        found = np.array(self.literal[x])
        for number in np.unique(x[found]):
            found &= (x != number) | (self.values[int(number)][1] != 0)
        return found

    def select(self, of: DType, condition: Words, then: Words, otherwise: Words) -> Words:
        """As in any table; a choice between true and false is the condition."""
        made = np.asarray(super().select(of, condition, then, otherwise))
        if of is BOOL:
            made = np.where((then == self.true) & (otherwise == self.false), condition, made)
        elif of.is_float:
            made = self._narrow_choice(of, condition, then, otherwise, made)
            for known in (self.plus, self.unsigned_zero):
                known[made] |= np.broadcast_to(known[then] & known[otherwise], made.shape)
        return made[()]

    def _narrow_choice(self, of: DType, condition: Words, then: Words, otherwise: Words, made: Array) -> Array:
        """A choice between two floats that were converted to a wider dtype as the choice converted."""
        for narrow in self._narrower(of):
            chosen, a, b = np.broadcast_arrays(condition, then, otherwise)
            code = self.code(f"cast {narrow}", of)
            (first, a, _), (second, b, _) = self.parts(a), self.parts(b)
            some = (first == code) & (second == code) & (a != b)
            if some.any():
                made = np.array(made)
                made[some] = self.cast(narrow, of, self.select(narrow, chosen[some], a[some], b[some]))
        return made

    def cast(self, of: DType, to: DType, arg: Words) -> Words:
        """As in any table; there and back is what it was."""
        if of is to:
            return arg
        made = np.asarray(super().cast(of, to, arg))
        back = self.code(f"cast {to}", of)
        if _held(to, of):  # there and back
            codes, inner, _ = self.parts(made)
            outer, held, _ = self.parts(np.where(codes == self.code(f"cast {of}", to), inner, 0))
            made = np.where(outer == back, held, made)
        if to.is_float:
            self.plus[made] |= self.plus[arg] if of.is_float else of.kind in ("uint", "bool")
            self.unsigned_zero[made] |= self.plus[arg] if of.is_float else True
        return made[()]
