"""Which parameters of its tensor functions a module of TVM says are results (specs/verify.md, "Inside a backend").

A graph function says it where it calls: `call_tir` fills new tensors, `call_tir_inplace` names the operands that it
changes. Once memory is allocated nothing says it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.lower.frontends.tvm.calls import TIR, tuple_fields
from assay.lower.frontends.tvm.objects import Object, op_name, type_key
from assay.semantics.walk import occurrences


def parts(o: Object) -> list[Object]:
    """The expressions directly in an expression of a live graph function."""
    match type_key(o):
        case "relax.expr.Function":
            return [o.body]
        case "relax.expr.SeqExpr":
            return [*(b.value for block in o.blocks for b in block.bindings), o.body]
        case "relax.expr.If":
            return [o.cond, o.true_branch, o.false_branch]
        case "ir.Call":
            return [o.op, *o.args]
        case "ir.Tuple":
            return list(o.fields)
        case "ir.TupleGetItem":
            return [o.tuple_value]
        case _:
            return []


def declared_results(modules: Iterable[Object]) -> dict[str, frozenset[int]]:
    """The places of the results of each tensor function, as the graph functions of modules say it, all calls of one
    name together."""
    found: dict[str, frozenset[int]] = {}
    for mod in modules:
        for _, f in mod.functions.items():
            if type_key(f) == "relax.expr.Function":
                for name, places in _calls(f):
                    found[name] = found.get(name, frozenset()) | places
    return found


def _calls(function: Object) -> Iterator[tuple[str, frozenset[int]]]:
    for o in occurrences(function, parts):
        if type_key(o) != "ir.Call" or op_name(o.op) not in TIR or type_key(o.args[0]) != "ir.GlobalVar":
            continue
        operands = len(tuple_fields(o.args[1]))
        changed = [-1] * _count(o.ty_args)
        if op_name(o.op) == "relax.call_tir_inplace":
            changed = [int(i) for i in o.attrs.inplace_indices]
        fresh = range(operands, operands + changed.count(-1))
        yield str(o.args[0].name_hint), frozenset([*fresh, *(i for i in changed if i >= 0)])


def _count(types: Iterable[Object]) -> int:
    """How many tensors there are in some types."""
    inside = [o for t in types for o in occurrences(t, lambda t: t.fields if type_key(t) == "ir.TupleType" else ())]
    return sum(type_key(o) != "ir.TupleType" for o in inside)
