"""What each instruction reads and writes besides registers, and both together (specs/verify.md, "vm")."""

from __future__ import annotations

from assay.semantics import bytecode as vm
from assay.semantics.scalar import Dim, Var, variables
from assay.semantics.types import Type, symbols

Name = vm.Register | Var
"""A register, or a size."""


def killed(of: vm.Instruction) -> tuple[vm.Register, ...]:
    """The registers that hold nothing behind an instruction, by it."""
    return of.registers if isinstance(of, vm.Kill) else ()


def sizes_bound(of: vm.Instruction) -> tuple[Var, ...]:
    """The sizes that get a value by an instruction."""
    return of.binds if isinstance(of, vm.MatchType) else ()


def sizes_read(of: vm.Instruction) -> tuple[Var, ...]:
    """The sizes whose values an instruction needs."""
    dims: tuple[Dim, ...] = ()
    of_types: tuple[Type, ...] = ()
    match of:
        case vm.MatchType():
            return tuple(v for v in symbols(of.type) if v not in of.binds)
        case vm.MakeClosure():
            dims = of.sizes
        case vm.MakeShape():
            dims = of.dims
        case vm.AllocateStorage():
            dims = (of.nbytes,)
        case vm.AllocateTensor():
            dims, of_types = (of.offset,), (of.type,)
        case vm.ViewTensor():
            of_types = (of.type,)
        case vm.InvokeKernel():
            dims = (*of.scalars, *of.hidden)
        case _:
            pass
    return (*(v for d in dims for v in variables(d)), *(v for t in of_types for v in symbols(t)))


def reads(of: vm.Instruction) -> tuple[Name, ...]:
    """The registers and sizes that an instruction reads."""
    return (*vm.reads(of), *sizes_read(of))


def writes(of: vm.Instruction) -> tuple[Name, ...]:
    """The registers and sizes of which an instruction leaves nothing of what they held."""
    to = vm.written(of)
    return (*(() if to is None else (to,)), *killed(of), *sizes_bound(of))
