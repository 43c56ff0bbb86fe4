"""`assay check --prove`: kernels that are too large for terms are read (specs/verify.md, "legalize")."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Var, call
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, Store, loops, store
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.app.cli import main
from assay.verify.equivalence import REASSOCIATED, UNKNOWN
from assay.verify.legalize.proofs import SHARED, KernelProofs
from assay.verify.legalize.uses import KernelUse, hands_claimed_sizes

MODEL = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4, 20, 20), dtype="float32"), w: R.Tensor((6, 2, 3, 3), dtype="float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w, strides=[2, 1], padding=[1, 0, 1, 0], dilation=[1, 2], groups=2)
            b = R.nn.softmax(R.nn.relu(a), axis=1)
            R.output(b)
        return b
"""


def legalized(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setattr("sys.argv", ["assay", "check", *arguments, "--stop-after", "fuse", "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    lines = {line["stage"]: line for line in json.loads(capsys.readouterr().out)["lines"]}
    return [lines["legalize"]["how"], lines["legalize"]["detail"], lines["fuse"]["how"]]


def test_large_kernels_are_proved_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.py"
    path.write_text(MODEL, "utf-8")
    how, said, _ = legalized([str(path)], monkeypatch, capsys)
    assert how == "tested" and "1 of 3 proved" in said
    how, said, fused = legalized([str(path), "--prove"], monkeypatch, capsys)
    assert (how, fused) == ("proved", "proved")
    assert "3 of 3 proved equal for every input, 1 of them up to the order of additions" in said
    assert "1 but for the last bits of elementary functions" in said


def product(fault: bool, name: str = "k", rows: int = 32) -> tuple[PrimFunc, Call]:
    """A product of matrices that is too large for terms; with a fault its last statement stores to the transposed
    place, which is there in a square."""
    op = OPERATORS["matmul"]
    types = (TensorType((rows, 32), FLOAT32), TensorType((32, rows), FLOAT32))
    result = op.type_rule({}, types)
    made = build("matmul", {}, types, result, name)

    def turned(node: object) -> object:
        return replace(node, indices=node.indices[::-1]) if isinstance(node, Store) else node

    use = Call(result, op, tuple(Var(t, n) for t, n in zip(types, "ab", strict=True)))
    return (replace(made, body=rewrite(made.body, turned)) if fault else made), use


@pytest.mark.parametrize(("fault", "notion"), [(False, REASSOCIATED), (True, UNKNOWN)])
def test_a_large_kernel_with_a_fault_is_not_proved(fault: bool, notion: int) -> None:
    proofs = KernelProofs(thorough=True)
    proofs.add(*product(fault), {})
    assert proofs.found == {"k": notion}
    assert proofs.holds is not fault


def test_kernels_that_are_alike_but_for_their_sizes_have_one_proof() -> None:
    """The second is an instance of what was shown for all sizes; a fault in the third is seen all the same."""
    proofs = KernelProofs(thorough=True)
    for name, rows, fault in (("a", 34, False), ("b", 36, False), ("c", 38, True)):
        proofs.add(*product(fault, name, rows), {})
    assert proofs.found == {"a": REASSOCIATED, "b": REASSOCIATED, "c": UNKNOWN}
    assert proofs.by["a"] == proofs.by["b"] == SHARED != proofs.by["c"]
    assert len(proofs.shared) == 1


def test_a_faulty_kernel_is_shown_for_none() -> None:
    """Of the first of its kind nothing is shared where it has a fault; another one is shown by itself."""
    proofs = KernelProofs(thorough=True)
    for name, rows, fault in (("a", 34, True), ("b", 36, False)):
        proofs.add(*product(fault, name, rows), {})
    assert proofs.found == {"a": UNKNOWN, "b": REASSOCIATED}
    assert proofs.by["b"] != SHARED


SIZED = """
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), dtype="float32")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.broadcast_to(R.full(R.shape([m]), R.const(2.0, "float32"), dtype="float32"), R.shape([n, m]))
            b = R.add(x, a)
            R.output(b)
        return b
"""


def test_kernels_whose_attributes_hold_sizes_are_proved_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.py"
    path.write_text(SIZED, "utf-8")
    how, said, _ = legalized([str(path)], monkeypatch, capsys)
    assert how == "proved" and "for all sizes" in said, said


def test_a_call_that_hands_over_other_sizes_is_not_the_claim() -> None:
    """The attributes speak of n, and a call hands the kernel m for it."""
    n, m, own = (Symbol(name) for name in ("n", "m", "n"))
    out = Buffer("out", (own,), FLOAT32)
    kernel = PrimFunc(
        "full", (out,), 1, loops("i", (own,), lambda i: store(out, i, 1.0)),
        {"operator": "full", "attrs": {"shape": (n,), "fill_value": 1.0, "dtype": "float32"}}, scalars=(own,),
    )  # fmt: skip
    made = call("full", shape=(n,), fill_value=1.0, dtype="float32")
    assert isinstance(made, Call)
    assert hands_claimed_sizes(kernel, KernelUse(made, (n,)))
    assert not hands_claimed_sizes(kernel, KernelUse(made, (m,)))
