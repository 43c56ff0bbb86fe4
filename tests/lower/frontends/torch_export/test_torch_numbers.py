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


def test_causal_scores_are_masked_by_sums() -> None:
    """A key that is no number makes every row none, masked or not."""
    q, v = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)
    k = np.array([[[[1, 1], [NAN, 1]]]], np.float32)
    (found,) = values("scaled_dot_product_attention", query=q, key=k, value=v, is_causal=True)
    assert np.isnan(found).all()
    (found,) = values("scaled_dot_product_attention", query=q, key=q, value=v, is_causal=True)
    np.testing.assert_array_equal(found, v)


def test_numbers_beside_narrow_floats() -> None:
    """A number is rounded to them in sums and shrinks, and not in products, quotients that are rounded, and
    thresholds."""
    h = np.array([-60000, 0.1, 1.0, -INF], np.float16)
    (found,) = values("add", self=h, other=1e5)
    np.testing.assert_array_equal(found, [INF, INF, INF, NAN])
    (found,) = values("mul", self=np.float16([0.001]), other=1e5)
    np.testing.assert_array_equal(found, [np.float16(np.float32(np.float16(0.001)) * np.float32(1e5))])
    for name in ("floor_divide", "div"):
        more = {"rounding_mode": "floor"} if name == "div" else {}
        assert values(name, self=h[1:3], other=0.1, **more) == [[0, 9]]  # 0.1 in float16 is less than 0.1
    (found,) = values("threshold", self=np.array([0.1001, 0.0999], np.float16), threshold=0.1, value=7.0)
    assert found[1] == 7 and found[0] == np.float16(0.1001)
    assert values("hardshrink", self=h[1:3], lambd=0.1) == [[0, 1]]
    (found,) = values("softshrink", self=h[2:3], lambd=0.1)
    np.testing.assert_array_equal(found, [np.float16(1 - np.float32(np.float16(0.1)))])


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8"])
def test_remainders_at_the_ends_of_whole_numbers_are_known(kind: str) -> None:
    """No step of theirs overflows, so nothing is left open."""
    of = np.iinfo(kind)
    some = [int(v) for v in {of.min, of.min + 1, of.max - 1, of.max, 7, 6, *([-7, -1] if of.min else [])}]
    pairs = [(x, y) for x in some for y in some if y and (x, y) != (of.min, -1)]
    x, y = (np.array(v, kind) for v in zip(*pairs, strict=True))
    assert values("remainder", self=x, other=y) == [[a % b for a, b in pairs]]


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
        "a large number to float16": (lambda x: x + 1e5, (x.half(),), None),
        "thresholds of bfloat16": (lambda x: torch.nn.functional.threshold(x, 0.1, 1e3), (x.bfloat16(),), None),
        "floor of float16": (lambda x: x // 0.1, (x.half(),), None),
        "shrunk float16": (lambda x: torch.nn.functional.softshrink(x, 0.1), (x.half(),), None),
        "some of 16": (lambda x: x[x > 0].sum(), (half(16),), None),
        "two norms": (
            lambda x: (torch.nn.functional.layer_norm(x, (2,)), torch.nn.functional.group_norm(x, 1)),
            (half(1, 2).double(),), None,
        ),
    }  # fmt: skip


NAMES = (
    "item below 0", "item of int32", "item as a size", "half a size", "of narrow floats", "an input that is returned",
    "alpha of float16", "alpha of bfloat16", "prod of bfloat16", "prod of float16", "logit of float16", "some of 16",
    "two norms", "a large number to float16", "thresholds of bfloat16", "floor of float16",
    "shrunk float16",
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


PLACES = (None, -1, -3, -4, 2, 5)


@pytest.mark.peer
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("begin", PLACES)
def test_slices_of_what_a_run_counts(begin: int | None, writes: bool) -> None:
    """From before the front, to beyond the end, and with an end before the begin."""
    torch = pytest.importorskip("torch")
    for end in PLACES:
        for step in (None, 2):

            class Program(torch.nn.Module):  # type: ignore[misc, name-defined]
                part = slice(begin, end, step)

                def forward(self, x: Any) -> Any:
                    y = x[x > 0] * 1
                    if not writes:
                        return y[self.part] + 0
                    y[self.part].fill_(7)
                    return y

            exported = torch.export.export(Program(), (torch.arange(1.0, 7.0),))
            module = assay.load(exported)
            for count in range(6):
                x = torch.tensor([k + 1.0 if k < count else -1.0 for k in range(6)])
                (found,) = assay.run(module, {"x": x.numpy()}).values()
                np.testing.assert_array_equal(found, exported.module()(x).numpy(), err_msg=f"{end} {step} {count}")
