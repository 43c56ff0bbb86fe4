"""Every constant of a module in its table, each content once (rows C5, C14; specs/lower.md, "constants").

Constants of graph functions become names of the table, those of tensor functions get the name as their `index` beside
the same array. What nothing uses leaves the table. A constant is where it is used: the same bits on two devices are two
constants. Doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.lower.constants.constant_table import ConstantTable, constant_offsets, is_content_name
from assay.lower.constants.fold import both_or
from assay.semantics.analyses.variables import reachable
from assay.semantics.bits import same_bits
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import Unsupported
from assay.semantics.graph import CallTIR, Constant, Expr, Function, GlobalVar
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import PLAIN, ConstantInfo, Definition, Module, Program
from assay.semantics.tensor import AllocateConst, PrimFunc, Stmt, program_order
from assay.semantics.tensor.calls import calls_of
from assay.semantics.walk import Worklist, post_order, rewrite


def extract_constants(module: Module) -> Module:
    """The module with all its constants in the table, and with the offsets of these.

    Invalid where a tensor function names a constant that the table does not have (`module.C7`, `module.C8`);
    Unsupported for planned programs (`constants.C1`), whose slots name constants.
    """
    refuse_programs(module)
    module = module.resolved()
    extraction = _Extraction(module)
    definitions: dict[str, Definition] = {}
    for name, d in module.definitions.items():
        match d:
            case Function():
                definitions[name] = extraction.graph(d)
            case PrimFunc():
                definitions[name] = extraction.tensor(d)
            case _:
                definitions[name] = d
    return trimmed(
        replace(module, definitions=definitions, constants=extraction.table.arrays, infos=extraction.table.infos)
    )


def refuse_programs(module: Module) -> None:
    """Unsupported (`constants.C1`) if the module has a planned program: its memory is decided already."""
    for name, d in module.definitions.items():
        if isinstance(d, Program):
            what = f"{name} is a planned program, whose memory is decided: do this before the stage liveness"
            raise Unsupported(what, where=name, label="constants.C1")


def trimmed(module: Module) -> Module:
    """The module without constants that nothing names, and with the offsets of the others."""
    used = set(reachable(module, list(module.definitions)))
    constants = {n: a for n, a in module.constants.items() if n in used}
    infos = {n: i for n, i in module.infos.items() if n in used and i != PLAIN}
    return replace(module, constants=constants, infos=infos, offsets=constant_offsets(constants, infos))


class _Extraction:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.table = ConstantTable(module)
        self.given = {n for n, a in module.constants.items() if not self.table.is_by_content(n, a, module.info(n))}
        """The names that users gave."""
        self.copies: dict[tuple[str, VirtualDevice], str] = {}
        """The name of a constant on a device, for those that users named."""
        uses: dict[str, set[VirtualDevice]] = {}
        calls: dict[str, set[VirtualDevice]] = {name: set() for name in module.kernels}
        for d in module.graphs.values():
            for node in post_order(d):
                if isinstance(node, GlobalVar) and node.name in self.given:
                    uses.setdefault(node.name, set()).add(node.device)
                elif isinstance(node, CallTIR) and node.func in calls:
                    calls[node.func].add(node.device.place)
        self.runs = {name: next(iter(some)) for name, some in through_calls(calls, module).items() if len(some) == 1}
        """Where tensor functions run that run at one place."""
        for name, kernel in module.kernels.items():
            for s in program_order(kernel.body):
                if isinstance(s, AllocateConst) and self.is_given(s):
                    uses.setdefault(s.index, set()).add(self.wanted(s, self.runs.get(name, ANYWHERE)))
        for name, devices in uses.items():
            self.settle(name, devices)

    def settle(self, name: str, devices: set[VirtualDevice]) -> None:
        """A constant that a user named is, under that name, on the first device where it is used, and on others under
        names like it. What a tensor function uses that runs in several places is in none of them."""
        info = self.module.info(name)
        homes: list[tuple[str, VirtualDevice]] = [(name, info.device)]
        for device in sorted(devices, key=lambda d: (d.place == ANYWHERE, str(d))):
            open_ = device.place == ANYWHERE
            fits = (
                k for k, (_, d) in enumerate(homes) if d.agrees(device) and (not open_ or d.place == info.device.place)
            )
            home = next(fits, None)
            if home is None:
                copy = self.table.add_named(
                    f"{name}@{device}", self.module.constants[name], replace(info, device=device)
                )
                homes.append((copy, device))
            else:
                homes[home] = homes[home][0], both_or(homes[home][1], device)
            self.copies[name, device] = homes[-1 if home is None else home][0]
        if homes[0][1] != info.device:
            self.table.on(name, homes[0][1])

    def graph(self, function: Function) -> Function:
        def change(node: Expr) -> Expr:
            match node:
                case Constant():
                    name = self.table.add(node.data, ConstantInfo(device=node.device))
                    return GlobalVar(node.type, name, device=node.device, span=node.span)
                case GlobalVar() if node.name in self.given:
                    name = self.copies[node.name, node.device]
                case GlobalVar() if node.name in self.module.constants:
                    info = self.module.info(node.name)
                    info = replace(info, device=both_or(info.device, node.device))
                    name = self.table.add(self.module.constants[node.name], info)
                case _:
                    return node
            return node if name == node.name else replace(node, name=name)

        return rewrite_function(function, change)

    def tensor(self, function: PrimFunc) -> PrimFunc:
        place = self.runs.get(function.name, ANYWHERE)

        def change(stmt: Stmt) -> Stmt:
            if not isinstance(stmt, AllocateConst):
                return stmt
            index = self.index(stmt, place)
            data = self.table.arrays[index]
            return stmt if index == stmt.index and data is stmt.data else replace(stmt, index=index, data=data)

        body = rewrite(function.body, change)
        return function if body is function.body else replace(function, body=body)

    def is_given(self, stmt: AllocateConst) -> bool:
        """Whether a constant of a tensor function is one that a user named in the table. What it holds counts, not what
        it says it is called."""
        return stmt.index in self.given and same_bits(self.module.constants[stmt.index], stmt.contents)

    def wanted(self, stmt: AllocateConst, place: VirtualDevice) -> VirtualDevice:
        """Where a constant of a tensor function is that runs at a place, or, if that is open, at several."""
        scope = stmt.buffer.scope
        return ANYWHERE if place == ANYWHERE and scope in ("", GLOBAL) else replace(place, scope=scope or GLOBAL)

    def index(self, stmt: AllocateConst, place: VirtualDevice) -> str:
        """The name of a constant of a tensor function, which has its contents."""
        device = self.wanted(stmt, place)
        data, name = stmt.contents, stmt.index
        if self.is_given(stmt):
            return self.copies[name, device]
        known = self.module.constants.get(name)
        info = self.module.info(name) if known is not None and same_bits(known, data) else PLAIN
        info = replace(info, device=both_or(info.device, device))
        if not name or is_content_name(name):
            return self.table.add(data, info)
        return self.table.add_named(name, data, info)


def through_calls(places: Mapping[str, set[VirtualDevice]], module: Module) -> dict[str, set[VirtualDevice]]:
    """Where tensor functions run: where graph functions call them, and where the tensor functions do that call them."""
    found = {name: set(some) for name, some in places.items()}
    inner = {name: {c.function for c in calls_of(k)} & found.keys() for name, k in module.kernels.items()}
    work = Worklist(sorted(found))
    for name in work:
        for of in inner[name]:
            if not found[name] <= found[of]:
                found[of] |= found[name]
                work.add([of])
    return found
