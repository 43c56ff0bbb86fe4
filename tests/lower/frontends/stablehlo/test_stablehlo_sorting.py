"""A sort of StableHLO by keys that are read off its region, and regions that only look as if they had some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.semantics.errors import Unsupported
from assay.verify.oracle import Oracle

SIZE = 4200
"""More than the pairs that are compared."""

CANONICAL = """%z = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %e1 = stablehlo.compare EQ, %a, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s1 = stablehlo.select %e1, %z, %a : tensor<i1>, tensor<f32>
    %m1 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %k1 = stablehlo.select %m1, %n, %s1 : tensor<i1>, tensor<f32>
    %e2 = stablehlo.compare EQ, %b, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s2 = stablehlo.select %e2, %z, %b : tensor<i1>, tensor<f32>
    %m2 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %k2 = stablehlo.select %m2, %n, %s2 : tensor<i1>, tensor<f32>
"""
"""What JAX compares floats by: -0 as 0, and every NaN as one."""


def compared(way: str, a: str, b: str, of: str, name: str = "r") -> str:
    """A comparison."""
    return (
        f"    %{name} = stablehlo.compare {way[:2]}, {a}, {b}, {way[3:]} : (tensor<{of}>, tensor<{of}>) -> tensor<i1>\n"
    )


def sort(region: str, size: int | str = SIZE, of: str = "f32") -> str:
    """A main that sorts floats and whole numbers together; %a and %b are of the first, %c and %d of the second."""
    x, k = f"tensor<{size}x{of}>", f"tensor<{size}xi32>"
    return f"""func.func @main(%x: {x}, %k: {k}) -> ({x}, {k}) {{
  %0:2 = "stablehlo.sort"(%x, %k) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<{of}>, %b: tensor<{of}>, %c: tensor<i32>, %d: tensor<i32>):
    {region}    stablehlo.return %r : tensor<i1>
  }}) : ({x}, {k}) -> ({x}, {k})
  return %0#0, %0#1 : {x}, {k}
}}"""


FLOATS = CANONICAL + compared("LT TOTALORDER", "%k1", "%k2", "f32")


def lexical(second: str, equal: tuple[str, str] = ("%c", "%d")) -> str:
    """An order by the whole numbers, the largest first, and then by another comparison, `%q`."""
    return (
        second
        + compared("GT SIGNED", "%c", "%d", "i32", "p")
        + compared("EQ SIGNED", *equal, "i32", "e")
        + "    %g = stablehlo.and %e, %q : tensor<i1>\n    %r = stablehlo.or %p, %g : tensor<i1>\n"
    )


def drawn(size: int) -> dict[str, Any]:
    """Floats with ties, zeros of both signs, infinities and NaN, and few whole numbers."""
    rng = np.random.default_rng(3)
    x = rng.integers(-40, 40, size).astype(np.float32) / 8
    x[:8] = [np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, 0.0, -0.0]
    return {"x": rng.permutation(x), "k": rng.integers(0, 9, size).astype(np.int32)}


def ranked(x: Any) -> Any:
    """Numbers in whose order NumPy has JAX's: NaN last."""
    return np.where(np.isnan(x), np.inf, np.where(np.isinf(x), np.sign(x) * 1e9, x + 0.0))


def given(text: str, inputs: dict[str, Any]) -> list[Any]:
    """What a run gives."""
    return list(run(parse_stablehlo(text), inputs).values())


@pytest.mark.parametrize("size", [SIZE, "?"])
def test_floats_are_sorted_as_jax_does_it(size: int | str) -> None:
    inputs = drawn(SIZE)
    order = np.argsort(ranked(inputs["x"]), kind="stable")
    for found, name in zip(given(sort(FLOATS, size), inputs), ("x", "k"), strict=True):
        np.testing.assert_array_equal(found, inputs[name][order])


