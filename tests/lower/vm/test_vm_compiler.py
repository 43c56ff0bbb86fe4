"""What the compiler writes: names, last calls, views, storage that is used again, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.vm import to_bytecode
from assay.semantics.bytecode import (
    AllocateStorage,
    AllocateTensor,
    Bytecode,
    Instruction,
    InvokeClosure,
    InvokeFunction,
    InvokeKernel,
    MakeClosure,
    MatchType,
    ReturnCall,
    ReturnCallClosure,
    ViewTensor,
    ends,
    target,
)
from assay.semantics.bytecode.listing import function_listing, listing
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.text.module_text import parse
from tests.interp.vm.test_vm_programs import read
from tests.interp.vm.vm_runs import difference, front, text
from tests.shown.case import HEAD
from tests.verify.whole.size_programs import programs

SPEC = Path(__file__).parents[3] / "specs" / "vm.md"


def code_of(body: str) -> Bytecode:
    return to_bytecode(text(body)).bytecode


def main_of(body: str) -> Sequence[Instruction]:
    return code_of(body).main.body


def count(body: Sequence[Instruction], of: type[Instruction]) -> int:
    return sum(isinstance(i, of) for i in body)


def function_of(params: str, *statements: str) -> str:
    lines = [f"    def main({params}):", *(f"        {s}" for s in statements)]
    return "\n".join(["    @R.function", *lines]) + "\n"


def test_the_listing_of_the_chapter_is_what_is_made(tmp_path: Path) -> None:
    program = next(p for p in programs() if p.name == "count_loop")
    code = to_bytecode(front(read(program.write(tmp_path)))).bytecode
    lines = [line.split("  #")[0] for line in function_listing(code.functions["sum_up"])]
    page = SPEC.read_text("utf-8")
    assert "\n".join(f"    {line}" for line in lines) in page


def test_every_instruction_has_its_row_in_the_chapter() -> None:
    from assay.semantics.bytecode import INSTRUCTIONS

    page = SPEC.read_text("utf-8")
    assert [i.__name__ for i in INSTRUCTIONS if f"`{i.__name__}`" not in page] == []


def test_the_listing_has_the_names_of_the_source() -> None:
    chain = ["second = A.cumsum(first, axis=0)", "return A.cumsum(second, axis=0)"]
    said = "\n".join(listing(code_of(function_of('first: R.Tensor((2,), "float32")', *chain))))
    assert "%0 first: Tensor((2), float32)" in said
    assert "invoke kernel cumsum (%0 first) -> (%2 second)" in said


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["4", "'n'"])
def test_a_chain_needs_two_storages(size: str) -> None:
    chain = [f"x{i + 1} = A.cumsum(x{i}, axis=0)" for i in range(8)]
    body = main_of(function_of(f'x0: R.Tensor(({size},), "float32")', *chain, "return x8"))
    assert count(body, InvokeKernel) == count(body, AllocateTensor) == 8
    assert count(body, AllocateStorage) == 3  # the result has one for itself


def test_a_smaller_tensor_is_put_where_a_larger_one_lay_for_all_sizes() -> None:
    """n elements where n + 1 were, and never the other way round."""
    body = main_of(
        function_of(
            'x: R.Tensor(("n",), "float32"), x0: R.Tensor((1,), "float32")',
            "c = A.cumsum(R.negative(x), axis=0)",
            "d = R.sum(c)",
            "a = A.cumsum(R.concat((x, x0)), axis=0)",
            "b = R.sum(a)",
            "e = A.cumsum(R.exp(x), axis=0)",
            "return R.add(R.add(d, b), R.sum(e))",
        )
    )
    made = {i.to: str(i.nbytes) for i in body if isinstance(i, AllocateStorage)}
    inside = [(str(i.type.shape[0]), made[i.storage]) for i in body if isinstance(i, AllocateTensor) and i.type.shape]
    assert ("n", "((n + 1) * 4)") in inside
    assert [room for size, room in inside if size == "(n + 1)" and room != "((n + 1) * 4)"] == []


def test_what_escapes_keeps_its_storage() -> None:
    chain = ["a = A.cumsum(x, axis=0)", "b = A.cumsum(a, axis=0)", "c = A.cumsum(b, axis=0)"]
    kept = function_of('x: R.Tensor((4,), "float32")', *chain, "return (a, b, c)")
    assert count(main_of(kept), AllocateStorage) == 3


def test_storage_of_one_arm_is_not_used_in_the_other() -> None:
    low = text(
        """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            r = A.cumsum(A.cumsum(A.cumsum(x, axis=0), axis=0), axis=0)
        else:
            r = A.cumsum(A.cumsum(A.cumsum(R.negative(x), axis=0), axis=0), axis=0)
        return r
