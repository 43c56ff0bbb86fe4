"""Programs of any size in the shapes that a walk over programs can trip over."""

from __future__ import annotations

from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Expr, Function, call, function, if_, let, tuple_of, var
from assay.semantics.types import TensorType

F, B = TensorType((2, 3), FLOAT32), TensorType((), BOOL)


def nested(n: int) -> Function:
    """n calls, each the operand of the next."""
    x = var("x", F)
    e: Expr = x
    for _ in range(n):
        e = call("nn.relu", e)
    return function([x], e)


def chained(n: int) -> Function:
    """n lets, one after the other."""
    x = var("x", F)
    names = [var(f"v{i}", F) for i in range(n)]
    e: Expr = names[-1]
    for i in reversed(range(n)):
        e = let(names[i], call("nn.relu", names[i - 1] if i else x), e)
    return function([x], e)


def flattened(n: int) -> Function:
    """n lets, each the value of the next."""
    x = var("x", F)
    e: Expr = x
    for _ in range(n):
        v = var("v", F)
        e = let(v, e, call("nn.relu", v))
    return function([x], e)


def shared(n: int) -> Function:
    """n sums, each of two earlier ones."""
    x = var("x", F)
    made: list[Expr] = [x]
    for _ in range(n):
        made.append(call("add", made[-1], made[len(made) // 2]))
    return function([x], made[-1])


def wide(n: int) -> Function:
    """A tuple of n values that all need one."""
    x = var("x", F)
    e = call("exp", x)
    return function([x], tuple_of(*(call("add", e, x) for _ in range(n))))


def branches(n: int) -> Function:
    """n Ifs inside one another; each level uses a value from the outermost."""
    x, c = var("x", F), var("c", B)
    top = call("negative", x)
    e: Expr = top
    for _ in range(n):
        e = if_(c, call("add", e, top), top)
    return function([x, c], e)


def functions(n: int) -> Function:
    """n small functions, each called once, the results chained."""
    x = var("x", F)
    e: Expr = x
    for _ in range(n):
        y = var("y", F)
        e = call(function([y], call("exp", y)), e)
    return function([x], e)


def closures(n: int) -> Function:
    """n functions inside one another, each using a value from the outermost."""
    x = var("x", F)
    top = call("exp", x)
    e: Expr = x
    for _ in range(n):
        y = var("y", F)
        e = call(function([y], call("add", y, e)), top)
    return function([x], e)


SHAPES = {f.__name__: f for f in (nested, chained, flattened, shared, wide, branches, functions, closures)}
