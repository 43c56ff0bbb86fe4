"""Laws of linear forms: one form for each sum, and operations that commute with values."""

from __future__ import annotations

from itertools import product

from hypothesis import given, strategies as st

from assay.semantics.integers.linear import Form, combined
from assay.semantics.integers.ranges import EVERYTHING, closed

NUMBERS = st.integers(-(2**65), 2**65) | st.integers(-3, 3)
FORMS = st.builds(Form.of, st.dictionaries(st.sampled_from("xyz"), NUMBERS), NUMBERS)
SMALL = st.builds(Form.of, st.dictionaries(st.sampled_from("xyz"), st.integers(-4, 4)), st.integers(-4, 4))
POINTS = st.fixed_dictionaries({a: NUMBERS for a in "xyz"})
ZERO: Form[str] = Form({})


@given(FORMS, FORMS, FORMS, NUMBERS, NUMBERS)
def test_forms_are_a_module(a: Form[str], b: Form[str], c: Form[str], j: int, k: int) -> None:
    assert a.plus(b) == b.plus(a) and a.plus(b).plus(c) == a.plus(b.plus(c))
    assert a.plus(ZERO) == a == ZERO.plus(a) == a.scaled(1) and a.plus(a, -1) == ZERO == a.scaled(0)
    assert a.plus(b).scaled(k) == a.scaled(k).plus(b.scaled(k)) and a.scaled(j).scaled(k) == a.scaled(j * k)
    assert a.scaled(j).plus(a, k) == a.scaled(j + k)


@given(FORMS, FORMS, NUMBERS, POINTS)
def test_values_commute_with_operations(a: Form[str], b: Form[str], k: int, at: dict[str, int]) -> None:
    x, y = a.value(at.__getitem__), b.value(at.__getitem__)
    assert a.plus(b, k).value(at.__getitem__) == x + k * y and a.scaled(k).value(at.__getitem__) == k * x
    for op, wanted in (("add", x + y), ("sub", x - y)):
        made = combined(op, (a, b))
        assert made is not None and made.value(at.__getitem__) == wanted
    made = combined("neg", (a,))
    assert made is not None and made.value(at.__getitem__) == -x
    constant = Form[str]({}, k)
    for args in ((a, constant), (constant, a)):
        made = combined("mul", args)
        assert made is not None and made.value(at.__getitem__) == k * x
    assert combined("floordiv", (a, constant)) is None


@given(FORMS, FORMS)
def test_a_product_is_a_form_only_where_one_side_is_a_number(a: Form[str], b: Form[str]) -> None:
    assert (combined("mul", (a, b)) is None) == (bool(a.terms) and bool(b.terms))


@given(SMALL, SMALL)
def test_the_form_is_canonical(a: Form[str], b: Form[str]) -> None:
    """Two forms are equal, and have one hash, exactly if they have the same value everywhere."""
    points = [dict(zip("xyz", p, strict=True)) for p in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))]
    alike = all(a.value(p.__getitem__) == b.value(p.__getitem__) for p in points)
    assert (a == b) == alike and (not alike or hash(a) == hash(b))
    turned = Form.of(dict(reversed(a.terms.items())), a.constant)
    assert turned == a and hash(turned) == hash(a) and a != "a form" and all(a.terms.values())


@given(FORMS, st.integers(1, 2**65))
def test_division_leaves_what_is_no_multiple(a: Form[str], by: int) -> None:
    quotients, rests = a.divided(by)
    assert quotients.scaled(by).plus(rests) == a
    assert all(0 <= k < by for k in (*rests.terms.values(), rests.constant))


@given(SMALL, st.fixed_dictionaries({a: st.tuples(st.integers(-3, 1), st.integers(1, 3)) for a in "xyz"}))
def test_a_range_is_attained(a: Form[str], ranges: dict[str, tuple[int, int]]) -> None:
    values = [
        a.value(dict(zip(ranges, p, strict=True)).__getitem__)
        for p in product(*(range(low, high + 1) for low, high in ranges.values()))
    ]
    assert a.range(ranges.__getitem__) == (min(values), max(values))
    for name in "xyz":
        opened = a.range(lambda v, name=name: EVERYTHING if v == name else ranges[v])  # type: ignore[misc]
        assert (closed(opened) is None) == (name in a.terms)
    assert Form[str]({}, 2**80).range(ranges.__getitem__) == (2**80, 2**80)


def test_parts_of_a_form() -> None:
    form = Form({"x": 2, "y": -3}, 5)
    assert form.only("x".__eq__) == Form({"x": 2}) and form.only(lambda a: False) == ZERO
