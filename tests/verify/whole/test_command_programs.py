"""Small valid programs through the command `check`: never a false FAILS, never a fault of ours, never without an
end."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from assay.lower.c import CSource
from assay.semantics.module import Module
from assay.verify.app import check as checking
from tests.inputs import read_npz
from tests.verify.whole.command_trials import FORMS, Trial, command, trial

SAMPLE = range(1000, 1000 + len(FORMS))
KEPT = {
    "the name of a name of a constant": (
        """
@I.ir_module
class Module:
    w0 = A.tensor("bool", (), "AQ==")
    @R.function
    def main() -> R.Tensor((), dtype="bool"):
        cls = Module
        with A.graph():
            v = A.var(R.Tensor((), dtype="bool"))
        t: R.Tensor((), dtype="bool") = A.let(v, cls.w0, v)
        return t
"""
    ),
    "a branch has another name for a value that is fused elsewhere": (
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32"), b: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor((2,), \
dtype="float32"), R.Tensor((), dtype="float32")):
        y = R.negative(x)
        s = R.sum(y, axis=[0], keepdims=False)
        if b:
            z: R.Tensor((2,), dtype="float32") = y
            t = R.add(z, z)
        else:
            t = R.add(x, x)
        return t, s
"""
    ),
}
"""What the campaign has found, made small."""


@pytest.mark.parametrize("number", SAMPLE)
def test_a_sample(number: int, tmp_path: Path) -> None:
    assert trial(number, tmp_path).wrong == ""


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_was_found(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.py"
    path.write_text(text, "utf-8")
    done = command(0, ("check", str(path)))
    assert (done.code, done.wrong) == (0, "")


def test_the_sizes_in_a_sequence_are_known_where_all_agree(tmp_path: Path) -> None:
    """Behind a choice a sequence is not known element by element; a product of its elements needs a size all the
    same."""
    body = {
        name: onnx.parser.parse_graph(
            f"{name} () => (seq(float[2,3]) s{name}) {{ s{name} = SequenceConstruct (x{times}) }}"
        )
        for name, times in (("a", ", x"), ("b", ""))
    }
    text = """
        <ir_version: 9, opset_import: ["" : 18]>
        main (float[2,3] x, float[3,4] w, bool b) => (float[2,4] y) {
            zero = Constant <value: tensor = int64 zero {0}> ()
            e = SequenceAt (s, zero)
            y = MatMul (e, w)
        }"""
    model = onnx.parser.parse_model(text)
    choice = onnx.helper.make_node("If", ["b"], ["s"], then_branch=body["a"], else_branch=body["b"])
    model.graph.node.insert(0, choice)
    onnx.save(model, tmp_path / "m.onnx")
    done = command(0, ("run", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.npz")))
    assert (done.code, done.err) == (0, "")
    assert read_npz(tmp_path / "out.npz")["y"].shape == (2, 4)


def test_a_wrong_pass_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def emptied(self: checking.Lowering, module: Module) -> CSource:
        raise AssertionError("planted")

    path = tmp_path / "kept.py"
    path.write_text(next(iter(KEPT.values())), "utf-8")
    monkeypatch.setattr(checking.Lowering, "c_source", emptied)
    assert command(0, ("check", str(path))).wrong.startswith("exit 3: assay: this is a fault in Assay")


@pytest.mark.parametrize(
    ("code", "out", "err", "said"),
    [
        (0, "", "", ""),
        (0, "pool  FAILS  they overlap", "", "FAILS"),
        (1, "pool  FAILS  they overlap", "", "they overlap"),
        (2, "", "assay: no plan [liveness.C2]", ""),
        (2, "", "assay: no plan [liveness.C9]", "liveness.C9"),
        (3, "", "assay: a fault", "a fault"),
        (-1, "", "no end", "no end"),
    ],
)
def test_what_may_come_of_a_valid_program(code: int, out: str, err: str, said: str) -> None:
    wrong = Trial(0, ("check",), code, out, err, 0.0).wrong
    assert said in wrong and bool(wrong) == bool(said)


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_a_thousand(first: int, tmp_path: Path) -> None:
    wrong = {n: done.wrong for n in range(first, first + 100) if (done := trial(n, tmp_path)).wrong}
    assert not wrong
