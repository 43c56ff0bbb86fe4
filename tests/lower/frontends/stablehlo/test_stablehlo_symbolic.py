"""What JAX writes of symbolic dimensions: windows whose sizes and padding operands say, and assertions of sizes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.interp.graph import evaluate, run
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.lower.onnx_export import export_onnx
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.size_checks import SizeChecks
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import AssertOp, let_chain
from assay.semantics.text.module_text import show
from assay.semantics.types import symbols

WINDOWS = """
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %i = stablehlo.constant dense<{init}> : tensor<f32>
  %k = stablehlo.constant dense<1> : tensor<1xi32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %m = stablehlo.subtract %n, %one : tensor<i32>
  %all = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %most = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %size = {size}
  %pads = stablehlo.concatenate {pads}, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %p = stablehlo.reshape %pads : (tensor<2xi32>) -> tensor<1x2xi32>
  %stride = stablehlo.constant dense<{stride}> : tensor<1xi32>
  %dilation = stablehlo.constant dense<{dilation}> : tensor<1xi32>
  %y = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %i, %size, %stride, %k, %dilation, %p)
    {{called_computations = [@f]}} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
    tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}
func.func private @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
  %c = stablehlo.{how} %a, %b : tensor<f32>
  return %c : tensor<f32>
}}
"""
WHOLE = "stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>"


def windows(how: str, size: int | None, pads: tuple[str, str], stride: int = 1, dilation: int = 1) -> str:
    """Windows as long as the axis where `size` is None; padding is "0", "1" or "most", as many as windows need that
    reach to one border."""
    init = {"add": "0.0", "multiply": "1.0", "maximum": "0xFF800000"}[how]
    words = {"0": "%zero", "1": "%k", "most": "%most"}
    fixed = f"stablehlo.constant dense<{size}> : tensor<1xi32>"
    return WINDOWS.format(
        how=how, init=init, size=WHOLE if size is None else fixed, pads=", ".join(words[p] for p in pads),
        stride=stride, dilation=dilation,
    )  # fmt: skip


def by_hand(how: str, x: np.ndarray, size: int, low: int, high: int, stride: int, dilation: int) -> list[float]:
    """The windows one by one, with nothing where they are over the border."""
    whole = {"add": sum, "multiply": np.prod, "maximum": lambda v: max(v, default=-np.inf)}[how]
    starts = range(-low, len(x) + high - (size - 1) * dilation, stride)
    return [float(whole([x[p] for p in range(s, s + size * dilation, dilation) if 0 <= p < len(x)])) for s in starts]


@pytest.mark.parametrize(
    ("size", "pads", "stride", "dilation"),
    [
        (None, ("most", "0"), 1, 1), (None, ("0", "most"), 1, 1), (None, ("1", "most"), 1, 1), (2, ("0", "0"), 2, 1),
        (3, ("1", "1"), 1, 1), (2, ("most", "1"), 1, 2), (3, ("most", "most"), 2, 1), (4, ("0", "1"), 3, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["add", "multiply", "maximum"])
def test_windows_of_sizes_that_operands_say(
    how: str, size: int | None, pads: tuple[str, str], stride: int, dilation: int
) -> None:
    module = parse_stablehlo(windows(how, size, pads, stride, dilation))
    for n in (1, 2, 3, 6):
        x = np.float32([2, -3, 5, 7, -11, 13])[:n]
        low, high = ({"0": 0, "1": 1, "most": n - 1}[p] for p in pads)
        wanted = by_hand(how, x, size or n, low, high, stride, dilation)
        (found,) = run(module, {"x": x}).values()
        assert found.tolist() == wanted, n


def test_windows_as_long_as_the_axis_are_running_sums() -> None:
    for pads, found in itertools.product((("most", "0"), ("0", "most"), ("1", "most")), ("add", "multiply", "maximum")):
        name = {"add": "cumsum", "multiply": "cumprod"}.get(found)
        text = show(parse_stablehlo(windows(found, None, pads)))
        assert (re.search("cumsum|cumprod", text) is not None) == (name is not None and "1" not in pads)
        assert name is None or "1" in pads or name in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("%size, %stride, %k", "%size, %all, %k", "strides or dilations that only a run knows"),
        ("%stride, %k, %dilation", "%stride, %zero, %dilation", "positive numbers"),
        ("@f]", "@g]", "region 0 is missing"),
        ("%x, %i, %size", "%x, %size", "as many initial values"),
    ],
)
def test_what_no_windows_are_is_refused(old: str, new: str, said: str) -> None:
    text = windows("maximum", None, ("most", "0")).replace(old, new)
    if "as many" in said:
        text = text.replace("(tensor<?xf32>, tensor<f32>, tensor<1xi32>,", "(tensor<?xf32>, tensor<1xi32>,", 1)
    with pytest.raises(Invalid, match=said):
        parse_stablehlo(text)


ASSERTED = """
func.func public @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<2> : tensor<i32>
  %ok = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %n, %c) {error_message = "{0} {of x} are less than {1}"}
    : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
  %y = stablehlo.exponential %x : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
