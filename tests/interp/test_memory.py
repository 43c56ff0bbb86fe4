"""Both memories behind the definition (rule M7): the plain one and that with owners do the same; owners do what they
say."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor
from assay.interp.memory import Memory, check_bounds, from_bytes, to_bytes, with_byte
from assay.interp.shadow import NOBODY, SPOILED, ShadowMemory, ShadowRegion, Slots
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Program, Slot
from assay.semantics.scalar import const
from assay.semantics.tensor import Alias, Buffer, Call, PrimFunc, View, seq, store
from assay.semantics.types import TensorType

INT16 = DTYPES["int16"]
A, B, C = Buffer("a", (2, 3), INT16), Buffer("b", (2, 3), INT16), Buffer("c", (2,), INT16)
FUNC = PrimFunc("f", (A, B), 1, store(B, (0, 0), const(0, INT16)))


def slot(name: str, buffer: Buffer, start: int, live: tuple[int, int] = (0, 3), **more: Any) -> Slot:
    return Slot(name, TensorType(buffer.static_shape, buffer.dtype), "workspace", (live,), 2, start, **more)


def slots(*found: Slot) -> Slots:
    return Slots.of(Program({s.name: s for s in found}, (), (), ()))


def pair(first: int = 16) -> tuple[ShadowMemory, ShadowRegion, Slots]:
    """A memory of `FUNC` in a pool, its input filled with 0, 1, 2, ..."""
    table = slots(slot("x", A, 0), slot("y", B, first))
    pool = ShadowRegion.make("pool", 64, table, np.arange(50, dtype=np.uint8))
    pool.view(table["x"])[...] = np.arange(6).reshape(2, 3)
    pool.write(table["x"])
    memory = ShadowMemory(FUNC, {A: (table["x"], pool), B: (table["y"], pool)}, {B})
    memory.begin(A, (2, 3))
    memory.begin(B, (2, 3))
    return memory, pool, table


def attempt(memory: Memory, name: str, *args: Any) -> Any:
    """What a method gives, or the kind of its trap."""
    try:
        found = getattr(memory, name)(*args)
    except Trap as trap:
        return trap.kind
    return found.tolist() if isinstance(found, np.ndarray) else found


def test_both_memories_do_the_same() -> None:
    """A random walk over every method, on an input, an output and a buffer of the kernel's own."""
    rng = random.Random(0)
    for _ in range(20):
        plain = Memory()
        plain.begin(A, (2, 3), np.arange(6, dtype=np.int16).reshape(2, 3))
        plain.begin(B, (2, 3))
        shadow, _, _ = pair()
        both: tuple[Memory, Memory] = (plain, shadow)
        for memory in both:
            memory.begin(C, (2,), np.array([7, 8], np.int16))
        for _ in range(60):
            buffer = rng.choice((A, B, B, C))
            at = tuple(
                np.int64(rng.randrange(-1, n + 1) if rng.random() < 0.1 else rng.randrange(n))
                for n in buffer.static_shape
            )
            inside = all(0 <= i < n for i, n in zip(at, buffer.static_shape, strict=True))
            byte, value = rng.randrange(2), rng.randrange(-200, 200)
            calls: list[tuple[Any, ...]] = [
                ("load", buffer, at), ("store", buffer, at, np.int16(value)), ("load_byte", buffer, at, byte),
                ("store_byte", buffer, at, byte, value % 256), ("shape", buffer), ("is_constant", buffer),
            ]  # fmt: skip
            if inside:
                calls += [("is_written", buffer, at), ("is_byte_written", buffer, at, byte)]
            call = rng.choice(calls)
            if rng.random() < 0.02 and buffer is B:
                for memory in both:
                    memory.end(B)
                assert [attempt(m, "load", B, at) for m in both] == ["use outside lifetime"] * 2
                for memory in both:
                    memory.begin(B, (2, 3))
            one, two = (attempt(m, *call) for m in both)
            assert one == two, call
        kinds = {"unwritten output": "unwritten read"}  # what the machine says of it at the end of a step
        result = attempt(plain, "result", B)
        assert (kinds[result] if isinstance(result, str) else result) == attempt(shadow, "result", B)


def test_an_output_is_what_was_stored() -> None:
    shadow, pool, table = pair()
    for k, at in enumerate(np.ndindex(2, 3)):
        assert not shadow.is_written(B, at)
        with pytest.raises(Trap, match=f"byte {2 * k} of slot y, {16 + 2 * k} of the pool, is read as .*never written"):
            shadow.load(B, at)
        shadow.store(B, at, np.int16(10 * k - 20))
        assert shadow.is_written(B, at) and shadow.load(B, at) == 10 * k - 20
    assert np.array_equal(shadow.result(B), np.arange(6).reshape(2, 3) * 10 - 20)
    assert (
        pool.owners(table["y"]).tolist() == [table.numbers["y"]] * 12
        and shadow.address(B) == 16
        and shadow.address(A) == 0
    )


