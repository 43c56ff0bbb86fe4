"""Static rules of a module's table of constants (specs/semantics.md, "Constants")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.bits import same_bits
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.module import Module, constant_entry
from assay.semantics.tensor import Alias, AllocateConst, Block, Buffer, Call, PrimFunc, program_order
from assay.semantics.tensor.calls import callee


def broken_table(module: Module) -> Iterator[Invalid]:
    """Constants have a dtype that there is, and names of their own; what is said of how one is stored is said of one
    that is there."""
    for name, array in module.constants.items():
        try:
            dtype(array.dtype)
        except Invalid as wrong:
            yield Invalid(wrong.message, where=name, label=wrong.label)
        if name in module.definitions:
            yield Invalid(f"{name} is a definition, and a constant of the table too", where=name, label="module.C10")
    for name, info in module.infos.items():
        if name not in module.constants:
            what = f"{name} is no constant of the table, and has an alignment, section or device"
            yield Invalid(what, where=name, label="module.C11")
        if info.alignment < 1 or info.alignment & (info.alignment - 1):
            what = f"constant {name} is aligned to {info.alignment} bytes: a power of two is right"
            yield Invalid(what, where=name, label="module.C12")


def check_constants(function: PrimFunc, module: Module) -> None:
    """Constants that name one of the table have its contents; none is handed to a function that may write it."""
    constants: dict[Buffer, Buffer] = {}
    for s in program_order(function.body):
        match s:
            case AllocateConst():
                constants[s.buffer] = s.buffer
                if s.index:
                    data = constant_entry(s, module.constants)
                    if s.data is not None and not same_bits(s.data, data):
                        what = (
                            f"{s.buffer.name} has other contents than the constant {s.index} of the table, which it"
                            " names"
                        )
                        raise Invalid(what, where=s.span, label="module.C9")
            case Alias() | Block():
                for v in (s.view,) if isinstance(s, Alias) else s.views:
                    if v.source in constants:
                        constants[v.buffer] = constants[v.source]
            case Call(extern=False):
                written = s.buffers[len(callee(s, module.kernels).inputs) :]
                taken = next((b for b in written if b in constants), None)
                if taken is not None:
                    what = f"{constants[taken].name} is a constant, and is handed to {s.function} to be written"
                    raise Invalid(what, where=s.span, label="tensor.C26")
            case _:
                pass
