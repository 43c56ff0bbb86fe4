"""Arrays as strangers hand them in: theirs to change, of any layout, of other machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.constants import bind_constants, extract_constants
from assay.lower.simplify.bind_params import bind_params
from assay.semantics.bits import fixed, frozen, is_fixed, same_bits
from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Invalid
from assay.semantics.graph import constant
from assay.semantics.module import Module

Array = np.ndarray[Any, Any]
X: Array = np.zeros(3, np.float32)


def adding(w: Array | None = None) -> Module:
    """x + w, a constant; or a parameter."""
    b = Builder()
    if w is None:
        with b.function("main", x=tensor(3), w=tensor(3)) as f:
            b.result(b.add(f.x, f.w))
    else:
        with b.function("main", x=tensor(3)) as f:
            b.result(b.add(f.x, b.constant(w)))
    return b.module()


def given(module: Module) -> list[float]:
    (y,) = graph.run(module, {"x": X}).values()
    return list(np.asarray(y))


@pytest.mark.row("C1", "C5")
def test_what_is_done_to_an_array_later_changes_no_module() -> None:
    """The name of a constant is the digest of its contents: they must stay what they were."""
    mine, view = np.ones(3, np.float32), np.ones(6, np.float32)
    seen = view[::2]
    seen.flags.writeable = False  # but what it is a view of can be written
    modules = [adding(mine), extract_constants(adding(mine)), bind_params(adding(), {"w": mine}), adding(seen)]
    (name,) = modules[1].constants
    modules.append(bind_constants(modules[1], {name: mine}))
    mine[:], view[:] = 7, 7
    assert [given(m) for m in modules] == [[1, 1, 1]] * len(modules)


@pytest.mark.row("C1")
def test_what_nobody_can_change_is_not_copied() -> None:
    read_only = np.ones(3, np.float32)
    read_only.flags.writeable = False
    of_bytes = np.frombuffer(bytes(12), np.float32)
    for a in (read_only, read_only[1:], of_bytes):
        assert is_fixed(a) and fixed(a) is a and constant(a).data is a and frozen(a) is a
    shared = np.frombuffer(memoryview(bytearray(12)).toreadonly(), np.float32)
    assert not is_fixed(shared) and not np.shares_memory(constant(shared).data, shared)


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32)[::2], np.arange(6, dtype=np.float32).reshape(2, 3).T, np.arange(4)[::-1],
        np.zeros((0, 3)), np.float32(-0.0).reshape(()), np.broadcast_to(np.arange(3), (2, 3)),
        np.array([0x7FC00001, 0xFF812345, 0x80000000], np.uint32).view(np.float32),
    ],
)  # fmt: skip
def test_every_layout_keeps_its_bits(array: Array) -> None:
    for made in (fixed(array), frozen(array), constant(array).data):
        assert same_bits(made, array) and is_fixed(made)
    assert frozen(array).flags.c_contiguous


@pytest.mark.row("C1")
def test_what_is_repeated_takes_no_memory() -> None:
    many = np.broadcast_to(np.zeros(1, np.int8), (1 << 40,))
    assert fixed(many).shape == many.shape


@pytest.mark.row("C1")
def test_bytes_in_another_order_are_refused_with_the_way_out() -> None:
    other: Array = np.arange(3).astype(np.dtype(np.float32).newbyteorder("S"))
    with pytest.raises(Invalid, match=r"in the other order; array\.astype.*dtype\.C1"):
        constant(other)
    assert given(adding(other.astype(other.dtype.newbyteorder("=")))) == [0, 1, 2]
