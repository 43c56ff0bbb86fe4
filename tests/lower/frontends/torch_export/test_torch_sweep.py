"""Operators of PyTorch, exported and judged against eager PyTorch on special values (a campaign: it needs PyTorch)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import pytest

import assay

pytestmark = [pytest.mark.campaign, pytest.mark.peer]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, 100.0, -100.0]
ONE = """abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac
isfinite isinf isnan lgamma log log10 log1p log2 neg reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt
square tan tanh trunc""".split()
TWO = """add atan2 copysign div eq floor_divide fmax fmin ge gt hypot le lt maximum minimum mul ne remainder sub
xlogy""".split()


def judged(function: Callable[..., Any], *args: Any) -> str:
    """The verdict on eager PyTorch for a function on these tensors."""
    torch = pytest.importorskip("torch")

    class Program(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *given: Any) -> Any:
            return function(*given)

    exported = torch.export.export(Program(), args)
    module = assay.load(exported)
    bits = [a.view(torch.int16) if a.dtype is torch.bfloat16 else a for a in args]
    arrays = [b.numpy().view(ml_dtypes.bfloat16) if b is not a else b.numpy() for a, b in zip(args, bits, strict=True)]
    inputs = {p.name: array for p, array in zip(module.main.params, arrays, strict=True)}
    return assay.judge(exported, ["torch:eager"], inputs, kinds="random").verdicts[0].outcome


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert judged(getattr(torch, name), torch.tensor(SPECIAL)) in ("right", "open", "undecided")


@pytest.mark.parametrize("name", TWO)
def test_of_two_tensors(name: str) -> None:
    """Not of 16 elements or more, where fmod is NaN (specs/findings/torch-2.14.md)."""
    torch = pytest.importorskip("torch")
    a = torch.tensor(SPECIAL)
    for b in (0.5, -2.5, math.inf, 0.0):
        if name not in ("floor_divide", "remainder"):
            assert judged(getattr(torch, name), a, torch.full_like(a, b)) in ("right", "open", "undecided")
        elif math.isfinite(b) and b:
            assert judged(getattr(torch, name), a[:10], torch.full((10,), b)) in ("right", "open", "undecided")


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    ("mode", "shape", "size"),
    [("linear", (1, 2, 5), 13), ("linear", (1, 2, 5), 3), ("linear", (1, 2, 5), 5), ("bilinear", (1, 2, 4, 5), (7, 3)),
     ("bilinear", (2, 1, 4, 5), (4, 9)), ("trilinear", (1, 2, 2, 3, 4), (3, 7, 2))],
)  # fmt: skip
def test_linear_resizing(mode: str, shape: tuple[int, ...], size: Any, align: bool) -> None:
    torch = pytest.importorskip("torch")
    interpolate = torch.nn.functional.interpolate

    def resized(x: Any) -> Any:
        return interpolate(x, size=size, mode=mode, align_corners=align)

    assert judged(resized, torch.randn(shape)) == "right"


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 7), (18, 25), (9, 3), (1, 1)])
def test_resizing_with_antialias(mode: str, size: Any, align: bool) -> None:
    torch = pytest.importorskip("torch")

    def resized(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, size=size, mode=mode, antialias=True, align_corners=align)

    assert judged(resized, torch.randn(1, 2, 9, 10)) == "right"


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_narrow_images_are_resized_in_float32(kind: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1, 2, 4, 5).to(getattr(torch, kind))
    assert judged(lambda x: torch.nn.functional.interpolate(x, size=(7, 3), mode="bilinear"), x) == "right"


def test_linear_resizing_by_factors() -> None:
    torch = pytest.importorskip("torch")
    interpolate = torch.nn.functional.interpolate
    for factor in ((1.7, 2.0), (0.7, 2.5)):
        assert (
            judged(lambda x, f=factor: interpolate(x, scale_factor=f, mode="bilinear"), torch.randn(1, 2, 4, 5))
            == "right"
        )


def fine(function: Callable[..., Any], *args: Any) -> None:
    assert judged(function, *args) in ("right", "open", "undecided")


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_at_points(mode: str, padding: str, align: bool) -> None:
    torch = pytest.importorskip("torch")
    points = torch.tensor([math.nan, math.inf, -math.inf, 1e6, -1.5, -1, 1, 0.3]).repeat(2, 1).T.reshape(1, 1, 8, 2)
    points = torch.cat([points, points.flip(2), torch.randn(1, 1, 8, 2)], 1)

    def sampled(x: Any, grid: Any) -> Any:
        return torch.nn.functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)

    fine(sampled, torch.randn(1, 2, 3, 4), points)
    if mode != "bicubic":
        fine(sampled, torch.randn(1, 2, 2, 1, 4), torch.randn(1, 1, 2, 3, 3) * 1.3)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, last: bool) -> None:
    """Where the last offset is the end of the indices; elsewhere see specs/findings/torch-2.14.md."""
    torch = pytest.importorskip("torch")
    weight, indices = torch.randn(5, 3), torch.tensor([0, 1, 4, 4, 2, 1, 1])
    weight[1, 0], weight[2, 2], weight[0, 1], weight[3] = math.nan, -math.inf, math.inf, -math.inf
    for passed in (None, 1, -1):

        def bags(i: Any, w: Any, o: Any, passed: Any = passed) -> Any:
            function = torch.nn.functional.embedding_bag
            return function(i, w, o, mode=mode, padding_idx=passed, include_last_offset=last)

        fine(bags, indices, weight, torch.tensor([0, 2, 2, 7]))
        fine(bags, indices[:0], weight, torch.tensor([0, 0]))


def test_windows() -> None:
    torch = pytest.importorskip("torch")
    fold, unfold = torch.nn.functional.fold, torch.nn.functional.unfold
    x = torch.randn(2, 3, 5, 6)
    x[0, 0, 0, 0], x[0, 1, 2, 2] = math.nan, math.inf
    ways: list[dict[str, Any]] = [
        {"kernel_size": 2}, {"kernel_size": (2, 3), "dilation": 2, "padding": (1, 2), "stride": (2, 1)}
    ]  # fmt: skip
    for way in ways:
        fine(lambda x, way=way: unfold(x, **way), x)
        fine(lambda y, way=way: fold(y, (5, 6), **way), unfold(x, **way))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(4, 3), torch.randn(30, 3)
    a[0, 0], a[1, 1], b[0] = math.nan, math.inf, a[3]
    fine(lambda a, b: torch.cdist(a, b, p=p), a, b)
    fine(lambda a: torch.pdist(a, p=p), a)
    fine(lambda a: torch.pdist(a, p=p), a[:1])


@pytest.mark.parametrize("name", ["cummax", "cummin", "median", "nanmedian", "kthvalue"])
def test_orders(name: str) -> None:
    torch = pytest.importorskip("torch")
    rows = torch.tensor([SPECIAL, [0.0, -0.0] * 6 + [1.0], [2.0, 1.0, 2.0] * 4 + [3.0], [math.nan] * 13])
    given = (2, 1) if name == "kthvalue" else (1,)
    for x in (rows, torch.randint(0, 3, (3, 6)), rows[:, :1]):
        more = given if x.shape[1] > 1 else (1, 1)[: len(given)]
        fine(lambda x, more=more: tuple(getattr(torch, name)(x, *more)), x)
    if name.endswith("median"):
        fine(getattr(torch, name), rows)
        fine(getattr(torch, name), rows[2])


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(7, 3), (4, 5), (1, 1)])
def test_cubic_resizing(size: tuple[int, int], align: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1, 2, 4, 5)
    x[0, 0, 0, 0] = math.inf
    fine(lambda x: torch.nn.functional.interpolate(x, size=size, mode="bicubic", align_corners=align), x)


def test_scattered_and_stepped() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(SPECIAL)
    fine(torch.heaviside, x, x.flip(0))
    fine(lambda x, m, s: x.masked_scatter(m, s), x, x > 0, x.flip(0))
