"""A model on which a backend is wrong is made smaller (specs/verify.md, "reduce")."""

from __future__ import annotations

import io
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper as h, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.control import reads
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr
from assay.verify.app.terminal import Screen
from assay.verify.backends import Prepared, Subject, backend
from assay.verify.reduce import ReducedCase, reduce, tidy
from assay.verify.reduce.command import reduce_model
from assay.verify.reduce.finding import CaseFinding, find, shows
from assay.verify.reduce.standalone import array_literal, write_standalone
from tests.models import model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def network(
    nodes: Sequence[onnx.NodeProto], arrays: Mapping[str, Array], shape: Sequence[int] = (1, 3, 6, 10), opset: int = 13
) -> onnx.ModelProto:
    """A model of one input x, whose result is that of the last node."""
    return model(
        nodes, {"x": (np.float32, tuple(shape))}, {nodes[-1].output[0]: (np.float32, None)}, arrays, opset, ir_version=8
    )


NETWORK = network(
    [
        h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("Mul", ["r", "r"], ["m"]),
        h.make_node("Add", ["m", "b"], ["a"]),
        h.make_node("MaxPool", ["a"], ["o"], kernel_shape=[2, 2], strides=[2, 2]),
    ],
    {"w": RNG.normal(size=(8, 3, 3, 3)).astype(np.float32), "b": RNG.normal(size=(10,)).astype(np.float32)},
)
X = {"x": RNG.normal(size=(1, 3, 6, 10)).astype(np.float32)}


@dataclass
class Faulty:
    """The definition, but for one fault: an Add that reads what a Mul made is a thousandth too large where it is above
    `above`. With `dies`, its process would have died there."""

    above: float = 0.0
    dies: bool = False
    until: float = float("inf")
    name: str = "faulty"
    runs: int = 0

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        muls = {o for n in subject.model.graph.node if n.op_type == "Mul" for o in n.output}
        odd = {
            id(subject.tensors[n.output[0]])
            for n in subject.model.graph.node
            if n.op_type == "Add" and muls & set(n.input) and n.output[0] in subject.tensors
        }

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            self.runs += 1
            found: dict[int, Array] = {}

            def look(node: Expr, value: Any) -> Any:
                if id(node) in odd and (value > self.above).any() and self.runs <= self.until:
                    if self.dies:
                        raise Unsupported("the backend faulty died of SIGFPE", label="backend.C5")
                    value = np.where(value > self.above, value * np.float32(1.001), value)
                found[id(node)] = value
                return value

            graph.run(subject.module, inputs, observe=look)
            return {n: found[id(subject.tensors[n])] for n in wanted}

        return run


def reduced(faulty: Faulty) -> ReducedCase:
    case = ReducedCase(NETWORK, X)
    found = find(case, faulty)
    assert found is not None
    return reduce(case, shows(faulty, found))


def test_what_needs_two_operators_keeps_two_and_nothing_else() -> None:
    small = reduced(Faulty(above=2.0))
    assert [n.op_type for n in small.nodes] == ["Mul", "Add"]
    operators, attributes, elements = small.size
    assert (operators, attributes) == (2, 0) and elements <= 3
    assert {a.dtype.name for a in small.inputs.values()} == {"float32"}
    onnx.checker.check_model(small.model, full_check=True)


def test_a_backend_that_dies_is_reduced_alike() -> None:
    small = reduced(Faulty(dies=True))
    assert [n.op_type for n in small.nodes] == ["Mul", "Add"]


def test_values_are_as_simple_as_can_be() -> None:
    small = reduced(Faulty(above=2.0))
    given = {**small.inputs, **small.initializers}
    assert all(np.isin(a, (0, 1)).all() or a.size == 1 for a in given.values()), given


