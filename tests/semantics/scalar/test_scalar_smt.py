"""The translation of scalar expressions to z3: every operation has one, and on numbers it says what the table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import z3
from hypothesis import given, settings, strategies as st

from assay.semantics.dtypes import BOOL, DTYPES, INT64
from assay.semantics.errors import Trap
from assay.semantics.scalar import OPERATIONS, Expr, Load, Var, apply, cast, const, evaluate
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.scalar.smt import OVERRIDES, VALUE, Terms

INT8 = DTYPES["int8"]
A, B = Var("a", INT8), Var("b", INT8)
WHOLE = [o.name for o in OPERATIONS.values() if "int" in o.kinds and o.result != "bits" and o.name != "select"]
UNKNOWN = ("bitor", "bitxor", *FLOAT_OF)
"""Operations of which only the range is known."""


class Everywhere:
    """A scope of given numbers; every step is wrapped, or none."""

    def __init__(self, env: Mapping[Var, Any], plain: bool = False) -> None:
        self.env = env
        self.plain = plain

    def load(self, node: Load, indices: Sequence[Any]) -> Any:
        raise AssertionError(node)

    def exact(self, node: Expr) -> bool:
        return self.plain


def values(expr: Expr, a: int, b: int, plain: bool = False) -> tuple[Any, bool]:
    """A value that z3 gives an expression, and whether it is the only one."""
    terms = Terms()
    term = terms.value(expr, Everywhere({A: z3.IntVal(a), B: z3.IntVal(b)}, plain), {})
    solver = z3.Solver()
    solver.add(*terms.known)
    assert solver.check() == z3.sat, f"{expr} at {a}, {b}: what is known contradicts itself"
    found = solver.model().eval(term, model_completion=True)
    solver.add(term != found)
    return (z3.is_true(found) if z3.is_bool(found) else found.as_long()), solver.check() == z3.unsat


@pytest.mark.parametrize("op", WHOLE)
def test_integers(op: str) -> None:
    expr = apply(op, *(A, B)[: OPERATIONS[op].arity])
    edges = (-128, -7, -1, 0, 2, 127)
    for a in edges:
        for b in edges if OPERATIONS[op].arity == 2 else (0,):
            found, only = values(expr, a, b)
            try:
                want = evaluate(expr, {A: INT8.numpy.type(a), B: INT8.numpy.type(b)})
            except Trap:
                continue
            if op in UNKNOWN or op in ("bitand", "shl", "shr"):  # only for some constants
                assert -128 <= found <= 127
            else:
                assert found == want and only, f"{op}({a}, {b})"


@settings(max_examples=20, deadline=None)
@given(st.integers(-128, 127), st.sampled_from([0, 1, 3, 7, 127]), st.integers(0, 6))
def test_masks_and_shifts_by_constants(a: int, mask: int, by: int) -> None:
    for expr in (apply("bitand", A, mask), apply("shl", A, by), apply("shr", A, by)):
        assert values(expr, a, 0) == (int(evaluate(expr, {A: INT8.numpy.type(a)})), True)


def test_every_operation_has_a_translation() -> None:
    for o in OPERATIONS.values():
        if "int" in o.kinds and o.name not in OVERRIDES:
            assert o.name in ("add", "sub", "mul", "neg"), f"{o.name}: do Python's operators say it on z3 terms?"


def test_nothing_is_claimed_of_a_division_by_zero() -> None:
    for row in OPERATIONS.values():
        if row.has("divides"):
            _, only = values(apply(row.name, A, B), 5, 0)
            assert not only


@settings(max_examples=20, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["int8", "uint8", "int32", "uint32", "int64", "bool"]))
def test_casts_wrap(a: int, to: str) -> None:
    x = Var("x")
    terms = Terms()
    term = terms.value(cast(x, to), Everywhere({x: z3.IntVal(a)}), {})
    solver = z3.Solver()
    want = evaluate(cast(x, to), {x: INT64.numpy.type(a)})
    solver.add(*terms.known, term != (bool(want) if DTYPES[to] is BOOL else int(want)))
    assert solver.check() == z3.unsat


def test_steps_that_are_known_to_stay_inside_do_not_wrap() -> None:
    assert values(A + B, 100, 100)[0] == -56
    assert values(A + B, 100, 100, plain=True)[0] == 200
    assert values(apply("neg", A), -128, 0)[0] == -128
    assert values(apply("floordiv", A, const(-1, INT8)), -128, 0)[0] == -128


def test_a_choice_of_floats_is_one_of_them() -> None:
    """Of what floats are nothing is known, but which of two is meant is."""
    x, y = Var("x", DTYPES["float32"]), Var("y", DTYPES["float32"])
    terms = Terms()
    scope = Everywhere({A: z3.Int("a"), x: z3.Const("x", VALUE), y: z3.Const("y", VALUE)})
    one, other = (terms.value(e, scope, {}) for e in (apply("select", A < 0, x, y), apply("select", A >= 0, y, x)))
    solver = z3.Solver()
    solver.add(*terms.known, one != other)
    assert solver.check() == z3.unsat
