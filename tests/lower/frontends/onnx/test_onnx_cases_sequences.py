"""RNN, GRU, LSTM, transforms, determinants and random numbers of ONNX: long sequences, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators import recurrent
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Function
from assay.semantics.rules import check
from assay.semantics.walk import post_order
from tests.lower.frontends.onnx.onnx_cases import Case
from tests.lower.frontends.onnx.sequence_cases import ALL, HIDDEN, recurrent as uses, small
from tests.models import model, single, value

F = np.float32
X, W, R = small(3, 2, 2), small(1, 4, 2), small(1, 4, 4)


def imported(
    op: str, *inputs: Any, opset: int = 22, constants: tuple[int, ...] = (), draws: int | None = None, **attrs: Any
) -> Any:
    arrays = [i if i is None else np.asarray(i) for i in inputs]
    made = import_onnx(single(op, opset, arrays, attrs, constants=constants), evaluate=graph.evaluate, draws=draws)
    check(made)
    return made


def run(made: Any, *inputs: Any) -> Any:
    return next(iter(graph.run(made, {f"x{i}": np.asarray(v) for i, v in enumerate(inputs)}).values()))


# --- recurrent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "gates"), ALL)
def test_a_loop_makes_the_same_steps(op: str, gates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, the sequence unrolled and as a function that calls itself; and shorter sequences end where they
    do."""
    case: Case = next(iter(uses(op, gates, "bidirectional", lengths=(5, 2, 0), holes=True)))
    found = []
    for most in (0, 5):
        monkeypatch.setattr(recurrent, "MOST_UNROLLED", most)
        module = import_onnx(case.model(), evaluate=graph.evaluate)
        loops = [n for n in post_order(module.main) if isinstance(n, Function) and n is not module.main]
        assert bool(loops) == (most == 0)
        found.append(graph.run(module, case.feed()))
    for name, ours in found[0].items():
        np.testing.assert_array_equal(ours, found[1][name])
    every, last = found[0]["y0"], found[0]["y1"]
    assert not every[2:, :, 1].any() and not every[:, :, 2].any()
    np.testing.assert_array_equal(last[0, 1], every[1, 0, 1])
    np.testing.assert_array_equal(last[1, 1], every[0, 1, 1])
    np.testing.assert_array_equal(last[:, 2], np.asarray(case.inputs[5])[:, 2])  # no step: the state is as it was


def test_a_sequence_of_any_length() -> None:
    nodes = single("GRU", 22, [X, small(1, 12, 2), small(1, 12, 4)], {"hidden_size": HIDDEN}, outputs=2)
    nodes.graph.input[0].CopyFrom(value("x0", F, ["steps", "batch", 2]))
    module = import_onnx(nodes, evaluate=graph.evaluate)
    check(module)
    w, r = small(1, 12, 2), small(1, 12, 4)
    for steps, batch in ((3, 2), (1, 4), (0, 1)):
        x = small(steps, batch, 2)
        found = graph.run(module, {"x0": x, "x1": w, "x2": r})
        assert found["y0"].shape == (steps, 1, batch, HIDDEN)
        if steps:
            fixed = import_onnx(
                single("GRU", 22, [x, w, r], {"hidden_size": HIDDEN}, outputs=2), evaluate=graph.evaluate
            )
            wanted = graph.run(fixed, {"x0": x, "x1": w, "x2": r})
            np.testing.assert_allclose(found["y0"], wanted["y0"], rtol=1e-6)
            np.testing.assert_allclose(found["y1"], wanted["y1"], rtol=1e-6)
        else:
            assert not found["y1"].any()


