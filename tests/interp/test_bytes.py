"""One memory as numbers of several dtypes: the definition, the fast interpreters and plain nodes against a model of
bytes (rule M6.22)."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp import machine, tensor, vector
from assay.interp.vector import Way
from assay.semantics.dtypes import DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import Expr
from assay.semantics.tensor import Alias, PrimFunc, program_order, recast
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from tests.interp.byte_programs import BODIES, TRAPS, Array, Bytes, X, module
from tests.interp.programs import same_bits
from tests.lower.memory.planned import alone

WAYS: tuple[tuple[Way, ...], ...] = (("lanes",), ("straight",), ("lanes", "straight"))


def disagreement(func: PrimFunc, inputs: list[Array], want: list[Array]) -> str:
    """Which way of running a function gives something else; "" for none."""
    runs = {"definition": tensor.run(func, inputs)}
    runs["plain"] = tensor.run(without_blocks(func), inputs)
    runs["pointers"] = tensor.run(without_blocks(func, pointers=True), inputs)
    runs.update((str(ways), vector.run(func, inputs, ways=ways)) for ways in WAYS)
    return " ".join(name for name, got in runs.items() if not all(map(same_bits, got, want)))


@pytest.mark.parametrize("name", BODIES)
def test_bytes_seen_as_other_numbers(name: str) -> None:
    body, o, p = BODIES[name]
    m = module(body)
    func = m.kernel("kernel")
    text = show(m)
    assert show(parse(text, "again.py")) == text
    assert not disagreement(func, [X], [o, p])
    assert vector.compile_function(func, [X]).way is not None  # no need of the definition
    ways: tuple[machine.Execute, ...] = (vector.run, "definition")
    for execute in ways:
        got = machine.run(alone(func), {"x": X}, execute=execute)
        assert same_bits(got["o"], o) and same_bits(got["p"], p)


@pytest.mark.parametrize("name", TRAPS)
def test_misuse_of_bytes_traps(name: str) -> None:
    body, kind, words = TRAPS[name]
    func = module(body).kernel("kernel")
    for run in (tensor.run, vector.run):
        with pytest.raises(Trap) as caught:
            run(func, [X])
        assert caught.value.kind == kind and any(w in caught.value.message for w in words.split("|")), caught.value
        assert kind != "cast" or caught.value.label == "tensor.T15"
    if kind != "race":  # in plain nodes too, but for who comes first
        with pytest.raises(Trap) as plain:
            tensor.run(without_blocks(func), [X])
        assert plain.value.kind in (kind, "unwritten read")


def test_every_byte_has_an_owner_in_the_machine() -> None:
    body, *_ = TRAPS["a byte that nobody wrote"]
    with pytest.raises(Trap, match="byte 31 of slot .*t.* never written"):
        machine.run(alone(module(body).kernel("kernel")), {"x": X}, execute="definition")


def test_random_views_do_what_the_model_does() -> None:
    for seed in range(20):
        made = Bytes(seed)
        x = made.inputs()
        assert not disagreement(made.func, [x], [made.expected(x)]), made.func


def test_bytes_in_another_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is not blind: where each unit is the lowest, something else comes out."""
    right = recast._unit

    def wrong(bits: Expr, k: int, unit: DType) -> Expr:
        return right(bits, 0, unit)

    monkeypatch.setattr(recast, "_unit", wrong)
    found = 0
    for seed in range(1000, 1020):
        made = Bytes(seed)
        x = made.inputs()
        found += "plain" in disagreement(made.func, [x], [made.expected(x)])
    assert found > 3


def test_constants_are_seen_in_bytes() -> None:
    m = module(
        "for i in range(8):\n    o[i] = x[i]\nc = T.allocate_const([1, 256, 65536, 3, 4, 5, 6, 7], 'int32', [8])\n"
        "v = c.view('uint8')\nfor i in range(32):\n    p[i] = v[i]"
    )
    want = np.array([1, 256, 65536, 3, 4, 5, 6, 7], np.int32).view(np.uint8)
    assert not disagreement(m.kernel("kernel"), [X], [X, want])


def test_what_is_not_seen_as_another_dtype_stays() -> None:
    func = module(
        "v = x.view(2, 4)\nfor i, j in T.grid(2, 4):\n    o[i * 4 + j] = v[i, j]\nfor i in range(32):\n    p[i] ="
        " T.uint8(0)"
    ).kernel("kernel")
    assert recast.in_units(func) is func and recast.in_units(func, pointers=True) is func
    assert without_blocks(func) is without_blocks(func, pointers=True)


def test_with_pointers_one_view_of_bytes_is_left() -> None:
    func = module(BODIES["halves of an output"][0]).kernel("kernel")
    left = [s for s in program_order(without_blocks(func, pointers=True).body) if isinstance(s, Alias)]
    assert [s.view.source.name for s in left] == ["o"] and left[0].view.buffer.dtype.name == "uint8"
    assert not any(isinstance(s, Alias) for s in program_order(without_blocks(func).body))


def test_sizes_that_are_symbols() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((n, 2), "float32"), o: T.Buffer((n, 8), "uint8")):
        v = x.view("uint8")
        for i, j in T.grid(n, 8):
            o[i, j] = v[i, j]
"""
    func = parse("n = TypeVar('n')\n" + text, "n.py").kernel("main")
    for n in (0, 1, 3):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        assert not disagreement(func, [x], [x.view(np.uint8).reshape(n, 8)])


def test_an_input_is_no_output_of_its_copy() -> None:
    """A copy in units is written; the input itself is not."""
    func = module(BODIES["bytes of an input"][0]).kernel("kernel")
    before = X.copy()
    vector.run(func, [X])
    assert same_bits(before, X)
