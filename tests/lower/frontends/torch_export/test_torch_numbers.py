"""What fresh eyes found false of PyTorch's programs: numbers that are no tensors, ends of ranges, and roundings of
narrow floats; by hand, and beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Trap, Unsupported
from tests.lower.frontends.torch_export.test_torch_core import INF, NAN, values
from tests.lower.frontends.torch_export.test_torch_counts import i

MOST = float(np.finfo(np.float64).max)


def test_hypot_near_the_ends_of_float64() -> None:
    x, y = np.array([MOST, 3e200, 3e-200, 0, 0, INF, NAN, -INF]), np.array([0, 4e200, 4e-200, 0, -2, NAN, 1, 0])
    (found,) = values("hypot", self=x, other=y)
    np.testing.assert_allclose(found, [MOST, 5e200, 5e-200, 0, 2, INF, NAN, INF], rtol=4e-16)


def test_lines_are_counted_in_float64() -> None:
    assert values("arange", "start_step", start=0, end=1, step=0.3, dtype=FLOAT32) == [
        np.float32([0, 0.3, 0.6, 0.3 * 3]).tolist()
    ]


def test_the_logarithm_of_the_sum_of_nothing() -> None:
    assert values("logsumexp", self=np.zeros((0, 2), np.float32), dim=[0]) == [[-INF, -INF]]
    assert values("logsumexp", self=np.zeros((0, 1), np.float32), dim=[0], keepdim=True) == [[[-INF]]]
    assert values("logsumexp", self=np.zeros((0, 2), np.float32), dim=[1]) == [[]]


def test_classes_are_there() -> None:
    assert values("one_hot", self=i(0, 2), num_classes=3) == [[[1, 0, 0], [0, 0, 1]]]
    for wrong in (-1, 3):
        with pytest.raises(Trap, match="a class is below 0, or not below 3"):
            values("one_hot", self=i(0, wrong), num_classes=3)


def test_what_aten_rounds_in_ways_that_differ_is_refused() -> None:
    with pytest.raises(Unsupported, match="weights in uint8"):
        values(
            "upsample_bilinear2d", self=np.full((1, 1, 2, 2), 200, np.uint8), output_size=[4, 4], align_corners=False
        )
    with pytest.raises(Unsupported, match="eps in float16"):
        values("logit", self=np.float16([0.5]), eps=0.01)


def test_a_masked_score_that_is_no_number_stays_none() -> None:
    """A mask of bools is added, as one of floats is."""
    q, v, mask = np.ones((1, 1, 1, 2), np.float32), np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 1, 2), bool)
    for key, right in ((1.0, 0.0), (NAN, NAN), (INF, NAN)):
        k = np.array([[[[key, 1], [1, 1]]]], np.float32)
        ((found,),) = values("scaled_dot_product_attention", query=q, key=k, value=v, attn_mask=mask)
        np.testing.assert_array_equal(found, [[[right, right]]])


def half(*shape: int) -> Any:
    torch = pytest.importorskip("torch")
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]]:
    """Functions, what they are exported for, and their dynamic shapes."""
    torch = pytest.importorskip("torch")
    x = half(4, 6)
    return {
        "item below 0": (lambda x, n: x * n.item() + (n.item() - 2), (x, torch.tensor(-7)), None),
        "item of int32": (lambda x, n: x + n.item(), (x, torch.tensor(-7, dtype=torch.int32)), None),
        "item as a size": (lambda x, n: torch.ones(n.item()) * x.sum(), (x, torch.tensor(3)), None),
        "half a size": (lambda x: x.sum() / (x.shape[0] / 2), (x,), [{0: torch.export.Dim("n", min=2)}]),
        "of narrow floats": (lambda x: x.mean() - x.shape[0] / 3, (x.half(),), [{0: torch.export.Dim("n", min=2)}]),
        "an input that is returned": (lambda x: (torch.relu(x), x), (x,), None),
        "alpha of float16": (lambda x, y: torch.add(x, y, alpha=0.3), (x.half(), half(4, 6).half()), None),
        "alpha of bfloat16": (lambda x, y: torch.sub(x, y, alpha=0.3), (x.bfloat16(), half(4, 6).bfloat16()), None),
        "prod of bfloat16": (lambda x: x.prod(0), (half(6, 40).bfloat16(),), None),
        "prod of float16": (lambda x: x.prod(0), (half(6, 4).half(),), None),
        "logit of float16": (torch.logit, (torch.rand(40).half(),), None),
        "some of 16": (lambda x: x[x > 0].sum(), (half(16),), None),
        "two norms": (
            lambda x: (torch.nn.functional.layer_norm(x, (2,)), torch.nn.functional.group_norm(x, 1)),
            (half(1, 2).double(),), None,
        ),
    }  # fmt: skip


NAMES = (
    "item below 0", "item of int32", "item as a size", "half a size", "of narrow floats", "an input that is returned",
    "alpha of float16", "alpha of bfloat16", "prod of bfloat16", "prod of float16", "logit of float16", "some of 16",
    "two norms",
)  # fmt: skip


@pytest.mark.peer
@pytest.mark.parametrize("name", NAMES)
def test_eager_pytorch_is_not_called_wrong(name: str) -> None:
    torch = pytest.importorskip("torch")
    of, given, shapes = programs()[name]

    class Program(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any) -> Any:
            return of(*args)

    exported = torch.export.export(Program(), given, dynamic_shapes=None if shapes is None else {"args": tuple(shapes)})
    integers = {p.name: np.array(-7 if "size" not in name else 3, p.type.dtype.numpy)
                for p in assay.load(exported).main.params if p.type.dtype.is_integer}  # fmt: skip
    found = assay.judge(exported, "torch:eager", integers).verdicts[0]
    assert found.outcome in ("right", "undecided"), found.closing()
    assert any(s.outcome == "right" for s in found.samples), found.closing()
    assert assay.judge(exported, lambda m, i: {}, integers).verdicts[0].outcome == "wrong"
