"""Wrong constants that compilation makes, each as a change of what was made of one packed product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from assay.interp.graph import evaluate
from assay.lower.constants.made import (
    Made,
    Packed,
    for_tiles,
    laid,
    make_constants,
    pack,
)
from assay.lower.legalize import legalize
from assay.lower.loops.layout import Layout
from assay.semantics import graph
from assay.semantics.builder import tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, GlobalVar, Var
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.scalar import Load
from assay.semantics.tensor import For, Stmt, Store
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.constants.made import check_made
from tests.museum.judges import of_evidence
from tests.museum.planted import PlantedFault

RNG = np.random.default_rng(6)


def weight(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def module(
    body: Callable[[Var, Expr], Expr], x: tuple[int, ...], w: np.ndarray[Any, Any], **infos: ConstantInfo
) -> Module:
    v = graph.var("x", tensor(*x))
    named = GlobalVar(TensorType(w.shape, FLOAT32), "w")
    return Module({"main": graph.function([v], body(v, named))}, {"w": w}, infos=infos)


def product(transposes: bool = False) -> Module:
    def body(x: Var, w: Expr) -> Expr:
        return graph.call("matmul", x, graph.call("permute_dims", w) if transposes else w)

    return module(body, (5, 7), weight(37, 7) if transposes else weight(7, 37))


@cache
def packed_product() -> tuple[Module, Module, dict[str, Made], dict[str, Packed]]:
    source = legalize(product())
    laid_out, packed = pack(source, for_tiles)
    result, made = make_constants(laid_out, evaluate)
    return source, result, made, packed


def other_contents(a: Any) -> Any:
    changed = a.copy()
    changed.reshape(-1)[3] = np.nextafter(changed.reshape(-1)[3], np.float32(9))
    return changed


def with_kernel(m: Module, change: Callable[[Stmt], Stmt]) -> Module:
    (name,) = m.kernels
    kernel = m.kernel(name)
    return m.with_(**{name: replace(kernel, body=rewrite(kernel.body, change))})


def swapped_blocks(s: Stmt) -> Stmt:
    """The place inside a block and the block itself change roles."""

    def load(n: Any) -> Any:
        if isinstance(n, Load) and len(n.indices) == 3:
            j, k, i = n.indices
            return Load(n.dtype, n.buffer, (j, k, (i + 1) % 32))
        return n

    return replace(s, value=rewrite(s.value, load)) if isinstance(s, Store) else s


Packing = tuple[Module, dict[str, Made]]


def fault(name: str, damage: Callable[[Module, dict[str, Made]], Packing], said: str) -> PlantedFault:
    """A change of the packed module, or of what is said of how its constants are made."""

    def judge(source: Module, made: Packing) -> str | None:
        return of_evidence(check_made(source, *made, packed_product()[3]))

    def right(source: Module) -> Packing:
        return packed_product()[1:3]

    return PlantedFault(name, "made constants", (judge,), source_of_product, lambda m: damage(*right(m)), right, said)


def source_of_product() -> Module:
    return packed_product()[0]


FAULTS: tuple[PlantedFault, ...] = (
    fault(
        "a bit of the contents",
        lambda m, d: (replace(m, constants={n: other_contents(a) for n, a in m.constants.items()}), d),
        "is not what makes it",
    ),
    fault(
        "made of another constant",
        lambda m, d: (m, {n: replace(h, operands=tuple(map(other_contents, h.operands))) for n, h in d.items()}),
        "is made of what is not the constant w",
    ),
    fault(
        "made of a constant that is not there",
        lambda m, d: (m, {n: replace(h, names=("v",)) for n, h in d.items()}),
        "not the constant v",
    ),
    fault("nobody says where it comes from", lambda m, d: (m, {}), "comes from nowhere"),
    fault(
        "it is not there",
        lambda m, d: (m, {**d, "more": next(iter(d.values()))}),
        "more is said to be made, and is not there",
    ),
    fault(
        "made by another function",
        lambda m, d: (
            m,
            {
                n: replace(h, definition=laid(TensorType((7, 37), FLOAT32), Layout((1, 0), ((1, 16),))))
                for n, h in d.items()
            },
        ),
        "is not what makes it",
    ),
    fault(
        "not laid out for its user",
        lambda m, d: (m, {n: replace(h, definition=replace(h.definition)) for n, h in d.items()}),
        "that is not laid out as it wants",
    ),
    fault("read in another order", lambda m, d: (with_kernel(m, swapped_blocks), d), "on the laid out operand"),
    fault(
        "the kernel stops early",
        lambda m, d: (
            with_kernel(
                m, lambda s: replace(s, extent=s.extent - 1) if isinstance(s, For) and s.var.name == "k" else s
            ),
            d,
        ),
        "on the laid out operand",
    ),
)
