"""The bindings and nodes of a live graph function of TVM (specs/verify.md, "Inside a backend")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.lower.frontends.tvm.objects import Object, handle, op_name, type_key
from assay.semantics.walk import Worklist, occurrences
from assay.verify.tvm.results import parts

VARS = ("ir.Var", "relax.expr.DataflowVar")


def bindings(function: Object) -> Iterator[tuple[Object, Object]]:
    """Every variable that is bound in a function with its value, those of branches and local functions too."""
    for o in occurrences(function, parts):
        if type_key(o) == "relax.expr.SeqExpr":
            yield from ((b.var, b.value) for block in o.blocks for b in block.bindings)


def nodes(function: Object, live: bool) -> Iterator[Object]:
    """The expressions of a function; with `live` only what its result or an effect depends on."""
    bound = {handle(v): value for v, value in bindings(function)}
    effects = [value for value in bound.values() if acts(value)]
    work = Worklist([*effects, _result(function) if live else function], handle)
    for o in work:
        yield o
        if type_key(o) in VARS:
            work.add([bound[handle(o)]] if handle(o) in bound else [])
        elif live and type_key(o) == "relax.expr.SeqExpr":
            work.add([o.body])
        else:
            work.add(parts(o))


def _result(function: Object) -> Object:
    return function.body.body if type_key(function.body) == "relax.expr.SeqExpr" else function.body


ACTING = ("relax.call_packed", "relax.print", "relax.assert_op", "relax.call_builtin_with_ctx")
"""Operators of Relax whose call is an effect."""


def acts(value: Object) -> bool:
    """Whether a binding matters though it is not used: a kernel called on memory, an effect, a function of the
    module."""
    if type_key(value) != "ir.Call":
        return False
    name = op_name(value.op)
    return not name.startswith("relax.") or "call_pure" in name or name in ACTING