@pytest.mark.parametrize(
    ("node", "opset", "shape"),
    [
        (h.make_node("Softmax", ["c"], ["s"], axis=1), 9, (1, 2, 1)),
        (h.make_node("LRN", ["c"], ["s"], size=3, alpha=0.5), 13, (1, 1)),
    ],
    ids=["Softmax", "LRN"],
)
def test_the_faults_of_the_reference_evaluator_are_found_in_a_network(
    node: onnx.NodeProto, opset: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Both are known of it: Softmax before 13 takes one axis instead of all behind it; LRN walks along the wrong
    one."""
    w = RNG.normal(size=(8, 3, 3, 3)).astype(np.float32)
    nodes = [h.make_node("Conv", ["x", "w"], ["c"]), node, h.make_node("Add", ["s", "s"], ["o"])]
    out = io.StringIO()
    code = reduce_model(
        network(nodes, {"w": w}, (1, 3, 6, 8), opset),
        backend("reference"),
        {},
        {},
        0,
        5_000,
        tmp_path,
        Screen(file=out, width=1_000),
    )
    assert code == 1 and "-> 1 operator" in out.getvalue()
    (test,) = tmp_path.glob("test_*.py")
    assert [p.suffix for p in tmp_path.iterdir()] == [".py"]  # small enough to be all text
    there = runpy.run_path(str(test))
    assert there["verdict"]().outcome == "wrong"
    (given,) = there["INPUTS"].values()
    assert given.size == 2 and [n.op_type for n in there["MODEL"].graph.node] == [node.op_type]
    with pytest.raises(AssertionError, match="wrong"):
        next(v for n, v in there.items() if n.startswith("test_"))()


def test_a_backend_that_is_right_leaves_nothing_to_reduce(tmp_path: Path) -> None:
    out = io.StringIO()
    faulty = Faulty(above=float("inf"))
    assert reduce_model(NETWORK, faulty, X, {}, 0, 100, tmp_path / "new", Screen(file=out, width=1_000)) == 0
    assert "not wrong" in out.getvalue() and not list((tmp_path / "new").iterdir())
    with pytest.raises(Invalid, match=r"nothing to reduce.*reduce\.C1"):
        reduce(ReducedCase(NETWORK, X), shows(faulty, CaseFinding("wrong", "")))


def test_a_backend_that_is_not_wrong_twice(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not every time"):
        reduce_model(NETWORK, Faulty(until=2), X, {}, 0, 100, tmp_path, Screen(file=io.StringIO()))
    with pytest.raises(Invalid, match=r"twice on the same inputs.*reduce\.C2"):
        reduce_model(NETWORK, Faulty(until=8), X, {}, 0, 1, tmp_path, Screen(file=io.StringIO()))
    assert not list(tmp_path.iterdir())


def test_a_place_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="directory"):
        reduce_model(NETWORK, Faulty(), X, {}, 0, 100, tmp_path / "file", Screen(file=io.StringIO()))


def test_the_limit_and_an_interruption_leave_the_smallest_so_far(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = []
    faulty = Faulty()
    found = find(ReducedCase(NETWORK, X), faulty)
    assert found is not None
    small = reduce(ReducedCase(NETWORK, X), shows(faulty, found), 12, lambda step, tries, case: sizes.append(case.size))
    assert sizes and small.size == sizes[-1] < ReducedCase(NETWORK, X).size

    def interrupted(case: ReducedCase, same: Any, limit: int, progress: Any) -> ReducedCase:
        progress("operators", 1, small)
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.verify.reduce.command.reduce", interrupted)
    out = io.StringIO()
    assert reduce_model(NETWORK, faulty, X, {}, 0, 100, tmp_path, Screen(file=out, width=1_000)) == 1
    assert "interrupted" in out.getvalue() and len(list(tmp_path.glob("test_*.py"))) == 1


@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_an_array_as_text_keeps_its_bits(of: Any) -> None:
    bits = RNG.integers(0, 256, 6 * of.numpy.itemsize, dtype=np.uint8)
    array = (bits % (1 << of.bits) if of.bits < 8 else bits).view(of.numpy).reshape(2, 3)
    again = eval(array_literal(array), {"np": np, "ml_dtypes": ml_dtypes})
    assert again.dtype == array.dtype and again.shape == array.shape and again.tobytes() == array.tobytes()


def test_large_arrays_lie_beside_the_test(tmp_path: Path) -> None:
    found = find(ReducedCase(NETWORK, X), Faulty())
    assert found is not None
    large = onnx.ModelProto()
    large.CopyFrom(NETWORK)
    large.graph.initializer[0].CopyFrom(numpy_helper.from_array(RNG.normal(size=(80, 3, 3, 3)).astype(np.float32), "w"))
    path = write_standalone(
        tmp_path, "all_of_it", ReducedCase(large, {"x": np.tile(X["x"], (4, 1, 1, 1))}), "reference", found
    )
    there = runpy.run_path(str(path))
    assert there["MODEL"].SerializeToString() == large.SerializeToString()
    assert there["INPUTS"]["x"].tobytes() == X["x"].tobytes() * 4
    assert {p.name for p in tmp_path.iterdir()} == {"test_all_of_it.py", "all_of_it.onnx", "all_of_it.npz"}


def test_what_inner_graphs_read_counts_as_read() -> None:
    inner = h.make_graph(
        [h.make_node("Add", ["outer", "own"], ["s"])], "then", [], [h.make_empty_tensor_value_info("s")]
    )
    inner.initializer.append(numpy_helper.from_array(np.float32(1), "own"))
    other = h.make_graph([], "else", [], [h.make_empty_tensor_value_info("given")])
    assert set(reads(h.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=other))) == {"c", "outer", "given"}


def test_tidy_names() -> None:
    tidied = tidy(ReducedCase(NETWORK, X))
    assert [n.output[0] for n in tidied.nodes] == ["t0", "t1", "t2", "t3", "t4"]
    assert set(tidied.inputs) | set(tidied.initializers) == {"x0", "x1", "x2"}
    assert tidied.model.graph.output[0].type.tensor_type.shape.dim[3].dim_value == 5
