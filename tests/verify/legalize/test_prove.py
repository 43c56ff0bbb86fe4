"""`assay check --prove`: kernels that are too large for terms are read (specs/verify.md, "legalize")."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Var
from assay.semantics.ops import OPERATORS
from assay.semantics.tensor import PrimFunc, Store
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.app.cli import main
from assay.verify.equivalence import REASSOCIATED, UNKNOWN
from assay.verify.legalize.proofs import KernelProofs

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


def product(fault: bool) -> tuple[PrimFunc, Call]:
    """A product of matrices that is too large for terms; with a fault its last statement stores to the transposed
    place, which is there in a square."""
    op = OPERATORS["matmul"]
    types = (TensorType((32, 32), FLOAT32), TensorType((32, 32), FLOAT32))
    result = op.type_rule({}, types)
    made = build("matmul", {}, types, result, "k")

    def turned(node: object) -> object:
        return replace(node, indices=node.indices[::-1]) if isinstance(node, Store) else node

    call = Call(result, op, tuple(Var(t, n) for t, n in zip(types, "ab", strict=True)))
    return (replace(made, body=rewrite(made.body, turned)) if fault else made), call


@pytest.mark.parametrize(("fault", "notion"), [(False, REASSOCIATED), (True, UNKNOWN)])
def test_a_large_kernel_with_a_fault_is_not_proved(fault: bool, notion: int) -> None:
    proofs = KernelProofs(thorough=True)
    kernel, call = product(fault)
    proofs.add(kernel, call, {})
    assert proofs.found == {"k": notion}
    assert proofs.holds is not fault
