"""What `ExactTerms` simplifies holds bit for bit (specs/verify.md, "legalize")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, DType
from assay.semantics.scalar import operation
from assay.verify.equivalence.normal import normal
from assay.verify.operator_terms.exact import ExactTerms
from assay.verify.operator_terms.paths import node

FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38], np.float32)
BYTES = np.arange(-128, 128).astype(np.int8)


def same(a: object, b: object) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    bits = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bits and (a.dtype.kind != "f" or bool(np.all(np.isnan(a) | (np.signbit(a) == np.signbit(b)))))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("of", ["float32", "int8"])
def test_an_operation_with_a_literal_or_with_itself(name: str, of: str) -> None:
    if name not in ("div",) or of == "float32":
        numbers, dtype, op = (FLOATS if of == "float32" else BYTES), DTYPES[of], operation(name)
        to = BOOL if op.result == "bool" else dtype
        terms = ExactTerms()
        x = terms.input("x", ())
        seen = 0
        with np.errstate(all="ignore"):
            for c in (*numbers, None):
                literal = x if c is None else int(terms.constant(c, dtype))
                for a, b in ((x, literal), (literal, x)):
                    made = int(terms.apply(name, dtype, to, a, b))
                    other = numbers if c is None else np.full_like(numbers, c)
                    wanted = op.meaning(*((numbers, other) if a == x else (other, numbers)))
                    if made == x:
                        assert same(wanted, numbers), (name, c)
                    elif made in terms.values:
                        assert same(wanted, np.full_like(wanted, terms.values[made][1])), (name, c)
                    seen += made == x or made in terms.values
                    if dtype is FLOAT32 and to is FLOAT32 and terms.plus[made]:
                        assert not np.any(np.signbit(wanted) & ~np.isnan(wanted)), (name, c)
                    if dtype is FLOAT32 and to is FLOAT32 and terms.unsigned_zero[made]:
                        assert not np.any((wanted == 0) & np.signbit(wanted)), (name, c)
        assert seen or name in ("eq", "ne", "lt", "le", "gt", "ge"), name


def test_a_planted_simplification_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactTerms, "_mark", lambda self, op, lanes, made: self.unsigned_zero.fill(True))
    with pytest.raises(AssertionError):
        test_an_operation_with_a_literal_or_with_itself("add", "float32")


# --- floats in a wider dtype --------------------------------------------------------------------------------------

HALVES = np.arange(1 << 16).astype(np.uint16).view(np.float16)


def value_of(terms: ExactTerms, number: int, x: int) -> np.ndarray[Any, Any]:
    """A term of casts and operations of one element, as an array of its values for all float16."""
    if number == x:
        return HALVES
    if number in terms.values:
        return np.full(HALVES.shape, terms.values[number][1])
    name, of, a, b = node(terms, number)
    left = value_of(terms, a, x)
    if name.startswith("cast "):
        assert of is not None
        return left.astype(of.numpy)
    if name == "select":
        _, _, then, otherwise = node(terms, b)
        return np.where(left, value_of(terms, then, x), value_of(terms, otherwise, x))
    made = operation(name).meaning(*((left, value_of(terms, b, x)) if b else (left,)))
    return np.asarray(made)


def narrowed(name: str) -> int:
    """How many operations on widened float16 are done in float16; each gives what it gives in float64."""
    terms, op, wide = ExactTerms(), operation(name), DTYPES["float64"]
    x = terms.input("x", ())
    widened = int(terms.cast(FLOAT16, wide, x))
    held = HALVES.astype(np.float64)
    seen = 0
    with np.errstate(all="ignore"):
        if op.arity == 1:
            assert same(value_of(terms, int(terms.apply(name, wide, wide, widened)), x), op.meaning(held))
            return 1
        for c in (0.0, -0.0, 0.1, 1.5, -128.0, 65504.0, 65536.0, 1e-300, np.inf, np.nan):
            literal = int(terms.constant(np.float64(c), wide))
            for a, b in ((widened, literal), (literal, widened)):
                made = int(terms.apply(name, wide, BOOL, a, b))
                other = np.full(held.shape, c)
                assert same(value_of(terms, made, x), op.meaning(*((held, other) if a == widened else (other, held))))
                seen += widened not in (int(n) for n in terms.parts(made)[1:])
    return seen


@pytest.mark.parametrize("name", ["floor", "ceil", "rint", "eq", "ne", "lt", "le", "gt", "ge"])
def test_a_step_in_a_wider_dtype(name: str) -> None:
    assert narrowed(name) >= 1


def test_a_number_of_the_wider_dtype_is_not_taken_for_one_of_the_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ExactTerms._in

    def rounded(self: ExactTerms, narrow: DType, of: DType, x: Any) -> Any:
        known = self.literal[x]
        near = [self.constant(np.float16(self.values[int(n)][1]), narrow) for n in x[known]]
        found = right(self, narrow, of, x)
        found[known] = near
        return found

    monkeypatch.setattr(ExactTerms, "_in", rounded)
    with pytest.raises(AssertionError):
        narrowed("lt")


def test_a_choice_of_widened_floats_is_one_of_the_floats() -> None:
    terms, wide = ExactTerms(), DTYPES["float64"]
    x, y, c = (terms.input(n, ()) for n in "xyc")
    a, b = (int(terms.cast(FLOAT32, wide, n)) for n in (x, y))
    assert terms.select(wide, c, a, b) == terms.cast(FLOAT32, wide, terms.select(FLOAT32, c, x, y))
    assert terms.select(wide, c, a, a) == a
    other = int(terms.cast(FLOAT16, wide, x))
    assert node(terms, int(terms.select(wide, c, a, other)))[0] == "select"


def test_a_truth_and_its_negation() -> None:
    terms = ExactTerms()
    x, y = (terms.input(n, ()) for n in "xy")
    for a, b in ((x, terms.negation(x)), (terms.negation(x), x)):
        assert terms.apply("or", BOOL, BOOL, a, b) == terms.true
        assert terms.apply("and", BOOL, BOOL, a, b) == terms.false
    assert terms.apply("or", BOOL, BOOL, x, terms.negation(y)) != terms.true


def test_a_zero_that_is_taken_away_is_dropped_where_the_order_is_open() -> None:
    terms = ExactTerms()
    x = terms.input("x", ())
    zero = int(terms.constant(np.float32(0), FLOAT32))
    one = int(terms.constant(np.float32(1), FLOAT32))

    def form(by: int, floats: bool) -> bool:
        inner = terms.apply("add", FLOAT32, FLOAT32, x, by)
        made = terms.apply("sub", FLOAT32, FLOAT32, one, inner)
        plain = terms.apply("sub", FLOAT32, FLOAT32, one, x)
        left, right = normal(terms, np.array([made, plain], np.int64), floats)
        return bool(left == right)

    assert form(zero, True)
    assert not form(zero, False) and not form(one, True)
