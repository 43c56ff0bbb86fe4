"""Images of sizes that are symbols, resized and pooled: as those of the same sizes that are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export import parse_torch_export
from assay.lower.frontends.torch_export.node import AtenNode
from assay.lower.frontends.torch_export.operators import ATEN
from assay.lower.frontends.torch_export.sizes import Sizes
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr, function, var
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import TensorType, symbols
from assay.verify.border.inputs import sized
from assay.verify.oracle import Oracle
from assay.verify.oracle.data import make_inputs, takes
from assay.verify.trials.fitting import fitting_sizes

Array = np.ndarray[Any, Any]
PROGRAMS = Path(__file__).parent / "programs"
F = DTYPES["float32"]
N, M = Symbol("n"), Symbol("m")


def program(name: str, size: Dim, to: Dim | None, **args: Any) -> Module:
    """An operator of ATEN on x[1, 1, size]; `to` is the size of y, which is a second input."""
    x, y = (var(n, TensorType((1, 1, d), F)) for n, d in (("x", size), ("y", 1 if to is None else to)))
    builder = HloBuilder()
    args = {**args, "self": x, **({} if to is None else {"output_size": [to]})}
    body = ATEN[name](AtenNode(builder, name, "default", args))
    assert isinstance(body, Expr)
    return Module({"main": function([x, y], builder.around(body, builder.scope))})


WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nearest": ("upsample_nearest1d", {}),
    "exact": ("_upsample_nearest_exact1d", {}),
    "linear": ("upsample_linear1d", {"align_corners": False}),
    "ends": ("upsample_linear1d", {"align_corners": True}),
}


def images(size: int, to: int) -> dict[str, Array]:
    x = np.resize(np.float32([3, -1, np.inf, 2, 0.5, -4, 7, 1e30, 5]), size)
    return {"x": x.reshape(1, 1, size), "y": np.zeros((1, 1, to), np.float32)}


@pytest.mark.parametrize("way", WAYS)
def test_symbols_are_resized_as_numbers(way: str) -> None:
    name, args = WAYS[way]
    symbolic = program(name, N, M, **args)
    for size, to in ((5, 16), (7, 3), (4, 4), (1, 5), (5, 1), (3, 9), (6, 4), (10, 7), (2, 2)):
        given = images(size, to)
        (found,), (wanted,) = run(symbolic, given).values(), run(program(name, size, to, **args), given).values()
        np.testing.assert_array_equal(found, wanted, err_msg=f"{size} to {to}")


@pytest.mark.parametrize("factor", [2.0, 1.5, 0.75])
@pytest.mark.parametrize("way", WAYS)
def test_symbols_are_resized_by_a_factor(way: str, factor: float) -> None:
    name, args = WAYS[way]
    args = {**args, "scale_factors": [factor]}
    for size in (1, 4, 5, 8, 9):
        given = images(size, 1)
        if int(size * factor):
            (found,), (wanted,) = (run(program(name, d, None, **args), given).values() for d in (N, size))
            np.testing.assert_array_equal(found, wanted, err_msg=str(size))


def test_a_factor_whose_product_pytorch_may_round_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"a size times 0\.3 is not handled"):
        program("upsample_nearest1d", N, None, scale_factors=[0.3])
    assert program("upsample_nearest1d", 10, None, scale_factors=[0.3]).main.result_type.static_shape == (1, 1, 3)


def test_antialias_by_hand() -> None:
    """Four elements become two: each the mean of the three within two of its middle, by 3 : 3 : 1; of Keys' curve the
    coefficient is -0.5. What is beyond the reach takes no part, though it is infinite."""
    x, builder = var("x", TensorType((1, 1, 1, 4), F)), HloBuilder()
    for name, weights in (("bilinear", [3, 3, 1]), ("bicubic", None)):
        args = {"self": x, "output_size": [1, 2], "align_corners": False}
        body = ATEN[f"_upsample_{name}2d_aa"](AtenNode(builder, "aa", "default", args))
        assert isinstance(body, Expr)
        oracle = Oracle(Module({"main": function([x], builder.around(body, builder.scope))}))
        given = {"x": np.float32([[[[1, 5, -2, np.inf]]]])}
        (y,) = run(oracle.module, given).values()
        if weights is not None:
            np.testing.assert_allclose(y[0, 0, 0, 0], np.dot(weights, [1, 5, -2]) / 7, rtol=1e-6)
        assert np.isinf(y[0, 0, 0, 1])
        builder = HloBuilder()
    with pytest.raises(Unsupported, match="antialias along an axis of size n"):
        args = {"self": var("x", TensorType((1, 1, 1, N), F)), "output_size": [1, 2], "align_corners": False}
        ATEN["_upsample_bilinear2d_aa"](AtenNode(builder, "aa", "default", args))


def test_parts_of_a_symbolic_axis() -> None:
    symbolic = program("adaptive_avg_pool1d", N, None, output_size=[3])
    for size in (1, 2, 3, 5, 8, 9):
        given = images(size, 1)
        (found,) = run(symbolic, given).values()
        (wanted,) = run(program("adaptive_avg_pool1d", size, None, output_size=[3]), given).values()
        np.testing.assert_array_equal(found, wanted)


def test_a_place_that_is_not_known_is_no_crash_of_the_oracle() -> None:
    """Coordinates that are computed in a run may lie on either side of a whole number."""
    oracle, given = Oracle(program("upsample_linear1d", N, M, align_corners=False)), images(5, 3)
    (wanted,) = run(oracle.module, given).values()
    (name,) = oracle.module.main.attrs.get("outputs", ()) or oracle.expected(given).possible
    assert oracle.judge(given, {name: wanted}).outcome in ("right", "undecided")


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.pt2")), ids=lambda p: p.stem)
def test_programs_of_given_sizes_are_those_of_symbols(path: Path) -> None:
    """Read with numbers for the symbols, each means what it means with these bound later."""
    module = parse_torch_export(path.read_bytes())
    free = list(dict.fromkeys(s for p in module.main.params for s in symbols(p.type)))
    for at in fitting_sizes(module, free, 2) if free else ():
        sizes = {s.name: n for s, n in at.items()}
        read = parse_torch_export(path.read_bytes(), sizes=sizes)
        assert not [s for p in read.main.params for s in symbols(p.type)]
        inputs = make_inputs(read, "random", 0, {})
        if not takes(read, inputs):
            continue
        for name, wanted in run(sized(module, sizes), inputs).items():
            np.testing.assert_array_equal(run(read, inputs)[name], wanted)


def test_an_affine_grid_may_be_rounded_on_its_way() -> None:
    """ATen counts from -1 to 1 and makes that narrower, where PyTorch's decomposition counts in the narrower range."""
    theta, builder = var("theta", TensorType((1, 2, 3), F)), HloBuilder()
    args = {"theta": theta, "size": [1, 1, 2, 4], "align_corners": False}
    body = ATEN["affine_grid_generator"](AtenNode(builder, "affine", "default", args))
    assert isinstance(body, Expr)
    module = Module({"main": function([theta], builder.around(body, builder.scope))})
    given = {"theta": np.float32([[[1, 0, 0], [0, 2, 10]]])}
    (y,) = run(module, given).values()
    x = np.float32([-0.75, -0.25, 0.25, 0.75])
    right = np.stack([np.stack([x, np.full(4, at)], axis=1) for at in (9, 11)])[None]
    np.testing.assert_allclose(y, right, atol=3e-7)
    (name,) = Oracle(module).expected(given).possible
    for off, outcome in ((0.0, "right"), (6e-8, "right"), (1e-5, "wrong")):
        found = (right + np.float32([off, 0])).astype(np.float32)
        assert Oracle(module).judge(given, {name: found}).outcome == outcome


SIZE = "Symbol('s7', positive=True, integer=True)"


def test_sizes_that_are_cut_off_products() -> None:
    text = f"TruncToInt(Mul(Float('{{}}', precision=53), ToFloat({SIZE})))"
    assert [Sizes({"s7": n}).dim(text.format("1.5")) for n in (1, 2, 5)] == [1, 3, 7]
    assert str(Sizes({}).dim(text.format("0.5"))) == "(s7 // 2)"
    for wrong, why in (
        (text.format("0.3"), "a size times 0.3"), (text.format("-1.5"), "is not handled"),
        (f"Mul(Float('1.5', precision=53), ToFloat({SIZE}))", "is not handled"),
        (f"TruncToInt({SIZE})", "is not handled"), (f"Mul(Float('1.5', precision=53), {SIZE})", "is not handled"),
        ("TruncToInt(Rational(1, 2))", "is not handled"),
    ):  # fmt: skip
        with pytest.raises(Unsupported, match=why):
            Sizes({}).dim(wrong)
