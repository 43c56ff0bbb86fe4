"""Faults with sizes that the run tells, of the Relay virtual machine and what was proposed around it (apache/tvm):
types, shape functions, and programs that pad to a size for which there is code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.builder import Builder, tensor
from assay.semantics.graph import Call, Expr, Function, If, call, function, if_, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, apply
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from tests.museum.judges import Judged, fault
from tests.museum.planted import PlantedFault

N = Symbol("n")
OPEN, FOUR = tensor(N), tensor(4)
NEGATIVE = np.array([[-3.0, -1.0, -2.0], [-0.5, -4.0, -0.25]], np.float32)
TO = 4
"""The size that there is code for."""


def one(build: Callable[..., Any], **operands: Any) -> Module:
    b = Builder()
    with b.function("main", **operands) as f:
        b.result(build(b, *(getattr(f, n) for n in operands)))
    return b.module()


# --- types -----------------------------------------------------------------------------------------------------------


def retyped(at: Callable[[Expr], bool], to: TensorType) -> Callable[[Module], Module]:
    """The type that a rule with the fault derives."""

    def wrong(source: Module) -> Module:
        root: Expr = source.main
        made = rewrite(root, lambda node: replace(node, type=to) if at(node) else node)
        assert isinstance(made, Function)
        return source.with_(main=made)

    return wrong


def chosen() -> Module:
    """One branch gives n elements, the other 4: nobody knows more."""
    c, x, y = var("c", tensor(of="bool")), var("x", OPEN), var("y", FOUR)
    return Module({"main": function([c, x, y], if_(c, call("exp", x), call("exp", x)))})


def reshaped(shape: tuple[Any, ...] = (4 * N, 3)) -> Module:
    """(n, 3, 4) to (-1, 0): the 0 copies the 3, so n * 4 rows are left."""
    return one(lambda b, x: b.reshape(x, shape=shape), x=tensor(N, 3, 4))


def joined() -> Module:
    return one(lambda b, x, y: b.concat(x, y, axis=0), x=OPEN, y=FOUR)


# --- padding ---------------------------------------------------------------------------------------------------------


def rows(build: Callable[[Builder, Any], Any], size: int = 3) -> Module:
    return one(lambda b, x: build(b, x), x=tensor(2, size))


def padded(build: Callable[[Builder, Any], Any], keeps: bool = True, by: float = 0.0) -> Callable[[Module], Module]:
    """The program for the size that there is code for, on rows that are filled up; its result is cut back, if it has
    the axis still."""

    def wrong(source: Module) -> Module:
        def body(b: Builder, x: Any) -> Any:
            y = build(b, b.nn.pad(x, pad_width=(0, 0, 0, TO - 3), pad_value=by))
            return b.strided_slice(y, axes=(1,), begin=(0,), end=(3,)) if keeps else y

        return rows(body)

    return wrong


def softmax(b: Builder, x: Any) -> Any:
    return b.nn.softmax(x, axis=1)


def mean(b: Builder, x: Any) -> Any:
    return b.mean(x, axis=(1,))


def largest(b: Builder, x: Any) -> Any:
    return b.max(x, axis=(1,))


def best(b: Builder, x: Any) -> Any:
    return b.get(b.topk(x, k=1, axis=1), 1)


def total(b: Builder, x: Any) -> Any:
    return b.sum(x, axis=(1,))


def normalized(b: Builder, x: Any) -> Any:
    """Each row less its mean."""
    return b.subtract(x, b.mean(x, axis=(1,), keepdims=True))


LOWEST = float(np.finfo(np.float32).min)
ON = Judged({"x": NEGATIVE})


def pad_fault(
    name: str, layer: str, build: Callable[[Builder, Any], Any], right: Callable[[Module], Module], keeps: bool = True
) -> PlantedFault:
    return fault(name, "read: #11199", f"oracle: {layer}", lambda: rows(build), right, padded(build, keeps), judge=ON)


def unpadded(source: Module) -> Module:
    """The right dispatch: no padding where it is not neutral."""
    return source


def is_if(node: Expr) -> bool:
    return isinstance(node, If)


def is_call(node: Expr) -> bool:
    return isinstance(node, Call)


FAULTS: tuple[PlantedFault, ...] = (
    fault("the fixed dim is kept where the other is open",
        "P#6658, P#5795", "well-formed", chosen, lambda m: m, retyped(is_if, FOUR)
    ),
    fault("a reshape with -1 before 0 counts the copied dim twice",
        "P#10721", "well-formed", reshaped, lambda m: m, retyped(is_call, tensor(apply("mul", N, 12), 3)),
    ),
    fault("a shape function forgets an operand",
        "I#15345, I#7896 (of this kind)", "well-formed", joined, lambda m: m, retyped(is_call, OPEN)
    ),
    pad_fault("softmax over padding", "graph", softmax, unpadded),
    pad_fault("mean over padding", "dot product", mean, unpadded, keeps=False),
    pad_fault("largest of negative numbers and padding", "bitwise", largest, padded(largest, False, LOWEST),
        keeps=False),
    pad_fault("the place of the largest is in the padding", "bitwise", best, padded(best, False, LOWEST), keeps=False),
    pad_fault("statistics over padding", "graph", normalized, unpadded),
    fault("a sum over what was padded with another number",
        "read: #11199", "oracle: integers", lambda: rows(total), padded(total, False), padded(total, False, 1.0),
            judge=ON
    ),
)  # fmt: skip
