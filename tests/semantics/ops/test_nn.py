"""The ready-made layers: each against its formula in NumPy; parameters by name, their numbers, methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.builder import Builder, nn, tensor
from assay.semantics.builder.layers import Layer, Parameter, export, export_methods
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.rules import check

pytestmark = pytest.mark.row("R31")
Array = np.ndarray[Any, Any]
Data = dict[str, Array]


def numbers(module: Module, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    made = {}
    for p in module.main.params:
        shape = [3 if not isinstance(d, int) else d for d in p.type.shape]
        made[p.name] = rng.uniform(0.5, 1.5, shape) if "var" in p.name else rng.standard_normal(shape)
        made[p.name] = made[p.name].astype(p.type.dtype.numpy)
    return made


def transposed(d: Data, strides: int, padding: int, dilation: int = 1, groups: int = 1, more: int = 0) -> Array:
    """Each input element adds a multiple of the kernel: by its definition."""
    x, w = d["x"].astype(np.float64), d["weight"].astype(np.float64)
    axes = x.ndim - 2
    full = [(n - 1) * strides + dilation * (k - 1) + 1 + more for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    outputs = w.shape[1] * groups
    out = np.zeros((x.shape[0], outputs, *full))
    for c in range(x.shape[1]):
        group = c // (x.shape[1] // groups)
        features = slice(group * w.shape[1], (group + 1) * w.shape[1])
        for at in np.ndindex(*x.shape[2:]):
            for k in np.ndindex(*w.shape[2:]):
                place = tuple(a * strides + j * dilation for a, j in zip(at, k, strict=True))
                out[(slice(None), features, *place)] += x[(slice(None), c, *at)][:, None] * w[(c, slice(None), *k)]
    cut = tuple(slice(padding, n - padding) for n in full)
    return out[(slice(None), slice(None), *cut)] + d["bias"].reshape(-1, *[1] * axes)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def grouped(d: Data) -> Array:
    x = d["x"].reshape(2, 3, -1)
    y = ((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)).reshape(d["x"].shape)
    return y * d["weight"][:, None, None] + d["bias"][:, None, None]


def heads(d: Data) -> Array:
    q, k, v = (
        (d["x"] @ d[f"{n}.weight"] + d[f"{n}.bias"]).reshape(2, 5, 2, 3).transpose(0, 2, 1, 3)
        for n in ("q_proj", "k_proj", "v_proj")
    )
    y = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(3)) @ v
    return y.transpose(0, 2, 1, 3).reshape(2, 5, 6) @ d["out_proj.weight"] + d["out_proj.bias"]


X = tensor(2, 6, 4, 4)
CASES: list[tuple[Layer, Any, Callable[[Data], Array]]] = [
    (nn.Identity(), X, lambda d: d["x"]),
    (nn.Dropout(), X, lambda d: d["x"]),
    (nn.ReLU(), X, lambda d: np.maximum(d["x"], 0)),
    (nn.LeakyReLU(0.1), X, lambda d: np.where(d["x"] < 0, 0.1 * d["x"], d["x"])),
    (nn.SiLU(), X, lambda d: d["x"] / (1 + np.exp(-d["x"]))),
    (
        nn.GELU(tanh=True),
        X,
        lambda d: d["x"] / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (d["x"] + 0.044715 * d["x"] ** 3))),
    ),
    (nn.Sigmoid(), X, lambda d: 1 / (1 + np.exp(-d["x"]))),
    (nn.Tanh(), X, lambda d: np.tanh(d["x"])),
    (nn.Softmax(), X, lambda d: softmax(d["x"])),
    (nn.Flatten(), X, lambda d: d["x"].reshape(2, -1)),
    (nn.RMSNorm(4), X, lambda d: d["x"] / np.sqrt((d["x"] ** 2).mean(-1, keepdims=True) + 1e-5) * d["weight"]),
    (nn.GroupNorm(3, 6), X, grouped),
    (nn.MaxPool2d(2), X, lambda d: d["x"].reshape(2, 6, 2, 2, 2, 2).max((3, 5))),
    (nn.AvgPool2d(2), X, lambda d: d["x"].reshape(2, 6, 2, 2, 2, 2).mean((3, 5))),
    (nn.MultiHeadAttention(6, 2), tensor(2, 5, 6), heads),
    (nn.ConvTranspose1d(4, 6, 3, strides=2, padding=1), tensor(2, 4, 5), lambda d: transposed(d, 2, 1)),
    (
        nn.ConvTranspose1d(4, 6, 2, strides=3, groups=2, output_padding=1),
        tensor(2, 4, 5),
        lambda d: transposed(d, 3, 0, 1, 2, 1),
    ),
    (nn.ConvTranspose2d(2, 3, 3, strides=2, dilation=2), tensor(1, 2, 3, 4), lambda d: transposed(d, 2, 0, 2)),
    (nn.ConvTranspose3d(2, 1, 2, strides=2, padding=1), tensor(1, 2, 2, 3, 2), lambda d: transposed(d, 2, 1)),
]


@pytest.mark.parametrize(
    ("layer", "of", "formula"), CASES, ids=lambda v: type(v).__name__ if isinstance(v, Layer) else ""
)
def test_a_layer_computes_its_formula(layer: Layer, of: Any, formula: Callable[[Data], Array]) -> None:
    module = export(layer, x=of)
    check(module)
    given = numbers(module)
    (found,) = run(module, given).values()
    wanted = formula(given)
    assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-4)


def test_the_other_convolutions_and_norms() -> None:
    for layer, of in (
        (nn.Conv1d(4, 6, 3, padding=1, groups=2), tensor(1, 4, 5)),
        (nn.Conv3d(1, 2, 2), tensor(1, 1, 3, 3, 3)),
        (nn.BatchNorm2d(6), X),
    ):
        module = export(layer, x=of)
        check(module)
        run(module, numbers(module))
    with pytest.raises(Invalid, match=r"layers\.C4"):
        nn.Conv1d(3, 6, 3, groups=2)


class Model(Layer):
    def __init__(self) -> None:
        self.table = nn.Embedding(7, 6)
        self.blocks = nn.ModuleList([nn.MultiHeadAttention(6, 2), nn.RMSNorm(6)])
        self.head = nn.Linear(6, 7, bias=False)

    def forward(self, b: Builder, ids: Expr) -> Expr:
        return self.head(b, self.blocks(b, self.table(b, ids)))

    def embed(self, b: Builder, ids: Expr) -> Expr:
        return self.table(b, ids)


def test_names_numbers_and_methods() -> None:
    model = Model()
    names = [n for n, _ in model.parameters()]
    assert names[0] == "table.weight" and names[1] == "blocks.layers.0.q_proj.weight" and names[-1] == "head.weight"
    assert len(model.blocks) == 2 and [type(x).__name__ for x in model.blocks] == ["MultiHeadAttention", "RMSNorm"]
    methods = {"forward": {"ids": tensor(2, "n", of="int64")}, "embed": {"ids": tensor("n", of="int64")}}
    module = export_methods(model, methods)
    check(module)
    assert set(module.definitions) == {"main", "embed"}
    given = numbers(module)
    given["ids"] = np.array([[1, 0, 6]] * 2)
    free = run(module, given)["output_0"]
    state = {n: a for n, a in given.items() if n != "ids"}
    model.load_state(state)
    assert model.state().keys() == state.keys()
    whole = export(model, bound=True, ids=tensor(2, "n", of="int64"))
    check(whole)
    assert [p.name for p in whole.main.params] == ["ids"]
    assert run(whole, {"ids": given["ids"]})["output_0"].tobytes() == free.tobytes()
    model.to("float16")
    assert {a.dtype.name for a in model.state().values()} == {"float16"}


def test_wrong_numbers_are_refused() -> None:
    linear = nn.Linear(2, 3)
    good = {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(3, np.float32)}
    for label, word, given in (
        ("layers.C2", "missing: bias", {"weight": good["weight"]}),
        ("layers.C2", "unknown: more", {**good, "more": good["bias"]}),
        ("layers.C3", "bias", {**good, "bias": np.zeros(2, np.float32)}),
        ("layers.C3", "float64", {**good, "bias": np.zeros(3)}),
    ):
        with pytest.raises(Invalid, match=word) as caught:
            linear.load_state(given)
        assert caught.value.label == label
    linear.load_state({"weight": good["weight"]}, strict=False)
    assert [p.name for p in export(linear, bound=True, x=tensor(1, 2)).main.params] == ["x", "bias"]
    with pytest.raises(Invalid, match=r"layers\.C5"):
        export(linear, weight=tensor(1, 2))
    assert Parameter(2).data is None