"""
OF_VALUES = ASSERTED.replace(
    "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>",
    """%z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<?x2xf32>, tensor<f32>) -> tensor<f32>
  %n = stablehlo.convert %s : (tensor<f32>) -> tensor<i32>""",
)
"""The sum of the elements is asserted to be at least 2, which no size tells."""


def test_an_assertion_of_sizes_is_exported_and_comes_back() -> None:
    module = parse_stablehlo(ASSERTED)
    assert export_onnx(module).graph.output[0].type.tensor_type.shape.dim[0].dim_param
    text = export_stablehlo(module)
    assert 'error_message = "{0} _of x_ are less than {1}"' in text
    for again in (module, parse_stablehlo(text)):
        run(again, {"x": np.ones((2, 2), np.float32)})
        with pytest.raises(Trap, match=r"1 .of x. are less than 2"):
            run(again, {"x": np.ones((1, 2), np.float32)})


def test_what_numbers_show_is_not_written_and_what_values_decide_neither() -> None:
    module = parse_stablehlo(ASSERTED)
    (n,) = symbols(module.main.params[0].type)
    at = {k: module.with_(main=with_sizes(module.main, {n: k})) for k in (1, 2)}
    assert "shape_assertion" not in export_stablehlo(at[2]) and "shape_assertion" in export_stablehlo(at[1])
    other = parse_stablehlo(OF_VALUES)
    low = {"x": np.zeros((1, 2), np.float32)}
    with pytest.raises(Trap, match="are less than 2"):
        run(other, low)
    for written in (import_onnx(export_onnx(other), evaluate=evaluate), parse_stablehlo(export_stablehlo(other))):
        run(written, low)
    for made, sizes, holds in ((module, True, False), (at[1], True, False), (at[2], True, True), (other, False, False)):
        lets, _ = let_chain(made.main.body)
        (node,) = (let.value for let in lets if isinstance(let.value, AssertOp))
        assert (SizeChecks(lets).about_sizes(node), SizeChecks(lets).hold(node)) == (sizes, holds)


@pytest.mark.parametrize(
    ("word", "holds"),
    [("and", {3: True, 2: False, 9: False}), ("or", {3: True, 2: True}), ("xor", {3: False, 2: True})],
)
def test_what_several_conditions_say_of_sizes(word: str, holds: dict[int, bool]) -> None:
    """PyTorch's guards are such; at 2 elements one says that there are less than 5, the other not that there are 3."""
    both = f"""%five = stablehlo.constant dense<5> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %low = stablehlo.compare LT, %n, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %is = stablehlo.compare EQ, %n, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %not = stablehlo.not %is : tensor<i1>
  %is_three = stablehlo.not %not : tensor<i1>
  %ok = stablehlo.{word} %low, %is_three : tensor<i1>"""
    module = parse_stablehlo(re.sub("%ok = .*", both, ASSERTED))
    (n,) = symbols(module.main.params[0].type)
    for size, wanted in holds.items():
        sized = module.with_(main=with_sizes(module.main, {n: size}))
        lets, _ = let_chain(sized.main.body)
        (node,) = (let.value for let in lets if isinstance(let.value, AssertOp))
        assert SizeChecks(lets).hold(node) == wanted
        assert ("shape_assertion" in export_stablehlo(sized)) != wanted


def test_a_program_of_a_symbolic_batch_is_judged(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(ASSERTED)
    verdict = assay.judge(tmp_path / "m.mlir", ["c"]).verdicts[0]
    assert verdict.outcome == "right" and "assertion" not in str(verdict)


CONVOLUTION = """
func.func public @main(%x: tensor<1x{h}x{w}x1xf32>, %k: tensor<3x2x1x1xf32>) -> tensor<1x{p}x{q}x1xf32> {{
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{stride = [2, 1], rhs_dilate = [1, 2]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x{h}x{w}x1xf32>, tensor<3x2x1x1xf32>) -> tensor<1x{p}x{q}x1xf32>
  return %y : tensor<1x{p}x{q}x1xf32>
}}"""


@pytest.mark.parametrize("height", [0, 2, 3, 4, 5])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_convolution_of_what_is_shorter_than_its_window_has_no_elements(height: int, width: int) -> None:
    """Along each axis for itself, of sizes that are written and of such that are not."""
    rng = np.random.default_rng(0)
    x, k = rng.integers(-5, 5, (height, width)), rng.integers(-5, 5, (3, 2))
    rows, columns = max((height - 3) // 2 + 1, 0), max(width - 2, 0)
    right = np.array([
        (x[2 * i : 2 * i + 3, j : j + 3 : 2] * k).sum() for i in range(rows) for j in range(columns)
    ], np.float32).reshape(1, rows, columns, 1)  # fmt: skip
    inputs = {"x": x[None, ..., None].astype(np.float32), "k": k[..., None, None].astype(np.float32)}
    for sizes in ((height, width, rows, columns), ("?", width, "?", columns), ("?", "?", "?", "?")):
        module = parse_stablehlo(CONVOLUTION.format(**dict(zip("hwpq", sizes, strict=True))))
        (y,) = run(module, inputs).values()
        np.testing.assert_array_equal(y, right)
