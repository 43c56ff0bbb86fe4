"""Scalar operations on words: elements of a prime field, fingerprints, degrees (specs/verify.md, "equivalence")."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from assay.semantics.dtypes import FLOAT64, INT64, UINT64, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar import LINEAR, Const, Expr, apply, cast, const, operation, select
from assay.verify.equivalence.terms import MIRRORED

WORDS = 1 << 31
"""Data are numbers below it, and so are the elements of a field."""
LEAST_PRIME = 1 << 30
PRIMES = 50_697_537
"""Of those between the two."""


class Meaning(Protocol):
    """What operations on data become. `args` are words."""

    def number(self, value: Any, of: DType) -> Expr:
        """A literal float."""
        ...

    def known(self, value: Expr) -> Expr | None:
        """A value that does not depend on data, as a word; None if its parts are to be words."""
        ...

    def choose(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """One of two words, by a condition that does not depend on data."""
        ...

    def apply(self, op: str, of: DType, args: Sequence[Expr]) -> Expr:
        """A scalar operation on operands of dtype `of`."""
        ...

    def cast(self, of: DType, to: DType, arg: Expr) -> Expr:
        """A conversion from one dtype to another."""
        ...


class Fingerprint:
    """Every operation mixes its operands: equal words are, but for chance, equal terms."""

    def __init__(self) -> None:
        self.names: dict[Any, int] = {}

    def code(self, *name: Any) -> int:
        """A number for a name, the same each time."""
        return self.names.setdefault(name, len(self.names) + 1)

    def number(self, value: Any, of: DType) -> Expr:
        """The word of a literal."""
        return self.known(const(value, of))

    def known(self, value: Expr) -> Expr:
        """The word of a value that does not depend on data."""
        bits = apply("bits_of", cast(value, FLOAT64)) if value.dtype.is_float else value
        return self.mix(("literal", value.dtype), cast(cast(bits, INT64), UINT64))

    def choose(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """One of two words by a condition that is known."""
        return select(condition, then, otherwise)

    def apply(self, op: str, of: DType, args: Sequence[Expr]) -> Expr:
        """Mix the operands with the operation; commuting operands and mirrored comparisons come out equal."""
        if op in MIRRORED:
            op, args = MIRRORED[op], (args[1], args[0])
        if operation(op).has("commutes"):
            args = apply("min", *args), apply("max", *args)
        return self.mix((op, of), *args)

    def cast(self, of: DType, to: DType, arg: Expr) -> Expr:
        """Mix the operand with the two dtypes."""
        return self.mix(("cast", of, to), arg)

    def mix(self, name: tuple[Any, ...], *args: Expr) -> Expr:
        """A word of 64 bits from a name and words, by xor-shifts and odd multipliers drawn for the name."""
        rng = np.random.default_rng([self.code(*name), 7])
        word: Expr = const(int(rng.integers(1 << 63)), UINT64)
        for a in args:
            word = (apply("bitxor", word, apply("shr", word, 32)) + a) * (int(rng.integers(1 << 62)) * 2 + 1)
            word = apply("bitxor", word, apply("shr", word, 29))
        return word


class Field:
    """Numbers modulo a prime between 2^30 and 2^31: sums, products and quotients are those of the field, other
    operations mix their operands.

    Which prime is drawn: of one that is known there are literals of which it divides the difference, as 2147483647
    and 0 of 2^31 - 1.
    """

    def __init__(self, prime: int) -> None:
        self.prime = prime
        self.other = Fingerprint()
        self.most: dict[int, tuple[Expr, int]] = {}
        """By identity of a word, how large it can be: it is reduced only where it has to be."""

    def bound(self, word: Expr) -> int:
        """The largest value that a word can have."""
        return int(word.value) if isinstance(word, Const) else self.most.get(id(word), (word, WORDS - 1))[1]

    def note(self, word: Expr, most: int) -> Expr:
        """Note the largest value of a word; Crash if it does not fit in 64 bits."""
        if most >= 1 << 64:
            raise Crash("a word overflows")
        self.most[id(word)] = (word, most)
        return word

    def reduced(self, word: Expr) -> Expr:
        """The same element, below 2^31."""
        return word if self.bound(word) < WORDS else self.exact(word)

    def exact(self, word: Expr) -> Expr:
        """The same element, below the prime: for operations that mix bits."""
        return self.note(apply("floormod", word, self.prime), self.prime - 1)

    def number(self, value: Any, of: DType) -> Expr:
        """A finite literal as its exact fraction modulo the prime; an infinity or NaN as a number of its own."""
        if of.is_float and not np.isfinite(value):
            return self.mixed(("literal", str(float(value))))
        exact = Fraction(float(value))
        return const(exact.numerator * pow(exact.denominator, -1, self.prime) % self.prime, UINT64)

    def known(self, value: Expr) -> Expr | None:
        """An integer that does not depend on data, modulo the prime; None for floats."""
        if value.dtype.is_float:
            return None
        if value.dtype is UINT64:
            return self.note(apply("floormod", value, self.prime), self.prime - 1)
        return self.note(cast(apply("floormod", cast(value, INT64), self.prime), UINT64), self.prime - 1)

    def choose(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """One of two words by a condition that is known."""
        return self.note(select(condition, then, otherwise), max(self.bound(then), self.bound(otherwise)))

    def apply(self, op: str, of: DType, args: Sequence[Expr]) -> Expr:
        """Arithmetic of the field where there is such an operation, else a mix of the operands."""
        if of.kind == "bool":
            return self.uninterpreted(op, of, args)
        match op:
            case "add":
                a, b = self.small(args[0], 63), self.small(args[1], 63)
                return self.note(a + b, self.bound(a) + self.bound(b))
            case "sub":
                return self.apply("add", of, [args[0], self.apply("neg", of, [args[1]])])
            case "neg":
                a = self.reduced(args[0])
                return self.note(2 * self.prime - a, 2 * self.prime)
            case "mul":
                a, b = self.small(args[0], 32), self.small(args[1], 32)
                return self.note(a * b, self.bound(a) * self.bound(b))
            case "div":
                return self.apply("mul", of, [args[0], self.inverse(args[1])])
            case _:
                return self.uninterpreted(op, of, args)

    def small(self, word: Expr, bits: int) -> Expr:
        """The word, reduced unless it is below 2 to the power `bits`."""
        return word if self.bound(word) < 1 << bits else self.reduced(word)

    def inverse(self, word: Expr) -> Expr:
        """The word to the power of the prime less 2."""
        base = self.reduced(word)
        power = base
        for bit in bin(self.prime - 2)[3:]:
            power = self.times(power, power)
            if bit == "1":
                power = self.times(power, base)
        return power

    def times(self, a: Expr, b: Expr) -> Expr:
        """The product of two words, reduced."""
        return self.reduced(self.note(a * b, self.bound(a) * self.bound(b)))

    def uninterpreted(self, op: str, of: DType, args: Sequence[Expr]) -> Expr:
        """An operation that the field does not have, as a fingerprint of its exact operands."""
        word = self.other.apply(op, of, [self.exact(a) for a in args])
        return self.note(apply("bitand", word, WORDS - 1), WORDS - 1)

    def mixed(self, name: tuple[Any, ...]) -> Expr:
        """A number of the field for a name."""
        return self.note(apply("bitand", self.other.mix(name, const(0, UINT64)), WORDS - 1), WORDS - 1)

    def cast(self, of: DType, to: DType, arg: Expr) -> Expr:
        """The same number where the conversion loses nothing or goes to a float, else a fingerprint."""
        if to.is_float and of.kind != "bool":
            return arg  # over the reals nothing is rounded
        if of.is_integer and to.is_integer and to.min <= of.min and of.max <= to.max:
            return arg
        word = self.other.cast(of, to, self.exact(arg))
        return self.note(apply("bitand", word, WORDS - 1), WORDS - 1)


def drawn_prime(rng: np.random.Generator) -> int:
    """One of the 50,697,537 primes between 2^30 and 2^31, each as likely as the others."""
    while True:
        n = int(rng.integers(LEAST_PRIME, WORDS)) | 1
        if all(_passes(n, a) for a in (2, 3, 5, 7)):  # no other number below 3,215,031,751 does
            return n


def _passes(n: int, base: int) -> bool:
    """The test of Miller and Rabin, of an odd number."""
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    x = pow(base, (n - 1) >> twos, n)
    return x == 1 or any(pow(x, 1 << k, n) == n - 1 for k in range(twos))


class Degree:
    """An upper bound of the degree of the polynomial that a word of `Field` is, of a quotient those of both its
    parts; a literal counts as data do, so that the number bounds how large a factor is, too."""

    def __init__(self, quotients: bool) -> None:
        self.quotients = quotients

    def number(self, value: Any, of: DType) -> Expr:
        """1, but of what makes no factor larger."""
        return const(0 if value in (0, 1, -1) else 1, UINT64)

    def known(self, value: Expr) -> Expr:
        """1: some number."""
        return const(1, UINT64)

    def choose(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """The larger degree of the two."""
        return apply("max", then, otherwise)

    def apply(self, op: str, of: DType, args: Sequence[Expr]) -> Expr:
        """The degree of a result: the sum for products, and with quotients for sums too; else the larger; 1 if
        mixed."""
        if of.kind == "bool" or op not in (*LINEAR, "div"):
            return const(1, UINT64)
        if len(args) == 1:
            return args[0]
        return apply("max" if op in ("add", "sub") and not self.quotients else "add", *args)

    def cast(self, of: DType, to: DType, arg: Expr) -> Expr:
        """The degree of the operand, at least 1, for the cast may be mixed."""
        return apply("max", arg, 1)
