"""What calls say of the sizes of a tensor function: only what all of them agree on."""

from __future__ import annotations

import pytest

from assay.semantics.text.module_text import parse
from assay.verify.symbolic import prove_accesses
from assay.verify.symbolic.callers import callers

PROGRAM = """n = TypeVar("n")
m = TypeVar("m")
a = TypeVar("a")
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def filled(y: T.Buffer((a,), "int64"), k: T.int64, l: T.int64):
        for i in range(a):
            with T.sblock("b"):
                v = T.axis.spatial(a, i)
                y[v] = T.if_then_else(v < k * l, k, l)
    @R.function
    def main(x: R.Tensor((n, m), "float32"), z: R.Tensor((m, n), "float32")):
        y = R.call_tir(filled, (), R.Tensor((n,), "int64"), tir_vars=R.shape([n, m]))
        w = R.call_tir(filled, (), R.Tensor((m,), "int64"), tir_vars=R.shape([n, m]))
        return (x, y, w)
"""


CALL = "tir_vars=R.shape([n, m])"
SECOND = f'(m,), "int64"), {CALL}'
FAULTS = {
    "a call with other sizes": (SECOND, SECOND.replace("[n, m]", "[m, n]"), {}),
    "a number": (CALL, CALL.replace("n,", "3,"), {"l": "m"}),
    "no size of an input": (CALL, CALL.replace("n,", "n * n,"), {"l": "m"}),
}


def test_scalars_that_are_sizes_of_the_inputs() -> None:
    """Of any numbers the product wraps; of sizes of a tensor that fits in memory it does not."""
    module = parse(PROGRAM)
    kernel = module.kernels["filled"]
    of = callers(kernel, module)
    assert {own.name: size.name for own, size in of.meant.items()} == {"k": "n", "l": "m"}
    assert prove_accesses(kernel, functions=module.kernels).verdict == "refuted"
    assert prove_accesses(kernel, functions=module.kernels, around=of.inputs).verdict == "proved"
    assert of.bounds({"n": (1, 4), "m": (2, None)}) == {"k": (1, 4), "l": (2, None)}


@pytest.mark.parametrize("fault", FAULTS)
def test_calls_that_do_not_agree_say_nothing(fault: str) -> None:
    old, new, meant = FAULTS[fault]
    assert old in PROGRAM
    module = parse(PROGRAM.replace(old, new))
    of = callers(module.kernels["filled"], module)
    assert {own.name: size.name for own, size in of.meant.items()} == meant and not of.inputs
    assert of.bounds({"n": (1, 4), "m": (2, None)}) == ({"l": (2, None)} if meant else {})
