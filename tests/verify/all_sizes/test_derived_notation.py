"""The index notation of elementwise operators is their own value, run on an element that is not known
(specs/semantics.md, "Index notation")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.semantics.arrays import by_table
from assay.semantics.bits import same_bits
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Crash
from assay.semantics.indexed import MEANINGS
from assay.semantics.indexed.element import SymbolicElement, element_value
from assay.semantics.indexed.fold import notation
from assay.semantics.indexed.meaning import Meaning, Use, stretched
from assay.semantics.indexed.pointwise_meanings import NUMBERS, SAID
from assay.semantics.left_open.entries import ELEMENTARY
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, Var, evaluate
from assay.verify.all_sizes import prove_for_all_sizes
from assay.verify.all_sizes.symbols import symbolic_use

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.3, -7.5, 88.0, np.inf, -np.inf, np.nan, 1e-40)
EXACT = sorted(set(NUMBERS) - set(SAID) - set(ELEMENTARY) - {"tan", "sin", "cos", "asin", "acos", "atan"})


@pytest.mark.parametrize("name", EXACT)
def test_the_notation_gives_what_the_value_gives(name: str) -> None:
    """Bit for bit, on special numbers."""
    op = OPERATORS[name]
    for example in op.examples[:2]:
        kinds = [dtype(of) for _, of in example.operands]
        attrs = op.check_attrs(example.attrs)
        variables = [Var(f"v{k}", of) for k, of in enumerate(kinds)]
        term = NUMBERS[name](attrs, *variables)
        lists = [np.array(SPECIAL if of.is_float else [1, 2, 5, 7]).astype(of.numpy) for of in kinds]
        for k, first in enumerate(lists[0]):
            numbers = [first, *(of[(k + 3) % len(of)] for of in lists[1:])]
            with np.errstate(all="ignore"):
                wanted = np.asarray(op.value(attrs, *(np.asarray(n) for n in numbers)))
            found = np.asarray(evaluate(term, dict(zip(variables, numbers, strict=True))))
            assert same_bits(found.astype(wanted.dtype), wanted), (name, numbers)


def changed(name: str, value: Callable[..., Any]) -> Operator:
    return replace(OPERATORS[name], value=value)


def of_value(op: Operator) -> Meaning:
    def element(use: Use, *i: Expr) -> Expr:
        return element_value(op, use.attrs, *(stretched(b, i, use.out.shape) for b in use.operands))

    return Meaning(element)


def alpha(attrs: Any, x: Any) -> Any:
    return x.dtype.type(attrs["alpha"])


DEFINITIONS: dict[str, tuple[Operator, Operator]] = {
    "NaN taken for a number": (
        OPERATORS["nn.leakyrelu"],
        changed("nn.leakyrelu", lambda attrs, x: np.where(x < x.dtype.type(0), alpha(attrs, x) * x, x)),
    ),
    "arms exchanged": (
        OPERATORS["nn.leakyrelu"],
        changed("nn.leakyrelu", lambda attrs, x: np.where(x >= x.dtype.type(0), alpha(attrs, x) * x, x)),
    ),
    "bounds in another order": (
        OPERATORS["clip"],
        changed("clip", lambda attrs, x: by_table("max", by_table("min", x, np.float32(6)), np.float32(0))),
    ),
    "another constant": (
        OPERATORS["nn.gelu"],
        changed("nn.gelu", lambda attrs, x: np.float32(0.5) * x * (np.float32(1) + x.by("erf"))),
    ),
    "a narrow step": (
        OPERATORS["add"],
        changed("add", lambda attrs, a, b: (a.astype(np.float16) + b.astype(np.float16)).astype(np.float32)),
    ),
    "operands exchanged": (OPERATORS["subtract"], changed("subtract", lambda attrs, a, b: b - a)),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_kernel_is_held_against_the_definition_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another definition is another notation, and the kernel of the right one is not shown to be it."""
    right, wrong = DEFINITIONS[name]
    use = symbolic_use(right, right.examples[0])
    kernel = use.kernel()
    monkeypatch.setitem(MEANINGS, right.name, of_value(right))
    assert prove_for_all_sizes(kernel, right, use.attrs).reason == ""
    monkeypatch.setitem(MEANINGS, right.name, of_value(wrong))
    assert not prove_for_all_sizes(kernel, wrong, use.attrs).holds


def test_a_value_that_needs_numbers_has_no_notation() -> None:
    x = Var("x", FLOAT32)
    for value in (
        lambda attrs, x: np.sort(x),
        lambda attrs, x: np.asarray(x),
        lambda attrs, x: np.add.reduce(x),
        lambda attrs, x: np.cbrt(x),
        lambda attrs, x: np.float32(1),
    ):
        with pytest.raises(Crash):
            element_value(changed("abs", value), {}, x)
    assert notation(SymbolicElement(x).moved(lambda a: a).view(np.int32).astype(np.float32).term)
    assert notation(element_value(OPERATORS["bitwise_not"], {}, Var("n", dtype("uint8")))) == "255 - n"
