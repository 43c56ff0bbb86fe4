"""Faults of folding and of tables that lose a part of a value (apache/tvm), and wrong and less precise numbers as a
backend may give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from assay.interp import vector
from assay.interp.graph import evaluate
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants, link, link_params
from assay.lower.constants.constant_table import ConstantTable
from assay.lower.legalize import legalize
from assay.lower.simplify.fold import Folding
from assay.semantics.builder import Builder, tensor
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import Alias
from assay.semantics.walk import rewrite
from assay.verify.constants import check_constants
from assay.verify.constants.link import check_link
from assay.verify.oracle import Oracle
from tests.lower.constants.test_constants_link import two_calls
from tests.museum.faults.constant_faults import A, B
from tests.museum.faults.dynamic_faults import one
from tests.museum.judges import Judged, fault, of_evidence
from tests.museum.planted import Patch, PlantedFault
from tests.verify.constants.test_constants_check import source
from tests.verify.oracle import numeric_faults as product

Array = np.ndarray[Any, Any]


def fold(source: Module) -> Module:
    return Folding(source, evaluate).run()


def folding(change: Callable[[Any], Any]) -> Callable[[Module], Module]:
    """Folding whose evaluator gives something else."""
    return lambda source: Folding(source, lambda expr, of: change(evaluate(expr, of))).run()


def constants(of: Callable[[Builder], Any]) -> Module:
    return one(lambda b, x: b.tuple(x, of(b)), x=tensor(2))


def quotient() -> Module:
    """2**53 + 1 is no float64."""
    return constants(lambda b: b.floor_divide(b.constant(np.int64(2**53 + 1)), b.constant(np.int64(1))))


def comparison() -> Module:
    return constants(lambda b: b.less(b.constant(np.int32(1)), b.constant(np.int32(2))))


def through_float(value: Any) -> Any:
    return np.asarray(value).astype(np.float64).astype(np.asarray(value).dtype)


def as_number(value: Any) -> Any:
    return np.asarray(value).astype(np.int32)


# --- tables ----------------------------------------------------------------------------------------------------------


def linked(source: Module, made: Module) -> str | None:
    return of_evidence(check_link(source, made))


def lifted(source: Module, made: Module) -> str | None:
    return of_evidence(check_constants(source, made)[0])


def contents_skipped(source: Module) -> Module:
    """Functions are told apart by their code, whatever their constants hold."""
    with Patch.context() as patch:
        patch.setattr(link, "digest", lambda array: "")
        return link_params(source)


def lift(source: Module) -> Module:
    return lift_constants(source, vector.run)


def bytes_alone(source: Module) -> Module:
    """The key of a constant is its bytes, whatever their dtype and shape."""

    def key(self: ConstantTable, array: Array, info: ConstantInfo) -> str:
        return f"{hash(array.tobytes()) & (2**63 - 1):064x}"

    with Patch.context() as patch:
        patch.setattr(ConstantTable, "digest", key)
        return lift(source)


def two_kinds() -> Module:
    """Zeros of two dtypes."""

    def body(b: Builder, x: Any, n: Any) -> Any:
        return b.tuple(b.add(x, b.constant(np.zeros(2, np.float32))), b.add(n, b.constant(np.zeros(2, np.int32))))

    return legalize(to_anf(one(body, x=tensor(2), n=tensor(2, of="int32"))))


def through_a_view() -> Module:
    return two_calls(A, A.copy(), "view")


def views_unbound(source: Module) -> Module:
    """Linking finds a parameter where it is loaded, and not where something is a view of it."""
    made, w = link_params(source), replace(source.kernel("f").params[1])
    body = rewrite(
        made.kernel("f").body, lambda s: replace(s, view=replace(s.view, source=w)) if isinstance(s, Alias) else s
    )
    return made.with_(f=replace(made.kernel("f"), body=body))


def stored() -> Module:
    """A constant that asks for an alignment and a section."""
    return replace(source(), infos={"w": ConstantInfo(128, ".flash")})


def plainly(of: Module) -> Module:
    """What is rebuilt forgets how constants are to be stored."""
    return lift(replace(of, infos={}))


# --- numbers ---------------------------------------------------------------------------------------------------------


def sinh() -> Module:
    return one(lambda b, x: b.sinh(x), x=tensor(2))


def by_exp(source: Module) -> Module:
    """(exp(x) - exp(-x)) / 2 leaves float32 before sinh does."""
    return one(
        lambda b, x: b.multiply(b.subtract(b.exp(x), b.exp(b.negative(x))), b.constant(np.float32(0.5))), x=tensor(2)
    )


def tiny() -> Module:
    return one(lambda b, x: b.astype(x, dtype="float32"), x=tensor(2, of="float8_e4m3fn"))


def flushed(source: Module) -> Module:
    """What is below the least normal number of float8 becomes zero."""

    def body(b: Builder, x: Any) -> Any:
        wide = b.astype(x, dtype="float32")
        return b.where(b.less(b.abs(wide), b.constant(np.float32(2**-6))), b.constant(np.float32(0)), wide)

    return one(body, x=tensor(2, of="float8_e4m3fn"))


@cache
def matmul() -> Module:
    return one(lambda b, x, w: b.matmul(x, w), x=tensor(product.M, product.K), w=tensor(product.K, product.N))


def multiplied(kind: str) -> Callable[[Module, product.Product], str | None]:
    """The oracle on a product of data of a kind."""

    def judge(source: Module, way: product.Product) -> str | None:
        a, b = product.operands(kind, 0)
        verdict = Oracle(source).judge({"x": a, "w": b}, {"output_0": way(a, b)})
        return None if verdict.outcome == "right" else f"{verdict.outcome}, {verdict.layer}: {verdict.detail}"

    return judge


def wrong_product(name: str, way: product.Product, kind: str, layer: str) -> PlantedFault:
    """Known from comparisons of tolerances on a matrix product."""
    known = "comparison experiment"
    return fault(
        name, known, f"oracle: {layer}", matmul, lambda m: product.RIGHT["BLAS"], lambda m: way, judge=multiplied(kind)
    )


FAULTS: tuple[PlantedFault, ...] = (
    fault(
        "whole numbers are folded in float64",
        "#20281, #20324",
        "simplify: values",
        quotient,
        fold,
        folding(through_float),
    ),
    fault("a folded comparison is a number", "#20282", "simplify: values", comparison, fold, folding(as_number)),
    fault(
        "kernels with different constants are one",
        "#19801",
        "constants: link",
        lambda: two_calls(A, B),
        link_params,
        contents_skipped,
        judge=linked,
    ),
    fault(
        "constants of two dtypes with the same bytes are one",
        "read",
        "constants",
        two_kinds,
        lift,
        bytes_alone,
        judge=lifted,
    ),
    fault(
        "a view of a linked parameter is not bound",
        "read",
        "constants: link",
        through_a_view,
        link_params,
        views_unbound,
        "is not allocated here",
        linked,
    ),
    fault("a rebuild forgets how a constant is stored", "read", "constants", stored, lift, plainly, judge=lifted),
    fault(
        "sinh by exp",
        "#19559",
        "oracle: elementwise",
        sinh,
        lambda m: m,
        by_exp,
        judge=Judged({"x": np.array([89, -89], np.float32)}),
    ),
    fault(
        "small float8 numbers are zero",
        "#20315",
        "oracle: bitwise",
        tiny,
        lambda m: m,
        flushed,
        judge=Judged({"x": np.array([2**-8, 1], ml_dtypes.float8_e4m3fn)}),
    ),
    *(wrong_product(f"a product: {name}", way, "integers", "integers") for name, way in product.WRONG.items()),
    *(wrong_product(f"a product in {name}", way, "uniform", "dot product") for name, way in product.LOW.items()),
)
