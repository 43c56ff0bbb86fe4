"""Recipes of convolutions and poolings: windows that fit (specs/verify.md, "Programs")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.semantics.types import TensorType
from assay.verify.strategies.choosing import Pick, one_of

Made = tuple[Sequence[TensorType], Mapping[str, Any]]


def _spans(pick: Pick, sizes: Sequence[int], inside: bool) -> tuple[list[int], dict[str, Any]] | None:
    """Windows over axes of these sizes, with strides, dilation and padding; `inside`: each takes an element at
    least."""
    rank = len(sizes)
    if not all(sizes):
        return None
    taps, dilation, before, after = [], [], [], []
    for n in sizes:
        k = 1 + pick(min(3, n))
        d = 1 + (pick(2) if (k - 1) * 2 + 1 <= n else 0)
        span = (k - 1) * d + 1
        most = min(k - 1 if inside else 2, span - 1 if inside else 2)
        taps.append(k)
        dilation.append(d if k > 1 or not inside else 1)
        before.append(pick(most + 1) if d == 1 or not inside else 0)
        after.append(pick(most + 1) if d == 1 or not inside else 0)
    strides = tuple(1 + pick(2) for _ in range(rank))
    return taps, {"strides": strides, "padding": (*before, *after), "dilation": tuple(dilation)}


def _conv(pick: Pick, x: TensorType) -> Made | None:
    if not x.is_static:
        return None
    _, channels, *sizes = x.static_shape
    found = _spans(pick, sizes, False)
    if found is None or not channels:
        return None
    window, attrs = found
    groups = one_of(pick, [g for g in range(1, channels + 1) if channels % g == 0])
    features = groups * (1 + pick(3))
    operands = [x, TensorType((features, channels // groups, *window), x.dtype), TensorType((features,), x.dtype)]
    return operands[: 2 + pick(2)], {**attrs, "groups": groups}


def _pool(count: bool) -> Callable[[Pick, TensorType], Made | None]:
    def recipe(pick: Pick, x: TensorType) -> Made | None:
        if not x.is_static:
            return None
        found = _spans(pick, x.static_shape[2:], True)
        if found is None:
            return None
        window, attrs = found
        attrs |= {"pool_size": tuple(window), "ceil_mode": pick(4) == 3}
        return (x,), {**attrs, "count_include_pad": bool(pick(2))} if count else attrs

    return recipe


WINDOWS: dict[str, tuple[int, int, Callable[[Pick, TensorType], Made | None]]] = {}
for _rank in (1, 2, 3):
    WINDOWS[f"nn.conv{_rank}d"] = (_rank + 2, _rank + 2, _conv)
    WINDOWS[f"nn.max_pool{_rank}d"] = (_rank + 2, _rank + 2, _pool(False))
    WINDOWS[f"nn.avg_pool{_rank}d"] = (_rank + 2, _rank + 2, _pool(True))
