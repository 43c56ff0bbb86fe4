"""The proof that an ANF module is its source (specs/verify.md, "anf").

Both programs are evaluated symbolically in one table of numbers. Equal numbers of results and of events mean: the same
value, the same failures and actions in the same order on every path, for every input. Beside that: operands atomic,
names unique (`assay.verify.anf.shape`), nothing evaluated where or more often than the source evaluates it
(`assay.verify.anf.evaluations`). The checks know nothing of the pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Function, Let, free_variables
from assay.semantics.graph.effects import is_opaque
from assay.semantics.module import Module, Program
from assay.semantics.types import Type
from assay.semantics.walk import post_order
from assay.verify.anf.difference import difference
from assay.verify.anf.evaluations import evaluation_fault
from assay.verify.anf.inner import Inner
from assay.verify.anf.shape import node_title, shape_fault
from assay.verify.evidence import Context, Did, Evidence, plural, proved, refuted
from assay.verify.value_numbering import Numbered, Numbering, number_function
from assay.verify.value_numbering.events import BodyEvents
from assay.verify.value_numbering.nesting import UndecidedNumbering, is_atom
from assay.verify.value_numbering.terms import Array, Key, Table, constant_key


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether what main reaches is in A-normal form."""
    return check_anf(remove_unreachable(before), remove_unreachable(after))


def describe(before: Module, after: Module) -> Did:
    """How many bindings there are."""
    count = sum(isinstance(n, Let) for n in post_order(after.main))
    return plural(count, "binding"), {"bindings": count}


def check_anf(source: Module, target: Module, normal: bool = True) -> Evidence:
    """Whether `target` is `source` in A-normal form; not `normal`: whether it is `source` with other lets."""
    wrong = _others(source, target)
    if wrong:
        return refuted("proved", wrong)
    for name, before in source.definitions.items():
        after = target.definitions[name]
        if not isinstance(before, Function) or not isinstance(after, Function):
            continue
        if is_opaque(before):
            if not structural_equal(before, after):
                return refuted(
                    "proved", f"in {name}: {node_title(before)} is changed; what is primitive stays as it is"
                )
            continue
        try:
            wrong = (shape_fault(after) if normal else None) or function_fault(before, source, after, target, normal)
        except UndecidedNumbering as why:
            return refuted("proved", f"in {name}: not decided: {why}", undecided=True)
        if wrong:
            return refuted("proved", f"in {name}: {wrong}")
    return proved("same value and failures for every input" + "; operands atomic, names unique" * normal)


def _others(source: Module, target: Module) -> str | None:
    """What the pass must leave alone: everything but the bodies of functions."""
    for name in {**source.definitions, **target.definitions}:
        if name not in target.definitions:
            kind = "function" if isinstance(source.definitions[name], Function) else "definition"
            return f"{kind} {name} is gone"
        if name not in source.definitions:
            return f"definition {name} is not in the source"
        before, after = source.definitions[name], target.definitions[name]
        if isinstance(before, Function) and isinstance(after, Function):
            continue
        if not (before == after if isinstance(before, Program) else structural_equal(before, after)):
            return f"definition {name} is changed"
    if not _same_constants(source.constants, target.constants) or dict(source.offsets) != dict(target.offsets):
        return "the table of constants is changed"
    return None


