"""Backends that break their protocol, and what stands in the way of judging one: told, never passed over."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.terminal import Screen
from assay.verify.backends import Array, Isolated, Prepared, Subject, backend, subject_of_model
from assay.verify.backends.protocol import cannot
from assay.verify.oracle import Oracle, judge_backend
from assay.verify.reduce import ReducedCase
from assay.verify.reduce.command import reduce_model
from assay.verify.reduce.finding import CaseFinding
from assay.verify.reduce.standalone import write_standalone
from tests.models import model

F = np.float32
NODES = [onnx.helper.make_node("MatMul", ["x", "w"], ["m"]), onnx.helper.make_node("Relu", ["m"], ["y"])]
MODEL = model(NODES, {"x": (F, ["n", 4]), "w": (F, [4, 3])}, {"y": (F, ["n", 3])})
INPUTS = {"x": np.arange(8, dtype=F).reshape(2, 4) - 4, "w": np.ones((4, 3), F)}


@dataclass
class Odd:
    """Runs `work` on the inputs and the right tensors."""

    work: Callable[[Mapping[str, Array], dict[str, Array]], Any]
    name: str = "odd"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        run = backend("numpy").prepare(subject, wanted)
        return lambda inputs: self.work(inputs, run(inputs))


def verdict(work: Callable[[Mapping[str, Array], dict[str, Array]], Any]) -> str:
    kept = {n: v.copy() for n, v in INPUTS.items()}
    said = str(judge_backend(subject_of_model(MODEL), Odd(work), INPUTS))
    assert all(np.array_equal(v, INPUTS[n]) for n, v in kept.items()), (
        "the caller's arrays are not for backends to change"
    )
    return said


def test_changed_inputs_are_wrong_and_not_what_the_outputs_are_judged_on() -> None:
    def zero(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        inputs["x"][...] = 0
        return {n: np.zeros_like(v) for n, v in right.items()}

    def scratch(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        inputs["w"][0, 0] = -0.0 if inputs["w"][0, 0] == 0 else 7
        return right

    assert verdict(zero) == "wrong (bitwise): the backend odd changes its input x"
    assert verdict(scratch) == "wrong (bitwise): the backend odd changes its input w"


def test_what_a_backend_keeps_from_run_to_run_shows() -> None:
    """As apache-tvm's in-place pass does, which adds to a constant of the module (specs/findings/tvm-0.27/19)."""
    kept = np.zeros((2, 3), F)

    def work(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        if len(right) > 1:  # the intermediate tensor is asked of another preparation
            return right
        given = right["y"] + kept
        kept[1, 2] += 5
        return {"y": given}

    assert verdict(work).startswith(
        "wrong (graph): on other inputs in between, output y element (1, 2) is 5.0, allowed is 0.0"
    )


def test_runs_that_differ_inside_the_bounds_are_right() -> None:
    """Sums in another order each time."""
    way = [1]
    x = np.random.default_rng(0).standard_normal((40, 4)).astype(F)

    def work(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        way[0] = -way[0]
        total = np.zeros((40, 3), F)
        for k in range(4)[:: way[0]]:
            total += inputs["x"][:, k, None] * inputs["w"][None, k]
        return {"m": total, "y": np.maximum(total, 0)}

    run = Odd(work)
    one, other = (run.prepare(subject_of_model(MODEL), ["y"])({**INPUTS, "x": x})["y"] for _ in range(2))
    assert not np.array_equal(one, other) and str(
        judge_backend(subject_of_model(MODEL), run, {**INPUTS, "x": x})
    ).startswith("right")


def test_outputs_in_a_buffer_that_the_next_run_overwrites() -> None:
    buffer = np.empty((2, 3), F)

    def work(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        buffer[...] = right["y"] if len(right) == 1 else -1  # the second run is for the intermediate tensor too
        return {**right, "y": buffer}

    said = verdict(work)
    assert said.startswith("wrong") and "tensor y" in said, "its second answer is wrong"
    assert "output y element" not in said, "its first answer was right, and stays so"


@pytest.mark.parametrize("gives", [None, [np.zeros((2, 3), F)], np.zeros((2, 3), F), {"y": [[1], [1, 2]]}])
def test_what_is_no_tensor_by_name(gives: Any) -> None:
    with pytest.raises(Invalid, match=r"the backend odd gives .*\[backend\.C7\]"):
        verdict(lambda i, r: gives)


def test_no_value_is_a_missing_output() -> None:
    assert verdict(lambda i, r: {**r, "y": None}) == "wrong (bitwise): output y is missing"
    assert verdict(lambda i, r: {}) == "wrong (bitwise): output y is missing"


def test_inputs_that_the_program_does_not_take() -> None:
    subject = subject_of_model(MODEL)
    for given, label in (({**INPUTS, "q": INPUTS["x"]}, "input.C1"), ({"x": INPUTS["x"]}, "input.C2")):
        with pytest.raises(Invalid) as wrong:
            judge_backend(subject, backend("numpy"), given)
        assert wrong.value.label == label


def test_inputs_of_sizes_that_agree_with_those_given() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 4), y=tensor("n", "m")) as f:
        b.result(b.matmul(b.permute_dims(f.x, axes=(1, 0)), f.y))
    oracle = Oracle(b.module())
    for kind in ("integers", "random"):
        made = oracle.inputs(kind, given={"x": INPUTS["x"]}, dims={"m": 6})  # type: ignore[arg-type]
        assert made["x"] is INPUTS["x"] and made["y"].shape == (2, 6)


@pytest.fixture
def raising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with a backend that knows nothing of our exceptions."""
    (tmp_path / "raising_plugin.py").write_text(
        "class Raising:\n    name = 'raising'\n    def prepare(self, subject, wanted):\n"
        "        return lambda inputs: {n: inputs['nothing'] for n in wanted}\n"
    )
    folder = tmp_path / "raising-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: raising\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[assay.backends]\nraising = raising_plugin:Raising\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("raising")
def test_an_exception_of_another_package_is_no_fault_of_ours() -> None:
    with (
        Isolated("raising") as there,
        pytest.raises(Unsupported, match=r"raising raised KeyError: 'nothing' \(raising_plugin.py:4 .*backend\.C10"),
    ):
        judge_backend(subject_of_model(MODEL), there, INPUTS)


# --- assay reduce -------------------------------------------------------------------------------------------------


def reduced(tmp_path: Path, who: Any, given: Mapping[str, Array], **dims: int) -> tuple[int, str]:
    out = io.StringIO()
    code = reduce_model(MODEL, who, given, dims, 0, 100, tmp_path, Screen(file=out, width=1_000))
    return code, out.getvalue()


def test_reduce_with_a_size(tmp_path: Path) -> None:
    assert reduced(tmp_path, backend("numpy"), {}, n=3)[0] == 0
    code, said = reduced(tmp_path, Odd(lambda i, r: {n: v + 1 for n, v in r.items()}), {}, n=3)
    assert code == 1 and "2 operators, 0 attributes, 24 elements -> 1 operator" in said


def test_reduce_says_what_it_could_not_judge(tmp_path: Path) -> None:
    def refuse(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        raise cannot("odd", "no licence")

    code, said = reduced(tmp_path, Odd(refuse), {})
    assert code == 5 and "refused: the backend odd cannot run this model: no licence" in said
    with pytest.raises(Invalid, match=r"input 'x' is .*\[input\.C3\]"):
        reduced(tmp_path, backend("numpy"), {"x": np.ones((2, 4))})


def test_a_refusal_on_some_inputs_does_not_hide_the_others(tmp_path: Path) -> None:
    def picky(inputs: Mapping[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        if not all(np.array_equal(v, np.rint(v)) for v in inputs.values()):
            raise cannot("odd", "whole numbers are wanted")
        return {n: v + 1 for n, v in right.items()}

    assert reduced(tmp_path, Odd(picky), {})[0] == 1


def test_the_test_of_a_backend_that_dies_survives_it(tmp_path: Path) -> None:
    text = write_standalone(
        tmp_path, "dying", ReducedCase(MODEL, INPUTS), "onnxruntime", CaseFinding("died", "by SIGFPE")
    ).read_text()
    assert "BACKEND = 'onnxruntime'" in text and "check_again(MODEL, INPUTS, BACKEND)" in text
    text = write_standalone(
        tmp_path, "wrong", ReducedCase(MODEL, INPUTS), "onnxruntime", CaseFinding("wrong", "y")
    ).read_text()
    assert "by SIGFPE" not in text
