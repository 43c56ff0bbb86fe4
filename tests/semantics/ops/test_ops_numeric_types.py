"""Types of elementwise operators, contractions and normalisations: symbolic dims, a negative test for each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, INT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.operator import Attrs
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, Var, evaluate_dim
from assay.semantics.types import TensorType
from tests.semantics.bounding.numeric import F32, INF, NAN, TABLE, run, tensor, type_of

N, M = Var("n"), Var("m")


def test_symbolic_dims() -> None:
    assert str(type_of("add", tensor((N, 1)), tensor((3,)))) == "Tensor((n, 3), float32)"
    assert str(type_of("where", tensor((N,), BOOL), tensor((N,)), tensor(()))) == "Tensor((n,), float32)".replace(
        ",)", ")"
    )
    assert str(type_of("matmul", tensor((M, N)), tensor((N, 4)))) == "Tensor((m, 4), float32)"
    assert str(type_of("matmul", tensor((N, 2, 3)), tensor((1, 3, M)))) == "Tensor((n, 2, m), float32)"
    assert str(type_of("nn.layer_norm", tensor((M, N)), tensor((N,)), axes=(-1,))) == "Tensor((m, n), float32)"
    for name in ("nn.softmax", "nn.log_softmax"):
        assert str(type_of(name, tensor((M, N)))) == "Tensor((m, n), float32)"
    with pytest.raises(Invalid, match=r"broadcast\.C1"):
        type_of("add", tensor((N,)), tensor((M,)))


@pytest.mark.parametrize(
    "attrs", [{}, {"strides": (2, 3)}, {"padding": (1, 0, 2, 1), "dilation": (2, 1), "strides": (3, 2)}]
)
def test_symbolic_convolution(attrs: Attrs) -> None:
    w = tensor((5, 3, 3, 2))
    general = type_of("nn.conv2d", tensor((M, 3, N, 8)), w, **attrs)
    assert isinstance(general.shape[2], Expr)
    for n in range(6, 20):
        special = type_of("nn.conv2d", tensor((2, 3, n, 8)), w, **attrs)
        assert tuple(evaluate_dim(d, {N: n, M: 2}) for d in general.shape) == special.shape
        assert run("nn.conv2d", np.ones((2, 3, n, 8), F32), np.ones((5, 3, 3, 2), F32), **attrs).shape == special.shape


def test_a_window_that_turns_out_not_to_fit_traps() -> None:
    type_of("nn.conv1d", tensor((1, 3, N)), tensor((5, 3, 4)))
    with pytest.raises(Trap, match=r"nn\.conv1d\.T1") as trap:
        run("nn.conv1d", np.ones((1, 3, 2), F32), np.ones((5, 3, 4), F32))
    assert trap.value.kind == "shape"


def test_same_channels_by_algebra() -> None:
    assert str(type_of("nn.conv1d", tensor((1, N * 2, 9)), tensor((4, N, 3)), groups=2).shape) == "(1, 4, 7)"
    assert type_of("nn.conv1d", tensor((1, 4, 9)), tensor((N * 2, 2, 3)), groups=2).shape[0] == 1


X4, W4 = tensor((2, 6, 9, 7)), tensor((4, 3, 3, 2))
C6 = tensor((6,))
CONV_INVALID: list[tuple[str, tuple[TensorType, ...], Attrs]] = [
    ("C1", (tensor((6, 9, 7)), W4), {}),
    ("C1", (X4, tensor((4, 3, 3))), {}),
    ("C2", (X4, W4), {"groups": 2, "strides": (0, 1)}),
    ("C2", (X4, W4), {"groups": 2, "strides": 2}),
    ("C2", (X4, W4), {"groups": 2, "dilation": (1.5, 1)}),
    ("C3", (X4, W4), {"groups": 2, "padding": (1, 1)}),
    ("C3", (X4, W4), {"groups": 2, "padding": (1, 1, -1, 0)}),
    ("C4", (X4, W4), {"groups": 0}),
    ("C4", (X4, W4), {"groups": True}),
    ("C5", (X4, W4), {}),
    ("C5", (tensor((2, N, 9, 7)), W4), {"groups": 2}),
    ("C6", (X4, tensor((5, 3, 3, 2))), {"groups": 2}),
    ("C6", (X4, tensor((N, 3, 3, 2))), {"groups": 2}),
    ("C7", (X4, W4, tensor((6,))), {"groups": 2}),
    ("C7", (X4, W4, tensor((4, 1))), {"groups": 2}),
    ("C8", (X4, W4), {"groups": 2, "dilation": (5, 1)}),
    ("C8", (X4, tensor((4, 3, 0, 2))), {"groups": 2}),
]


def flat(t: TensorType, rank: int) -> TensorType:
    """A type of a 2-d convolution for another number of spatial axes: the last one left out, or repeated."""
    if t.ndim < 3:
        return t
    return TensorType(t.shape[:-1] if rank == 1 else (*t.shape, t.shape[-1]), t.dtype)


def per_rank(attrs: Attrs, rank: int) -> Attrs:
    def fit(name: str, value: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        if name == "padding" and len(value) == 4:
            return value[::2] if rank == 1 else (*value[:2], value[1], *value[2:], value[3])
        return value[:rank] + value[1:] * (rank - 2) if len(value) == 2 else value + (1,) * 3

    return {k: fit(k, v) for k, v in attrs.items()}


INVALID: dict[str, list[tuple[str, tuple[TensorType, ...], Attrs]]] = {
    "nn.leakyrelu": [("C1", (C6,), {"alpha": "0.1"}), ("C1", (C6,), {"alpha": NAN})],
    "clip": [
        ("C1", (C6,), {"min": "0"}),
        ("C1", (C6,), {"max": NAN}),
        ("C2", (tensor((6,), INT32),), {"min": 0.5}),
        ("C3", (tensor((6,), "int8"),), {"min": 128}),
        ("C3", (tensor((6,), "uint8"),), {"max": -1}),
    ],
    "astype": [
        ("C1", (C6,), {"dtype": "float128"}),
        ("C1", (C6,), {"dtype": np.float32}),
        ("C2", (C6,), {"dtype": "int8", "open": 1}),
    ],
    "where": [("C1", (C6, C6, C6), {})],
    "matmul": [
        ("C1", (tensor(()), C6), {}),
        ("C1", (C6, tensor(())), {}),
        ("C2", (tensor((2, 3)), tensor((2, 3))), {}),
        ("C2", (tensor((2, 3)), tensor((2,))), {}),
        ("C2", (tensor((2, N)), tensor((M, 3))), {}),
    ],
    "nn.conv2d": CONV_INVALID,
    **{
        f"nn.conv{rank}d": [
            (label, tuple(flat(t, rank) for t in types), per_rank(attrs, rank)) for label, types, attrs in CONV_INVALID
        ]
        for rank in (1, 3)
    },
    "nn.softmax": [("C1", (C6,), {"axis": (0,)}), ("C1", (C6,), {"axis": None})],
    "nn.log_softmax": [("C1", (C6,), {"axis": 0.0})],
    "nn.batch_norm": [
        ("C1", (X4, C6, C6, C6, C6), {"axis": None}),
        ("C2", (X4, C6, C6, C6, tensor((1,))), {}),
        ("C2", (X4, tensor((6, 1)), C6, C6, C6), {}),
        ("C3", (X4, C6, C6, C6, C6), {"epsilon": -1e-5}),
        ("C3", (X4, C6, C6, C6, C6), {"epsilon": NAN}),
    ],
    "nn.layer_norm": [
        ("C1", (X4, tensor((7,))), {"axes": -1}),
        ("C1", (X4, tensor(())), {"axes": ()}),
        ("C2", (X4, C6), {"axes": (1,)}),
        ("C2", (X4, tensor((9, 7))), {"axes": (3, 2)}),
        ("C3", (X4, C6), {"axes": (-1,)}),
        ("C3", (X4, tensor((7,)), tensor((1,))), {"axes": (-1,)}),
        ("C4", (X4, tensor((7,))), {"axes": (-1,), "epsilon": "small"}),
    ],
    "nn.lrn": [
        ("C1", (C6,), {"size": 3}),
        ("C2", (X4,), {"size": 0}),
        ("C2", (X4,), {"size": 3.0}),
        ("C3", (X4,), {"size": 3, "alpha": None}),
        ("C3", (X4,), {"size": 3, "beta": INF}),
        ("C3", (X4,), {"size": 3, "bias": True}),
    ],
}


@pytest.mark.parametrize(
    ("name", "label", "types", "attrs"),
    [pytest.param(n, *case, id=f"{n}.{case[0]}-{k}") for n, cases in INVALID.items() for k, case in enumerate(cases)],
)
def test_invalid(name: str, label: str, types: tuple[TensorType, ...], attrs: Attrs) -> None:
    with pytest.raises(Invalid) as wrong:
        type_of(name, *types, **attrs)
    assert wrong.value.label == f"{name}.{label}"


def test_every_label_is_exercised() -> None:
    declared = {f"{op.name}.{label}" for op in TABLE for label in op.constraints}
    assert declared == {f"{name}.{case[0]}" for name, cases in INVALID.items() for case in cases}


SHARED: list[tuple[str, str, tuple[TensorType, ...], Attrs]] = [
    ("broadcast.C1", "add", (C6, tensor((5,))), {}),
    ("broadcast.C1", "where", (tensor((5,), BOOL), C6, C6), {}),
    ("broadcast.C1", "matmul", (tensor((4, 2, 3)), tensor((5, 3, 2))), {}),
    ("dtype.C2", "add", (C6, tensor((6,), INT32)), {}),
    ("dtype.C2", "where", (tensor((6,), BOOL), C6, tensor((6,), INT32)), {}),
    ("dtype.C2", "matmul", (C6, tensor((6,), "float16")), {}),
    ("dtype.C2", "nn.conv2d", (X4, tensor((4, 3, 3, 2), "float16")), {"groups": 2}),
    ("dtype.C2", "nn.batch_norm", (X4, C6, C6, C6, tensor((6,), "float64")), {}),
    ("dtype.C2", "nn.layer_norm", (X4, tensor((7,), "float64")), {"axes": (-1,)}),
    *(
        ("dtype.C3", name, (tensor((6,), INT32),) * len(OPERATORS[name].operands), {})
        for name in ("exp", "divide", "power", "nn.leakyrelu", "nn.softmax", "logical_and", "logical_not")
    ),
    *(("dtype.C3", name, (C6, C6), {}) for name in ("truncate_divide", "floor_divide", "logical_or")),
    *(("dtype.C3", name, (tensor((6,), BOOL),), {}) for name in ("negative", "clip", "nn.relu")),
    ("dtype.C3", "matmul", (tensor((6,), BOOL), tensor((6,), BOOL)), {}),
    ("dtype.C3", "nn.lrn", (tensor((2, 3), INT32),), {"size": 3}),
    ("axis.C1", "nn.softmax", (C6,), {"axis": 1}),
    ("axis.C1", "nn.softmax", (tensor(()),), {}),
    ("axis.C1", "nn.batch_norm", (X4, C6, C6, C6, C6), {"axis": 4}),
    ("axis.C1", "nn.layer_norm", (X4, C6), {"axes": (4,)}),
    ("call.C1", "add", (C6,), {}),
    ("call.C1", "nn.layer_norm", (X4, C6, C6, C6), {"axes": (-1,)}),
    ("call.C2", "exp", (C6,), {"axis": 1}),
    ("call.C3", "astype", (C6,), {}),
    ("call.C3", "nn.lrn", (X4,), {}),
]


@pytest.mark.parametrize(("label", "name", "types", "attrs"), SHARED)
def test_shared_rules(label: str, name: str, types: tuple[TensorType, ...], attrs: Attrs) -> None:
    with pytest.raises(Invalid) as wrong:
        type_of(name, *types, **attrs)
    assert wrong.value.label == label


def test_every_record_is_complete() -> None:
    for op in TABLE:
        assert op.doc and op.bound and op.source and op.examples, op.name
        for e in op.examples:
            op.check_attrs(e.attrs)
            for shape, _ in e.operands:  # equal dims would hide an axis taken for another
                dims = [d for d in shape if d > 1]
                assert len(set(dims)) == len(dims), (op.name, e)