def test_an_element_of_which_bytes_were_written() -> None:
    for memory in (Memory(), pair()[0]):
        if type(memory) is Memory:
            memory.begin(B, (2, 3))
        memory.store_byte(B, (1, 2), 1, 0xFF)
        assert (
            memory.is_byte_written(B, (1, 2), 1)
            and not memory.is_byte_written(B, (1, 2), 0)
            and not memory.is_written(B, (1, 2))
        )
        assert memory.load_byte(B, (1, 2), 1) == 0xFF
        with pytest.raises(Trap, match="byte 0"):
            memory.load_byte(B, (1, 2), 0)
        memory.store_byte(B, (1, 2), 0, 0x01)
        assert memory.is_written(B, (1, 2)) and memory.load(B, (1, 2)) == -255


def test_bytes_of_numbers() -> None:
    x = Buffer("x", (1,), FLOAT32)
    assert (
        to_bytes(np.float32(1.0)) == bytes([0, 0, 0x80, 0x3F]) and from_bytes(bytes([0, 0, 0x80, 0x3F]), x, (0,)) == 1.0
    )
    assert with_byte(np.float32(1.0), 3, 0xBF, x, (0,)) == -1.0 and with_byte(np.float32(-1.0), 3, 0x3F, x, (0,)) == 1.0
    flag = Buffer("flag", (1,), BOOL)
    assert from_bytes(b"\x01", flag, (0,)) and not from_bytes(b"\x00", flag, (0,))
    with pytest.raises(Trap):
        from_bytes(b"\x02", flag, (0,))


def test_each_index_lies_within_its_own_dimension() -> None:
    assert check_bounds(A, (2, 3), (np.int8(1), np.int8(2))) == (1, 2)
    for at, axis in (((2, 0), 0), ((0, 3), 1), ((-1, 0), 0), ((0, -1), 1)):
        with pytest.raises(Trap) as caught:
            check_bounds(A, (2, 3), at)
        assert caught.value.kind == "out of bounds" and f"dimension {axis}" in caught.value.message


# --- owners ---------------------------------------------------------------------------------------------------------


def test_what_is_overwritten_belongs_to_another() -> None:
    shadow, _, _ = pair(first=4)
    shadow.store(B, (0, 0), np.int16(-1))
    assert shadow.load(A, (0, 1)) == 1 and not shadow.is_written(A, (0, 2)) and not shadow.is_byte_written(A, (0, 2), 1)
    with pytest.raises(Trap) as caught:
        shadow.load(A, (0, 2))
    assert caught.value.kind == "clobbered"
    assert (
        "byte 4 of slot x, 4 of the pool, is read as a[0, 2] but slot y has overwritten it (both are live at position 0"
        in caught.value.message
    )
    with pytest.raises(Trap, match="read as byte 1 of a"):
        shadow.load_byte(A, (0, 2), 1)
    shadow.store_byte(B, (1, 0), 1, 3)
    assert shadow.is_byte_written(A, (1, 2), 0) and not shadow.is_byte_written(A, (1, 2), 1)


@pytest.mark.parametrize(("live", "other", "words"), [
    ((0, 3), (2, 5), "both are live at position 2: they need bytes of their own"),
    ((4, 6), (2, 5), "both are live at position 4: they need bytes of their own"),
    ((0, 2), (2, 5), "they are never live together: the life of x should reach from what fills it to here"),
])  # fmt: skip
def test_what_would_have_kept_them_apart(live: tuple[int, int], other: tuple[int, int], words: str) -> None:
    table = slots(slot("x", A, 0, live, producer="step 1"), slot("y", B, 4, other))
    pool = ShadowRegion.make("pool", 32, table, np.zeros(1, np.uint8))
    x, y = table["x"], table["y"]
    with pytest.raises(
        Trap, match=r"byte 0 of slot x \(filled by step 1\), 0 of the pool, is read but was never written"
    ):
        pool.check(x, "read")
    pool.write(x)
    pool.check(x, "read")
    pool.write(y)
    with pytest.raises(Trap) as caught:
        pool.check(x, "read")
    assert (
        caught.value.message.startswith("byte 4 of slot x")
        and f"slot y has overwritten it ({words})" in caught.value.message
    )


def test_filling_spoiling_and_forgetting_leave_what_is_not_theirs() -> None:
    table = slots(slot("x", A, 0), slot("y", B, 4))
    pool = ShadowRegion.make("pool", 32, table, np.full(3, 9, np.uint8))
    x, y = table["x"], table["y"]
    assert (pool.data == 9).all() and (pool.owners(x) == NOBODY).all() and pool.data.ctypes.data % 2 == 0
    pool.write(x)
    pool.write(y)
    pool.fill(x, np.full((2, 3), 0x0101, np.int16))
    assert pool.bytes(x).tolist() == [1] * 4 + [9] * 8, "only its own bytes"
    pool.forget(x)
    assert pool.owners(x).tolist() == [NOBODY] * 4 + [table.numbers["y"]] * 8
    pool.spoil(y)
    assert (
        (pool.bytes(y) == SPOILED).all() and pool.data[16:].tolist() == [9] * 16 and pool.data[:4].tolist() == [1] * 4
    )