"""
    )
    for c in (True, False):
        assert difference(low, {"c": np.array(c), "x": np.float32([1, 2, 3, 4])}) == ""


@pytest.mark.row("J14")
def test_reshapes_are_views() -> None:
    body = main_of(
        function_of(
            'x: R.Tensor((2, 6), "float32")',
            "return R.reshape(R.reshape(A.cumsum(x, axis=0), (3, 4)), (12,))",
        )
    )
    assert count(body, InvokeKernel) == 1 and 1 <= count(body, ViewTensor) <= 2


# --- calls --------------------------------------------------------------------------------------------------------


LOOP = """
    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor(("n",), "float32")):
        n = T.int64()
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            if R.less(i, R.const(1, "int32")):
                r = s
            else:
                r = loop(R.subtract(i, k), R.add(s, x))
            return r
        return loop(R.const(5, "int32"), x)
"""


def test_a_local_loop_captures_values_sizes_and_itself() -> None:
    low = text(LOOP)
    code = to_bytecode(low).bytecode
    (closure,) = [i for i in code.main.body if isinstance(i, MakeClosure)]
    loop = code.functions[closure.function]
    assert closure.itself is not None and len(closure.captured) == 2 and loop.captured == 3
    assert [v.name for v in loop.sizes[: loop.inherited]] == ["n"] and len(closure.sizes) == 1
    assert count(loop.body, ReturnCallClosure) == 1 and count(loop.body, InvokeClosure) == 0
    assert difference(low, {"k": np.int32(2), "x": np.float32([1, 2, 3])}) == ""


CHECKED = """
    @R.function
    def any_size(x: R.Tensor(("n",), "float32")) -> R.Tensor(("m",), "float32"):
        m = T.int64()
        y: R.Tensor((m,), "float32") = R.match_cast(x, R.Tensor((m,), "float32"))
        return y
    @R.function
    def main(x: R.Tensor(("n",), "float32"), z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = Module.any_size(x)
        w = R.match_cast(y, R.Tensor((3,), "float32"))
        return w
    @R.function
    def plain(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return Module.plain(x)
"""


def test_a_call_whose_value_is_still_to_be_checked_is_no_last_call() -> None:
    low = text(CHECKED)
    code = to_bytecode(low).bytecode
    assert count(code.main.body, InvokeFunction) == 1 and count(code.main.body, ReturnCall) == 0
    assert any(isinstance(i, MatchType) and i.label == "match_cast.T1" for i in code.main.body)
    for n in (3, 4):
        assert difference(low, {"x": np.zeros(n, np.float32), "z": np.zeros(3, np.float32)}) == ""


def test_every_way_through_a_function_ends() -> None:
    for body in (LOOP, CHECKED):
        for f in code_of(body).functions.values():
            assert ends(f.body[-1])
            assert all(number < t < len(f.body) for number, i in enumerate(f.body) if (t := target(i)) is not None)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_is_refused() -> None:
    operators = parse(HEAD + function_of('x: R.Tensor((2,), "float32")', "return R.exp(x)"))
    with pytest.raises(Unsupported) as left:
        to_bytecode(operators)
    assert left.value.label == "vm.C1"
    region = """
    @R.function
    def region(x: R.Tensor((2,), "float32")):
        R.func_attr({"compiler": "mine"})
        return R.multiply(x, R.const(3.0, "float32"))
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.add(Module.region(x), x)
"""
    with pytest.raises(Unsupported) as whole:
        to_bytecode(text(region))
    assert whole.value.label == "vm.C3" and whole.value.where is not None


def test_a_size_that_has_no_name_is_refused() -> None:
    """With explicit shapes memory is wanted for sizes that no statement names; the graph interpreter asks for none."""
    low = text(
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        R.func_attr({"explicit_shapes": True})
        return R.exp(x)
"""
    )
    with pytest.raises(Unsupported) as unnamed:
        to_bytecode(low)
    assert unnamed.value.label == "vm.C2"


LYING = """    @A.data(a)
    class Box:
        box = (a,)
    @R.function(type_params=(a,))
    def get(b: Box[a]) -> a:
        match b:
            case Box.box(v):
                r = v
        return r
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
        b = Box.box(x)
        c = R.match_cast(b, Box[R.Tensor((m,), "float32")])
        return RESULT
"""
"""Nobody looks into a data value: a cast of it may say other sizes than there are."""


@pytest.mark.parametrize("result", ["get(c)", "R.exp(get(c))", "inside"])
def test_what_comes_out_of_data_is_looked_at(result: str) -> None:
    body = LYING.replace("return RESULT", f"return {result}")
    if result == "inside":
        body = LYING.replace(
            "        return RESULT\n",
            "        match c:\n            case Box.box(w):\n                r = w\n        return r\n",
        )
    module = front(parse('a = A.typevar("a")\nn = TypeVar("n")\nm = TypeVar("m")\n' + HEAD + body))
    x, y = np.ones(2, np.float32), np.ones(3, np.float32)
    assert difference(module, {"x": x, "y": x}) == difference(module, {"x": x, "y": y}) == ""
    with pytest.raises(Trap, match="shape"):
        graph.run(module, {"x": x, "y": y})
