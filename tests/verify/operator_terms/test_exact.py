"""What `ExactTerms` simplifies holds bit for bit (specs/verify.md, "legalize")."""

from __future__ import annotations

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32
from assay.semantics.scalar import operation
from assay.verify.operator_terms.exact import ExactTerms

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
