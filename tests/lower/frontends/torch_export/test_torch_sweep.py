"""Operators of PyTorch, exported and judged against eager PyTorch on special values (a campaign: it needs PyTorch)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
    inputs = {p.name: a.numpy() for p, a in zip(module.main.params, args, strict=True)}
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


def test_linear_resizing_by_factors() -> None:
    torch = pytest.importorskip("torch")
    interpolate = torch.nn.functional.interpolate
    for factor in ((1.7, 2.0), (0.7, 2.5)):
        assert (
            judged(lambda x, f=factor: interpolate(x, scale_factor=f, mode="bilinear"), torch.randn(1, 2, 4, 5))
            == "right"
        )