def test_batch_first_is_the_transpose() -> None:
    w, r, state = small(2, 4, 2), small(2, 4, 4), small(2, 2, 4)
    attrs = {"direction": "bidirectional"}
    plain = import_onnx(single("RNN", 22, [X, w, r, None, None, state], attrs, outputs=2), evaluate=graph.evaluate)
    first = single(
        "RNN", 22, [X.transpose(1, 0, 2), w, r, None, None, state.transpose(1, 0, 2)], {**attrs, "layout": 1}, outputs=2
    )
    a = graph.run(plain, {"x0": X, "x1": w, "x2": r, "x5": state})
    feed = {"x0": X.transpose(1, 0, 2), "x1": w, "x2": r, "x5": state.transpose(1, 0, 2)}
    b = graph.run(import_onnx(first, evaluate=graph.evaluate), feed)
    np.testing.assert_array_equal(b["y0"], a["y0"].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(b["y1"], a["y1"].transpose(1, 0, 2))


def test_versions_before_7() -> None:
    for op, gates, opsets in (("RNN", 1, (1,)), ("GRU", 3, (1, 3)), ("LSTM", 4, (1,))):
        w, r = small(1, gates * 4, 2), small(1, gates * 4, 4)
        wanted = run(imported(op, X, w, r, hidden_size=4), X, w, r)
        for opset in opsets:
            np.testing.assert_array_equal(
                run(imported(op, X, w, r, opset=opset, hidden_size=4, output_sequence=1), X, w, r), wanted
            )
            with pytest.raises(Unsupported, match="output_sequence 0"):
                imported(op, X, w, r, opset=opset, hidden_size=4)


def test_clip_reaches_the_input_of_every_activation() -> None:
    """The text says so of the cell's too, which ONNX Runtime does not clip."""
    w, r = np.full((1, 4, 1), 3, F), np.zeros((1, 4, 1), F)
    x = np.ones((1, 1, 1), F)
    sigmoid, tanh = 1 / (1 + np.exp(-0.25)), np.tanh(0.25)
    cell = np.tanh(min(0.25, 5 * sigmoid + sigmoid * tanh))
    made = imported(
        "LSTM", x, w, r, None, None, np.zeros((1, 1, 1), F), np.full((1, 1, 1), 5, F), clip=0.25, hidden_size=1
    )
    found = graph.run(made, {"x0": x, "x1": w, "x2": r, "x5": np.zeros((1, 1, 1), F), "x6": np.full((1, 1, 1), 5, F)})
    np.testing.assert_allclose(found["y0"].reshape(()), sigmoid * cell, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "label"),
    [
        ("RNN", [X, W, R], {"direction": "sideways"}, "onnx.C12"),
        ("RNN", [X, W, R], {"layout": 2}, "onnx.C12"),
        ("RNN", [X[0], W, R], {}, "onnx.C12"),
        ("RNN", [X, W[:, :3], R], {}, "onnx.C12"),
        ("RNN", [X, W, R], {"hidden_size": 3}, "onnx.C12"),
        ("RNN", [X, W, R], {"clip": -1.0}, "onnx.C12"),
        ("RNN", [X, W, R], {"activations": ["Sine"]}, "onnx.C12"),
        ("RNN", [X, W, R], {"activations": ["Tanh"], "direction": "bidirectional"}, "onnx.C12"),
        ("RNN", [X, W, R, None, np.ones(3, np.int32)], {}, "onnx.C12"),
        ("Det", [np.ones((2, 3), F)], {}, "det.C1"),
        ("DFT", [np.ones(3, F)], {}, "onnx.C12"),
        ("DFT", [np.ones((3, 3), F)], {}, "onnx.C12"),
        ("DFT", [np.ones((3, 2), F)], {"onesided": 1}, "onnx.C12"),
        ("DFT", [np.ones((3, 1), F), np.int64(0)], {}, "onnx.C12"),
        ("DFT", [np.ones((3, 1), F), None, np.int64(-1)], {}, "onnx.C12"),
        ("DFT", [np.ones((3, 1), F), np.ones(2, np.int64)], {}, "onnx.C12"),
        ("STFT", [np.ones((3, 1), F), np.int64(1)], {}, "onnx.C12"),
        ("STFT", [np.ones((1, 3, 1), F), np.int64(0)], {}, "onnx.C12"),
        ("STFT", [np.ones((1, 3, 1), F), np.int64(1), np.ones(2, F), np.int64(3)], {}, "onnx.C12"),
        ("MelWeightMatrix", [np.int64(8), np.int64(16), np.int64(100), F(0), F(90)], {}, "onnx.C12"),
        ("MelWeightMatrix", [np.int64(0), np.int64(16), np.int64(100), F(0), F(50)], {}, "onnx.C12"),
        ("RandomNormal", [], {"shape": [2], "scale": -1.0}, "onnx.C12"),
        ("RandomUniform", [], {"shape": [2], "dtype": 7}, "onnx.C12"),
        ("Multinomial", [np.ones(2, F)], {}, "onnx.C12"),
    ],
)  # fmt: skip
def test_invalid(op: str, inputs: list[Any], attrs: dict[str, Any], label: str) -> None:
    sizes = tuple(i for i, x in enumerate(inputs) if i and x is not None and op not in ("RNN",))
    with pytest.raises(Invalid, match=re.escape(f"[{label}]")):
        imported(op, *inputs, constants=(0, *sizes) if op == "MelWeightMatrix" else sizes, draws=0, **attrs)


