"""Calls of Relax operators as a person writes them, each with its operands; `{x: (shape, dtype)}`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F, I8, I32, I64 = "float32", "int8", "int32", "int64"


@dataclass(frozen=True)
class RelaxExample:
    """A call; the type of its result where TVM cannot infer it, and what holds of whole-number operands."""

    call: str
    operands: dict[str, tuple[tuple[int, ...], str]]
    below: dict[str, int] = field(default_factory=dict)
    """Operands of whole numbers are below this, and not below 0."""
    values: dict[str, Any] = field(default_factory=dict)
    """Operands that are not drawn."""

    @property
    def text(self) -> str:
        """A module whose main is just this call."""
        params = ", ".join(f'{n}: R.Tensor({s}, dtype="{d}")' for n, (s, d) in self.operands.items())
        return (
            f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
            f"        y = {self.call}\n        return y\n"
        )

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Operands: floats from -2 to 2, whole numbers within what the example says."""
        rng, made = np.random.default_rng(seed), {}
        for name, (shape, of) in self.operands.items():
            if name in self.values:
                made[name] = np.asarray(self.values[name], of).reshape(shape)
            elif of.startswith("float"):
                made[name] = rng.uniform(-2, 2, shape).astype(of)
            elif of == "bool":
                made[name] = rng.integers(0, 2, shape).astype(bool)
            else:
                made[name] = rng.integers(0, self.below.get(name, 8), shape).astype(of)
        return made


def _on(call: str, **operands: Any) -> RelaxExample:
    return RelaxExample(call, operands)


X, M, V = ((2, 3), F), ((4, 3), F), ((3,), F)
IMAGE = ((1, 2, 4, 5), F)
UNIT = {"x": np.linspace(-0.9, 0.9, 6)}

