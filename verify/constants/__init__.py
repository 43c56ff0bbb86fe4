"""Whether folding, merging and placing constants changed anything (specs/verify.md, "constants").

The source is numbered again with every call on constants evaluated; the target's table is numbered by content (dtype,
shape and bytes). Equal results mean equal programs. No value is used on a device where it was not, and the table is
what `assay.verify.constants.constant_table` says. z3 shows that no two constants share a byte of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.accounting import account
from assay.semantics.errors import Trap
from assay.semantics.graph import Call, CallTIR, Expr, Function, GlobalVar, Let, show_head
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import flatten
from assay.semantics.walk import post_order
from assay.verify.constants.constant_table import moved, wrong_table
from assay.verify.evidence import Context, Did, Evidence, plural, proved, refuted, size
from assay.verify.kept import count_calls
from assay.verify.memory import prove_plan
from assay.verify.value_numbering import Numbered, number_function
from assay.verify.value_numbering.terms import Table

Array = np.ndarray[Any, Any]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether constants were folded and placed, and nothing else has changed; z3's question is kept."""
    evidence, context.queries["constants"] = check_constants(before, after)
    return evidence


def describe(before: Module, after: Module) -> Did:
    """How many calls are left, and how large the table is."""
    old, new, count = count_calls(before), count_calls(after), len(after.constants)
    total = account(after).total
    data = {"calls_before": old, "calls": new, "constants": count, "constant_bytes": total}
    return f"{old} to {plural(new, 'call')}; {plural(count, 'constant')}, {size(total)}", data


def check_constants(source: Module, target: Module) -> tuple[Evidence, str]:
    """Whether `target` is `source` with its constants folded and in a table; and the text that z3 was asked."""
    gone = _missing(target)
    if gone is not None:
        return refuted("proved", gone), ""
    table = Table()
    for name, before in source.definitions.items():
        if not isinstance(before, Function):
            continue
        after = target.definitions.get(name)
        if not isinstance(after, Function):
            return refuted("proved", f"function {name} is gone"), ""
        one = number_function(before, source, table, _folder(source))
        two = number_function(after, target, table, _folder(target))  # a copy out of a special memory stays
        if one.result != two.result:
            return refuted("proved", _difference(one, two)), ""
        if one.events != two.events:
            return refuted("proved", "a call that can trap is dropped, added or moved"), ""
        elsewhere = moved(one, two, source, target)
        if elsewhere is not None:
            return refuted("proved", f"in {name}, {elsewhere}"), ""
    wrong = wrong_table(source, target)
    if wrong is not None:
        return refuted("proved", wrong), ""
    buffers = tuple(
        BufferInfo(n, a.nbytes, ((0, 1),), target.info(n).alignment, "constant", producer="constant")
        for n, a in target.constants.items()
    )
    table_pool = Pool("constants", "constant", alignment=max([1, *(b.alignment for b in buffers)]))
    places = {n: Place(table_pool.name, target.offsets[n]) for n in target.constants if n in target.offsets}
    proof = prove_plan(Problem(buffers, (table_pool,)), Plan(places, {table_pool.name: account(target).total}))
    text = proof.queries.get("pool0", "")
    if not proof.evidence.holds:
        return proof.evidence, text
    return proved(f"same value for every input; z3: no two of {len(buffers)} constants share a byte"), text


def _missing(target: Module) -> str | None:
    """A tensor function that is called and not there."""
    for name, d in target.definitions.items():
        for node in post_order(d) if isinstance(d, Function) else ():
            if isinstance(node, CallTIR) and node.func not in target.kernels:
                return f"{name} calls the tensor function {node.func}, which is gone"
    return None


def _difference(source: Numbered, target: Numbered) -> str:
    """The first value of the target, operands first, that the source does not have, and who uses it."""
    known = set(source.of.values())
    new = (n for n in target.order if target.of[id(n)] not in known)
    odd = next((n for n in new if not isinstance(n, Let) and n is not target.function), None)
    if odd is None:
        return "the result is another of the source's values"
    if not isinstance(odd, GlobalVar):
        return f"{_shown(odd)} is not a value of the source"
    user = next((n for n in target.order if odd in n.children), None)
    where = f", used by {_shown(user)}" if user is not None else ""
    return f"constant {odd.name} has a value that the source does not have{where}"


def _shown(node: Expr) -> str:
    return show_head(node) + (f" at {node.span}" if node.span else "")


def _folder(module: Module) -> Callable[[Expr, Sequence[Array]], Sequence[Array] | None]:
    """Evaluates a call on constants: by the tensor function's rules, a view by its operator."""
    module = module.resolved()

    def fold(node: Expr, args: Sequence[Array]) -> Sequence[Array] | None:
        if not all(t.is_static for t in flatten(node.type)):
            return None  # sizes decide it
        if isinstance(node, Call) and isinstance(node.op, Operator):
            return [node.op.value(node.attrs, *args)]
        assert isinstance(node, CallTIR)
        if node.scalars:
            return None
        try:
            return list(vector.run(module.kernel(node.func), args))
        except Trap:
            return None

    return fold
