"""Where values enter the graph interpreter: what a caller gives, sizes that meet, room, and engines' regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.interp.graph import memory_limits
from assay.interp.graph.boundary import MOST, bind, given, shown, unsized
from assay.interp.graph.engines import EngineRegion, attach, regions, run as run_engines
from assay.interp.graph.session import Session
from assay.interp.values import Cell, Data, Event, Shape
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import GlobalVar, call, constant, function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataType, ObjectType, RefType, ShapeType, TensorType, TupleType
from tests.observation import Observation

N, M, K = Symbol("n"), Symbol("m"), Symbol("k")
F = np.float32


def f32(*dims: Any) -> TensorType:
    return TensorType(dims, FLOAT32)


def test_a_path_is_shown_with_its_ends() -> None:
    path: Any = "input 'x'"
    for k in range(MOST):
        path = (path, str(k))
    assert shown(path) == ".".join(["input 'x'", *map(str, range(MOST))])
    path = ((path, "last"), "end")
    assert (
        shown(path).startswith("input 'x'.0.1.")
        and shown(path).endswith(".39.last.end")
        and ".19.(2 steps).22." in shown(path)
    )


def test_what_is_given_becomes_arrays_shapes_and_tuples() -> None:
    seen: list[Any] = []

    def lift(value: Any) -> Any:
        seen.append(value)
        return value

    of = TupleType((f32(N), ShapeType((N, M)), TupleType((TensorType((), INT64),))))
    found: Any = given([[1.0, 2.0], (2, np.int32(3)), [7]], of, "input 'x'", lift)
    assert (
        isinstance(found, tuple) and found[0].tolist() == [1.0, 2.0] and found[1] == Shape((2, 3)) and found[2][0] == 7
    )
    assert len(seen) == 2, "each array, and nothing else"
    exact = Bounded.exact(F([1]))
    assert given(exact, f32(1), "x", lift) is exact and given(Shape((4,)), ShapeType((N,)), "x") == Shape((4,))
    assert given(np.array([4, 5]), ShapeType((N, M)), "x") == Shape((4, 5))
    assert given((1, 2, 3), TupleType((f32(), f32())), "x") == (1, 2, 3), "of another length: said when types meet"
    for wrong in ((-1,), (True,), (1.5,), 3, "ab", np.array([[1]]), (2**63,)):
        with pytest.raises(Invalid, match="expected sizes") as caught:
            given(wrong, ShapeType((N,)), "input 'x'")
        assert caught.value.label == "input.C3"
    assert given((2**63 - 1,), ShapeType((N,)), "x") == Shape((2**63 - 1,))
    with pytest.raises(Invalid, match="input 'x'.1 is no array of numbers"):
        given(([1.0], object()), TupleType((f32(1), f32())), "input 'x'")
    with pytest.raises(Invalid, match=r"is in the other byte order: give it as .astype\('float32'\)"):
        given(np.ones(3, np.dtype(np.float32).newbyteorder()), f32(3), "input 'x'")
    assert {d for d in unsized(f32(N, 3)).shape if isinstance(d, int)} == set()  # type: ignore[attr-defined]


def met(*pairs: tuple[Any, Any]) -> dict[Symbol, int]:
    symbols: dict[Symbol, int] = {}
    bind([(t, v, f"input {i}") for i, (t, v) in enumerate(pairs)], symbols, {})
    return symbols


def test_sizes_that_meet() -> None:
    x = np.zeros((4, 6), F)
    assert met((f32(N, M), x)) == {N: 4, M: 6}
    assert met((f32(N + 2, N), x.T)) == {N: 4}, "a symbol may stand further on"
    assert met((f32(4, 6), x), (ShapeType((N, 4)), Shape((9, 4)))) == {N: 9}
    assert met((TupleType((f32(N, 6), ShapeType((N,)))), (x, Shape((4,))))) == {N: 4}
    pair = (x, Shape((4,)))
    of = TupleType((f32(N, 6), ShapeType((N,))))
    assert met(
        (of, pair), (of, pair), (RefType(f32(2)), Cell(x)), (ObjectType(), 3), (DataType("D"), Data("D", "c", ()))
    ) == {N: 4}


WRONG: dict[str, tuple[list[tuple[Any, Any]], str, str]] = {
    "dtype": ([(f32(2), np.zeros(2))], r"input 0 is Tensor\(\(2,\), float64\), expected", "input.C3"),
    "rank": ([(f32(2), np.zeros((2, 1), F))], "expected", "input.C3"),
    "no array": ([(f32(2), "text")], "input 0 is a str, expected", "input.C3"),
    "no shape": ([(ShapeType((N,)), np.zeros(2))], "expected", "input.C3"),
    "a shape of other length": ([(ShapeType((N,)), Shape((1, 2)))], "expected", "input.C3"),
    "no tuple": ([(TupleType((f32(),)), np.zeros((), F))], "input 0 is not", "input.C3"),
    "a longer tuple": ([(TupleType((f32(),)), (F(1), F(2)))], "input 0 is not", "input.C3"),
    "another data type": ([(DataType("D"), Data("E", "c", ()))], "input 0 is a data, expected", "input.C3"),
    "no reference": ([(RefType(f32()), F(1))], "input 0 is Tensor", "input.C3"),
    "a number": ([(f32(2, 3), np.zeros((2, 4), F))], "axis 1 of input 0 is 4, expected 3$|expected 3 ", "input.C4"),
    "a symbol": ([(f32(N), np.zeros(2, F)), (f32(3, N), np.zeros((3, 5), F))],
        "axis 1 of input 1 is 5, expected 2, the value of n by axis 0 of input 0", "input.C4"),
    "an expression": ([(f32(N), np.zeros(2, F)), (f32(N * 2), np.zeros(5, F))],
        r"axis 0 of input 1 is 5, expected 4 = \(n \* 2\)", "input.C4"),
    "in a tuple": ([(TupleType((f32(N), f32(N))), (np.zeros(2, F), np.zeros(3, F)))],
        "axis 0 of input 0.1 is 3, expected 2", "input.C4"),
    "no value": ([(f32(K + N, N), np.zeros((2, 2), F))], r"axis 0 of input 0 is \(k \+ n\), but k has no value",
        "input.C6"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_sizes_and_types_that_do_not_meet(name: str) -> None:
    pairs, words, label = WRONG[name]
    with pytest.raises(Invalid, match=words) as caught:
        met(*pairs)
    assert caught.value.label == label


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MEMORY_BYTES", 400)
    assert memory_limits.too_large((10, 10), FLOAT32) is None and memory_limits.too_large((), FLOAT32) is None
    assert memory_limits.too_large((10, 10, 2), FLOAT32) == "800 bytes, of 400 that this machine has"
    assert memory_limits.too_large((101,), FLOAT32) is not None and memory_limits.too_large((400,), BOOL) is None
    assert (
        memory_limits.too_large((1,) * 64, FLOAT32) is None
        and memory_limits.too_large((1,) * 65, FLOAT32) == "65 axes, of at most 64"
    )
    assert (
        memory_limits.too_large((0, 2**63), FLOAT32) is not None
        and memory_limits.too_large((0, 2**61 - 1), FLOAT32) is None
    )
    with pytest.raises(Invalid, match="input x would take 800 bytes.*give smaller sizes") as caught:
        memory_limits.require_memory((10, 20), FLOAT32, "input x")
    assert caught.value.label == "input.C11"


def test_memory_that_runs_out_is_a_trap_and_other_faults_are_not() -> None:
    with pytest.raises(Trap, match="not enough memory") as caught, memory_limits.memory_traps():
        raise MemoryError
    assert caught.value.label == "memory.T1"
    with pytest.raises(Trap, match="there is no such array"), memory_limits.memory_traps():
        np.empty((2**40, 2**40), np.uint8)
    with pytest.raises(ValueError, match="^other$"), memory_limits.memory_traps():
        raise ValueError("other")


def test_a_size_of_nothing_is_no_trap() -> None:
    x = var("x", f32(N))
    main = function([x], call("full", shape=(N - 1,), fill_value=0.0, dtype="float32"))
    assert graph.run(Module({"main": main}), {"x": np.zeros(1, F)})["output_0"].shape == (0,)
    with pytest.raises(Trap, match="is -1") as caught:
        graph.run(Module({"main": main}), {"x": np.zeros(0, F)})
    assert caught.value.label == "size.T1"


def test_observations_of_traps_and_names() -> None:
    def at(**more: Any) -> Observation:
        return Observation(more.get("values"), tuple(more.get("trace", ())), more.get("trap"))

    def differ(a: Observation, b: Observation) -> str:
        found, back = a.difference(b), b.difference(a)
        assert (found is None) == (back is None)
        return found or ""

    one, two = Trap("shape", "2", label="a.T1"), Trap("shape", "3", label="a.T1")
    assert differ(at(trap=one), at(trap=two)) == "", "the words may differ"
    assert differ(at(trap=one), at(trap=Trap("shape", "2", label="a.T2"))).startswith("trap")
    assert differ(at(trap=one), at(trap=Trap("clobbered", "2", label="a.T1"))).startswith("trap")
    assert differ(at(trap=one), at(values={"y": F(1)})).startswith("trap")
    assert differ(at(values={"y": F(1)}), at(values={"z": F(1)})) == "results ['y'] against ['z']"
    assert differ(at(values={"y": F(1), "z": F(2)}), at(values={"y": F(1), "z": F(3)})).startswith("result z is")
    events = [
        Event("print", "", (F(1),)),
        Event("extern", "", (F(1),)),
        Event("extern", "f", (F(1),)),
        Event("extern", "f", (F(2),)),
    ]
    for i, a in enumerate(events):
        for j, b in enumerate(events):
            assert differ(at(trace=[a]), at(trace=[b])).startswith("effect 0") == (i != j)
    assert differ(at(trace=events[:1], values={}), at(trace=events[:1] * 2, values={})) == "1 effects against 2"
    cell = Cell(F(1))
    assert "share references" in differ(
        at(values={"y": cell, "z": cell}), at(values={"y": Cell(F(1)), "z": Cell(F(1))})
    )


def test_a_session_counts_and_names_its_inputs_and_outputs() -> None:
    x, y = var("x", f32(N)), var("y", f32(N))
    session = Session(Module({"main": function([x, y], tuple_of(call("add", x, y), x))}))
    assert (session.input_index("x"), session.input_index("y")) == (0, 1)
    for wrong in (2, -1, "z"):
        with pytest.raises(Invalid) as caught:
            session.set_input(wrong, F([1]))
        assert caught.value.label == "input.C1"
    with pytest.raises(Invalid, match="nothing has been invoked"):
        session.output()
    session.set_input(0, F([1, 2]))
    session.set_input("y", F([3, 4]))
    session.invoke()
    assert session.output().tolist() == session.output("output_0").tolist() == [4, 6] and session.output(
        1
    ).tolist() == [
        1,
        2,
    ]  # type: ignore[union-attr]
    for wrong in (2, -1, "z"):
        with pytest.raises(Invalid) as caught:
            session.output(wrong)
        assert caught.value.label == "session.C2"
    with pytest.raises(Invalid, match="input.C4"):
        session.set_input(1, F([1]))
    assert session.inputs["y"].tolist() == [3, 4], "a wrong one is not set"  # type: ignore[union-attr]


def test_an_engine_gets_constants_of_both_kinds_and_leaves_the_callers_arrays() -> None:
    p, x = var("p", f32(2)), var("x", f32(2))
    table = GlobalVar(f32(2), "w")
    inner = function([p], call("add", call("multiply", p, table), constant(F([10, 20]))))
    marked = type(inner)(**{**inner.__dict__, "attrs": {"compiler": "npu"}})
    module = Module({"main": function([x], call(marked, x))}, {"w": F([2, 3]), "other": F([9, 9])})
    (region,) = regions(module)
    assert (
        sorted(a.tolist() for a in region.constants.values()) == [[2, 3], [10, 20]] and region.symbol == "npu_in_main_1"
    )
    seen: list[Any] = []

    def engine(region: EngineRegion, args: Any) -> Any:
        seen.append([a.flags.writeable for a in args])
        return args[0] * F([2, 3]) + F([10, 20])

    given_ = F([1, 1])
    assert run_engines(module, {"x": given_}, {"npu": engine})["output_0"].tolist() == [12, 23]
    assert seen == [[False]] and given_.flags.writeable
    with pytest.raises(Invalid, match="which is not given"):
        attach(module, {})
