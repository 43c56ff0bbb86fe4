"""Pieces of a model: what windows hold, and what a piece is as a model of its own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from assay.interp import graph
from assay.verify.backends import subject_of_model
from assay.verify.judge.pieces import Dataflow
from assay.verify.judge.piecewise import Piecewise
from tests.zoo import models

MODELS = ("bert-parts", "gpt2", "densenet", "quantized", "lstm", "unet")


@pytest.mark.parametrize("name", MODELS)
def test_windows_hold_every_edge_and_begin_with_every_node_once(name: str) -> None:
    flow = Dataflow(models.model(name))
    windows = list(flow.windows())
    held = {e for w in windows for e in flow.held(w.piece)}
    assert flow.edges <= held
    assert sorted(i for w in windows for i in w.cell) == list(range(len(flow.nodes)))


@pytest.mark.parametrize("name", MODELS)
def test_parts_hold_every_edge_of_their_piece(name: str) -> None:
    flow = Dataflow(models.model(name))
    for window in flow.windows():
        if len(window.piece.nodes) > 1:
            parts = list(flow.parts(window.piece))
            assert {i for p in parts for i in p.nodes} == set(window.piece.nodes)
            if len(window.piece.nodes) > 2:
                assert set(flow.held(window.piece)) == {e for p in parts for e in flow.held(p)}
            assert all(len(p.nodes) < len(window.piece.nodes) for p in parts)


def test_nodes_that_no_output_depends_on_are_left_out() -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, [2])
    y = onnx.helper.make_tensor_value_info("y", 1, [2])
    nodes = [onnx.helper.make_node("Abs", ["x"], ["dead"]), onnx.helper.make_node("Neg", ["x"], ["y"])]
    flow = Dataflow(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y])))
    assert [n.op_type for n in flow.nodes] == ["Neg"]


def test_a_piece_of_many_nodes_is_told_by_its_ends() -> None:
    flow = Dataflow(models.model("lstm"))
    for window in flow.windows():
        names = flow.names(window.piece)
        many = f"{len(names)} nodes from {names[0]} to {names[-1]}"
        assert flow.title(window.piece) == (many if len(names) > 3 else ", ".join(names))
    assert any(len(w.piece.nodes) > 3 for w in flow.windows())


@pytest.mark.parametrize("name", MODELS)
def test_a_window_begins_with_what_is_known(name: str) -> None:
    """Where much stays inside, a window gets nodes of cells to come, and with them all that these read."""
    model = models.model(name)
    made = [o for n in model.graph.node for o in n.output]
    flow = Dataflow(model, shown=[*made[::3], *(o.name for o in model.graph.output)])
    known: set[str] = set()
    for window in flow.windows(cell=3):
        assert not [n for n in window.piece.inputs if n in flow.makers and n not in known]
        known.update(o for i in window.cell for o in flow.nodes[i].output)
        some = [o for o in window.piece.outputs if o in flow.makers][:1]
        part = flow.piece_to(some, window.piece.inputs) if some else window.piece
        assert not [n for n in part.inputs if n in flow.makers and n not in window.piece.inputs]


@pytest.mark.parametrize("name", ["gpt2-trilu", "quantized"])
def test_a_run_by_pieces_gives_what_the_whole_does(name: str) -> None:
    """Each window begins with arrays that windows before it gave; the last gives what the model gives."""
    model = models.model(name)
    inputs = models.inputs(model)
    flow = Dataflow(model)
    run = Piecewise(flow, [inputs])
    found: dict[str, np.ndarray] = {}
    for _, cases in run.steps(list(flow.windows())):
        case = cases[0]
        found |= {n: v for n, v in graph.run(case.subject.module, case.expected.inputs).items() if n in flow.results}
    assert not run.stopped and set(found) == flow.results
    for n, v in graph.run(subject_of_model(model).module, inputs).items():
        np.testing.assert_array_equal(found[n], v)
