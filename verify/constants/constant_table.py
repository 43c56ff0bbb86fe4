"""Whether a module's table of constants is what it must be (specs/verify.md, "constants").

Written from the definition, without the pass: every constant is in the table, under the name that its contents give or
that a user gave, once, read-only, on the device of its uses, and nothing else is there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import AllocateConst, Call, PrimFunc, program_order
from assay.semantics.walk import Worklist, post_order
from assay.verify.value_numbering import Numbered

Array = np.ndarray[Any, Any]

_BY_CONTENT = re.compile(r"constant_([0-9a-f]{8,64})")


def wrong_table(source: Module, target: Module) -> str | None:
    """What is wrong with the table of `target`, or with what refers to it; None if nothing is. `source` is the module
    before."""
    try:
        before = source.resolved()
    except Invalid as wrong:
        return str(wrong)
    used: set[str] = set()
    places = _places(target)
    for name, d in target.definitions.items():
        match d:
            case Function():
                for node in post_order(d):
                    if isinstance(node, Constant):
                        return f"{name} holds a constant {node.type} that is not in the table"
                    if isinstance(node, GlobalVar) and node.name in target.constants:
                        used.add(node.name)
                        wrong_place = _elsewhere(node.name, node.device, target.info(node.name).device)
                        if wrong_place:
                            return f"in {name}, {wrong_place}"
            case PrimFunc():
                for s in _held(d):
                    if s.index not in target.constants:
                        return f"{name} holds {s.buffer!r}, whose index {s.index!r} is not in the table"
                    if s.data is None or _bits(s.data) != _bits(target.constants[s.index]):
                        return (
                            f"{name} holds {s.buffer!r} with other contents than the constant {s.index}, which it names"
                        )
                    used.add(s.index)
                    home = target.info(s.index).device
                    far = next((p for p in sorted(places[name], key=str) if not home.agrees(p)), None)
                    if far is not None:
                        return f"{name} holds the constant {s.index}, which is on {home}, and runs on {far}"
                old = before.definitions.get(name)
                difference = first_difference(old, d) if old is not None else None
                if difference is not None:  # one that is new is for the check of its own stage
                    return f"tensor function {name} has changed: {difference}"
            case _:
                pass
    unused = [n for n in target.constants if n not in used]
    if unused:
        return f"constant {unused[0]} is in the table, and nothing names it"
    return _wrong_names(before, target) or _wrong_infos(target) or _stored_otherwise(before, target)


def _stored_otherwise(before: Module, target: Module) -> str | None:
    """A constant that was in the table already, and is to be stored in another way; its device is the planner's."""
    for name in target.constants:
        was, now = before.info(name), target.info(name)
        if name in before.constants and (was.alignment, was.section) != (now.alignment, now.section):
            return (
                f"constant {name} was to be aligned to {was.alignment} in {was.section!r}, and is to {now.alignment} in"
                f" {now.section!r}"
            )
    return None


def _places(module: Module) -> dict[str, set[VirtualDevice]]:
    """Where each tensor function runs: where graph functions call it, and what calls it runs."""
    found: dict[str, set[VirtualDevice]] = {name: set() for name in module.kernels}
    for d in module.definitions.values():
        for node in post_order(d) if isinstance(d, Function) else ():
            if isinstance(node, CallTIR):
                found.setdefault(node.func, set()).add(node.device.place)
    calls = {
        name: {s.function for s in program_order(k.body) if isinstance(s, Call)} for name, k in module.kernels.items()
    }
    work = Worklist(calls)
    for caller in work:
        for callee in calls[caller] & calls.keys():
            if found[caller] - found[callee]:
                found[callee] |= found[caller]
                work.add([callee])
    return found


def _held(function: PrimFunc) -> Iterator[AllocateConst]:
    return (s for s in program_order(function.body) if isinstance(s, AllocateConst))


