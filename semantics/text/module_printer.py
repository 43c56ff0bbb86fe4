"""Modules as text: the printer (rows R5, R30, C10; specs/semantics.md, "Text")."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping
from pathlib import Path

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Function
from assay.semantics.module import Module, Program, by_name, with_contents
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.text import constants_text
from assay.semantics.text.external_data import TensorWriter, placeholder, write_text
from assay.semantics.text.graph.names import TAKEN, ModuleTexts, NamePool, SymbolNames, legal, unknown_sizes, value_text
from assay.semantics.text.graph.printer import INDENT, print_function
from assay.semantics.text.graph.texts import NodeTexts
from assay.semantics.text.tensor.printer import module_symbols, print_prim_func
from assay.semantics.types import DataDef, TensorType, Type, symbols

SHORT = constants_text.LONGEST
"""Elements of the largest constant of a tensor function that a brief text has."""


def show(module: Module, tensors: TensorWriter | None = None, *, brief: bool = False) -> str:
    """The module as text that `parse` reads back. Planned programs have no text.

    Constants that are too large for a text go to `tensors`; without it they are left out, and `parse` says so
    (`assay.semantics.text.external_data`). Unsupported: one that a tensor function holds itself (text.C35).

    A constant of a tensor function that names one of the module's table is written by that name only. `brief`: for
    people; constants that do not stand where they are used are left out, `A.stored("float32", (4, 8), ...)`.
    """
    for name, d in module.definitions.items():
        if isinstance(d, Program):
            raise Unsupported(
                f"{name} is a planned program, which has no text form; print the module before liveness",
                label="text.C18",
            )
    pool = NamePool((*keyword.kwlist, "cls", "Module"))
    types_pool = NamePool(TAKEN)  # these stand alone, the others after a dot
    names = {n: types_pool.fresh(n, "T") for n, d in module.definitions.items() if isinstance(d, DataDef)}
    pool.taken |= types_pool.taken - TAKEN
    for n in (*module.definitions, *module.constants):
        if n not in names:
            names[n] = pool.fresh(n, "f")
    own = {text: n for n, text in names.items() if text != n}
    signatures = {n: signature_symbols(d, types_pool.taken) for n, d in module.definitions.items()}
    taken = {*types_pool.taken, *(text for s in signatures.values() for text in s.values())}
    types: dict[str, Type] = {n: d.type for n, d in module.definitions.items() if isinstance(d, Function)}
    types |= {n: TensorType(a.shape, dtype(a.dtype)) for n, a in module.constants.items()}
    data = {n: names[n] for n, d in module.definitions.items() if isinstance(d, DataDef)}
    texts = ModuleTexts(names, types, data, taken)
    texts.devices = {}
    texts.stored = placeholder if tensors is None else tensors.stored
    if brief:
        texts.leave_out()
    lines: list[str] = []
    if own:
        lines.append(f"{INDENT}A.names({value_text(own, str)})")
    if module.offsets:
        lines.append(f"{INDENT}A.offsets({value_text(dict(module.offsets), str)})")
    if module.infos:
        infos = {
            n: [i.alignment, i.section, [i.device.type, i.device.id, i.device.target, i.device.scope]]
            for n, i in module.infos.items()
        }
        lines.append(f"{INDENT}A.infos({value_text(infos, str)})")
    for n, array in module.constants.items():
        text = texts.stored(array) if array.nbytes > texts.largest else constants_text.house(array)
        lines.append(f"{INDENT}{names[n]} = {text}")
    for n, d in module.definitions.items():
        match d:
            case Function():
                lines += [*print_function(d, names[n], texts, signatures[n], 1), ""]
            case PrimFunc():
                d = by_name(d, module.constants)
                if brief:
                    d = with_contents(d, lambda s: s.data if s.data is None or s.data.size <= SHORT else None)
                lines += [*print_prim_func(d, signatures[n], names[n], 1).rstrip("\n").split("\n"), ""]
            case DataDef():
                lines += [*_data(d, names[n], texts), ""]
            case _:
                raise Unsupported(f"{n} has no text form", label="text.C18")
    if module.definitions:
        lines.pop()  # the blank line behind the last
    if tensors is not None and tensors.declaration:
        lines.insert(0, f"{INDENT}{tensors.declaration}")
    if texts.devices:
        named = {n: (d.type, d.id, d.target, d.scope) for d, n in texts.devices.items()}
        lines.insert(0, f"{INDENT}A.devices({value_text(named, str)})")
    head = _head(texts, signatures)
    return "\n".join([*head, "@I.ir_module", "class Module:", *(lines or [f"{INDENT}pass"])]) + "\n"


def write_module(module: Module, path: Path) -> None:
    """Write the module as text, and its large constants beside it: PATH, and PATH.tensors if there are any."""
    write_text(path, lambda tensors: show(module, tensors))


def show_function(function: Function, name: str = "main", *, brief: bool = False) -> str:
    """One graph function as text, alone; what it names of its module is written with its type. `brief`: as for
    a module."""
    signature = signature_symbols(function)
    texts = ModuleTexts(taken={*TAKEN, *signature.values()})
    if brief:
        texts.leave_out()
    lines = print_function(function, legal(name, "f"), texts, signature)
    return "\n".join([*_head(texts, {name: signature}), *lines]) + "\n"


def _head(texts: ModuleTexts, signatures: Mapping[str, Mapping[Symbol, str]]) -> list[str]:
    """Imports as TVM prints them, constants, symbols and type parameters."""
    sizes = sorted({text for s in signatures.values() for text in s.values()})
    head = ["# from typing import TypeVar"] if sizes else []
    head += [
        "# from tvm.script import ir as I",
        "# from tvm.script import tirx as T",
        "# from tvm.script import relax as R",
        "",
    ]
    if texts.constants:
        head.append(constants_text.section(texts.constants))
    head += [f'{n} = TypeVar("{n}")' for n in sizes]
    head += [f"{text} = A.typevar({value_text(t.name, str)})" for t, text in texts.type_vars.items()]
    return head


def signature_symbols(definition: object, taken: Collection[str] = TAKEN) -> dict[Symbol, str]:
    """The symbols that the module declares for a definition, by their names in the text. No two have one name."""
    match definition:
        case Function():
            of = definition.func_type
            unknown = unknown_sizes(definition)
            found = [s for t in (*of.params, of.result) for s in symbols(t) if s not in unknown]
        case PrimFunc():
            found = list(module_symbols(definition))
        case _:
            found = []
    pool = NamePool(taken)
    return {s: pool.fresh(s.name, "n") for s in dict.fromkeys(found)}


def _data(definition: DataDef, name: str, texts: ModuleTexts) -> list[str]:
    pool = NamePool(texts.taken)
    writer = NodeTexts(texts, SymbolNames({}, pool), pool)
    params = [texts.type_var(t) for t in definition.type_params]
    lines = [f"{INDENT}@A.data({', '.join(params)})" if params else f"{INDENT}@A.data", f"{INDENT}class {name}:"]
    for made, types in definition.constructors.items():
        if not made.isidentifier() or made in TAKEN or not made.isascii():
            raise Unsupported(f"{name}.{made}: Python cannot say the name of this constructor", label="text.C18")
        fields = [writer.types.text(t) for t in types]
        lines.append(
            f"{INDENT * 2}{made} = ({fields[0]},)"
            if len(fields) == 1
            else f"{INDENT * 2}{made} = ({', '.join(fields)})"
        )
    if not definition.constructors:
        lines.append(f"{INDENT * 2}pass")
    return lines