EXAMPLES: dict[str, RelaxExample] = {
    **{name: _on(f"R.{name}(x)", x=X) for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "asinh")},
    **{name: RelaxExample(f"R.{name}(x)", {"x": X}, values=UNIT) for name in ("asin", "acos", "atanh")},
    "acosh": RelaxExample("R.acosh(x)", {"x": X}, values={"x": np.linspace(1, 5, 6)}),
    "atan2": _on("R.atan2(x, y)", x=X, y=X),
    "atan2_axes": RelaxExample(
        "R.atan2(x, y)", {"x": ((9,), F), "y": ((9,), F)},
        values={"x": [0.0, -0.0, 0.0, -0.0, 1, -1, 1, np.inf, -np.inf], "y": [1, 1, -1, -1, 0, 0, -np.inf, 1, -1]},
    ),
    "log_add_exp": _on("R.log_add_exp(x, y)", x=X, y=V),
    **{name: _on(f"R.{name}(x, y)", x=((2, 3), I32), y=((3,), I32)) for name in ("bitwise_and", "bitwise_or",
       "bitwise_xor", "left_shift", "right_shift")},
    "bitwise_not": _on("R.bitwise_not(x)", x=((2, 3), I8)),
    "cumsum": _on("R.cumsum(x, axis=1)", x=X),
    "cumsum_flat": _on('R.cumsum(x, axis=None, dtype="float64", exclusive=True)', x=X),
    "cumprod": _on('R.cumprod(x, axis=0, dtype="int64")', x=((2, 3), I32)),
    "sort": _on("R.sort(x, axis=-1, descending=True)", x=((3, 7), I32)),
    "argsort": _on('R.argsort(x, axis=0, descending=False, dtype="int64")', x=((7, 3), I32)),
    "argsort_down": _on("R.argsort(x, axis=1, descending=True)", x=((3, 9), I32)),
    "topk": _on("R.topk(x, k=2, axis=1)", x=((3, 5), I32)),
    "topk_least": _on('R.topk(x, k=3, axis=0, ret_type="indices", largest=False)', x=((5, 2), I32)),
    "topk_all": _on('R.topk(x, k=0, axis=1, ret_type="values")', x=((2, 5), F)),
    "median": _on("R.median(x, axis=[1], keepdims=False)", x=((3, 4), F)),
    "median_flat": _on("R.median(x)", x=((3, 4), F)),
    "bucketize": RelaxExample(
        "R.bucketize(x, y, out_int32=True, right=False)", {"x": ((2, 5), I32), "y": ((4,), I32)},
        values={"y": [1, 3, 3, 6]},
    ),
    "bucketize_right": RelaxExample(
        "R.bucketize(x, y, right=True)", {"x": ((2, 5), I32), "y": ((4,), I32)}, values={"y": [1, 3, 3, 6]}
    ),
    "gather_elements": RelaxExample("R.gather_elements(x, i, axis=1)", {"x": X, "i": ((2, 4), I64)}, {"i": 3}),
    "gather_nd": RelaxExample("R.gather_nd(x, i)", {"x": ((3, 4, 5), F), "i": ((6, 2), I64)}, {"i": 3}),
    "gather_nd_batch": RelaxExample(
        "R.gather_nd(x, i, batch_dims=1)", {"x": ((2, 4, 5), F), "i": ((2, 3, 1), I64)}, {"i": 4}
    ),
    "scatter_elements": RelaxExample(
        'R.scatter_elements(x, i, u, axis=1, reduction="add")', {"x": X, "i": ((2, 4), I64), "u": ((2, 4), F)}, {"i": 3}
    ),
    "scatter_elements_update": RelaxExample(
        "R.scatter_elements(x, i, u, axis=0)", {"x": X, "i": ((2, 3), I64), "u": X},
        values={"i": [[1, 0, 1], [0, 1, 0]]},
    ),
    "scatter_nd": RelaxExample(
        'R.scatter_nd(x, i, u, reduction="max")', {"x": M, "i": ((5, 1), I64), "u": ((5, 3), F)}, {"i": 4}
    ),
    "index_tensor": RelaxExample(
        "R.index_tensor(x, (i, j))", {"x": ((3, 4, 5), F), "i": ((2, 1), I64), "j": ((3,), I64)}, {"i": 3, "j": 4}
    ),
    "index_put": RelaxExample(
        "R.index_put(x, (i, j), u, accumulate=True)",
        {"x": M, "i": ((5,), I64), "j": ((5,), I64), "u": ((5,), F)}, {"i": 4, "j": 3},
    ),
    "slice_scatter": _on("R.slice_scatter(x, y, 0, 4, 2, axis=0)", x=M, y=X),
    "reverse_sequence": RelaxExample(
        "R.reverse_sequence(x, l, seq_axis=0, batch_axis=1)", {"x": ((5, 3, 2), F), "l": ((3,), I32)},
        values={"l": [2, 5, 0]},
    ),
    "dynamic_strided_slice": RelaxExample(
        "R.dynamic_strided_slice(x, i, j, k)", {"x": ((6, 7), F), **{n: ((2,), I64) for n in "ijk"}},
        values={"i": [1, -1], "j": [6, -7], "k": [2, -3]},
    ),
    "eye_like": _on('R.eye_like(x, 1, dtype="int32")', x=X),
    "meshgrid": _on('R.meshgrid((x, y), indexing="ij")', x=((2,), F), y=V),
    "size": _on("R.size(x)", x=X),
    "nonzero": RelaxExample("R.nonzero(x)", {"x": ((3, 4), I32)}, {"x": 2}),
    "unique": RelaxExample("R.unique(x, True, False, False, False)", {"x": ((9,), I64)}, {"x": 5}),
    "unique_all": RelaxExample("R.unique(x, True, True, True, True)", {"x": ((3, 4), I64)}, {"x": 5}),
    "unique_rows": RelaxExample("R.unique(x, True, False, True, True, 0)", {"x": ((6, 2), I64)}, {"x": 2}),
    "einsum": _on('R.einsum((x, y), subscripts="ij,kj->ik")', x=X, y=M),
    "einsum_batch": _on('R.einsum((x, y), subscripts="bij,bjk->bk")', x=((2, 3, 4), F), y=((2, 4, 5), F)),
    "outer": _on("R.outer(x, y)", x=V, y=((2,), F)),
    "collapse_sum_to": _on("R.collapse_sum_to(x, R.shape([1, 3]))", x=((4, 2, 3), F)),
    "collapse_sum_like": _on("R.collapse_sum_like(x, y)", x=((4, 2, 3), F), y=((2, 1), F)),
    "hamming_window": _on('R.hamming_window(10, True, T.float64(0.54), T.float64(0.46), dtype="float32")'),
    "conv1d_transpose": _on(
        "R.nn.conv1d_transpose(x, w, strides=[2], padding=[1, 0], output_padding=[1])",
        x=((1, 2, 5), F), w=((2, 3, 3), F),
    ),
    "conv2d_transpose": _on(
        "R.nn.conv2d_transpose(x, w, strides=[2, 1], padding=[1, 0, 0, 1], output_padding=[1, 0],"
        " dilation=[1, 2], groups=2)",
        x=((1, 4, 4, 5), F), w=((4, 3, 3, 2), F),
    ),
    "conv3d_transpose": _on(
        "R.nn.conv3d_transpose(x, w, strides=[2, 2, 1])", x=((1, 2, 3, 2, 2), F), w=((2, 1, 2, 1, 2), F)
    ),
    "pixel_shuffle": _on("R.nn.pixel_shuffle(x, upscale_factor=2)", x=((1, 8, 2, 3), F)),
    "quantize": RelaxExample(
        'R.quantize(x, s, z, out_dtype="int8", axis=1)', {"x": X, "s": V, "z": ((3,), I8)},
        values={"s": [0.5, 0.01, 0.25], "z": [0, 3, -5]},
    ),
    "dequantize": RelaxExample(
        'R.dequantize(x, s, z, out_dtype="float32", axis=1)', {"x": ((2, 3), I8), "s": V, "z": ((3,), I8)},
        values={"s": [0.5, 0.01, 0.25], "z": [0, 3, -5], "x": [[-128, 127, 3], [0, 5, 7]]},
    ),
    "dequantize_half": RelaxExample(
        'R.dequantize(x, R.const(0.5, "float32"), R.const(3, "int8"), out_dtype="float16", axis=-1)',
        {"x": ((2, 3), I8)},
    ),
    "cross_entropy": _on("R.nn.cross_entropy_with_logits(x, y)", x=X, y=X),
    "nll_loss": RelaxExample(
        'R.nn.nll_loss(x, t, w, reduction="mean", ignore_index=1)',
        {"x": ((3, 4, 2), F), "t": ((3, 2), I64), "w": ((4,), F)},
        values={"t": [[0, 1], [2, 3], [3, 0]], "w": [1, 2, 3, 0.5]},
    ),
    "nll_loss_each": RelaxExample(
        'R.nn.nll_loss(x, t, reduction="none", ignore_index=-100)', {"x": ((3, 4), F), "t": ((3,), I64)}, {"t": 4}
    ),
    "resize2d": _on("R.image.resize2d(x, R.shape([7, 9]))", x=IMAGE),
    "resize2d_cubic": _on(
        'R.image.resize2d(x, R.shape([7, 9]), method="cubic", cubic_exclude=1)', x=IMAGE
    ),
    "resize2d_nearest": _on(
        'R.image.resize2d(x, R.shape([8, 10]), layout="NHWC", method="nearest_neighbor", '
        'coordinate_transformation_mode="asymmetric", rounding_method="floor")', x=((1, 4, 5, 2), F),
    ),
    "resize2d_crop": _on(
        'R.image.resize2d(x, R.shape([3, 4]), roi=[T.float32(0.25), T.float32(-0.5), T.float32(0.75), T.float32(1.0)], '
        'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)', x=IMAGE,
    ),
    "resize2d_corners": _on(
        'R.image.resize2d(x, R.shape([7, 3]), coordinate_transformation_mode="align_corners")', x=IMAGE
    ),
    "resize3d": _on("R.image.resize3d(x, R.shape([3, 4, 5]))", x=((1, 1, 2, 3, 4), F)),
    "affine_grid": _on("R.image.affine_grid(x, R.shape([3, 4]), align_corners=True)", x=((2, 2, 3), F)),
    "affine_grid_centers": _on("R.image.affine_grid(x, R.shape([3, 4]), align_corners=False)", x=((2, 2, 3), F)),
}  # fmt: skip
"""By a name that begins with the operator's."""


def together(names: list[str]) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """One module with the calls of several examples, and its inputs."""
    params, lines, made = [], [], {}
    for n, name in enumerate(names):
        example, call = EXAMPLES[name], EXAMPLES[name].call
        for p, (shape, of) in example.operands.items():
            params.append(f'{p}{n}: R.Tensor({shape}, dtype="{of}")')
            call = re.sub(rf"(?<![\w.\"]){p}(?=[,)])", f"{p}{n}", call)
        lines.append(f"        y{n} = {call}\n")
        made |= {f"{p}{n}": v for p, v in example.inputs().items()}
    results = ", ".join(f"y{n}" for n in range(len(names)))
    head = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({', '.join(params)}):\n"
    return f"{head}{''.join(lines)}        return ({results},)\n", made
