"""Operations of TVM that are short for others (specs/semantics.md, "Scalars").

A row here is an expression over its operands. That expression is its meaning, and what the lowering puts in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.scalar.arithmetic import DERIVED, Operation
from assay.semantics.scalar.evaluation import evaluate
from assay.semantics.scalar.expression import Expr, Var, apply, const

Definition = Callable[..., Expr]


def _rsqrt(x: Expr) -> Expr:
    return 1.0 / apply("sqrt", x)


def _sigmoid(x: Expr) -> Expr:
    return 1.0 / (1.0 + apply("exp", -x))


def _isnan(x: Expr) -> Expr:
    return apply("ne", x, x)


def _isinf(x: Expr) -> Expr:
    return apply("eq", apply("abs", x), const(np.inf, x.dtype))


def _isfinite(x: Expr) -> Expr:
    return apply("lt", apply("abs", x), const(np.inf, x.dtype))


def _trunc(x: Expr) -> Expr:
    return apply("select", x < 0.0, apply("ceil", x), apply("floor", x))


def _round(x: Expr) -> Expr:
    return apply("rint", x)


DEFINITIONS: dict[str, tuple[Definition, bool, str]] = {
    "rsqrt": (_rsqrt, False, "1 / sqrt(x), each of the two rounded"),
    "sigmoid": (_sigmoid, False, "1 / (1 + exp(-x)), each step rounded"),
    "isnan": (_isnan, True, "whether x is NaN"),
    "isinf": (_isinf, True, "whether x is an infinity"),
    "isfinite": (_isfinite, True, "whether x is neither NaN nor an infinity"),
    "round": (_round, False, "the nearest integer, ties to even, as apache-tvm 0.27 rounds"),
    "trunc": (_trunc, False, "x rounded to zero"),
}
"""The expression, whether it is bool, and what it is in words. All take one float."""


def expand(op: str, args: tuple[Expr, ...]) -> Expr:
    """The expression that the application of a derived operation stands for."""
    return DEFINITIONS[op][0](*args)


def _meaning(definition: Definition) -> Callable[..., Any]:
    def meaning(value: Any) -> Any:
        x = Var("x", dtype(np.asarray(value).dtype))
        return evaluate(definition(x), {x: value})

    return meaning


DERIVED.update(
    (name, Operation(name, 1, ("float",), "bool" if is_bool else "same", _meaning(of), doc))
    for name, (of, is_bool, doc) in DEFINITIONS.items()
)
