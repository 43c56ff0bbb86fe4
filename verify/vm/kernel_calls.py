"""Whether a tensor function is handed what its text asks for: sizes, tensors for its allocations, and memory of the
device on which it runs (specs/verify.md, "vm")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assay.interp.binding import hidden_symbols
from assay.semantics import bytecode as vm
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.scalar import Dim, Var as Symbol, show
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.liveness.devices import ALL, PLACE, devices_apart
from assay.verify.vm.memory import Tensor
from assay.verify.vm.terms import Trail, ValueTerms, in_sizes
from assay.verify.vm.wrong import Unsound


def check_call(
    terms: ValueTerms,
    way: Trail,
    kernel: PrimFunc,
    reads: Sequence[int],
    writes: Sequence[TensorType],
    scalars: Sequence[Dim],
    hidden: Sequence[Dim],
    scratch: Sequence[TensorType],
) -> None:
    """Unsound where the hidden sizes are not those of what is filled, or a tensor for an allocation is another than it
    asks for in this call."""
    told = [terms.type_of(n) for n in reads]
    given = [t for t in told if isinstance(t, TensorType)]
    if len(given) < len(told):
        raise Unsound(f"gives {kernel.name} a value that is no tensor")
    sizes = dict(_sizes(kernel, [*given, *writes], scalars))
    for s, d in zip(hidden_symbols(kernel), hidden, strict=True):
        if s not in sizes or not way.facts.equal(sizes[s], d):
            raise Unsound(f"says that {s.name} of {kernel.name} is {show(d)}, which the tensors that it fills do not")
    for buffer, t in zip(kernel.params, (*given, *writes), strict=True):
        if buffer.dtype is not t.dtype or len(buffer.shape) != t.ndim:
            raise Unsound(f"gives {kernel.name} a {t} for {buffer!r}")
    for buffer, t in zip(kernel.allocations if scratch else (), scratch, strict=True):
        wanted = [in_sizes(d, sizes) for d in buffer.shape]
        same = len(wanted) == t.ndim and all(
            w is not None and way.facts.equal(w, d) for w, d in zip(wanted, t.shape, strict=False)
        )
        if buffer.dtype is not t.dtype or not same:
            raise Unsound(f"gives {kernel.name} a {t} for its allocation {buffer!r}")


def _sizes(kernel: PrimFunc, types: Sequence[TensorType], scalars: Sequence[Dim]) -> Iterator[tuple[Symbol, Dim]]:
    """What the symbols of a tensor function are in a call; the first that says it comes last."""
    found: list[tuple[Symbol, Dim]] = list(zip(kernel.scalars, scalars, strict=True))
    for buffer, t in zip(kernel.params, types, strict=True):
        found += [(d, n) for d, n in zip(buffer.shape, t.shape, strict=False) if isinstance(d, Symbol)]
    return reversed(found)


def check_kernel_places(
    terms: ValueTerms, kernel: PrimFunc, of: vm.InvokeKernel, reads: Sequence[int], made: Sequence[Tensor]
) -> None:
    """Unsound where a tensor function touches memory of another device than that on which it runs."""
    copies = kernel.attrs.get("operator") == "device_copy"
    for n, buffer in zip(reads, kernel.inputs, strict=True):
        there = terms.devices.get(n, ANYWHERE)
        if not copies and devices_apart(there, of.device, PLACE):
            raise Unsound(f"runs on {of.device.place} and reads a tensor that is on {there}")
        if not copies and "" not in (buffer.scope, there.scope) and buffer.scope != there.scope:
            raise Unsound(f"takes a tensor in scope {there.scope} as {buffer.name} in {buffer.scope}")
    for k, (tensor, buffer) in enumerate(zip(made, (*kernel.outputs, *kernel.allocations), strict=False)):
        if devices_apart(tensor.device, of.device, PLACE):
            raise Unsound(f"runs on {of.device.place} and writes a tensor that is on {tensor.device}")
        if "" not in (buffer.scope, tensor.device.scope) and buffer.scope != tensor.device.scope:
            raise Unsound(f"takes a tensor in scope {tensor.device.scope} as {buffer.name} in {buffer.scope}")
        if tensor.device != (wanted := of.device if k < len(of.writes) else _memory(of.device, buffer.scope)):
            raise Unsound(f"fills a tensor that is said to be on {tensor.device}, and the call is on {wanted}")


def _memory(device: VirtualDevice, scope: str) -> VirtualDevice:
    """Where what a call on a device allocates in a scope is."""
    return replace(device, scope=scope) if device.place != ANYWHERE else ANYWHERE


def check_host(terms: ValueTerms, number: int, host: VirtualDevice, what: str) -> None:
    """Unsound where the host reads what lies elsewhere."""
    there = terms.devices.get(number, ANYWHERE)
    if devices_apart(there, host, ALL):
        raise Unsound(f"{what} is read by the host, {host}, and lies on {there}")
