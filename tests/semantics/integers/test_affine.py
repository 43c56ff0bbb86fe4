"""Affine forms against the numbers: a form has the value of its expression everywhere, and what is decided is so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32
from assay.semantics.integers.affine import DEEPEST, Affine, AffineQuotient, Atom, affine, affine_quotient, decide
from assay.semantics.scalar import Expr, Var, apply, cast, const, evaluate

I, J, K = (Var(name) for name in "ijk")  # noqa: E741
RANGES = {I: (0, 5), J: (-3, 2), K: (2, 4)}
INT8 = DTYPES["int8"]


def points(ranges: dict[Var, tuple[int, int]] = RANGES) -> Iterator[dict[Var, Any]]:
    for values in product(*(range(a, b + 1) for a, b in ranges.values())):
        yield {v: v.dtype.numpy.type(n) for v, n in zip(ranges, values, strict=True)}


def at(form: Affine, env: dict[Var, Any]) -> int:
    return form.constant + sum(k * _atom(a, env) for a, k in form.terms.items())


def _atom(a: Atom, env: dict[Var, Any]) -> int:
    return at(a.form, env) // a.divisor if isinstance(a, AffineQuotient) else int(env[a])


def assert_right(e: Expr, ranges: dict[Var, tuple[int, int]] = RANGES) -> Affine:
    form = affine(e, ranges)
    assert form is not None, e
    values = [int(evaluate(e, env)) for env in points(ranges)]
    assert [at(form, env) for env in points(ranges)] == values, (e, form)
    inside = form.interval(ranges)
    assert inside is not None and inside[0] <= min(values) and max(values) <= inside[1]
    assert not form.is_linear or inside == (min(values), max(values))
    return form


def div(a: Any, b: int) -> Expr:
    return apply("floordiv", a, b)


def mod(a: Any, b: int) -> Expr:
    return apply("floormod", a, b)


SIMPLE: list[tuple[Expr, Expr | int]] = [
    (I + J - I, J),
    (I * 3 + 3 * J, (I + J) * 3),
    (apply("neg", I - J), J - I),
    (I - I, 0),
    (div(I * 4 + 6, 2), I * 2 + 3),
    (div(I * 4 + 7, 2), I * 2 + 3),
    (mod(I * 4 + 7, 2), const(1)),
    (div(I, 6), 0),
    (mod(I, 6), I),
    (div(I * 6 + mod(K, 6), 6), I),
    (mod(I * 6 + K, 6), K),
    (div(I * 8 + K, 4), I * 2 + div(K, 4)),
    (div(div(J, 2), 3), div(J, 6)),
    (div(I, 2) * 2 + mod(I, 2), I),
    (div(J, 4) * 4 + mod(J, 4), J),
    (apply("truncdiv", I, 2), div(I, 2)),
    (apply("truncmod", I, 4), mod(I, 4)),
    (cast(cast(I, "int32"), "int64") + 1, I + 1),
    (div(J * 2 + 1, 4), div(J, 2)),
    (div(I * 4 + K + 8, 4), I + div(K, 4) + 2),
]


@pytest.mark.parametrize(("a", "b"), SIMPLE, ids=str)
def test_equal_functions_of_indices_have_one_form(a: Expr, b: Expr | int) -> None:
    form = assert_right(a)
    other = assert_right(b) if isinstance(b, Expr) else Affine({}, b)
    assert form == other and hash(form) == hash(other)
    assert form != form.plus(Affine({}, 1)) and form != "a form" and form.variables <= {I, J, K}


def test_random_forms_are_right() -> None:
    rng = Random(1)
    seen = 0
    for _ in range(300):
        parts: list[Expr] = [I, J, K]
        for _ in range(rng.randrange(1, 7)):
            a, b, c = rng.choice(parts), rng.choice(parts), rng.choice((1, 2, 3, 4, 6))
            parts.append(rng.choice((a + b, a - b, a * c, div(a, c), mod(a, c), a + c)))
        if affine(parts[-1], RANGES) is not None:
            assert_right(parts[-1])
            seen += 1
    assert seen > 250


NONE: list[Expr] = [
    I * J, apply("floordiv", I, J), div(I, -2), apply("floordiv", I, const(0)), apply("truncdiv", J, 2),
        apply("truncmod", J, 2),
    div(Var("u"), 2), apply("min", I, J), cast(Var("x", FLOAT32), "int64"), cast(I, "float32"), apply("lt", I, J),
    cast(I * 100, "int8"), Var("u") * 2, Var("u") + 1, cast(Var("u"), "int32"),
]  # fmt: skip


@pytest.mark.parametrize("e", NONE, ids=str)
def test_what_has_no_form(e: Expr) -> None:
    """Products and quotients of variables, what may wrap, and divisions that round otherwise."""
    assert affine(e, RANGES) is None


def test_a_form_is_given_up_to_the_ends_of_the_dtype() -> None:
    x, y = Var("x", INT8), Var("y", INT8)
    assert affine(x + 1, {x: (-128, 126)}) is not None and affine(x + 1, {x: (-128, 127)}) is None
    assert affine(x - 1, {x: (-127, 127)}) is not None and affine(x - 1, {x: (-128, 127)}) is None
    assert affine(x * 1, {}) is not None and affine(x + 0, {}) is not None  # it is the variable itself
    assert (
        affine(x + y - y, {x: (0, 100), y: (0, 27)}) is not None
        and affine(x + y - y, {x: (0, 100), y: (0, 28)}) is None
    )
    assert affine(cast(x, "int32"), {}) is None and affine(cast(Var("z", INT32), "int8"), {}) is None


def test_variables_are_those_in_quotients_too() -> None:
    form = assert_right(div(J + I, 4) + K)
    assert form.variables == {I, J, K} and not form.is_linear
    assert assert_right(I + 1).is_linear and form.interval({I: (0, 1), K: (0, 1)}) is None
    assert form.scaled(2).plus(form, -2) == Affine({})
    (atom,) = (a for a in form.terms if isinstance(a, AffineQuotient))
    assert (
        form.without(atom) == Affine({K: 1})
        and atom != AffineQuotient(atom.form, 5)
        and atom != AffineQuotient(Affine({I: 1}), 4)
    )
    assert atom == AffineQuotient(atom.form, 4) and atom != "an atom"


def test_quotients_of_quotients_are_given_up_where_they_are_too_deep() -> None:
    ranges = {J: (-1000000, 1000000), I: (0, 1)}
    form: Affine | None = Affine({J: 1})
    for depth in range(1, DEEPEST + 2):
        assert form is not None
        form = affine_quotient(form.plus(Affine({I: 1}), 1).plus(Affine({}, 1)), 3, ranges)
        assert (form is None) == (depth > DEEPEST)


# --- conditions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_comparison_is_decided_exactly_where_the_numbers_agree(op: str) -> None:
    x, y = Var("x"), Var("y")
    spans = [(a, b) for a in range(-2, 3) for b in range(a, 3)]
    for p, q in product(spans, spans):
        ranges = {x: p, y: q}
        found = {bool(evaluate(apply(op, x, y), env)) for env in points(ranges)}
        assert decide(apply(op, x, y), ranges) == (found.pop() if len(found) == 1 else None), (p, q)


def test_conditions_are_put_together() -> None:
    yes, no, may = apply("ge", I, 0), apply("lt", I, 0), apply("lt", I, 3)
    known = {yes: True, no: False, may: None}
    for a, b in product(known, known):
        both = None not in (known[a], known[b])
        assert decide(apply("and", a, b), RANGES) == ((known[a] and known[b]) if both else None)
        assert decide(apply("or", a, b), RANGES) == ((known[a] or known[b]) if both else None)
    assert [decide(apply("not", c), RANGES) for c in (yes, no, may)] == [False, True, None]
    assert (
        decide(const(True, BOOL), RANGES) is True
        and decide(const(False, BOOL), RANGES) is False
        and decide(I, RANGES) is None
    )
    u = Var("u")
    for a, b in ((u, I), (I, u), (u, u * 2)):
        assert decide(apply("lt", a, b), RANGES) is None
    assert decide(apply("lt", Var("x", FLOAT32), 1.0), RANGES) is None
