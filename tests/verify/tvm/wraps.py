"""A tensor function that traps where whole numbers wrap (specs/verify.md, "Inside a backend").

Numbers wrap in our language (rule M5); in TVM's compiled code that is undefined, for signed and unsigned ones alike.
The function here does the same, and asserts before each store, let and branch that nothing in its expressions has
wrapped.
"""

from __future__ import annotations

from dataclasses import replace

from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.scalar import Apply, Choice, Const, Expr, Load, apply, both, cast, choice, const, show
from assay.semantics.tensor import Assert, If, LetStmt, PrimFunc, Stmt, Store, seq
from assay.semantics.walk import post_order

KIND = "wrap"
"""The kind of the trap."""

ARITHMETIC = ("add", "sub", "mul")


def trapping(func: PrimFunc) -> PrimFunc:
    """`func`, which traps with the kind `wrap` where it would wrap."""
    new: dict[int, Stmt] = {}
    for stmt in post_order(func.body):
        made = stmt.with_children([new[id(c)] for c in stmt.children])
        expressions = (*stmt.indices, stmt.value) if isinstance(stmt, Store) else ()
        if isinstance(stmt, LetStmt):
            expressions = (stmt.value,)
        elif isinstance(stmt, If):
            expressions = (stmt.condition,)
        checks = [
            Assert(safe, f"{show(e)} wraps", KIND, span=stmt.span)
            for e in expressions
            if (safe := in_range(e)) is not None
        ]
        new[id(stmt)] = seq(*checks, made) if checks else made
    return replace(func, body=new[id(func.body)])


def in_range(root: Expr) -> Expr | None:
    """The condition that nothing wraps while `root` is evaluated; None where nothing can."""
    safe: dict[int, Expr | None] = {}
    for e in post_order(root):
        match e:
            case Choice():
                c, a, b = (safe[id(p)] for p in e.children)
                held = None
                if a is not None or b is not None:
                    yes = const(True, BOOL)
                    held = choice(e.children[0], yes if a is None else a, yes if b is None else b)
                safe[id(e)] = _all([c, held])
            case Apply() if e.op in ARITHMETIC and e.dtype.is_integer and not all(isinstance(a, Const) for a in e.args):
                safe[id(e)] = _all([*(safe[id(p)] for p in e.children), _exact(e)])
            case _:
                safe[id(e)] = _all([safe[id(p)] for p in e.children])
    return safe[id(root)]


def _all(conditions: list[Expr | None]) -> Expr | None:
    held: Expr | None = None
    for c in conditions:
        if c is not None:
            held = c if held is None else both(held, c)
    return held


def _exact(e: Apply) -> Expr | None:
    """That one operation on whole numbers does not wrap."""
    a, b = e.args
    if e.dtype.itemsize < 8 and not isinstance(e, Load):
        wide = apply(e.op, cast(a, INT64), cast(b, INT64))
        if e.op == "mul" and e.dtype.itemsize == 4 and e.dtype.name.startswith("u"):
            return _product(e, a, b)
        return apply("eq", wide, cast(e, INT64))
    zero = const(0, e.dtype)
    unsigned = e.dtype.name.startswith("u")
    match e.op:
        case "add" if unsigned:
            return apply("ge", e, a)
        case "sub" if unsigned:
            return apply("ge", a, b)
        case "add":
            return apply("eq", apply("ge", e, a), apply("ge", b, zero))
        case "sub":
            return apply("eq", apply("le", e, a), apply("ge", b, zero))
        case _:
            return _product(e, a, b)


def _product(e: Apply, a: Expr, b: Expr) -> Expr:
    """That `a * b` divided by `a` is `b`. The one product that divides back and wraps is -1 times the least number."""
    zero, yes = const(0, e.dtype), const(True, BOOL)
    back = choice(
        apply("eq", a, zero),
        yes,
        apply("eq", apply("floordiv", e, choice(apply("eq", a, zero), const(1, e.dtype), a)), b),
    )
    if e.dtype.name.startswith("u"):
        return back
    same_sign = apply("eq", apply("lt", e, zero), apply("ne", apply("lt", a, zero), apply("lt", b, zero)))
    return both(choice(apply("eq", e, zero), apply("eq", apply("mul", a, b), zero), same_sign), back)
