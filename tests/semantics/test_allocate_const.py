"""Constants of tensor functions: contents of every dtype, read-only, by name (specs/semantics.md, "Constants")."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, tensor, vector
from assay.semantics.analyses.equality import first_difference, structural_equal, structural_hash
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import DTYPES, FLOAT32, DType
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import call_tir, function
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var, const
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor import (
    Alias,
    AllocateConst,
    Block,
    Buffer,
    Call,
    PrimFunc,
    Stmt,
    View,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
OUT, C = Buffer("out", (2, 3), FLOAT32), Buffer("c", (2, 3), FLOAT32)
DATA: Array = np.array([[1.5, -0.0, 0.0], [3.0, np.nan, -np.inf]], np.float32)


def copy(data: Array | None = DATA, *, index: str = "", c: Buffer = C, out: Buffer = OUT, **more: Any) -> PrimFunc:
    """out = the constant."""
    body = loops("i j", (2, 3), lambda i, j: store(out, (i, j), c[i, j]))
    return PrimFunc("f", (out,), 1, AllocateConst(c, data, body, index, **more))


def random_bits(of: DType) -> Array:
    """2 by 3 elements with any bits that are some element's."""
    bits = np.random.default_rng(0).integers(0, 256, 6 * of.itemsize, dtype=np.uint8)
    return (bits % 2**of.bits if of.bits < 8 else bits).view(of.numpy).reshape(2, 3)


def node(func: PrimFunc) -> AllocateConst:
    return next(s for s in program_order(func.body) if isinstance(s, AllocateConst))


def bits(array: Array) -> bytes:
    return array.tobytes()


@pytest.mark.row("C1", "C10")
@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_contents_of_every_dtype(of: DType, tmp_path: Path) -> None:
    """Run, printed and read, and stored: the same bits, NaN payloads too."""
    c, out = Buffer("c", (2, 3), of), Buffer("out", (2, 3), of)
    data = random_bits(of)
    module = Module({"f": copy(data, c=c, out=out, annotations={"advice": 1})})
    check(module)
    for engine in (tensor.run, vector.run):
        (made,) = engine(module.kernel("f"), [])
        assert np.array_equal(made, data, equal_nan=of.is_float)
    for again in (parse(show(module)), stored(module, tmp_path)):
        assert first_difference(module, again) is None
        assert bits(node(again.kernel("f")).contents) == bits(data)
        assert node(again.kernel("f")).annotations == {"advice": 1}


def stored(module: Module, place: Path) -> Module:
    with (place / "tensors.bin").open("wb") as file:
        text = encode(module, ArrayWriter(file))
    return decode(text, ArrayReader(place / "tensors.bin"))


@pytest.mark.row("C10")
def test_a_large_constant_is_written_by_its_bytes() -> None:
    big = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    c, out = Buffer("c", (40, 50), FLOAT32), Buffer("out", (40, 50), FLOAT32)
    func = PrimFunc(
        "f", (out,), 1, AllocateConst(c, big, loops("i j", (40, 50), lambda i, j: store(out, (i, j), c[i, j])))
    )
    text = show(Module({"f": func}))
    assert len(text) < big.nbytes * 1.5
    assert first_difference(parse(text), Module({"f": func})) is None


def symbolic() -> PrimFunc:
    n = Var("n")
    x, out, c = (Buffer(name, (n, 3), FLOAT32) for name in ("x", "out", "c"))
    body = loops("i j", (n, 3), lambda i, j: store(out, (i, j), x[i, j] + c[i, j]))
    return PrimFunc("f", (x, out), 1, AllocateConst(c, DATA, body))


WRONG: dict[str, tuple[Callable[[], PrimFunc], str]] = {
    "too few": (lambda: copy(DATA[:1]), "tensor.C25"),
    "another shape": (lambda: copy(DATA.reshape(3, 2)), "tensor.C25"),
    "another dtype": (lambda: copy(DATA.astype(np.float64)), "tensor.C24"),
    "neither": (lambda: copy(None), "tensor.C9"),
    "symbolic": (symbolic, "tensor.C23"),
}


