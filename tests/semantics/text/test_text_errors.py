"""What the text format refuses, and where it says so; annotations are checked (R4)."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.errors import Invalid, Span, Trap, Unsupported
from assay.semantics.graph import Let, MatchCast
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from tests.semantics.text.test_text_graph import body, identity

pytestmark = pytest.mark.row("R4")


# --- annotations (R4) ---------------------------------------------------------------------------------------------


def test_an_annotation_that_holds_is_taken() -> None:
    module = body("y: R.Tensor(ndim=2, dtype='float32') = R.exp(x)", "z: R.Tensor = R.exp(y)", "return z")
    assert isinstance(module.main.body, Let)
    assert str(module.main.body.var.type) == "Tensor((2, 3), float32)"
    assert not any(isinstance(n, MatchCast) for n in post_order(module.main))


def test_an_annotation_that_only_a_run_can_tell_is_checked_by_the_run() -> None:
    module = body("y: R.Tensor((4,), 'float32') = R.exp(x)", "return y", params='x: R.Tensor(("n",), "float32")')
    assert any(isinstance(n, MatchCast) for n in post_order(module.main))
    check(module)
    assert run(module, {"x": np.zeros(4, np.float32)})["output_0"].shape == (4,)
    with pytest.raises(Trap, match="4"):
        run(module, {"x": np.zeros(5, np.float32)})


def test_sizes_that_only_a_run_can_tell_get_the_annotations_names() -> None:
    module = parse("""
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        m = T.int64()
        y: R.Tensor((m,), "float32") = R.call_pure_packed("unique", x, ty_args=R.Tensor((m,), "float32"))
        z = R.full(R.shape([m]), R.const(1.0, "float32"), "float32")
        return R.add(y, z)
""")
    check(module)
    identity(module)
    out = run(module, {"x": np.arange(5, dtype=np.float32)}, externs={"unique": lambda x: x[:2]})["output_0"]
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize(
    "kind", ["R.Tensor((2, 4), 'float32')", "R.Tensor((2, 3), 'int32')", "R.Tensor(ndim=3)", "R.Tuple(R.Tensor)"]
)
def test_an_annotation_that_does_not_hold_is_refused(kind: str) -> None:
    with pytest.raises(Invalid, match="the annotation does not hold") as wrong:
        body(f"y: {kind} = R.exp(x)", "return y")
    assert wrong.value.label == "text.C14" and "^~~" in wrong.value.message


def test_a_parameter_of_unknown_rank_is_refused() -> None:
    with pytest.raises(Unsupported, match="unknown rank") as wrong:
        body("return x", params="x: R.Tensor(dtype='float32')")
    assert wrong.value.label == "text.C17"
    unknown = body("return x", params="x: R.Tensor(ndim=2, dtype='float32')")
    of = unknown.main.params[0].type
    assert isinstance(of, TensorType) and all(isinstance(d, Symbol) for d in of.shape)


# --- what is wrong ------------------------------------------------------------------------------------------------

WRONG = [
    ("text.C3", "z)", "nothing is called z", "return R.add(x, z)"),
    ("relax.C2", "R.add(x)", "needs the operand x2", "return R.add(x)"),
    ("matmul.C2", "R.matmul", "the last axis", "return R.matmul(x, x)"),
    ("relax.C1", "R.frobnicate", "R.frobnicate is not handled", "return R.frobnicate(x)"),
    ("relax.C1", "R.memory", "later stage of TVM", "return R.memory.alloc_storage(x)"),
    ("relax.C2", "R.nn", "no argument axes; it has data, axis", "return R.nn.softmax(x, axes=1)"),
    ("relax.C3", "R.add", "1.0 is given where a tensor is taken", "return R.add(x, 1.0)"),
    ("text.C2", "(x", "never closed", "return R.nn.relu(x"),
    ("tuple.C1", "x[0]", "no field 0", "return x[0]"),
    ("text.C3", "cls.foo", "the module has no foo", "return cls.foo(x)"),
    ("text.C13", "y = ", "must return a value", "y = R.exp(x)"),
    ("text.C13", "while", "no while statement", "while x:\n            y = x"),
    ("text.C15", "metadata", "show_meta=True", 'return metadata["ir.GenericConst"][0]'),
    ("text.C7", "R.null", "no meaning here", "return R.null_value()"),
    ("text.C3", "n, 3", "nothing is called n", "return R.reshape(x, R.shape([n, 3]))"),
    ("text.C6", "R.const", "300 does not fit uint8", 'return R.const(300, "uint8")'),
    ("text.C13", "a, b", "one name", "a, b = R.split(x, 2)"),
    ("text.C13", "if x", "the other branch is missing", "if x:\n            y = x"),
    ("func.C2", "", "declared pure acts", "return R.print(x)"),
    ("text.C3", "A.frob", "there is no A.frob", "return A.frob(x)"),
    ("if.C1", "x:", "not a bool scalar", "if x:\n            return x\n        else:\n            return x"),
    ("ref.C1", "A.read", "not a reference", "return A.read(x)"),
    ("text.C4", "R.Tensor", "this is a type", 'return R.Tensor((2,), "float32")'),
    ("text.C5", "*x", "written out", "return R.exp(*x)"),
    ("text.C6", "-3", "is no size", 'y: R.Tensor((2, -3), "float32") = x'),
]


@pytest.mark.parametrize(("label", "at", "message", "text"), WRONG, ids=[w[2] for w in WRONG])
def test_what_is_wrong_is_shown(label: str, at: str, message: str, text: str) -> None:
    head = ["", "@I.ir_module", "class Module:", "    @R.function", '    def main(x: R.Tensor((2, 3), "float32")):']
    with pytest.raises(Invalid) as wrong:
        parse("\n".join([*head, f"        {text}"]) + "\n", "file.py")
    assert message in wrong.value.message and wrong.value.label == label
    *_, line, caret = wrong.value.message.splitlines()
    where = wrong.value.where
    assert isinstance(where, Span) and where.source == "file.py"
    if at:
        assert (where.line, where.column) == (6, 9 + text.index(at))
        assert line[caret.index("^") :].startswith(at)
