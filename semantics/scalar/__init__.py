"""The scalar language: dims, indices, constraints and tensor-IR arithmetic (specs/semantics.md, "Scalars").

One language with one meaning. A scalar expression is a tree of `Var`, `Const`, `Apply`, `Cast`, `Load` and `Choice`,
built by `assay.semantics.scalar.expression`; what each operation does to numbers stands once, in
`assay.semantics.scalar.arithmetic`. Here they come together: evaluation, structure and linear forms.

    n = Var("n")
    (n + 1) * 4 - n                       # overloaded operators build `Apply` nodes
    evaluate((n + 1) * 4 - n, {n: 3})     # 13
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.semantics.errors import Trap
from assay.semantics.integers.linear import Form, combined
from assay.semantics.scalar.arithmetic import (
    ANY as ANY,
    DERIVED as DERIVED,
    NUMERIC as NUMERIC,
    OPERATIONS as OPERATIONS,
    TRANSCENDENTAL as TRANSCENDENTAL,
    WHOLE as WHOLE,
    Operation as Operation,
    convert as convert,
    operation as operation,
)
from assay.semantics.scalar.evaluation import evaluate as evaluate, evaluate_dim as evaluate_dim
from assay.semantics.scalar.expression import (
    Apply as Apply,
    Cast as Cast,
    Choice as Choice,
    Const as Const,
    Dim as Dim,
    Expr as Expr,
    Load as Load,
    Number as Number,
    Var as Var,
    apply as apply,
    as_expr as as_expr,
    both as both,
    cast as cast,
    choice as choice,
    const as const,
    either as either,
    leaves_range,
    may_trap as may_trap,
    neutral as neutral,
    reinterpret as reinterpret,
    select as select,
    show as show,
)
from assay.semantics.scalar.structure import Interner as Interner
from assay.semantics.walk import post_order, rewrite


def without_value(dim: Dim) -> str:
    """Why a dim that hangs on nothing has no value; "" where it has one, or hangs on something."""
    if isinstance(dim, int) or any(isinstance(n, (Var, Load)) for n in post_order(dim)):
        return ""
    value: dict[int, Any] = {}
    try:
        evaluate(dim, {}, known=value)
    except Trap as trap:
        return trap.message
    for node in post_order(dim):
        if isinstance(node, Apply) and id(node) in value:
            if leaves_range(node.op, [value[id(a)] for a in node.args], value[id(node)]):
                return f"{show(node)} is beyond {node.dtype}"
    return ""


# --- structure ---------------------------------------------------------------------------------------------------


def substitute(expr: Expr, by: Mapping[Var, Number]) -> Expr:
    """`expr` with variables replaced."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Var) and node in by:
            new = by[node]
            return new if isinstance(new, Expr) else const(new, node.dtype)
        return node

    return rewrite(expr, change)


def variables(expr: Number) -> list[Var]:
    """The variables of an expression, in the order of their first occurrence."""
    return [n for n in post_order(expr) if isinstance(n, Var)] if isinstance(expr, Expr) else []


def same(a: Number, b: Number) -> bool:
    """Whether two expressions have the same structure."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        number = Interner()
        return number(a) == number(b)
    return a == b


LINEAR = ("add", "sub", "neg", "mul")
"""The operations that `linear` looks into."""


def linear(expr: Number, wrapped: list[int] | None = None) -> Form[Expr] | None:
    """`expr` as a sum of integer multiples of atoms and a constant.

    Atoms are variables and whatever is not itself a sum or a constant multiple; atoms of the same structure are one.
    Factors and constant wrap as the dtype does; those that did are added to `wrapped`. None where the expression is not
    of integer dtype.
    """
    if not isinstance(expr, Expr):
        return Form({}, int(expr)) if isinstance(expr, int) else None
    if not expr.dtype.is_integer:
        return None
    number = Interner()
    atoms: dict[int, Expr] = {}
    forms: dict[int, Form[Expr]] = {}
    least, count = int(expr.dtype.min), 1 << expr.dtype.bits

    def wrap(k: int) -> int:
        inside = (k - least) % count + least
        if wrapped is not None and inside != k:
            wrapped.append(k)
        return inside

    for node in post_order(expr, lambda n: n.children if isinstance(n, Apply) and n.op in LINEAR else ()):
        form: Form[Expr] | None = None
        if isinstance(node, Const) and node.dtype.is_integer:
            form = Form({}, int(node.value))
        elif isinstance(node, Apply) and node.op in LINEAR:
            form = combined(node.op, [forms[id(a)] for a in node.args])
        if form is None:
            form = Form({atoms.setdefault(number(node), node): 1})
        forms[id(node)] = Form.of({a: wrap(k) for a, k in form.terms.items()}, wrap(form.constant))
    return forms[id(expr)]


def simplify(expr: Dim) -> Dim:
    """A dim in canonical form: a number where it is constant, else its atoms in order of first occurrence. One
    in numbers alone that would wrap stays as it is."""
    if not isinstance(expr, Expr):
        return expr
    wrapped: list[int] = []
    form = linear(expr, wrapped)
    if form is None or (wrapped and not any(isinstance(n, (Var, Load)) for n in post_order(expr))):
        return expr
    if not form.terms:
        return form.constant
    result: Number = 0
    for a, k in form.terms.items():
        result = a * k if isinstance(result, int) else result + a * k
    if form.constant:
        result = result + form.constant
    assert isinstance(result, Expr)
    return result


def provably_equal(a: Dim, b: Dim) -> bool:
    """Whether two dims are equal for all values of their symbols, as far as arithmetic of sums and products shows."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    left: Number = a if isinstance(a, Expr) else const(a)
    difference = simplify(apply("sub", left, b))
    if isinstance(difference, int) or not _has_products(difference):
        return isinstance(difference, int) and difference == 0
    from assay.semantics.integers.polynomials import ZERO, Polynomials  # they are built on this package

    return Polynomials({}).of(difference) == ZERO


def _has_products(dim: Expr) -> bool:
    """Whether a part of it is more than a sum of symbols: sums alone are what `simplify` decides."""
    return any(isinstance(n, Apply) and n.op not in ("add", "sub", "neg") for n in post_order(dim))


from assay.semantics.scalar import (  # noqa: E402  each fills its part of the table, and needs what stands above
    derived as derived,
    transcendental as transcendental,
)
