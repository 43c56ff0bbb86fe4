"""Tensor functions over symbolic sizes, each right as it stands, and the ways in which it may be wrong by one.

`ALL` has for each planted fault what makes the function, and the goal that must be refuted. A fault is a
keyword argument of the maker. Sizes are bounded below where the function needs that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from assay.semantics.tensor import (
    PrimFunc,
)
from assay.verify.symbolic import prove_accesses
from assay.verify.symbolic.goals import TRAPS, Kind
from tests.museum.planted import Judge, PlantedFault, size_of_made
from tests.museum.symbolic_functions import (
    N,
    concat,
    conv,
    conv_guarded,
    depthwise,
    double_buffer,
    flatten,
    fused,
    gather,
    halves,
    in_place,
    layer_norm,
    matched,
    matmul,
    matmul_blocks,
    placed,
    pool,
    prefix,
    registers,
    reverse,
    rolling,
    row_view,
    scratch,
    softmax,
    tiled_matmul,
    transpose,
    triangular,
)

Bounds = Mapping[str, tuple[int | None, int | None]]
MAKERS: dict[str, tuple[Callable[..., PrimFunc], Bounds]] = {}
"""What is right as it stands, and the bounds that it needs."""
LONG = ("conv", "flatten", "fused", "matmul_blocks", "row_view", "softmax", "tiled_matmul")
"""Makers whose proofs take long; the museum's page leaves them out."""


def faults(
    make: Callable[..., PrimFunc], wrong: Mapping[str, tuple[dict[str, Any], Kind]], bounds: Bounds | None = None
) -> tuple[PlantedFault, ...]:
    """Those of a maker: each has its arguments and the kind of the goal that it breaks."""
    MAKERS[make.__name__] = make, bounds or {}
    return tuple(
        PlantedFault(
            f"{make.__name__}: {name}",
            f"accesses, z3: {kind}",
            (refuted(kind, bounds or {}),),
            make,
            partial(planted, make, given),
            size=size_of_made,
        )
        for name, (given, kind) in wrong.items()
    )


def planted(make: Callable[..., PrimFunc], given: dict[str, Any], right: PrimFunc) -> PrimFunc:
    return make(**given)


def refuted(kind: Kind, bounds: Bounds) -> Judge:
    """z3, for all sizes: a goal of this kind is refuted, at sizes that can be looked at."""

    def judge(source: PrimFunc, made: PrimFunc) -> str | None:
        report = prove_accesses(made, bounds)
        found = [g for g in report.of("refuted") if g.kind == kind]
        if report.verdict != "refuted" or not found:
            return None
        assert TRAPS.get(kind, "") in found[0].detail and all(n <= 10 for n in found[0].sizes.values()), found[0]
        return found[0].detail

    return judge


ALL: tuple[PlantedFault, ...] = (
    *faults(
        matmul,
        {
            "k from 1": ({"k_from": 1}, "in bounds"),
            "no init": ({"init": False}, "written before"),
            "parallel sum": ({"reduce_kind": "parallel"}, "independent"),
            "vectorized sum": ({"reduce_kind": "vectorized"}, "side by side"),
        },
    ),
    *faults(
        matmul_blocks,
        {
            "k from 1": ({"shift": 1}, "in domain"),
            "no init": ({"init": False}, "written before"),
            "no predicate": ({"predicate": False}, "in domain"),
            "wrong region": ({"said": 1}, "in region"),
        },
        {"k": (1, None)},
    ),
    *faults(
        tiled_matmul,
        {
            "no guard on k": ({"guard": False}, "in bounds"),
            "no ragged tile": ({"tiles": 0}, "output written"),
            "tiles overlap": ({"overlap": 7}, "independent"),
        },
    ),
    *faults(
        conv,
        {
            "no fill": ({"fill": False}, "written before"),
            "copied too far": ({"before": 3}, "in bounds"),
            "padded too little": ({"extra": 1}, "in bounds"),
            "stride 3": ({"stride": 3}, "in bounds"),
        },
    ),
    *faults(conv_guarded, {"guard from -1": ({"low": -1}, "in bounds"), "strict": ({"lazy": False}, "in bounds")}),
    *faults(depthwise, {"next channel": ({"channel": 1}, "in bounds")}, {"n": (2, None)}),
    *faults(pool, {"window of 4": ({"window": 4}, "in bounds")}, {"n": (3, None)}),
    *faults(fused, {"wrong size": ({"by": N}, "in bounds"), "one less": ({"count": 1}, "output written")}),
    *faults(flatten, {"wrong step": ({"step": N}, "in bounds")}),
    *faults(transpose, {"not swapped": ({"swap": True}, "in bounds")}),
    *faults(reverse, {"from n": ({"last": 0}, "in bounds")}),
    *faults(concat, {"one further": ({"at": 1}, "in bounds"), "one less": ({"first": 1}, "output written")}),
    *faults(triangular, {"on the diagonal": ({"above": 0}, "output written"), "two up": ({"above": 2}, "in bounds")}),
    *faults(gather, {"no check": ({"check": "no"}, "in bounds"), "up to n": ({"strict": False}, "in bounds")}),
    *faults(
        softmax, {"no start": ({"total_first": False}, "written before"), "short": ({"short": 1}, "written before")}
    ),
    *faults(layer_norm, {"shared": ({"private": False}, "independent")}),
    *faults(
        in_place,
        {
            "the next one": ({"ahead": 1}, "independent"),
            "the one before, side by side": ({"ahead": -1, "kind": "vectorized"}, "side by side"),
        },
    ),
    *faults(prefix, {"two back": ({"back": 2}, "in bounds"), "no start": ({"first": False}, "written before")}),
    *faults(
        double_buffer,
        {"no start": ({"start": False}, "written before"), "the other": ({"read": 1}, "written before")},
    ),
    *faults(rolling, {"three back": ({"since": 3, "rows": 4}, "written before")}, {"n": (2, None)}),
    *faults(scratch, {"negative": ({"less": 2}, "dims not negative")}),
    *faults(row_view, {"a row too many": ({"rows": 1}, "in bounds")}, {"n": (1, None)}),
    *faults(
        matched,
        {"beyond": ({"stop": 1}, "in bounds"), "a row less": ({"size": -1}, "as matched")},
        {"n": (1, None)},
    ),
    *faults(
        placed,
        {
            "odd rows": ({"step": 2}, "aligned"),
            "from 2": ({"start": 2}, "aligned"),
            "in eights": ({"factor": 8}, "aligned"),
            "32 bytes": ({"align": 32}, "aligned"),
        },
    ),
    *faults(registers, {"shared": ({"inside": False}, "own memory")}),
    *faults(halves, {"from 0": ({"shift": 0}, "no division by zero")}),
)
FAULTS = tuple(f for f in ALL if f.name.partition(":")[0] not in LONG)
LASTING = tuple(f for f in ALL if f not in FAULTS)
