"""What operations become, each by an independent definition: terms in a dict, a field by Python's numbers, degrees by
hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, UINT64, DType
from assay.semantics.scalar import Expr, Var, apply, cast, choice, const, evaluate, select
from assay.semantics.tensor import (
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    loops,
    seq,
    store,
    when,
)
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, equivalent
from assay.verify.equivalence.meanings import Degree, Field, Fingerprint, drawn_prime
from assay.verify.equivalence.show import first_difference, show_term
from assay.verify.equivalence.terms import Terms
from assay.verify.equivalence.word_semantics import has_division
from tests.verify.equivalence.test_equivalence import binary, unary

F = FLOAT32


# --- terms ----------------------------------------------------------------------------------------------------------


def test_terms_are_equal_where_their_operation_and_operands_are() -> None:
    """So many that the tables grow several times; a dict is the reference."""
    terms, rng = Terms(), np.random.default_rng(0)
    first = terms.input("x", (300,))
    numbers: dict[Any, int] = {}
    for op in ("sub", "add", "sub", "truncdiv"):
        a, b = (first + rng.integers(0, 300, 20_000) for _ in range(2))
        made = terms.apply(op, INT32, INT32, a, b)
        for x, y, n in zip(a.tolist(), b.tolist(), made.tolist(), strict=True):
            key = (op, *(sorted((x, y)) if op == "add" else (x, y)))
            assert numbers.setdefault(key, n) == n
    assert len(set(numbers.values())) == len(numbers) == terms.count - 303
    assert len(terms.keys) >= terms.count and len(terms.slots) >= 2 * terms.count
    kept = terms.count
    for (op, x, y), n in list(numbers.items())[:50]:
        assert terms.apply(op, INT32, INT32, np.int64(x), np.int64(y)) == n
        _, left, right = terms.parts(n)
        assert {int(left), int(right)} == {x, y}
    assert terms.count == kept, "what is there is found again"


def test_operations_on_literals_are_done_in_the_lanes_that_have_them() -> None:
    terms = Terms()
    x = terms.input("x", (2,))
    mixed = np.array([x, terms.constant(np.int32(7), INT32), terms.constant(np.int32(-7), INT32)])
    two, zero = terms.constant(np.int32(2), INT32), terms.constant(np.int32(0), INT32)
    found = terms.apply("floordiv", INT32, INT32, mixed, two)
    assert found[0] == terms.apply("floordiv", INT32, INT32, np.int64(x), two)
    assert [terms.values[int(n)][1] for n in found[1:]] == [3, -4]
    traps = terms.apply("floordiv", INT32, INT32, mixed, zero)
    assert not terms.literal[traps].any(), "whether it is evaluated is another question"
    assert terms.can_trap("floordiv", [mixed, two], INT32).tolist() == [False]
    assert terms.can_trap("floordiv", [mixed, zero], INT32).tolist() == [True]
    assert terms.can_trap("floordiv", [two, mixed], INT32).tolist() == [True, False, False]
    by = terms.constant(np.array([0, 31, 32, -1], np.int32), INT32)
    assert terms.can_trap("shl", [two, np.append(by, x)], INT32).tolist() == [False, False, True, True, True]
    assert not terms.can_trap("add", [two, mixed], INT32).any()
    wide = terms.cast(INT32, INT64, mixed)
    assert wide[0] == terms.cast(INT32, INT64, np.int64(x)) and [terms.values[int(n)] for n in wide[1:]] == [
        (INT64, 7),
        (INT64, -7),
    ]


def test_choices_that_are_decided() -> None:
    terms = Terms()
    x, c = terms.input("x", (2,)), terms.input("c", ())
    chosen = terms.select(F, np.array([terms.true, terms.false, c, c]), x, np.array([x + 1, x + 1, x, x + 1]))
    assert chosen[:3].tolist() == [x, x + 1, x] and show_term(terms, chosen[3]) == "select(c, x[0], x[1])"
    nan = terms.constant(np.array([np.nan, -np.nan, 0.0, -0.0, np.inf], np.float32), F)
    assert nan[0] != nan[1] and nan[2] != nan[3], "a literal is its bits"
    assert terms.apply("sub", F, F, nan[4], nan[4]) == terms.apply("neg", F, F, nan[0]) == nan[0], "a result is a NaN"
    assert terms.apply("lt", F, BOOL, np.int64(x), np.int64(x + 1)) == terms.apply(
        "gt", F, BOOL, np.int64(x + 1), np.int64(x)
    )
    assert terms.apply("le", F, BOOL, np.int64(x), np.int64(x + 1)) != terms.apply(
        "ge", F, BOOL, np.int64(x), np.int64(x + 1)
    )


def test_the_part_that_makes_the_difference() -> None:
    terms = Terms()
    x, y = (np.int64(terms.input(n, (3,))) for n in "xy")
    sums = [terms.apply("sub", F, F, terms.apply("exp", F, F, v), y) for v in (x, x + 1)]
    assert first_difference(terms, *map(int, sums)) == (x, x + 1)
    both = terms.apply("sub", F, F, x, y), terms.apply("sub", F, F, x + 1, y + 1)
    assert first_difference(terms, *map(int, both)) == both, "two parts differ"
    chain = x
    for k in range(9):
        chain = terms.apply("add", F, F, chain, y + k % 3)
    assert show_term(terms, int(chain)) == "(x[0] + y[0] + y[1] + ...4 more... + y[0] + y[1] + y[2])"
    deep = x
    for _ in range(6):
        deep = terms.apply("exp", F, F, deep)
    assert show_term(terms, int(deep)) == "exp(exp(exp(exp(...))))"
    at = terms.gather("table", F, [x, y])
    assert show_term(terms, int(at)) == "table[x[0], y[0]]" and show_term(terms, 0) == "unwritten"


PRIME = (1 << 31) - 1


# --- words ----------------------------------------------------------------------------------------------------------


def mod(x: Any) -> int:
    exact = Fraction(x)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


FIELD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "div": lambda a, b: a * pow(b, -1, PRIME),
}  # fmt: skip


@pytest.mark.parametrize("op", FIELD)
def test_the_field_is_that_of_python(op: str) -> None:
    field = Field(PRIME)
    for a, b in [(1, 1), (PRIME - 1, PRIME - 1), (2, 3), (0, 5), (123456789, 987654321), (1, PRIME - 1)]:
        word = field.apply(op, F, [const(a, UINT64), const(b, UINT64)])
        got = int(evaluate(word, {}))
        assert got <= field.bound(word) and got % PRIME == FIELD[op](a, b) % PRIME
        minus = field.apply("neg", F, [word])
        assert int(evaluate(minus, {})) % PRIME == -FIELD[op](a, b) % PRIME
        assert int(evaluate(field.exact(minus), {})) == -FIELD[op](a, b) % PRIME, "below the prime"


def test_primes_are_drawn() -> None:
    found = [drawn_prime(np.random.default_rng(k)) for k in range(8)]
    assert len({*found}) == 8 and all(1 << 30 < p < 1 << 31 and all(p % d for d in range(2, 46341)) for p in found)


def test_words_are_reduced_before_they_overflow() -> None:
    """A long chain of sums and products, each within the bound that is noted."""
    field, word, want = Field(PRIME), const(PRIME - 1, UINT64), PRIME - 1
    parts: list[Expr] = [word]
    for k in range(60):
        other = parts[k // 2]
        op = ("add", "mul", "add")[k % 3]
        word = field.apply(op, F, [word, other])
        want = FIELD[op](want, int(evaluate(other, {}))) % PRIME
        parts.append(word)
        assert int(evaluate(word, {})) <= field.bound(word) < 1 << 64
        assert int(evaluate(word, {})) % PRIME == want
    small = field.reduced(word)
    assert int(evaluate(small, {})) <= field.bound(small) <= PRIME + 1


def test_numbers_in_the_field() -> None:
    field = Field(PRIME)
    for x in (0.0, 1.0, -1.0, 0.5, 0.1, -2.75e10):
        assert evaluate(field.number(x, FLOAT64), {}) == mod(x)
    odd = [int(evaluate(field.number(x, F), {})) for x in (np.inf, -np.inf, np.nan)]
    assert len(set(odd)) == 3, "each is a thing of its own"
    for value in (
        const(5, INT64),
        const(-5, INT64),
        const(-(2**62), INT64),
        const(2**64 - 1, UINT64),
        const(3, DTYPES["uint8"]),
    ):
        word = field.known(value)
        assert word is not None and evaluate(word, {}) == int(value.value) % PRIME and field.bound(word) < PRIME
    assert field.known(const(0.5, F)) is None
    c, big = Var("c", BOOL), field.apply("add", F, [const(PRIME - 1, UINT64)] * 2)
    for pair in ((big, const(3, UINT64)), (const(3, UINT64), big)):
        word = field.choose(c, *pair)
        assert [evaluate(word, {c: holds}) for holds in (np.True_, np.False_)] == [evaluate(p, {}) for p in pair]
        assert field.bound(word) == field.bound(big)


def test_over_the_reals_nothing_is_rounded() -> None:
    field, x = Field(PRIME), const(12345, UINT64)
    assert field.cast(F, FLOAT64, x) is x and field.cast(INT32, F, x) is x and field.cast(INT32, INT64, x) is x
    for of, to in ((BOOL, F), (INT64, INT32), (INT32, DTYPES["uint32"]), (DTYPES["uint32"], INT32)):
        assert evaluate(field.cast(of, to, x), {}) != 12345, f"{of} to {to} may change the number"


def test_fingerprints_differ_where_terms_do() -> None:
    mix = Fingerprint()
    a, b = const(5, UINT64), const(9, UINT64)
    words = [
        mix.apply("sub", F, [a, b]), mix.apply("sub", F, [b, a]), mix.apply("sub", FLOAT64, [a, b]),
            mix.apply("add", F, [a, b]),
        mix.apply("mul", F, [a, b]), mix.apply("neg", F, [a]), mix.apply("lt", F, [a, b]), mix.apply("lt", F, [b, a]),
        mix.apply("le", F, [a, b]), mix.cast(F, INT32, a), mix.cast(F, INT64, a), mix.known(const(1.0, F)),
            mix.known(const(1.0, FLOAT64)),
        mix.known(const(1, INT32)), mix.known(const(0.0, F)), mix.known(const(-0.0, F)),
    ]  # fmt: skip
    assert len({int(evaluate(w, {})) for w in words}) == len(words)
    same = [
        (mix.apply("add", F, [a, b]), mix.apply("add", F, [b, a])),
        (mix.apply("gt", F, [a, b]), mix.apply("lt", F, [b, a])),
        (mix.apply("ge", F, [a, b]), mix.apply("le", F, [b, a])),
        (mix.choose(const(True, BOOL), a, b), a),
        (mix.number(2.0, F), mix.known(const(2.0, F))),
    ]
    assert all(evaluate(x, {}) == evaluate(y, {}) for x, y in same)


def test_degrees() -> None:
    def degree(quotients: bool, op: str, *args: int, of: DType = F) -> int:
        return int(evaluate(Degree(quotients).apply(op, of, [const(a, UINT64) for a in args]), {}))

    assert degree(False, "add", 3, 5) == degree(False, "sub", 5, 3) == 5 and degree(False, "mul", 3, 5) == 8
    assert (
        degree(True, "add", 3, 5)
        == degree(True, "sub", 3, 5)
        == degree(True, "mul", 3, 5)
        == degree(True, "div", 3, 5)
        == 8
    )
    assert degree(False, "neg", 4) == 4 and degree(False, "exp", 4) == degree(False, "max", 4, 9) == 1
    assert degree(False, "lt", 4, 9, of=BOOL) == degree(True, "add", 4, 9, of=BOOL) == 1
    known = Degree(False)
    assert [evaluate(known.number(x, F), {}) for x in (3.0, 0.0, -1.0)] == [1, 0, 0]
    assert evaluate(known.known(const(3, INT64)), {}) == 1
    assert evaluate(known.cast(F, INT32, const(0, UINT64)), {}) == 1
    assert evaluate(known.choose(const(True, BOOL), const(2, UINT64), const(7, UINT64)), {}) == 7


# --- normal forms ---------------------------------------------------------------------------------------------------

U8, I8 = DTYPES["uint8"], DTYPES["int8"]
SAME: dict[str, tuple[Callable[[Expr], Any], Callable[[Expr], Any], DType, Any]] = {
    "the least of a number and the greatest": (lambda a: apply("min", a, const(127, I8)), lambda a: a, I8, BIT_EXACT),
    "the greatest of a number and the least": (lambda a: apply("max", a, const(-128, I8)), lambda a: a, I8, BIT_EXACT),
    "not the greatest": (lambda a: apply("min", a, const(126, I8)), lambda a: a, I8, UNKNOWN),
    "the least and infinity": (lambda a: apply("min", a, const(np.inf, F)), lambda a: a, F, BIT_EXACT),
    "the greatest and infinity": (lambda a: apply("max", a, const(np.inf, F)), lambda a: a, F, UNKNOWN),
    "all bits": (lambda a: apply("bitand", a, const(255, U8)), lambda a: a, U8, BIT_EXACT),
    "not all bits": (lambda a: apply("bitand", a, const(254, U8)), lambda a: a, U8, UNKNOWN),
    "all bits with a sign": (lambda a: apply("bitand", a, const(-1, INT32)), lambda a: a, INT32, BIT_EXACT),
    "no bits": (lambda a: apply("bitxor", apply("bitor", a, const(0, U8)), const(0, U8)), lambda a: a, U8, BIT_EXACT),
    "twice the same": (lambda a: apply("max", apply("max", a, a), a), lambda a: a, F, BIT_EXACT),
    "twice the same bits": (
        lambda a: apply("bitxor", apply("bitxor", a, a), a),
        lambda a: apply("bitxor", a, const(0, U8)),
        U8,
        UNKNOWN,
    ),
    "a sum with nothing": (lambda a: a + 0 + a, lambda a: a + a, INT32, BIT_EXACT),
    "a product with one": (lambda a: a * 1 * a, lambda a: a * a, INT32, BIT_EXACT),
    "a product of floats with one": (lambda a: a * a * 1.0, lambda a: a * a, F, REASSOCIATED),
    "a difference": (lambda a: a - (a - 1), lambda a: a - a + 1, INT32, BIT_EXACT),
    "minus minus": (lambda a: -(-a - 3), lambda a: a + 3, INT32, BIT_EXACT),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_forgotten_of_order(name: str) -> None:
    left, right, of, notion = SAME[name]
    verdict = equivalent(unary(left, of=of), unary(right, of=of), method="terms")
    assert verdict.notion is notion, str(verdict)


# --- whole functions ------------------------------------------------------------------------------------------------


def two_outputs(wrong: tuple[int, int] | None = None) -> PrimFunc:
    x, one, two = Buffer("x", (3,), F), Buffer("one", (3,), F), Buffer("two", (2, 3), F)

    def element(i: Expr, j: Expr) -> Stmt:
        value = x[j] * 2.0
        at = both_are(i, j, wrong) if wrong else None
        return store(two, (i, j), value if at is None else select(at, value + 1.0, value))

    return PrimFunc(
        "f", (x, one, two), 2, seq(loops("i", (3,), lambda i: store(one, i, x[i])), loops("i j", (2, 3), element))
    )


def both_are(i: Expr, j: Expr, at: tuple[int, int]) -> Expr:
    return apply("and", apply("eq", i, at[0]), apply("eq", j, at[1]))


@pytest.mark.parametrize("at", [(0, 0), (0, 2), (1, 1)])
def test_the_element_that_differs_is_named_in_any_output(at: tuple[int, int]) -> None:
    verdict = equivalent(two_outputs(), two_outputs(at))
    assert verdict.difference is not None and verdict.difference.element == f"two[{at[0]}, {at[1]}]"
    assert verdict.witness is not None and verdict.witness.what.startswith(f"two[{at[0]}, {at[1]}] is ")


def triangle(order: int) -> PrimFunc:
    """Loops whose extents differ from one iteration to the next."""
    x, out = Buffer("x", (5, 5), F), Buffer("out", (5,), F)
    i, j = Var("i"), Var("j")
    at = j if order > 0 else i - j
    add = For(i, const(5), For(j, i + 1, store(out, i, out[i] + x[i, at])))
    return PrimFunc("triangle", (x, out), 1, seq(loops("i", (5,), lambda i: store(out, i, 0.0)), add))


def test_extents_that_differ_between_lanes() -> None:
    i, j = Var("i"), Var("j")
    x, out = Buffer("x", (5, 5), F), Buffer("out", (5,), F)
    full = loops("i j", (5, 5), lambda i, j: when(j <= i, store(out, i, out[i] + x[i, j])))
    guarded = PrimFunc("guarded", (x, out), 1, seq(loops("i", (5,), lambda i: store(out, i, 0.0)), full))
    assert equivalent(triangle(1), guarded).notion is BIT_EXACT
    assert equivalent(triangle(1), triangle(-1)).notion is REASSOCIATED
    short = For(i, const(5), For(j, i, store(out, i, out[i] + x[i, j])))
    less = PrimFunc("less", (x, out), 1, seq(loops("i", (5,), lambda i: store(out, i, 0.0)), short))
    assert equivalent(triangle(1), less).notion is UNKNOWN


def test_a_cast_that_may_trap_anew_is_said() -> None:
    x, out = Buffer("x", (6,), F), Buffer("out", (6,), INT32)

    def func(value: Callable[[Expr], Expr]) -> PrimFunc:
        return PrimFunc("f", (x, out), 1, loops("i", (6,), lambda i: store(out, i, value(x[i]))))

    guarded = func(lambda v: choice(apply("lt", v, 1.0), cast(v, INT32), const(0, INT32)))
    plain = func(lambda v: select(apply("lt", v, 1.0), cast(v, INT32), const(0, INT32)))
    assert equivalent(plain, plain, method="terms").holds(BIT_EXACT)
    assert "may trap where f does not" in equivalent(guarded, plain).reason
    words = equivalent(plain, plain, method="words")
    assert words.notion is UNKNOWN and words.undecided and "may trap, depending on data" in words.reason


@pytest.mark.parametrize("at", [-1, 6])
def test_an_index_that_a_constant_says_has_to_be_one(at: int) -> None:
    """An element of the constant that is not there is none, from either end."""
    x, out, where = Buffer("x", (6,), F), Buffer("out", (6,), F), Buffer("where", (6,), INT64)

    def func(last: int) -> PrimFunc:
        body = loops("i", (6,), lambda i: store(out, i, x[where[select(i < 5, i, last)]]))
        return PrimFunc("f", (x, out), 1, AllocateConst(where, np.array([5, 3, 1, 0, 2, 4]), body))

    assert equivalent(func(5), func(5)).notion is BIT_EXACT
    for source, says in ((at, "f itself traps"), (5, "f traps")):
        verdict = equivalent(func(source), func(at))
        assert (
            verdict.notion is UNKNOWN
            and f"{says}: trap (out of bounds): an index of where is outside [0, 6)" in verdict.reason
        )


# --- words of whole functions ---------------------------------------------------------------------------------------


def table(values: Any, by: Callable[[Expr, Expr], Expr] = lambda a, b: a * b) -> PrimFunc:
    x, out, lut = Buffer("x", (4,), F), Buffer("out", (4,), F), Buffer("lut", (4,), F)
    body = loops("i", (4,), lambda i: store(out, i, by(x[i], lut[i])))
    return PrimFunc("f", (x, out), 1, AllocateConst(lut, np.array(values, np.float32), body))


def test_constants_are_words() -> None:
    verdict = equivalent(table([1, 2, 3, 0.5]), table([1, 2, 3, 0.5]), method="words")
    assert verdict.holds(BIT_EXACT) and verdict.how == "words", str(verdict)
    other = equivalent(table([1, 2, 3, 0.5]), table([1, 2, 3, 0.25]), method="words")
    assert other.notion is UNKNOWN and "differ" in other.reason
    scaled = equivalent(table([2, 4, 6, 1]), table([1, 2, 3, 0.5], lambda a, b: (a * b) * 2.0), method="words")
    assert scaled.notion is REAL, str(scaled)


@pytest.mark.parametrize(
    ("value", "traps"),
    [
        (lambda a: a // 3, False), (lambda a: a // 0, True), (lambda a: apply("shl", a, 31), False),
        (lambda a: apply("shl", a, 0), False), (lambda a: apply("shl", a, 32), True),
            (lambda a: apply("shr", a, -1), True),
        (lambda a: apply("shr", const(8, INT32), a), True), (lambda a: 8 // a, True),
    ],
)  # fmt: skip
def test_words_say_nothing_of_what_may_trap(value: Callable[[Expr], Expr], traps: bool) -> None:
    func = unary(value, of=INT32)
    verdict = equivalent(func, func, method="words")
    assert verdict.holds(BIT_EXACT) != traps and ("may trap" in verdict.reason) == traps, str(verdict)


def over_data(body: Callable[[Buffer, Buffer, Buffer], Stmt]) -> PrimFunc:
    n, x, out = Buffer("n", (6,), INT64), Buffer("x", (6,), F), Buffer("out", (6,), F)
    return PrimFunc("f", (n, x, out), 1, seq(loops("i", (6,), lambda i: store(out, i, x[i])), body(n, x, out)))


@pytest.mark.parametrize(
    "body",
    [
        lambda n, x, out: store(out, apply("floormod", n[0], 6), x[0]),
        lambda n, x, out: store(out, 0, x[apply("floormod", n[0], 6)]),
        lambda n, x, out: when(n[0] < 3, store(out, 0, x[1])),
        lambda n, x, out: For(Var("i"), apply("min", n[0], 6), store(out, 0, x[1])),
        lambda n, x, out: For(v := Var("i"), const(1), store(out, v, x[1]), start=apply("floormod", n[0], 6)),
        lambda n, x, out: Assert(n[0] < 3, "small"),
        lambda n, x, out: LetStmt(v := Var("v", INT64), n[0], when(v < 3, store(out, 0, x[1]))),
    ],
)
def test_words_follow_no_control_or_index_that_is_data(body: Callable[[Buffer, Buffer, Buffer], Stmt]) -> None:
    func = over_data(body)
    verdict = equivalent(func, func, method="words")
    assert verdict.notion is UNKNOWN and verdict.undecided and "depends on data" in verdict.reason, str(verdict)


def test_words_follow_every_statement() -> None:
    """Names that are data and names that are not, conditions, and what is evaluated for nothing."""
    v, k = Var("v", F), Var("k", INT64)

    def func(last: float) -> PrimFunc:
        def body(n: Buffer, x: Buffer, out: Buffer) -> Stmt:
            def element(i: Expr) -> Stmt:
                chosen = when(i < 3, store(out, k, v), store(out, k, v * last))
                return LetStmt(
                    k,
                    5 - i,
                    LetStmt(
                        v, x[i] + select(i < 2, x[i], x[0]), seq(Evaluate(v + 1.0), Assert(i < 6, "small"), chosen)
                    ),
                )

            return loops("i", (6,), element)

        return over_data(body)

    assert equivalent(func(2.0), func(2.0), method="words").holds(BIT_EXACT)
    assert equivalent(func(2.0), func(3.0), method="words").notion is UNKNOWN


def test_products_too_high_for_the_field_are_not_called_equal() -> None:
    """A degree of a million: random numbers of the field might agree by chance. What is exact is not asked."""
    x, out = Buffer("x", (1,), F), Buffer("out", (1,), F)

    def power(more: Callable[[Expr], Expr]) -> PrimFunc:
        square = loops("i", (21,), lambda i: store(out, 0, out[0] * out[0]))
        return PrimFunc("f", (x, out), 1, seq(store(out, 0, x[0]), square, store(out, 0, more(out[0]))))

    one, two = power(lambda v: (v + v) * 2.0), power(lambda v: v * 2.0 + v * 2.0)
    verdict = equivalent(one, two, method="words")
    assert verdict.notion is UNKNOWN and "are too much for the field" in verdict.reason, str(verdict)
    assert (
        equivalent(binary(lambda a, b: (a + b) * 2.0), binary(lambda a, b: a * 2.0 + b * 2.0), method="words").notion
        is REAL
    )


def test_only_quotients_of_floats_are_divisions_in_the_field() -> None:
    assert has_division(unary(lambda a: (a + 1.0) / a)) and has_division(unary(lambda a: apply("exp", 1.0 / a)))
    assert not has_division(unary(lambda a: a * a + 1.0)) and not has_division(unary(lambda a: a // 3, of=INT32))
