"""From graph functions to bytecode (specs/lower.md, "vm"; specs/vm.md).

What reaches this stage is in A-normal form, its operators are calls of tensor functions or views, its constants are in
the table. Everything that a run decides becomes instructions: branches, matches, closures, recursion, sizes.
"""

from __future__ import annotations

from assay.lower.vm.kills import with_kills
from assay.lower.vm.reuse import with_reuse
from assay.lower.vm.writing import Writer
from assay.semantics.bytecode import Bytecode, InvokeKernel
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.leaves import result_names
from assay.semantics.module import Definition, Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.semantics.types import DataDef, TupleType
from assay.semantics.walk import needed_first

ALIGNMENT = 64


def to_bytecode(module: Module, host: VirtualDevice = ANYWHERE, alignment: int = ALIGNMENT) -> Module:
    """The module with bytecode for `main`, beside the tensor functions that it calls, the data types and the constants.

    `host` reads conditions and sizes. Unsupported: an operator that is left (vm.C1), a size that nothing tells before
    it is used (vm.C2).
    """
    main = module.main
    routines = Writer(module, alignment).run()
    functions = {r.name: with_kills(with_reuse(r.finished())) for r in routines}
    result = main.result_type
    names = result_names(main, len(result.fields) if isinstance(result, TupleType) else 1)
    code = Bytecode(
        functions,
        tuple(p.name for p in main.params),
        tuple(names),
        devices={p.name: p.device for p in main.params if p.device != ANYWHERE},
        host=host,
    )
    kept: dict[str, Definition] = {n: d for n, d in module.definitions.items() if isinstance(d, DataDef)}
    kept.update((n, module.kernel(n)) for n in _called(module, code))
    return Module({**kept, "main": code}, module.constants, module.offsets, module.infos)


def _called(module: Module, code: Bytecode) -> list[str]:
    """The tensor functions that are called, and those that they call."""
    first = dict.fromkeys(i.kernel for f in code.functions.values() for i in f.body if isinstance(i, InvokeKernel))

    def callees(name: str) -> list[str]:
        of = module.definitions.get(name)
        return [c.function for c in calls_of(of) if not c.extern] if isinstance(of, PrimFunc) else []

    return list(needed_first(first, callees))
