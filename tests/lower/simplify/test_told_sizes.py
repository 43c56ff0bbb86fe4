"""Sizes that are computed of sizes: numbers where those are, and left to the run where elements of inputs tell them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.interp.graph import evaluate, run
from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.lower.frontends.torch_export import parse_torch_export
from assay.lower.simplify.settle import with_dims_of_main
from assay.lower.simplify.told_sizes import with_told_sizes
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.graph import MatchCast
from assay.semantics.module import Module
from assay.semantics.types import ShapeType, TensorType, symbols
from assay.semantics.walk import post_order

PART = """func.func @main(%x: tensor<?xf32>, %k: tensor<1xi32>) -> tensor<?xf32> {{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %h = func.call @part(%n) : (tensor<i32>) -> tensor<i32>
  %end = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
  %y = stablehlo.real_dynamic_slice %x, %zero, {end}, %one
    : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}
func.func private @part(%n: tensor<i32>) -> tensor<i32> {{
  %c = stablehlo.constant dense<5> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %less = stablehlo.compare LT, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %half = stablehlo.divide %n, %two : tensor<i32>
  %off = stablehlo.subtract %n, %c : tensor<i32>
  %p = stablehlo.select %less, {less}, %half : tensor<i1>, tensor<i32>
  return %p : tensor<i32>
}}"""
"""The first part of a vector: how much of it a function of its length says, by elements that are computed."""


def at(n: int, end: str = "%end", less: str = "%n") -> Module:
    """The program at a length."""
    module = parse_stablehlo(PART.format(end=end, less=less))
    (symbol,) = (s for p in module.main.params for s in symbols(p.type))
    return with_dims_of_main(module, {symbol: n}, evaluate)


def measures(module: Module) -> bool:
    """Whether main measures a size by elements."""
    return any(isinstance(n, MatchCast) and isinstance(n.type, ShapeType) for n in post_order(module.main.body))


@pytest.mark.parametrize(("n", "size"), [(7, 3), (3, 3), (0, 0), (1, 1)])
def test_what_is_computed_of_numbers_is_a_number(n: int, size: int) -> None:
    module = at(n)
    result = module.main.result_type
    assert isinstance(result, TensorType) and result.shape == (size,) and not measures(module)
    x = np.arange(n, dtype=np.float32)
    (y,) = run(module, {"x": x, "k": np.ones(1, np.int32)}).values()
    assert y.tolist() == x[:size].tolist()
    assert f"tensor<{size}xf32>" in export_stablehlo(module), "what measures cannot be said"


def test_what_an_input_tells_is_left_to_the_run() -> None:
    module = at(7, end="%k")
    assert measures(module)
    with pytest.raises(Unsupported, match="only known in a run"):
        export_stablehlo(module)
    (y,) = run(module, {"x": np.arange(7, dtype=np.float32), "k": np.array([2], np.int32)}).values()
    assert y.tolist() == [0, 1]


def test_a_size_below_0_traps_as_before() -> None:
    module = at(3, less="%off")
    assert measures(module)
    with pytest.raises(Trap):
        run(module, {"x": np.arange(3, dtype=np.float32), "k": np.ones(1, np.int32)})


def test_a_size_that_is_computed_as_a_size() -> None:
    """PyTorch's 2 h, of which h is the half: what the cast is of is no tensor."""
    path = Path(__file__).parents[1] / "frontends" / "torch_export" / "programs" / "multiple.pt2"
    module = parse_torch_export(path.read_bytes(), path.name)
    (symbol,) = dict.fromkeys(s for p in module.main.params for s in symbols(p.type))
    assert measures(module) and not measures(with_dims_of_main(module, {symbol: 6}, evaluate))


def test_a_program_that_measures_nothing_is_the_same() -> None:
    module = at(7)
    assert with_told_sizes(module, evaluate) is module
