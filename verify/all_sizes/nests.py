"""Index notation at given sizes as a tensor function: element by element, each fold a loop of its own (specs/verify.md,
"For all sizes"). So what shows that a kernel is its operator's value at these sizes shows it of the notation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.semantics.indexed.fold import Fold
from assay.semantics.indexed.meaning import Meaning, Use
from assay.semantics.operator import Attrs, Operator
from assay.semantics.scalar import Expr, as_expr, const, substitute
from assay.semantics.tensor import Allocate, Assert, Buffer, For, PrimFunc, Stmt, loops, seq, store
from assay.semantics.types import TensorType, Type, flatten
from assay.semantics.walk import post_order


def use_of(op: Operator, attrs: Attrs, operands: Sequence[TensorType], result: Type) -> Use:
    """A use with buffers of its own."""
    inputs = tuple(Buffer(n, t.shape, t.dtype) for n, t in zip(operand_names(op, len(operands)), operands, strict=True))
    types = flatten(result)
    names = ["out"] if len(types) == 1 else [f"out{k}" for k in range(len(types))]
    outputs = tuple(Buffer(n, t.shape, t.dtype) for n, t in zip(names, types, strict=True))
    return Use(op.check_attrs(attrs), inputs, outputs)


def operand_names(op: Operator, count: int) -> list[str]:
    """The names of an operator's operands, as many as there are."""
    plain = [n.rstrip("?") for n in op.operands if not n.startswith("*")]
    many = next((n[1:] for n in op.operands if n.startswith("*")), "x")
    return [plain[k] if k < len(plain) else f"{many}{k - len(plain)}" for k in range(count)]


def as_function(name: str, meaning: Meaning, use: Use) -> PrimFunc:
    """The notation as a tensor function."""
    body: list[Stmt] = []
    for asked in meaning.asks(use):
        names = " ".join(f"j{k}" for k in range(len(asked.extents)))
        test = asked.condition
        body.append(loops(names, asked.extents, lambda *j, test=test: Assert(test(*j), name, "out of bounds")))
    for number, out in enumerate(use.results):
        own = Use(use.attrs, use.operands, use.results, number)
        names = " ".join(f"i{k}" for k in range(len(out.shape)))

        def element(*i: Expr, own: Use = own, out: Buffer = out) -> Stmt:
            return with_value(meaning.element(own, *i), lambda value: store(out, i, value))

        body.append(loops(names, out.shape, element))
    return PrimFunc(name, (*use.operands, *use.results), len(use.results), seq(*body))


def with_value(expr: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
    """`body(value)` after the loops that the folds of an expression are."""
    inner: dict[int, tuple[Buffer, Stmt]] = {}
    for node in post_order(expr):
        if isinstance(node, Fold):
            inner[id(node)] = _loop(node, inner)
    done: Stmt = body(_without(expr, inner))
    return _around(expr, inner, done)


def _loop(fold: Fold, inner: dict[int, tuple[Buffer, Stmt]]) -> tuple[Buffer, Stmt]:
    total = Buffer("total", (1,), fold.dtype)
    step = substitute(_without(fold.step, inner), {fold.acc: total[0]})
    body = _around(fold.step, inner, store(total, 0, step))
    for v, n in zip(reversed(fold.vars), reversed(fold.extents), strict=True):
        body = For(v, as_expr(n), body, "serial")
    return total, seq(_around(fold.init, inner, store(total, 0, _without(fold.init, inner))), body)


def _around(expr: Expr, inner: dict[int, tuple[Buffer, Stmt]], body: Stmt) -> Stmt:
    """A statement after the loops of the folds that stand in an expression itself."""
    for fold in reversed(_outermost(expr)):
        total, made = inner[id(fold)]
        body = Allocate(total, seq(made, body))
    return body


def _outermost(expr: Expr) -> list[Fold]:
    return [n for n in post_order(expr, lambda n: () if isinstance(n, Fold) else n.children) if isinstance(n, Fold)]


def _without(expr: Expr, inner: dict[int, tuple[Buffer, Stmt]]) -> Expr:
    """The expression with an element of memory for each fold that stands in it."""
    made: dict[int, Expr] = {}
    for node in post_order(expr, lambda n: () if isinstance(n, Fold) else n.children):
        if isinstance(node, Fold):
            made[id(node)] = inner[id(node)][0][const(0)]
        else:
            made[id(node)] = node.with_children([made[id(c)] for c in node.children])
    return made[id(expr)]