def _same_constants(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    return a.keys() == b.keys() and all(a[k] is b[k] or constant_key(a[k]) == constant_key(b[k]) for k in a)


def function_fault(
    before: Function, source: Module, after: Function, target: Module, ordered: bool = True
) -> str | None:
    """Why a function of let chains is not its source, in a sentence, if it is not.

    With `ordered`, the bindings must stand in the source's order of evaluation; without, only what can be observed
    must.
    """
    table = Table()
    known: dict[Key, list[int]] = {}

    def remember(_: Function, key: Key, walk: BodyEvents, __: Numbering) -> Key:
        if walk.events not in known.setdefault(key, []):
            known[key].append(walk.events)
        return (*key, walk.events)

    one = number_function(before, source, table, exact=True, seal=remember)
    two = number_function(after, target, table, exact=True, seal=Inner(after, target, table, known))
    wrong = _fault(one, two, table, ordered)
    least = heights(one, two) if wrong else {}
    if least:
        # a function that no longer names what it evaluated for nothing is lower than in the source
        inner = Inner(after, target, table, known)
        again = number_function(after, target, table, exact=True, seal=inner, least=least)
        return wrong if _fault(one, again, table, ordered) else None
    return wrong


def heights(one: Numbered, two: Numbered) -> dict[int, int]:
    """Greater heights for functions of the target, from those of the source that seem to be the same; only a hint."""
    tall: dict[tuple[str, ...], set[int]] = {}
    for f in one.order:
        if isinstance(f, Function):
            tall.setdefault(tuple(p.name for p in f.params), set()).add(one.nest.height[id(f)])
    found: dict[int, int] = {}
    for f in two.order:
        if isinstance(f, Function):
            names = tuple(p.name for p in f.params)
            high = tall.get(names) or tall.get(tuple(re.sub(r"_[0-9]+$", "", n) for n in names), set())
            if len(high) == 1 and (height := next(iter(high))) > two.nest.height[id(f)]:
                found[id(f)] = height
    return found


def _fault(one: Numbered, two: Numbered, table: Table, ordered: bool) -> str | None:
    before, after = one.function, two.function
    if (entered := _entered(one, two)) is not None:
        return (
            f"{node_title(entered)} is taken apart; a function that is primitive or for another compiler stays as it is"
        )
    if [p.name for p in before.params] != [p.name for p in after.params]:
        return f"the parameters of {node_title(after)} have other names"
    return (
        difference(one, two, table)
        or _signature(one, two, table)
        or _types_and_devices(one, two)
        or evaluation_fault(one, two, table, ordered)
    )


def _signature(one: Numbered, two: Numbered, table: Table) -> str | None:
    """The types of parameters and result, attributes, and the device of the function itself."""
    before, after = one.function, two.function
    params = zip(before.params, after.params, strict=True)
    if before.device != after.device or any(p.device != q.device for p, q in params):
        return f"{node_title(after)} or a parameter is on another device"
    keys = [table.keys[n.of[id(n.function)]] for n in (one, two)]
    keys = [table.keys[k[1]] if k[0] == "on" else k for k in keys]
    if keys[0][1] != keys[1][1]:
        return f"{node_title(after)} has other types or attributes than {node_title(before)}"
    return None


def _entered(one: Numbered, two: Numbered) -> Function | None:
    """A function that must not be entered, but was. One that names variables from outside may name others."""
    whole = {id(n.body) for n in one.order if isinstance(n, Function) and is_opaque(n)}
    for node in two.order:
        if isinstance(node, Function) and is_opaque(node) and id(node.body) not in whole and not free_variables(node):
            return node
    return None


def _types_and_devices(one: Numbered, two: Numbered) -> str | None:
    """Each value keeps its type; each name keeps the device of what it names; a let is where its body is."""
    types: dict[int, dict[int, Type]] = {}  # a name inside one function may have the number of a name inside another
    devices: set[tuple[int, VirtualDevice]] = set()
    homes = set(one.of.values())
    for node in one.order:
        number = one.of[id(node)]
        if isinstance(node, Let):
            devices.add((one.of[id(node.value)], node.var.device))
        elif not is_atom(node):
            types.setdefault(number, {})[id(node.type)] = node.type
            devices.add((number, node.device))
    for node in two.order:
        if isinstance(node, Let):
            value = two.of[id(node.value)]
            if value in homes and (value, node.var.device) not in devices:
                return f"{node.var.name} is on another device than {node_title(node.value)}"
            if node.body.device not in (ANYWHERE, node.device):
                return f"the let of {node.var.name} is on another device than its body"
        elif not is_atom(node):
            of = types.get(two.of[id(node)])
            if of is None or id(node.type) in of:
                continue
            key = two.type_key(node.type)
            if not any(one.type_key(t) == key for t in of.values()):
                return f"{node_title(node)} has another type than in the source: {next(iter(of.values()))}"
    return None