@pytest.mark.row("C1")
@pytest.mark.parametrize("name", WRONG)
def test_contents_that_do_not_fit_are_refused(name: str) -> None:
    make, label = WRONG[name]
    with pytest.raises(Invalid) as wrong:
        check(Module({"f": make()}))
    assert wrong.value.label == label


# --- read-only ---------------------------------------------------------------------------------------------------


def view(source: Buffer) -> tuple[Buffer, View]:
    flat = Buffer("flat", (6,), FLOAT32)
    return flat, View(flat, source, const(0), (const(1),))


def written_itself() -> Stmt:
    return store(C, (0, 0), 1.0)


def written_by_view() -> Stmt:
    flat, window = view(C)
    return Alias(window, store(flat, 2, 1.0))


def written_by_view_of_view() -> Stmt:
    flat, window = view(C)
    again = Buffer("again", (6,), FLOAT32)
    return Alias(window, Alias(View(again, flat, const(0), (const(1),)), store(again, 2, 1.0)))


def written_in_block() -> Stmt:
    flat, window = view(C)
    return Block("b", (), store(flat, 2, 1.0), views=(window,))


def written_by_call() -> Stmt:
    return Call("fill", (C,))


FILL_OUT = Buffer("p", (2, 3), FLOAT32)
FILL = PrimFunc("fill", (FILL_OUT,), 1, loops("i j", (2, 3), lambda i, j: store(FILL_OUT, (i, j), 1.0)))


@pytest.mark.row("C2")
@pytest.mark.parametrize(
    "write", [written_itself, written_by_view, written_by_view_of_view, written_in_block, written_by_call]
)
def test_a_store_is_refused_and_traps(write: Callable[[], Stmt]) -> None:
    func = PrimFunc("f", (OUT,), 1, AllocateConst(C, DATA, seq(write(), copy().body.children[0])))
    with pytest.raises(Invalid, match=r"c is a constant.*\[tensor\.C26\]"):
        check(Module({"f": func, "fill": FILL}))
    for engine in (tensor.run, vector.run):
        with pytest.raises(Trap) as trap:
            engine(func, [], functions={"fill": FILL})
        assert trap.value.kind == "store to constant"


def test_a_constant_that_is_only_read_by_view_and_call_is_right() -> None:
    p, q = Buffer("p", (2, 3), FLOAT32), Buffer("q", (2, 3), FLOAT32)
    double = PrimFunc("double", (p, q), 1, loops("i j", (2, 3), lambda i, j: store(q, (i, j), p[i, j] + p[i, j])))
    func = PrimFunc("f", (OUT,), 1, AllocateConst(C, DATA, Call("double", (C, OUT))))
    check(Module({"f": func, "double": double}))
    (made,) = tensor.run(func, [], functions={"double": double})
    assert np.array_equal(made, DATA * 2, equal_nan=True)


# --- by name -----------------------------------------------------------------------------------------------------


def named(data: Array = DATA) -> Module:
    x = call_tir("f", [], TensorType((2, 3), FLOAT32))
    return Module({"main": function([], x), "f": copy(None, index="w")}, {"w": data})


@pytest.mark.row("C1", "C14")
def test_a_name_of_the_table_is_resolved_without_a_copy() -> None:
    module = named()
    check(module)
    resolved = module.resolved()
    assert node(resolved.kernel("f")).contents is module.constants["w"]
    assert resolved.resolved() is resolved
    assert structural_equal(module, resolved) and structural_hash(module) == structural_hash(resolved)
    (made,) = graph.run(module, {}).values()
    assert np.array_equal(np.asarray(made), DATA, equal_nan=True)


@pytest.mark.row("C14")
def test_running_what_is_not_resolved_is_a_clear_error() -> None:
    for engine in (tensor.run, vector.run):
        with pytest.raises(Invalid, match=r"constant w of a module's table.*Module\.resolved.*tensor\.C22"):
            engine(named().kernel("f"), [])


