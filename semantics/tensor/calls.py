"""Calls of tensor functions by tensor functions (rule M6.13; specs/semantics.md, "Tensor IR").

A call is the body of what it calls, with names of its own: its buffers are views of those handed over, its scalars and
symbols are lets. `activation` writes that, `without_calls` does it to a whole function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from weakref import WeakKeyDictionary

from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Const, Dim, Expr, Var, apply, as_expr, cast, const, same, show, variables
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.tensor.places import dense_strides
from assay.semantics.tensor.regions import is_checked
from assay.semantics.walk import occurrences, rewrite

DEEPEST = 200
"""Activations inside one another; more are a trap."""


def callee(call: tensor.Call, functions: Mapping[str, tensor.PrimFunc]) -> tensor.PrimFunc:
    """The tensor function that is called; Invalid (tensor.C15) where there is none of that name."""
    found = functions.get(call.function)
    if found is None:
        raise Invalid(f"there is no tensor function {call.function}", where=call.span, label="tensor.C15")
    return found


def calls_of(func: tensor.PrimFunc) -> tuple[tensor.Call, ...]:
    """The calls in a function."""
    return tuple(s for s in tensor.program_order(func.body) if isinstance(s, tensor.Call))


def activation(call: tensor.Call, func: tensor.PrimFunc) -> tensor.Stmt:
    """What a call of `func` means. Invalid where the arguments do not fit its parameters."""
    buffers, scalars = call.buffers, call.expressions
    wrong = [a for a in call.args if isinstance(a, str)]
    if len(buffers) != len(func.params) or len(scalars) != len(func.scalars) or wrong:
        want = f"{len(func.params)} buffers and {len(func.scalars)} scalars"
        got = f"{len(buffers)} and {len(scalars)}" + (f" and the string {wrong[0]!r}" if wrong else "")
        raise Invalid(f"{func.name} takes {want}, {got} are given", where=call.span, label="tensor.C16")
    fresh = Mapper.renewing(func)
    lets: list[tuple[Var, Expr]] = []
    for v, e in zip(func.scalars, scalars, strict=True):
        if e.dtype is not v.dtype:
            raise Invalid(
                f"{func.name} takes {v.name} as {v.dtype}, {e.dtype} is given", where=call.span, label="tensor.C16"
            )
        lets.append((fresh.var(v), e))
    known = set(func.scalars)
    origin: list[str] = []
    for p, b in zip(func.params, buffers, strict=True):
        if p.dtype is not b.dtype:
            raise Invalid(f"{func.name} takes {p!r}, {b!r} is given", where=call.span, label="tensor.C16")
        for d, n in zip(p.shape, b.shape, strict=False) if len(p.shape) == len(b.shape) else ():
            if isinstance(d, Var) and d not in known:
                known.add(d)
                lets.append((fresh.var(d), cast(n, INT64)))
                origin.append(f"{d.name} = {show(n)} by {b.name}")
    checks: list[tensor.Stmt] = []
    views: list[tensor.View] = []
    for k, (p, b) in enumerate(zip(func.params, buffers, strict=True)):
        unbound = [v.name for d in p.shape for v in variables(d) if v not in known]
        if unbound:
            raise Invalid(
                f"{func.name}: the call does not say what {unbound[0]} is", where=call.span, label="tensor.C16"
            )
        own = fresh.buffer(p)
        checks += shape_checks(func, p, own, b, call, origin)
        views.append(tensor.View(own, b, const(0), dense_strides(own.shape), constant=k < len(func.inputs)))
    body: tensor.Stmt = fresh.run(_open(func.body))
    for view in reversed(views):
        body = tensor.Alias(view, body, span=call.span)
    body = tensor.seq(*checks, body)
    for var, value in reversed(lets):
        body = tensor.LetStmt(var, value, body, span=call.span)
    return body


def _open(body: tensor.Stmt) -> tensor.Stmt:
    """`body`, its root blocks saying expressly that they say nothing: it may come to stand in a block that does."""
    outermost = occurrences(body, lambda s: () if isinstance(s, tensor.Block) else s.children)
    roots = {id(s) for s in outermost if isinstance(s, tensor.Block) and not is_checked(s, outermost=True)}
    return rewrite(
        body, lambda s: replace(s, reads=None, writes=None) if isinstance(s, tensor.Block) and id(s) in roots else s
    )


def shape_checks(
    func: tensor.PrimFunc,
    param: tensor.Buffer,
    own: tensor.Buffer,
    given: tensor.Buffer,
    call: tensor.Call,
    origin: Sequence[str],
) -> list[tensor.Stmt]:
    """Checks that a buffer has the shape of its parameter, or, where it is handed over by its first element, its size.

    A row of a constant number of elements is that: what is called sees the first of them (rule M6.18).
    """
    row = len(param.shape) == 1 and isinstance(param.shape[0], int)
    whole = len(param.shape) == len(given.shape) and not row
    if whole:
        pairs = list(zip(own.shape, given.shape, strict=True))
    else:
        pairs = [(size_of(own.shape), size_of(given.shape))]
    found: list[tensor.Stmt] = []
    for k, (d, n) in enumerate(pairs):
        if (isinstance(d, int) and isinstance(n, int) and (d == n if whole else d <= n)) or same(
            as_expr(d), as_expr(n)
        ):
            continue
        what = f"{show(n)} in dimension {k}" if whole else f"{show(n)} elements, which must be at least {show(d)}"
        because = f"; {', '.join(origin)}" if origin else ""
        message = f"{func.name} takes {param!r}; {given.name} has {what}{because}"
        found.append(
            tensor.Assert(apply("eq" if whole else "le", as_expr(d), as_expr(n)), message, "shape", span=call.span)
        )
    return found


def size_of(shape: Sequence[Dim]) -> Dim:
    """The number of elements of a shape, an expression where a dim is one."""
    numbers = prod(d for d in shape if isinstance(d, int))
    total: Dim = numbers
    for d in shape:
        if isinstance(d, Expr):
            total = apply("mul", total, d)
    return total


def from_element(
    source: tensor.Buffer, offset: Expr, length: Dim | None = None, *, constant: bool = False
) -> tensor.View:
    """A view of `length` elements of `source`, all that are left by default, from `offset` on in row-major order."""
    if length is None:
        rest = as_expr(size_of(source.shape)) - offset
        length = int(rest.value) if isinstance(rest, Const) else rest
    made = tensor.Buffer(f"{source.name}_from", (length,), source.dtype, source.scope)
    return tensor.View(made, source, offset, (const(1),), constant=constant)


def calls_extern(func: tensor.PrimFunc) -> bool:
    """Whether a function calls an extern itself: running it is an action (rule M6.20)."""
    if func not in _externs:
        _externs[func] = any(c.extern for c in calls_of(func))
    return _externs[func]


_externs: WeakKeyDictionary[tensor.PrimFunc, bool] = WeakKeyDictionary()


def without_calls(func: tensor.PrimFunc, functions: Mapping[str, tensor.PrimFunc]) -> tensor.PrimFunc:
    """`func` with every call of a tensor function replaced by what it means; itself where it has none.

    Calls of externs stay. Unsupported for a function that calls itself: only the definition runs that.
    """
    body, level = func.body, 0
    while calls := [s for s in tensor.program_order(body) if isinstance(s, tensor.Call) and not s.extern]:
        level += 1
        for c in calls:
            if level > len(functions):
                what = f"{func.name} calls {c.function} in a cycle, which only the definition runs; a loop would do"
                raise Unsupported(what, where=c.span, label="tensor.C17")
        made = {id(c): activation(c, callee(c, functions)) for c in calls}
        body = rewrite(body, lambda s: made.get(id(s), s))  # noqa: B023
    return func if body is func.body else replace(func, body=body)