def _bits(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    """All that makes two constants one, with a digest for the bytes."""
    data = np.ascontiguousarray(array).ravel().view(np.uint8)
    return dtype(array.dtype).name, array.shape, hashlib.blake2b(data.data).digest()


def _elsewhere(name: str, use: VirtualDevice, home: VirtualDevice) -> str | None:
    """Why a constant cannot be used on a device; None if it can."""
    joined = home.join(use)
    if joined is None or (use.is_full and joined != home):
        return f"constant {name} is used on {use}, and is on {home}"
    return None


def _wrong_names(before: Module, target: Module) -> str | None:
    """Names by content are those of the contents, and no two have one; other names are users'."""
    given: dict[str, list[Array]] = {n: [a] for n, a in before.constants.items()}
    for d in before.kernels.values():
        for s in _held(d):
            given.setdefault(s.index, []).append(s.contents)
    seen: dict[tuple[object, ...], str] = {}
    for name, array in target.constants.items():
        if array.flags.writeable:
            return f"constant {name} can be written"
        info = target.info(name)
        found = _BY_CONTENT.fullmatch(name)
        if found is not None and _digits(array, info).startswith(found[1]):
            key = (*_bits(array), info)
            if key in seen:
                return f"constants {seen[key]} and {name} are one"
            seen[key] = name
            continue
        base = re.sub(r"(@.*)?(_\d+)*$", "", name)
        known = [a for n in (name, name.split("@")[0], base) for a in given.get(n, ())]
        if not known:
            return f"constant {name} has a name that neither its contents nor anybody gave it"
        if not any(_bits(a) == _bits(array) for a in known):
            return f"constant {name} has other contents than before"
    return None


def _digits(array: Array, info: ConstantInfo) -> str:
    """The hexadecimal digits of a name by content (rule of specs/lower.md, "constants")."""
    plain = _sha(array)
    if info == ConstantInfo():
        return plain
    d = info.device
    words = (plain, str(info.alignment), info.section, d.type, str(d.id), d.target, d.scope)
    return _sha(np.zeros(0, np.uint8), *words)


def _sha(array: Array, *words: str) -> str:
    total = hashlib.sha256(repr((dtype(array.dtype).name, tuple(array.shape), *words)).encode())
    total.update(np.ascontiguousarray(array).ravel().view(np.uint8).data)
    return total.hexdigest()


def _wrong_infos(target: Module) -> str | None:
    for name in target.constants:
        alignment, offset = target.info(name).alignment, target.offsets.get(name)
        if offset is None:
            return f"constant {name} has no offset"
        if offset % alignment:
            return f"constant {name} lies at {offset}, and asks for {alignment} bytes"
    stray = [n for n in (*target.infos, *target.offsets) if n not in target.constants]
    return f"{stray[0]} is no constant of the table, and is spoken of there" if stray else None


def moved(source: Numbered, target: Numbered, before: Module, after: Module) -> str | None:
    """A value of the target that is used where no use of the source has it: on another device, or under another name
    than a user gave. None if there is none."""
    uses: dict[tuple[object, ...], set[VirtualDevice]] = {}
    homes: dict[int, set[VirtualDevice]] = {}
    named: dict[tuple[object, ...], set[str]] = {}
    first, second = _origins(source), _origins(target)
    for node in source.order:
        homes.setdefault(source.of[id(node)], set()).add(node.device)
        for i, child in enumerate(node.children if not isinstance(node, Let) else ()):
            key = (source.of[id(node)], node.device, i, source.of[id(child)])
            uses.setdefault(key, set()).add(child.device)
            named.setdefault(key, set()).add(_user_name(first[id(child)], before))
    for node in target.order:
        for i, child in enumerate(node.children if not isinstance(node, Let) else ()):
            value = target.of[id(child)]
            key = (target.of[id(node)], node.device, i, value)
            known = uses.get(key) or homes.get(value, set())
            what = f"constant {child.name}" if isinstance(child, GlobalVar) else "a value"
            if known and not any(child.device.covers(d) for d in known):
                where = ", ".join(sorted(map(str, known)))
                return f"{what} is used on {child.device}, and was used on {where}"
            names = named.get(key)
            if names and _user_name(second[id(child)], after).split("@")[0] not in {n.split("@")[0] for n in names}:
                return f"{what} is used where the constant {' or '.join(sorted(names)) or 'without a name'} was"
    return None


def _origins(numbered: Numbered) -> dict[int, Expr]:
    """What each node is, by identity: names, lets, and projections of tuples that are written out, are looked
    through."""
    found: dict[int, Expr] = {}
    for node in numbered.order:
        of = numbered.nest.resolve(node)
        of = found.get(id(of), of)
        if isinstance(of, Let):
            of = found[id(of.body)]
        if isinstance(of, TupleGetItem) and isinstance(whole := found[id(of.value)], Tuple):
            of = found[id(whole.fields[of.index])]
        found[id(node)] = of
    return found


def _user_name(node: Expr, module: Module) -> str:
    """The name that a user gave the constant that a node is; empty for another one, and for what is none."""
    if not isinstance(node, GlobalVar) or node.name not in module.constants:
        return ""
    found = _BY_CONTENT.fullmatch(node.name)
    by_content = found is not None and _digits(module.constants[node.name], module.info(node.name)).startswith(found[1])
    return "" if by_content else node.name
