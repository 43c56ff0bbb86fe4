"""Whether constants went along when functions moved to another module, were bound or became parameters
(specs/verify.md, "constants").

`check_moved` puts the names back that the definitions had and writes every constant out: then each definition must be
the text that it was. So a reference that means other bits shows, whatever it is called. `check_bound` is the same with
names kept. `check_extracted` runs both: main with the arrays given is main before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp import graph, machine
from assay.semantics.analyses.equality import first_difference
from assay.semantics.analyses.variables import reachable
from assay.semantics.bits import same_bits
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Constant, Expr, Function, GlobalVar
from assay.semantics.linked import LINKED
from assay.semantics.module import GROUP, Definition, Module, Program, with_contents
from assay.semantics.rules import check
from assay.semantics.tensor import AllocateConst, Call, PrimFunc, Stmt, program_order
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.evidence import Evidence, checked, proved, refuted

Array = np.ndarray[Any, Any]


def check_moved(
    names: Iterable[str], source: Module, target: Module, result: Module, called: Mapping[str, str]
) -> Evidence:
    """Whether `result` is `target` with what `names` of `source` reach, under the names that `called` says."""
    try:
        check(result)
        source, target, result = source.resolved(), target.resolved(), result.resolved()
    except Invalid as wrong:
        return refuted("proved", str(wrong))
    reached = {n for n in reachable(source, list(names)) if n in source.definitions}
    if set(called) != reached or len(set(called.values())) != len(called):
        return refuted("proved", "what is said to have moved is not what the names reach, or two have one name")
    for name, d in target.definitions.items():
        now = result.definitions.get(name)
        difference = "it is gone" if now is None else first_difference(_plain(d, target, {}), _plain(now, result, {}))
        if difference is not None:
            return refuted("proved", f"{name}, which was there, has changed: {difference}")
    back = {new: old for old, new in called.items()}
    one: dict[str, str] = {}
    for name in reached:
        if called[name] not in result.definitions:
            return refuted("proved", f"{name} is not there as {called[name]}")
        old, new = source.definitions[name], result.definitions[called[name]]
        difference = first_difference(_plain(old, source, {}), _plain(new, result, back))
        if difference is not None:
            return refuted("proved", f"{name} is another thing as {called[name]}: {difference}")
        for before, after in zip(_named(old, source), _named(new, result), strict=True):
            if source.info(before) != result.info(after):
                return refuted("proved", f"constant {before} is stored otherwise as {after}")
            if one.setdefault(before, after) != after:
                return refuted("proved", f"constant {before} has become two")
    return proved(f"{len(reached)} definitions and {len(one)} constants are what they were")


def check_bound(before: Module, after: Module, arrays: Mapping[str, Array]) -> Evidence:
    """Whether `after` is `before` with `arrays` as contents of constants, and of their copies on other devices."""
    if (before.infos, before.offsets, [*before.constants]) != (after.infos, after.offsets, [*after.constants]):
        return refuted("proved", "constants have other names, or are stored otherwise")
    for name, array in after.constants.items():
        wanted = arrays.get(name, arrays.get(name.split("@")[0], before.constants[name]))
        if not same_bits(array, wanted):
            return refuted("proved", f"constant {name} has other contents than it is to have")
    for name, d in before.definitions.items():
        now = after.definitions.get(name)
        difference = "it is gone" if now is None else first_difference(_by_index(d), _by_index(now))
        if difference is not None:
            return refuted("proved", f"{name} has changed: {difference}")
    try:
        check(after)  # what a tensor function holds is what the table has (module.C9)
    except Invalid as wrong:
        return refuted("proved", str(wrong))
    return proved(f"nothing but the contents of {len(arrays)} constants has changed")


def check_extracted(
    before: Module, after: Module, arrays: Mapping[str, Array], inputs: Mapping[str, Array]
) -> Evidence:
    """Whether main with the arrays given is main before: the interface, and the bits of a run on `inputs`."""
    if after.constants:
        return refuted("checked", "there are still constants in the table")
    old, new = _params(before), _params(after)
    if new != [*arrays, *old]:
        return refuted("checked", "the parameters of main are not the arrays and then what they were")
    try:
        check(after)
        one, two = _run(before, inputs), _run(after, {**arrays, **inputs})
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    if len(one) != len(two) or not all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(one, two, strict=True)):
        return refuted("checked", "main with the arrays given has another result")
    return checked(f"the same result with {len(arrays)} arrays given")


def _params(module: Module) -> list[str]:
    entry = module.definitions["main"]
    return list(entry.inputs) if isinstance(entry, Program) else [p.name for p in module.main.params]


def _run(module: Module, inputs: Mapping[str, Array]) -> list[Any]:
    run = machine.run if isinstance(module.definitions["main"], Program) else graph.run
    return list(run(module, inputs).values())


def _named(d: Definition, module: Module) -> list[str]:
    """The constants of the table that a definition names, in the order of its text."""
    match d:
        case Function():
            return [n.name for n in post_order(d) if isinstance(n, GlobalVar) and n.name in module.constants]
        case PrimFunc():
            return [
                s.index for s in program_order(d.body) if isinstance(s, AllocateConst) and s.index in module.constants
            ]
        case _:
            return []


def _by_index(d: Definition) -> Definition:
    return with_contents(d, lambda s: None if s.index else s.data) if isinstance(d, PrimFunc) else d


def _plain(d: Definition, module: Module, back: Mapping[str, str]) -> Definition:
    """A definition with its constants written out, and with the names that it had."""

    def expression(node: Expr) -> Expr:
        match node:
            case GlobalVar() if node.name in module.constants:
                assert isinstance(node.type, TensorType)
                return Constant(node.type, module.constants[node.name], device=node.device)
            case GlobalVar():
                return replace(node, name=back.get(node.name, node.name))
            case CallTIR():
                return replace(node, func=back.get(node.func, node.func))
            case _:
                return node

    def statement(stmt: Stmt) -> Stmt:
        match stmt:
            case AllocateConst():
                return replace(stmt, data=module.constants.get(stmt.index, stmt.data), index="")
            case Call(extern=False):
                return replace(stmt, function=back.get(stmt.function, stmt.function))
            case _:
                return stmt

    match d:
        case Function():
            root: Expr = d
            made = rewrite(root, expression)
            assert isinstance(made, Function)
            symbol = made.attrs.get("global_symbol")
            return replace(made, attrs={**made.attrs, "global_symbol": back.get(symbol, symbol)}) if symbol else made
        case PrimFunc():
            attrs = dict(d.attrs)
            if GROUP in attrs:
                attrs[GROUP] = back.get(attrs[GROUP], attrs[GROUP])
            if LINKED in attrs:
                attrs[LINKED] = {
                    **attrs[LINKED],
                    "function": back.get(attrs[LINKED]["function"], attrs[LINKED]["function"]),
                }
            return replace(d, name=back.get(d.name, d.name), body=rewrite(d.body, statement), attrs=attrs)
        case _:
            return d
