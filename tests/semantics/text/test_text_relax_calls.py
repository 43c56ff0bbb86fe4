"""Relax operators by calls as a person writes them: what they mean, that they print, run and lower by commands; beside
TVM, which reads the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.analyses.equality import first_difference
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse, show
from assay.semantics.text.relax.ops import LOWERED, ROWS, UNREAD
from assay.verify.oracle.judge import Oracle
from tests.semantics.text.relax_calls import EXAMPLES, RelaxExample, together
from tests.verify.app.test_cli import assay as exit_code

pytestmark = [pytest.mark.row("R4"), pytest.mark.row("R5")]

Array = np.ndarray[Any, Any]


def read(example: RelaxExample) -> Module:
    module = parse(example.text)
    check(module)
    return module


def results(module: Module, inputs: dict[str, Array]) -> list[Array]:
    found: list[Array] = []
    for value in run(module, inputs).values():
        found += value if isinstance(value, tuple) else [value]
    return found


def _scattered(x: Array, places: Any, u: Array, way: Any) -> Array:
    made = x.copy()
    way.at(made, places, u)
    return made


def _transposed(x: Array, w: Array) -> Array:
    """Each element times the kernel, added where it lies: stride 2, output 2 * 4 + 3, cut by 1 before, 0 after, and one
    more of output padding."""
    full = np.zeros((1, 3, 12), np.float64)
    for i in range(5):
        full[0, :, 2 * i : 2 * i + 3] += np.tensordot(x[0, :, i].astype(np.float64), w.astype(np.float64), 1)
    return full[:, :, 1:12]


EXPECTED: dict[str, Any] = {
    "sin": np.sin,
    "atan2": np.arctan2,
    "atan2_axes": np.arctan2,
    "log_add_exp": np.logaddexp,
    "bitwise_xor": np.bitwise_xor,
    "right_shift": np.right_shift,
    "cumsum_flat": lambda x: np.r_[0.0, np.cumsum(x.astype(np.float64))[:-1]],
    "cumprod": lambda x: np.cumprod(x, 0, dtype=np.int64),
    "sort": lambda x: -np.sort(-x, -1),
    "argsort": lambda x: np.argsort(x, 0, kind="stable"),
    "argsort_down": lambda x: np.argsort(-x, 1, kind="stable").astype(np.int32),
    "topk": lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1, kind="stable")[:, :2].astype(np.int32)),
    "median": lambda x: (np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]),
    "bucketize": lambda x, y: np.searchsorted(y, x, "left").astype(np.int32),
    "bucketize_right": lambda x, y: np.searchsorted(y, x, "right"),
    "gather_elements": lambda x, i: np.take_along_axis(x, i, 1),
    "gather_nd": lambda x, i: x[i[:, 0], i[:, 1]],
    "gather_nd_batch": lambda x, i: np.stack([x[k][i[k, :, 0]] for k in range(2)]),
    "scatter_elements": lambda x, i, u: _scattered(x, (np.arange(2)[:, None], i), u, np.add),
    "scatter_nd": lambda x, i, u: _scattered(x, i[:, 0], u, np.maximum),
    "index_tensor": lambda x, i, j: x[i, j],
    "index_put": lambda x, i, j, u: _scattered(x, (i, j), u, np.add),
    "slice_scatter": lambda x, y: np.stack([y[0], x[1], y[1], x[3]]),
    "reverse_sequence": lambda x, n: np.stack([x[[1, 0, 2, 3, 4], 0], x[::-1, 1], x[:, 2]], 1),
    "dynamic_strided_slice": lambda x, i, j, k: x[1:6:2, -1:-7:-3],
    "nonzero": lambda x: np.array(np.nonzero(x)),
    "unique_all": lambda x: tuple(v.reshape(-1) for v in np.unique(x, True, True, True)),
    "unique_rows": lambda x: tuple(
        v.reshape(v.shape) for v in np.unique(x, return_inverse=True, return_counts=True, axis=0)
    ),
    "einsum_batch": lambda x, y: np.einsum("bij,bjk->bk", x, y),
    "collapse_sum_like": lambda x, y: x.sum(0).sum(1, keepdims=True),
    "conv1d_transpose": _transposed,
    "pixel_shuffle": lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
    "quantize": lambda x, s, z: np.clip(np.round(x / s) + z, -128, 127).astype(np.int8),
    "dequantize": lambda x, s, z: ((x.astype(np.int32) - z) * s).astype(np.float32),
    "nll_loss_each": lambda x, t: -x[np.arange(3), t],
    "resize2d_nearest": lambda x: x.repeat(2, 1).repeat(2, 2),
    "eye_like": lambda x: np.eye(2, 3, 1, dtype=np.int32),
    "size": lambda x: np.array(6),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_call_prints_and_means_what_its_documentation_says(name: str) -> None:
    module, inputs = read(EXAMPLES[name]), EXAMPLES[name].inputs()
    assert first_difference(parse(show(module)), module) is None
    found = results(module, inputs)
    if name not in EXPECTED:
        return
    wanted = EXPECTED[name](*inputs.values())
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# --- by commands --------------------------------------------------------------------------------------------------

SOME = ["atan2", "cumsum", "topk", "unique", "dynamic_strided_slice", "scatter_nd", "einsum", "quantize", "resize2d"]
REST = [n for n in EXAMPLES if n not in SOME]


def written(folder: Path, names: list[str]) -> list[str]:
    text, inputs = together(names)
    (folder / "calls.py").write_text(text)
    np.savez(folder / "in.npz", **inputs)  # type: ignore[arg-type]
    return [str(folder / "calls.py"), "--inputs", str(folder / "in.npz")]


def test_all_of_them_run_by_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert exit_code(monkeypatch, "run", *written(tmp_path, list(EXAMPLES)), "-o", str(tmp_path / "out.npz")) == 0
    with np.load(tmp_path / "out.npz") as made:
        assert len(made.files) > len(EXAMPLES)


@pytest.mark.slow
def test_they_are_lowered_and_checked_by_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert exit_code(monkeypatch, "check", *written(tmp_path, SOME)) == 0


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(6))
def test_the_others_are_lowered_and_checked(monkeypatch: pytest.MonkeyPatch, part: int, tmp_path: Path) -> None:
    assert exit_code(monkeypatch, "check", *written(tmp_path, REST[part::6])) == 0


# --- what is refused ----------------------------------------------------------------------------------------------

X = "x: R.Tensor((2, 3), dtype='float32'), i: R.Tensor((2, 3), dtype='int64')"


@pytest.mark.parametrize(
    "call, kind, said",
    [
        ('R.scatter_elements(x, i, x, reduction="mean")', Unsupported, "hangs on the order of the updates"),
        ("R.gather_elements(x, R.sum(i), axis=0)", Invalid, "one rank is wanted"),
        ("R.sort(x, axis=2)", Invalid, "axis"),
        ("R.sort(x, axis=True)", Invalid, "not a whole number"),
        ('R.topk(x, k=1, ret_type="all")', Invalid, "both, values or indices"),
        ("R.median(x, axis=[0, 1])", Unsupported, "several axes"),
        ("R.index_tensor(x, (x,))", Unsupported, "holds no integers"),
        ("R.index_tensor(x, (i, i, i))", Invalid, "1 to 2 are wanted"),
        ("R.slice_scatter(x, x, 0, 1, 1, axis=0)", Invalid, "1 slices"),
        ("R.dynamic_strided_slice(x, i, i, i)", Invalid, "2 numbers are wanted"),
        ("R.tensor_to_shape(x)", Invalid, "a vector of known length"),
        ('R.einsum((x, x), subscripts="ij,jk->ik")', Invalid, "einsum"),
        ('R.einsum((x,), subscripts="ij,jk->ik")', Invalid, "2 terms"),
        ("R.outer(x, x)", Invalid, "vectors are wanted"),
        ("R.collapse_sum_to(x, R.shape([4, 3]))", Invalid, "does not broadcast"),
        ("R.nn.conv1d_transpose(x, x)", Invalid, "a kernel of known sizes"),
        ('R.image.resize2d(x, R.shape([3, 3]), method="area")', Unsupported, "method 'area'"),
        ("R.image.grid_sample(x, x)", Unsupported, "ONNX's GridSample"),
        ("R.vision.non_max_suppression(x, x, x)", Unsupported, "which boxes come first"),
        ("R.inspect.tensor_ndim(x)", Unsupported, "the header of a tensor"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call: str, kind: type[Invalid], said: str) -> None:
    text = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({X}):\n        return {call}\n"
    with pytest.raises(kind, match=said):
        parse(text)


def test_a_place_outside_is_a_trap() -> None:
    example = EXAMPLES["gather_elements"]
    with pytest.raises(Trap, match=r"gather_nd\.T1|index 3"):
        run(read(example), {**example.inputs(), "i": np.full((2, 4), 3)})


# --- beside TVM ---------------------------------------------------------------------------------------------------

CONTRADICTS: dict[str, str] = {
    "eye_like": "its type is int32 as asked for, its code gives the operand's float32",
    "unique_all": "its type has one axis for the numbers of the elements, its code gives the operand's axes",
    "pixel_shuffle": "its code calls topi.nn.pixel_shuffle, which the package has not",
}
"""Where TVM 0.27 does not give what its own types and documentation say."""
CODE = ("assert_op", "call_", "hint_on_device", "invoke_", "print", "shape_of", "to_vdevice")
"""Operators of Relax that are no functions of tensors: the reader of calls knows them."""


def given_by_tvm(text: str, inputs: dict[str, Array]) -> list[Array]:
    tvm = pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")
    from tvm import relax
    from tvm.script import from_source

    machine = relax.VirtualMachine(tvm.compile(from_source(text), "llvm"), tvm.cpu())
    value = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
    return [v.numpy() for v in ([value] if hasattr(value, "numpy") else value)]


@pytest.mark.peer
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in CONTRADICTS])
def test_tvm_reads_the_text_and_computes_what_it_means(name: str) -> None:
    """Judged by the bounds of the definition, element by element."""
    example = EXAMPLES[name]
    inputs = example.inputs()
    made = given_by_tvm(example.text, inputs)
    module = read(example)
    names = list(run(module, inputs))
    outputs = dict(zip(names, made, strict=True)) if len(names) > 1 or len(made) == 1 else {names[0]: tuple(made)}
    verdict = Oracle(module).judge(inputs, outputs)
    assert verdict.outcome in ("right", "open"), verdict


@pytest.mark.peer
@pytest.mark.parametrize("name", CONTRADICTS)
def test_where_tvm_contradicts_itself(name: str) -> None:
    """So that a later TVM, which may do better, is seen."""
    inputs = EXAMPLES[name].inputs()
    wanted = results(read(EXAMPLES[name]), inputs)
    try:
        made = given_by_tvm(EXAMPLES[name].text, inputs)
    except AttributeError:
        return
    assert any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(made, wanted, strict=True))


@pytest.mark.peer
def test_every_operator_of_tvm_is_read_or_has_a_reason() -> None:
    pytest.importorskip("tvm.relax", reason="the peer apache-tvm is not installed")
    from tvm.ir import Op

    names = {str(n).removeprefix("relax.") for n in Op.list_op_names() if str(n).startswith("relax.")}
    reasons = {name for group in UNREAD for name in group}
    left = {n for n in names if n not in ROWS and n not in reasons and not n.startswith((*LOWERED, *CODE))}
    assert left == set()
    assert reasons <= names and not reasons & ROWS.keys()
