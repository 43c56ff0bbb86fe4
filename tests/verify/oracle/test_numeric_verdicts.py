"""Right and wrong numbers, told apart: no right way is called wrong, every bug is found by at least one layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import dtype
from assay.semantics.module import Module
from assay.verify.judge.outcome import tensor_error
from assay.verify.oracle import Accepts, Oracle, Verdict
from assay.verify.oracle.verdict import ulp, worst_exact
from tests.verify.oracle import numeric_faults as product, numeric_operators as operators

Array = np.ndarray[Any, Any]


def matmul() -> Module:
    b = Builder()
    with b.function("main", x=tensor(product.M, product.K), w=tensor(product.K, product.N)) as f:
        b.result(b.matmul(f.x, f.w))
    return b.module()


def mark(v: Verdict) -> str:
    """How a table shows a verdict: the layer that has found it wrong, with + where only all errors together tell."""
    if v.outcome != "wrong":
        return v.outcome
    return v.layer + ("+" if "the errors" in v.detail else "")


@pytest.mark.parametrize("of", [np.float16, np.float32, np.float64])
def test_units_in_the_last_place_are_told_over_the_whole_range(of: Any) -> None:
    """Near the end of float64's range twice a power of two is infinite."""
    top, least = np.finfo(of).max, np.finfo(of).smallest_normal
    want = np.array([1.0, -1.5, top / 2, -top, 0.0, least], of)
    spacing = np.abs(np.nextafter(want, of(0)) - want)
    spacing[[0, 4, 5]] = [np.finfo(of).eps, np.finfo(of).smallest_subnormal, np.finfo(of).smallest_subnormal]
    assert np.array_equal(ulp(want, dtype(of)), spacing.astype(np.float64))
    got = np.nextafter(want, of(0), out=want.copy(), where=want != 0)
    worst = worst_exact("y", want[3:4], got[3:4])
    assert worst is not None and worst.excess == 1
    error = tensor_error("y", want[3:4], got[3:4])
    assert error is not None and error.error == 1
    far = worst_exact("y", np.zeros(1, of), np.array([top]))
    assert far is not None and far.excess > 1e6


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", product.DATA)
def test_no_right_product_is_called_wrong(kind: str, seed: int) -> None:
    a, b = product.operands(kind, seed)
    for accepts, ways in ((Accepts(), product.RIGHT), (Accepts(splits=True), product.RIGHT | product.SPLIT)):
        oracle = Oracle(matmul(), accepts=accepts)
        for name, way in ways.items():
            verdict = oracle.judge({"x": a, "w": b}, {"output_0": way(a, b)})
            assert verdict.outcome == "right", f"{name} on {kind}: {verdict}"


def product_table() -> dict[tuple[str, str], str]:
    """The layer that says that it is wrong, or the outcome, for each way and each kind of data."""
    oracle = Oracle(matmul())
    found = {}
    for kind in product.DATA:
        a, b = product.operands(kind, 0)
        for name, way in (product.LOW | product.WRONG).items():
            found[name, kind] = mark(oracle.judge({"x": a, "w": b}, {"output_0": way(a, b)}))
    return found


def shown(found: Mapping[tuple[str, str], str]) -> str:
    """A table with a row for each way and a column for each kind of data."""
    rows, columns = list(dict.fromkeys(k[0] for k in found)), list(dict.fromkeys(k[1] for k in found))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {r} | " + " | ".join(found.get((r, c), "") for c in columns) + " |" for r in rows]
    return "\n".join(lines)


def test_every_wrong_product_is_found() -> None:
    found = product_table()
    print("\n" + shown(found))
    for name in product.WRONG:
        assert found[name, "integers"] == "integers", f"{name}: {found[name, 'integers']}"
    wrong = Counter(name in product.WRONG for (name, _), m in found.items() if m not in ("right", "undecided"))
    assert wrong[True] >= 44, (
        "of 49: on cancelling data four bugs are below what roundings do, as is 2e-6 on uniform data"
    )
    assert wrong[False] >= 21, "of 28: fewer bits are exact on integers, and below the roundings of a large term"


def test_errors_together_tell_what_no_element_does() -> None:
    """A factor of 1 + 2e-6 keeps every element inside its interval."""
    found = product_table()
    assert found["x (1 + 2e-6)", "positive"] == "dot product+"
    assert found["+ 1e-5 of the largest", "uniform"] == "dot product+"
    assert found["x (1 + 2e-6)", "uniform"] == "right", "there the sums cancel: below what roundings do"


@pytest.mark.parametrize("name", operators.CASES)
def test_operators(name: str) -> None:
    """A sum, a softmax, a convolution, poolings, elementwise functions: right ways pass on all data, and each wrong way
    is found on at least one kind."""
    case = operators.CASES[name]
    oracle = Oracle(case.module)
    found = {}
    for kind in case.kinds:
        inputs = oracle.inputs(kind, seed=1)
        arrays = list(inputs.values())
        with np.errstate(all="ignore"):
            for way, run in case.right.items():
                verdict = oracle.judge(inputs, {"output_0": run(*arrays)})
                assert verdict.outcome in ("right", "undecided"), f"{way} on {kind}: {verdict}"
            for way, run in case.wrong.items():
                found[way, kind] = mark(oracle.judge(inputs, {"output_0": run(*arrays)}))
    print(f"\n{name}\n" + shown(found))
    for way in case.wrong:
        assert any(found[way, kind] not in ("right", "undecided") for kind in case.kinds), f"{way} is found nowhere"
