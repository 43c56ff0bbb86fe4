"""Functions moved from one module to another with their constants (row C5; specs/lower.md, "constants").

A name means something in one module only. What a function reaches goes with it; what the other module has already,
equal, is shared; what has a name that there means something else gets another one, and everything that moves says that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from assay.lower.constants.constant_table import Array, ConstantTable
from assay.lower.constants.extract import refuse_programs, trimmed
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.analyses.variables import reachable
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, GlobalVar
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.linked import LINKED
from assay.semantics.module import GROUP, Definition, Module
from assay.semantics.names import unused
from assay.semantics.tensor import AllocateConst, Call, PrimFunc, Stmt, program_order
from assay.semantics.types import DataDef
from assay.semantics.walk import post_order, rewrite


def transfer(names: Iterable[str], source: Module, target: Module) -> tuple[Module, dict[str, str]]:
    """`target` with the definitions of `source` that are named, and what they use; and what each of those is called
    there.

    Constants that no user has named have one name in all modules, and are shared; two different constants of one name
    that a user gave are told apart. Invalid where `source` has no such definition (`transfer.C1`) or the two have
    different data types of one name (`transfer.C2`); Unsupported for planned programs (`constants.C1`).
    """
    refuse_programs(source)
    source = source.resolved()
    moved = _reached(list(names), source)
    table = ConstantTable(target)
    constants: dict[str, str] = {}
    for name in dict.fromkeys(n for d in moved.values() for n in _constants(d, source.constants)):
        array, info = source.constants[name], source.info(name)
        if table.is_by_content(name, array, info):
            constants[name] = table.add(array, info)
        else:
            constants[name] = table.add_named(name, array, info)
    called = _names(moved, constants, target, table)
    definitions: dict[str, Definition] = dict(target.definitions)
    for name, d in moved.items():
        definitions.setdefault(called[name], _renamed(d, called[name], called, constants, table.arrays))
    made = replace(target, definitions=definitions, constants=table.arrays, infos=table.infos)
    return replace(made, offsets=trimmed(made).offsets), {n: called[n] for n in moved}


def merge_modules(first: Module, second: Module) -> tuple[Module, dict[str, str]]:
    """Both modules in one, and what the definitions of the second are called there."""
    return transfer(second.definitions, second, first)


def _reached(names: Sequence[str], source: Module) -> dict[str, Definition]:
    """The definitions of those names and all that they use, in the order of the module."""
    for name in names:
        if name not in source.definitions:
            raise Invalid(f"the module has no definition {name}", label="transfer.C1")
    found = set(reachable(source, names))
    return {n: d for n, d in source.definitions.items() if n in found}


def _constants(d: Definition, constants: Mapping[str, Array]) -> Iterator[str]:
    match d:
        case Function():
            yield from (n.name for n in post_order(d) if isinstance(n, GlobalVar) and n.name in constants)
        case PrimFunc():
            yield from (s.index for s in program_order(d.body) if isinstance(s, AllocateConst) and s.index in constants)
        case _:
            pass


def _names(
    moved: Mapping[str, Definition], constants: Mapping[str, str], target: Module, table: ConstantTable
) -> dict[str, str]:
    """What definitions are called in the other module: their own names, where these are free or mean the same there."""
    called = {n: n for n in moved}
    same = {n for n in moved if n in target.definitions}
    for n in [n for n in same if isinstance(moved[n], DataDef)]:
        if not structural_equal(moved[n], target.definitions[n]):
            raise Invalid(f"the two modules have different data types {n}", label="transfer.C2")
    # equal as far as they reach: a definition that uses a different one is different
    changed = True
    while changed:
        changed = False
        for n in sorted(same):
            kept = {**{m: m for m in same}, **{m: f"{m} of the other" for m in moved if m not in same}}
            if not structural_equal(_renamed(moved[n], n, kept, constants, table.arrays), target.definitions[n]):
                same.discard(n)
                changed = True
    for n in moved:
        if n not in same:
            called[n] = unused(n, target.definitions, table.arrays, {m for k, m in called.items() if k != n})
    return called


def _renamed(
    d: Definition, name: str, called: Mapping[str, str], constants: Mapping[str, str], arrays: Mapping[str, Array]
) -> Definition:
    """A definition that says the names of the other module."""

    def expression(node: Expr) -> Expr:
        match node:
            case GlobalVar():
                new = constants.get(node.name, called.get(node.name, node.name))
                return node if new == node.name else replace(node, name=new)
            case CallTIR():
                new = called.get(node.func, node.func)
                return node if new == node.func else replace(node, func=new)
            case _:
                return node

    def statement(stmt: Stmt) -> Stmt:
        match stmt:
            case AllocateConst() if stmt.index:
                index = constants.get(stmt.index, "")
                data = arrays.get(index, stmt.data)
                return stmt if index == stmt.index and data is stmt.data else replace(stmt, index=index, data=data)
            case Call(extern=False):
                new = called.get(stmt.function, stmt.function)
                return stmt if new == stmt.function else replace(stmt, function=new)
            case _:
                return stmt

    match d:
        case Function():
            made = rewrite_function(d, expression)
            if made.attrs.get("global_symbol") in called:
                made = replace(made, attrs={**made.attrs, "global_symbol": called[made.attrs["global_symbol"]]})
            return made
        case PrimFunc():
            attrs = dict(d.attrs)
            if attrs.get(GROUP) in called:
                attrs[GROUP] = called[attrs[GROUP]]
            if LINKED in attrs and attrs[LINKED]["function"] in called:
                attrs[LINKED] = {**attrs[LINKED], "function": called[attrs[LINKED]["function"]]}
            return replace(d, name=name, body=rewrite(d.body, statement), attrs=attrs)
        case _:
            return d