def test_memory_of_constants_has_one_owner_and_holds_what_it_is_given() -> None:
    table = slots(slot("x", A, 0), slot("y", B, 12))
    region = ShadowRegion.of_constants("table", 24, table)
    assert len(region.data) == 24 and region.owner is None and region.alignment == table.alignment
    contents = np.arange(6, dtype=np.int16).reshape(2, 3)
    region.hold(table["x"], contents)
    assert np.array_equal(region.view(table["x"]), contents) and not region.view(table["x"]).flags.writeable
    assert region.bytes(table["x"]).tolist() == contents.view(np.uint8).reshape(-1).tolist()
    region.check(table["x"], "read")
    assert region.owners(table["y"]).tolist() == [table.numbers["y"]] * 12
    assert (
        ShadowRegion.of_constants("table", 24, table, 64).alignment
        == 64
        == ShadowRegion.make("pool", 8, table, None, 64).alignment
    )
    assert (
        ShadowRegion.make("input", 8, table, None).owner is None
        and not ShadowRegion.make("input", 8, table, None).data.any()
    )


def test_memory_is_aligned_as_any_slot_asks() -> None:
    table = slots(replace(slot("x", A, 0), alignment=128), slot("y", B, 12))
    assert table.alignment == 128 and list(table) == ["x", "y"] and len(table) == 2
    for _ in range(8):
        assert ShadowRegion.make("pool", 100, table, np.zeros(1, np.uint8)).data.ctypes.data % 128 == 0
    with pytest.raises(Invalid, match="no slot 'z'") as caught:
        table["z"]
    assert caught.value.label == "machine.C4"


def test_a_buffer_that_does_not_fit_its_slot() -> None:
    memory, _, _ = pair()
    with pytest.raises(Invalid, match="does not fit") as caught:
        memory.begin(B, (3, 3))
    assert caught.value.label == "machine.C5"
    memory.begin(B, (3, 2))
    assert memory.shape(B) == (3, 2)


def test_an_output_that_is_not_kept_may_be_lost() -> None:
    memory, pool, table = pair()
    for at in np.ndindex(2, 3):
        memory.store(B, at, np.int16(1))
    pool.write(table["x"])
    pool.owners(table["y"])[3] = NOBODY
    with pytest.raises(Trap, match="byte 3 of slot y.*an output"):
        memory.result(B)
    memory.kept = set()
    assert memory.result(B).tolist() == [[1] * 3] * 2


def test_a_scalar_in_memory_of_its_own_and_a_constant_of_the_kernel() -> None:
    one = Buffer("one", (), INT16)
    table = slots(replace(slot("s", one, 0), place="output", offset=None))
    region = ShadowRegion.make("memory of s", 2, table, np.full(1, 7, np.uint8))
    assert region.span(table["s"]) == slice(0, 2)
    memory = ShadowMemory(PrimFunc("f", (one,), 1, store(one, (), const(0, INT16))), {one: (table["s"], region)}, {one})
    memory.begin(one, ())
    memory.begin(C, (2,), np.array([7, 8], np.int16))
    memory.store(one, (), np.int16(-3))
    assert (
        memory.load(one, ()) == -3 and memory.result(one) == -3 and memory.address(C) == 0 and memory.load(C, (1,)) == 8
    )
    memory.end(C)
    assert attempt(memory, "load", C, (0,)) == "use outside lifetime"


def test_a_whole_output_is_a_result() -> None:
    plain = Memory()
    plain.begin(C, (2,))
    plain.store(C, (0,), np.int16(4))
    assert attempt(plain, "result", C) == "unwritten output"
    plain.store(C, (1,), np.int16(5))
    assert attempt(plain, "result", C) == [4, 5]
    plain.begin(C, (2,), np.array([1, 2], np.int16))
    assert attempt(plain, "result", C) == [1, 2]


def test_an_extern_may_change_what_is_no_constant_by_any_name() -> None:
    """Not an input, and nothing through a constant view; a view of a view is what the outer one is."""
    out, x = Buffer("out", (2,), INT16), Buffer("x", (2,), INT16)
    one, two = Buffer("one", (2,), INT16), Buffer("two", (2,), INT16)
    for constant in (False, True):
        seen: list[bool] = []

        def look(*arrays: Any, seen: list[bool] = seen) -> None:
            seen.extend(a.flags.writeable for a in arrays)
            for a in arrays:
                if a.flags.writeable:
                    a[...] += 1

        call = Call("look", (x, out, two), extern=True)
        inner = Alias(View(two, one, const(0), (const(1),)), call)
        body = Alias(View(one, out, const(0), (const(1),), constant=constant), inner)
        fill = seq(*(store(out, k, const(5, INT16)) for k in range(2)))
        func = PrimFunc("f", (x, out), 1, seq(fill, body))
        (result,) = tensor.run(func, [np.array([1, 2], np.int16)], externs={"look": look})
        assert seen == [False, True, not constant] and result.tolist() == [6, 6]