def test_a_size_that_must_be_a_number() -> None:
    for op, inputs, attrs in (("DFT", ["x0"], {}), ("DFT", ["x0", "n"], {}), ("STFT", ["x0", "n"], {})):
        shape = ["batch", "length", 1]
        from onnx import helper

        node = helper.make_node(op, inputs, ["y"], **attrs)
        made = model([node], {"x0": (F, shape)}, {"y": (F, None)}, {"n": np.array(4)}, opset=20)
        with pytest.raises(Unsupported, match=r"onnx.C14"):
            import_onnx(made, evaluate=graph.evaluate)


# --- random numbers -------------------------------------------------------------------------------------------------


def test_random_numbers_are_asked_for() -> None:
    for op, inputs, attrs in (
        ("RandomNormal", [], {"shape": [2]}),
        ("RandomUniformLike", [X], {}),
        ("Bernoulli", [X], {}),
        ("Multinomial", [X[0]], {}),
    ):
        with pytest.raises(Unsupported, match="any of a set"):
            imported(op, *inputs, **attrs)
    with pytest.raises(Unsupported, match="give the sizes numbers"):
        made = single("RandomNormalLike", 22, [X])
        made.graph.input[0].CopyFrom(value("x0", F, ["n"]))
        import_onnx(made, evaluate=graph.evaluate, draws=0)


def test_a_seed_decides_and_nodes_without_one_differ() -> None:
    def drawn(draws: int, **attrs: Any) -> Any:
        return run(imported("RandomUniform", draws=draws, shape=[3, 4], low=2.0, high=5.0, **attrs))

    assert np.array_equal(drawn(0, seed=7.0), drawn(1, seed=7.0))
    assert not np.array_equal(drawn(0, seed=7.0), drawn(0, seed=7.5))
    assert not np.array_equal(drawn(0), drawn(1))
    one = drawn(0)
    assert one.dtype == F and one.shape == (3, 4) and one.min() >= 2 and one.max() < 5
    many = run(
        imported("RandomNormalLike", np.zeros(20000, F), draws=3, mean=1.0, scale=2.0, dtype=11), np.zeros(20000, F)
    )
    assert many.dtype == np.float64 and abs(many.mean() - 1) < 0.1 and abs(many.std() - 2) < 0.1


def test_multinomial_and_bernoulli_have_their_shares() -> None:
    logits = np.log(np.array([[0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0, 0.0]], F) + F(1e-30))
    found = run(imported("Multinomial", logits, draws=1, sample_size=4000, dtype=7), logits)
    assert found.shape == (2, 4000) and found.dtype == np.int64
    np.testing.assert_allclose(np.bincount(found[0], minlength=4) / 4000, [0.1, 0, 0.6, 0.3], atol=0.03)
    assert (found[1] == 1).all()
    shares = np.full(4000, 0.25, F)
    thrown = run(imported("Bernoulli", shares, draws=1), shares)
    assert set(np.unique(thrown)) == {0.0, 1.0} and abs(thrown.mean() - 0.25) < 0.03


def test_dropout_in_training_is_decided_by_its_operand() -> None:
    x = small(30, 40)
    made = import_onnx(
        single("Dropout", 22, [x, F(0.25), np.array(True)], {"seed": 3}, outputs=2), evaluate=graph.evaluate, draws=0
    )
    found = graph.run(made, {"x0": x, "x1": F(0.25), "x2": np.array(True)})
    kept = found["y1"]
    assert abs(kept.mean() - 0.75) < 0.05
    np.testing.assert_allclose(found["y0"], np.where(kept, x / F(0.75), 0), rtol=1e-6)
    found = graph.run(made, {"x0": x, "x1": F(0.25), "x2": np.array(False)})
    np.testing.assert_array_equal(found["y0"], x)
    assert found["y1"].all()
