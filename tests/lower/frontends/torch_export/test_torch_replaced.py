"""Whole numbers, running sums, replaced parts, pools, false quantisation and training, by hand (specs/lower.md,
"torch.export")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import assay
from assay.semantics.errors import Invalid, Trap, Unsupported
from tests.lower.frontends.torch_export.test_torch_core import INF, NAN, f, values
from tests.lower.frontends.torch_export.test_torch_counts import i

LEAST = -(2**63)


def test_powers_of_whole_numbers() -> None:
    base, exponent = i(2, -1, 1, -1, 0, 0, 3, -2, 2), i(-1, -1, -3, -2, 0, -1, 41, 64, 62)
    right = [0, -1, 1, 1, 1, 0, -420491770248316829, 0, 2**62]
    assert values("pow", "Tensor_Tensor", self=base, exponent=exponent) == [right]
    assert values("pow", "Scalar", self=2, exponent=i(-1, 0, 5)) == [[0, 1, 32]]
    small = np.uint8([2, 1, 255]), np.uint8([8, 200, 255])
    assert values("pow", "Tensor_Tensor", self=small[0], exponent=small[1]) == [[0, 1, 255]]
    narrow = np.int8([-2, -2, 3]), np.int8([7, 127, 5])
    assert values("pow", "Tensor_Tensor", self=narrow[0], exponent=narrow[1]) == [[-128, 0, -13]]
    with pytest.raises(Invalid, match="whole numbers"):
        values("pow", "Tensor_Tensor", self=np.array([True]), exponent=np.array([True]))


def test_divisors_and_multiples() -> None:
    a, b = i(0, -4, 6, 7540113804746346429, 0, 2**62), i(0, 6, -9, 4660046610375530309, 5, 6)
    assert values("gcd", self=a, other=b) == [[0, 2, 3, 1, 5, 2]]  # the fourth are Fibonacci's numbers
    assert values("lcm", self=a[:3], other=b[:3]) == [[0, 12, 18]]
    assert values("gcd", self=np.uint8([144, 255]), other=np.uint8([233, 85])) == [[1, 85]]
    assert values("gcd", self=i(), other=i()) == [[]]
    for name in ("gcd", "lcm"):
        with pytest.raises(Trap, match=str(LEAST)):
            values(name, self=i(LEAST), other=i(3))
        with pytest.raises(Invalid, match="whole numbers"):
            values(name, self=f(1), other=f(2))


def test_logarithms_of_running_sums() -> None:
    (found,) = values("logcumsumexp", self=f([-INF, -INF, 1, 1, INF, -INF, NAN, 2]), dim=1)
    np.testing.assert_allclose(found, [[-INF, -INF, 1, 1 + np.log(2), INF, INF, NAN, NAN]], rtol=1e-6)
    (zero,) = values("logcumsumexp", self=f(-0.0), dim=0)
    assert not np.signbit(zero[0])
    assert values("logcumsumexp", self=f(), dim=0) == [[]]
    assert values("logcumsumexp", self=np.array(3.0), dim=0) == [3]


def test_matrices_of_powers() -> None:
    assert values("vander", x=i(2, 3)) == [[[2, 1], [3, 1]]]
    assert values("vander", x=i(2, 3), N=3, increasing=True) == [[[1, 2, 4], [1, 3, 9]]]
    assert values("vander", x=f(NAN), N=2)[0][0][1] == 1
    assert values("vander", x=f(2), N=0) == [[[]]]
    assert values("linalg_vander", x=f([2], [0]), N=3) == [[[[1, 2, 4]], [[1, 0, 0]]]]


def test_places_of_triangles() -> None:
    assert values("tril_indices", row=2, col=3, offset=0) == [[[0, 1, 1], [0, 0, 1]]]
    assert values("triu_indices", row=2, col=3, offset=1) == [[[0, 0, 1], [1, 2, 2]]]
    assert values("tril_indices", row=2, col=2, offset=-2) == [[[], []]]


def test_replaced_parts() -> None:
    x = i([1, 2, 3], [4, 5, 6])
    assert values("put", self=x, index=i(-1, 1), source=i(8, 9)) == [[[1, 9, 3], [4, 5, 8]]]
    assert values("put", self=x, index=i(0, 0), source=i(8, 9), accumulate=True) == [[[18, 2, 3], [4, 5, 6]]]
    with pytest.raises(Trap, match="out of bounds|index 6"):
        values("put", self=x, index=i(6), source=i(1))
    assert values("diagonal_scatter", self=x, src=i(7, 8), offset=1) == [[[1, 7, 3], [4, 5, 8]]]
    with pytest.raises(Invalid, match="the part is"):
        values("diagonal_scatter", self=x, src=i(7, 8, 9))
    assert values("as_strided_scatter", self=x, src=i(7, 8), size=[2], stride=[3], storage_offset=1) == [
        [[1, 7, 3], [4, 8, 6]]
    ]


@pytest.mark.parametrize(
    ("how", "own", "right"),
    [("amax", True, [9, 2]), ("amin", False, [-3, 2]), ("prod", True, [-135, 2]), ("mean", False, [3, 2]),
     ("prod", False, [-27, 2]), ("mean", True, [3, 2])],
)  # fmt: skip
def test_slices_that_meet(how: str, own: bool, right: list[int]) -> None:
    args = {"self": i([5], [2]), "dim": 0, "index": i(0, 0), "source": i([9], [-3])}
    assert values("index_reduce", **args, reduce=how, include_self=own) == [[[v] for v in right]]


def test_pools_of_unequal_windows() -> None:
    x = f([[3, 1, 3, 2, 5]])
    pool: dict[str, Any] = {"declared": [None, None]}
    assert values("adaptive_max_pool1d", self=x, output_size=[2], **pool) == [[[[3, 5]]], [[[0, 4]]]]
    assert values("adaptive_max_pool1d", self=x, output_size=[3], **pool) == [[[[3, 3, 5]]], [[[0, 2, 4]]]]
    assert values("adaptive_max_pool1d", self=x[..., :2], output_size=[3], **pool)[1] == [[[0, 0, 1]]]
    image = np.arange(15, dtype=np.float32).reshape(1, 3, 5)
    assert values("adaptive_max_pool2d", self=image, output_size=[2, 2], **pool)[1] == [[[7, 9], [12, 14]]]


def test_the_last_nan_of_a_window_counts() -> None:
    x = f([[NAN, NAN, 1, 2]])
    assert values("adaptive_max_pool1d", self=x, output_size=[3])[1] == [[[1, 1, 3]]]
    assert values("adaptive_max_pool1d", self=x, output_size=[2])[1] == [[[1, 3]]]


RANGE = {"quant_min": -2, "quant_max": 5}


def test_numbers_as_whole_ones_would_be() -> None:
    x = f(0.25, 0.75, -INF, INF, NAN, 1.2)
    one = {"self": x, "scale": 0.5, "zero_point": 1, **RANGE}
    right = [0, 1, -1.5, 2, -1.5, 1]  # halves to the even one, before the zero point is added
    assert values("fake_quantize_per_tensor_affine", **one) == [right]
    found, inside = values("fake_quantize_per_tensor_affine_cachemask", **one)
    assert (found, inside) == (right, [True, True, False, False, False, True])
    each = {"self": f([0.25, 0.25]), "scale": f(0.5, 0.25), "zero_point": np.int32([1, 0]), "axis": 1, **RANGE}
    assert values("fake_quantize_per_channel_affine", **each) == [[[0, 0.25]]]
    with pytest.raises(Unsupported, match="float64"):
        values("fake_quantize_per_tensor_affine", **{**one, "self": x.astype(np.float64)})


def test_normalised_in_training() -> None:
    x = f([[1, 3]], [[5, 7]])
    given = {"input": x, "weight": f(2), "bias": f(1), "running_mean": f(0), "running_var": f(1), "training": True,
             "momentum": 0.5, "eps": 0.0}  # fmt: skip
    y, mean, root, moved, spread = values("_native_batch_norm_legit_functional", **given)
    unit = np.array([[[-3, -1]], [[1, 3]]]) / np.sqrt(5)
    np.testing.assert_allclose(y, 2 * unit + 1, rtol=1e-5)
    np.testing.assert_allclose([mean, root, moved, spread], [[4], [5**-0.5], [2], [0.5 + 10 / 3]], rtol=1e-5)
    with pytest.raises(Unsupported, match="statistics of float16"):
        values("batch_norm", input=np.float16([[1], [2]]), weight=None, bias=None, training=True, eps=0.0)


@pytest.mark.peer
def test_training_moves_the_running_statistics() -> None:
    torch = pytest.importorskip("torch")
    norm = torch.nn.BatchNorm1d(3, momentum=0.25)
    x = torch.arange(24.0).reshape(4, 3, 2)
    program = torch.export.export(norm, (x,))
    (verdict,) = assay.judge(program, ["torch:eager"]).verdicts
    assert verdict.outcome == "right", verdict
    found = list(assay.run(program, {"input": x.numpy()}).values())
    right = [norm(x).detach(), norm.running_mean, norm.running_var, norm.num_batches_tracked]
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)
