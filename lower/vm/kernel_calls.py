"""Calls of tensor functions: memory for what they fill, and the call (specs/lower.md, "vm")."""

from __future__ import annotations

from dataclasses import replace

from assay.lower.liveness.problem import bytes_of
from assay.lower.vm.routine import Held, Routine
from assay.semantics import graph
from assay.semantics.bytecode import AllocateStorage, AllocateTensor, InvokeKernel, Register
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span, Unsupported
from assay.semantics.instance import hidden_symbols, replaced, sizes_of_call
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var, variables
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.types import TensorType, TupleType, flatten


def write_kernel_call(at: Routine, node: graph.CallTIR, module: Module, alignment: int, name: str) -> Held:
    """A call of a tensor function; its results in parts where they are several."""
    kernel = module.kernel(node.func)
    span = node.span
    reads = tuple(r for a in node.args for r in at.leaves(at.look(a), a.type, span))
    made = flatten(node.type)
    writes = tuple(
        fresh_tensor(at, at.tensor(t, span), alignment, node.device, span, name if len(made) == 1 else f"{name}.{i}")
        for i, t in enumerate(made)
    )
    own = {v: at.dim(d, span) for v, d in sizes_of_call(node, kernel).items() if at.is_told(d)}
    hidden = tuple(_said(own, v, kernel, span) for v in hidden_symbols(kernel))
    scalars = tuple(at.dim(d, span) for d in node.scalars)
    scratch = _scratch(at, kernel, own, alignment, node, name)
    at.add(InvokeKernel(node.func, reads, writes, scalars, hidden, scratch, node.device, span=span))
    if isinstance(node.type, TupleType):
        return _nested(node.type, writes)
    return writes[0]


def fresh_tensor(
    at: Routine, of: TensorType, alignment: int, device: VirtualDevice, span: Span | None, name: str
) -> Register:
    """A tensor in a storage of its own."""
    storage = at.fresh()
    at.add(AllocateStorage(storage, bytes_of(of), alignment, device, span=span))
    to = at.fresh(name)
    at.add(AllocateTensor(to, storage, 0, of, span=span))
    return to


def _said(own: dict[Var, Dim], symbol: Var, kernel: PrimFunc, span: Span | None) -> Dim:
    if symbol not in own:
        raise Unsupported(f"{kernel.name} needs the size {symbol.name}, which nothing tells", where=span, label="vm.C2")
    return own[symbol]


def _scratch(
    at: Routine, kernel: PrimFunc, own: dict[Var, Dim], alignment: int, node: graph.CallTIR, name: str
) -> tuple[Register, ...]:
    """Tensors for what the tensor function allocates: for all of it, or, where a size is computed during the call,
    none; then the call has memory of its own."""
    types = [_allocated(b, own) for b in kernel.allocations]
    if any(t is None for t in types):
        return ()
    return tuple(
        fresh_tensor(at, t, alignment, _memory(node.device, b.scope), node.span, f"{name}.{b.name}")
        for b, t in zip(kernel.allocations, types, strict=True)
        if t is not None
    )


def _allocated(buffer: Buffer, own: dict[Var, Dim]) -> TensorType | None:
    if any(v not in own for d in buffer.shape for v in variables(d)):
        return None
    return TensorType(tuple(replaced(d, own) for d in buffer.shape), buffer.dtype)


def _memory(device: VirtualDevice, scope: str) -> VirtualDevice:
    """The memory in which what a call on a device allocates in a scope is; open where nothing says a device."""
    return ANYWHERE if device.place == ANYWHERE else replace(device, scope=scope)


def _nested(of: TupleType, leaves: tuple[Register, ...]) -> Held:
    """Tensors as the tuple that a call gives: flat, as its result is."""
    if len(of.fields) != len(leaves) or not all(isinstance(t, TensorType) for t in of.fields):
        raise Unsupported(f"a tensor function gives {of}: it fills tensors, side by side", label="vm.C1")
    return leaves
