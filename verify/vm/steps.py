"""What a step does to values and to what has happened: the same for a graph function and for bytecode (specs/verify.md,
"vm").
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ShapeType, TensorType, Type, free_type_vars, open_symbols
from assay.verify.vm.terms import Trail, ValueTerms


def applied(terms: ValueTerms, way: Trail, callee: int, args: Sequence[int], acts: bool | None, of: str) -> int:
    """The number of what a call of a function gives, a value of a type. A constructor only makes a value; any other may
    fail, act, or not end. Whether it acts is said of what may be a function outside of the language."""
    key = terms.keys[callee]
    if key[0] == "constructor":
        return terms.number("data", key[1], key[2], tuple(args))
    terms.event(way, "call", callee, tuple(args), acts if key[0] != "global" else None, of)
    return terms.result(way)


def declared_result(terms: ValueTerms, callee: int, args: Sequence[int]) -> tuple[Type, dict[Symbol, Dim]] | None:
    """The result that a known function declares, and the sizes in it that follow from those of the arguments: what it
    gives has that type, or it does not come back. None where the function is not known."""
    function = terms.callees.get(callee)
    if function is None or len(args) != len(function.params) or free_type_vars(function.result_type):
        return None
    sizes: dict[Symbol, Dim] = {}
    for p, a in zip(function.params, args, strict=True):
        if open_symbols(p.type):
            terms.bind(p.type, a, sizes)
    return function.result_type, sizes


def ran(
    terms: ValueTerms,
    way: Trail,
    kernel: PrimFunc,
    reads: Sequence[int],
    scalars: Sequence[Dim],
    made: Sequence[TensorType],
    device: VirtualDevice,
) -> list[int]:
    """The numbers of what a call of a tensor function fills, tensors of the types `made`."""
    made = [terms.written(t, way) for t in made]
    for t in made:
        terms.naturals(way, t.shape)
    if kernel.attrs.get("operator") == "device_copy":
        found = copied_step(terms, reads[0], made[0], device)
        terms.event(way, "copy", found)
        return [found]
    shapes = tuple(tuple(map(terms.text_of, t.shape)) for t in made)
    where = repr(device) if device != ANYWHERE else ""
    call = terms.number("kernel", kernel.name, tuple(reads), terms.sized_texts(scalars, way), shapes, where)
    terms.event(way, "run", call)  # even one that cannot trap: it would on tensors of other sizes than it takes
    results = []
    for i, t in enumerate(made):
        number = terms.give(terms.number("filled", call, i), t)
        terms.devices.setdefault(number, device)
        results.append(number)
    return results


def copied_step(terms: ValueTerms, value: int, of: TensorType, device: VirtualDevice) -> int:
    """The number of a copy of a tensor on a device."""
    return terms.give(terms.on(value, device), of)


def measured(terms: ValueTerms, way: Trail, vector: int, count: int) -> int:
    """The number of the sizes that a vector tells: none may be below 0."""
    terms.event(way, "measure", vector, count)
    number = terms.number("measured", vector)
    return terms.give(number, ShapeType(tuple(terms.size(number, i) for i in range(count))))