@pytest.mark.row("C14")
@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"constants": {}}, "module.C7"),
        ({"constants": {"w": DATA[:1]}}, "module.C8"),
        ({"constants": {"w": DATA.astype(np.float64)}}, "module.C8"),
        ({"constants": {"w": DATA, "f": DATA}}, "module.C10"),
        ({"infos": {"v": ConstantInfo()}}, "module.C11"),
        ({"infos": {"w": ConstantInfo(48)}}, "module.C12"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(change: Any, label: str) -> None:
    with pytest.raises(Invalid) as wrong:
        check(replace(named(), **change))
    assert wrong.value.label == label


@pytest.mark.row("C14")
def test_a_name_whose_entry_has_other_contents_is_refused() -> None:
    module = replace(named(), definitions={"f": copy(DATA, index="w")})
    check(module)
    other = DATA.copy()
    other[0, 1] = 0.0  # it was -0.0
    with pytest.raises(Invalid, match=r"other contents.*module\.C9"):
        check(replace(module, constants={"w": other}))


@pytest.mark.row("C10", "C14")
def test_the_table_is_printed_once_and_read_back(tmp_path: Path) -> None:
    info = ConstantInfo(128, ".rodata.w", VirtualDevice("cuda", 1, "", "texture"))
    module = replace(named(), definitions={"f": copy(DATA, index="w")}, infos={"w": info})
    text = show(module)
    assert text.count("A.tensor") == 1 and 'index="w"' in text and "None" in text
    for again in (parse(text), stored(module, tmp_path)):
        assert first_difference(module, again) is None and again.infos == module.infos
    assert node(parse(text).kernel("f")).contents is not DATA
    lost = replace(module, constants={}, infos={})
    assert first_difference(parse(show(lost)), lost) is None  # its data stands in the function


# --- equality ----------------------------------------------------------------------------------------------------


@pytest.mark.row("C3")
def test_data_and_annotations_count_and_the_index_does_not() -> None:
    one = copy()
    negative = DATA.copy()
    negative[0, 2] = -0.0
    payload = DATA.copy()
    payload.view(np.uint32)[1, 1] += 1
    for other in (negative, payload):
        assert np.array_equal(other, DATA, equal_nan=True)
        assert not structural_equal(one, copy(other)) and structural_hash(one) != structural_hash(copy(other))
        assert structural_equal(one, copy(other), data=False)
        assert structural_hash(one, data=False) == structural_hash(copy(other), data=False)
    assert structural_equal(one, copy(DATA.copy(), index="w")) and structural_hash(one) == structural_hash(
        copy(index="w")
    )
    assert not structural_equal(one, copy(annotations={"a": 1}))
    assert not structural_equal(copy(None, index="v"), copy(None, index="w"))
    assert not structural_equal(one, copy(None, index="w"))
    assert structural_equal(one, copy(None, index="w"), data=False)
    assert not structural_equal(named(), named(negative)) and structural_equal(named(), named(negative), data=False)


@pytest.mark.row("C3")
def test_big_data_is_compared_and_hashed_without_a_copy() -> None:
    """apache/tvm#13091: equality of modules with big data."""
    import tracemalloc

    big = np.zeros((1 << 23,), np.float32)
    c, out = Buffer("c", big.shape, FLOAT32), Buffer("out", (1,), FLOAT32)
    one, two = (
        Module({"f": PrimFunc("f", (out,), 1, AllocateConst(c, d, store(out, 0, c[0])))}) for d in (big, big.copy())
    )
    tracemalloc.start()
    assert structural_equal(one, two) and structural_hash(one) == structural_hash(two)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < big.nbytes / 8


def test_what_is_stored_shares_the_bytes_of_the_table() -> None:
    file = io.BytesIO()
    encode(replace(named(), definitions={"f": copy(DATA, index="w")}), ArrayWriter(file))
    assert len(file.getvalue()) == DATA.nbytes