@pytest.mark.parametrize("region", [compared("LT SIGNED", "%d", "%c", "i32"), compared("GT SIGNED", "%c", "%d", "i32")])
def test_the_sides_may_be_exchanged(region: str) -> None:
    inputs = drawn(SIZE)
    order = np.argsort(-inputs["k"], kind="stable")
    np.testing.assert_array_equal(given(sort(region), inputs)[0], inputs["x"][order])


def test_several_keys_order_one_after_the_other() -> None:
    inputs = drawn(SIZE)
    order = np.lexsort((ranked(inputs["x"]), -inputs["k"]))
    region = lexical(CANONICAL + compared("LT TOTALORDER", "%k1", "%k2", "f32", "q"))
    for found, name in zip(given(sort(region), inputs), ("x", "k"), strict=True):
        np.testing.assert_array_equal(found, inputs[name][order])


ALMOST = {
    "one side has another function": CANONICAL + compared("LT TOTALORDER", "%s1", "%k2", "f32"),
    "one operand with another": "%h = stablehlo.convert %c : (tensor<i32>) -> tensor<f32>\n"
    + compared("LT TOTALORDER", "%h", "%b", "f32"),
    "one side alone": compared("LT SIGNED", "%c", "%c", "i32"),
    "numbers, of which NaN is none": compared("LT FLOAT", "%a", "%b", "f32"),
    "equal ones too": compared("LE SIGNED", "%c", "%d", "i32"),
    "both sides on each": "%h = stablehlo.add %c, %d : tensor<i32>\n" + compared("LT SIGNED", "%h", "%c", "i32"),
    "where another key is equal": lexical(
        "%v = stablehlo.abs %c : tensor<i32>\n    %w = stablehlo.abs %d : tensor<i32>\n"
        + compared("LT TOTALORDER", "%a", "%b", "f32", "q"),
        ("%v", "%w"),
    ),
    "where one side is equal to itself": lexical(compared("LT TOTALORDER", "%a", "%b", "f32", "q"), ("%c", "%c")),
}


@pytest.mark.parametrize("region", ALMOST.values(), ids=ALMOST)
def test_what_only_looks_like_keys_is_not_taken_for_them(region: str) -> None:
    with pytest.raises(Unsupported, match=f"not seen to compare keys, and {SIZE} elements"):
        parse_stablehlo(sort(region))


def test_a_region_without_keys_asks_for_all_pairs() -> None:
    inputs = {name: value[:9] for name, value in drawn(SIZE).items()}
    inputs["x"] = np.array([3, -1, 2, 2, -5, 0, 9, 1, 3], np.float32)
    found = given(sort(compared("LT FLOAT", "%a", "%b", "f32"), 9), inputs)
    np.testing.assert_array_equal(found[1], inputs["k"][np.argsort(inputs["x"], kind="stable")])


@pytest.mark.parametrize("region", [compared("LT SIGNED", "%c", "%d", "i32"), compared("LT FLOAT", "%a", "%b", "f32")])
def test_equal_elements_of_a_sort_that_is_not_stable_may_change_places(region: str) -> None:
    """By keys and by pairs; no other element comes in their place."""
    inputs = {"x": np.array([2, 1, 2, 1, 3], np.float32), "k": np.array([2, 1, 2, 1, 3], np.int32)}
    beside = "k" if "FLOAT" in region else "x"
    inputs[beside] = np.array([10, 20, 30, 40, 50], inputs[beside].dtype)
    stable = sort(region, 5)
    for text, outcome in ((stable, "wrong"), (stable.replace("is_stable = true", "is_stable = false"), "open")):
        module = parse_stablehlo(text)
        oracle, ours = Oracle(module), run(module, inputs)
        expected = oracle.expected(inputs)
        assert oracle.judge(expected, ours).outcome == "right"
        name = next(n for n in ours if ours[n].max() == 50)
        assert oracle.judge(expected, {**ours, name: ours[name][[1, 0, 2, 3, 4]]}).outcome == outcome
        assert oracle.judge(expected, {**ours, name: ours[name][[0, 1, 2, 4, 3]]}).outcome == "wrong"
