"""The entry of C for unknown sizes, its loops, and loops in another order are read back; faults in them are not."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from assay.lower.c import CSource, emit
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import call, function, match_cast, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.steps import Branch, Continue, Loop, Step, flow
from assay.semantics.tensor import For, Seq
from assay.semantics.types import TensorType
from assay.verify.c import check_c
from assay.verify.c.reading import PLAIN, read_back
from assay.verify.c.reading.carried import carried_in
from assay.verify.c.reading.common import same_entry
from assay.verify.c.reading.entry import require_last
from assay.verify.c.reading.parse import CFile, read_file
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.sizes import has_factor
from assay.verify.c.reading.terms import Term, TermTable
from tests.lower.c.test_c_inward import CARRIED, STAY
from tests.lower.c.test_c_rows import lone
from tests.lower.liveness.liveness_programs import lowered
from tests.lower.liveness.test_loops import nested
from tests.verify.c.reading_programs import texts


def sized() -> Module:
    """Sizes n and m, which have to be equal, and two tensors in the workspace."""
    n, m = Var("n"), Var("m")
    x, w = var("x", TensorType((n, m), FLOAT32)), var("w", TensorType((m, 3), FLOAT32))
    square = match_cast(call("exp", x), TensorType((m, m), FLOAT32))
    return Module({"main": function([x, w], call("matmul", call("concat", square, x, axis=0), w))})


@cache
def entries() -> dict[str, tuple[Module, CSource]]:
    """The programs by name, with their C."""
    made = {"net": sized(), "loops": nested()}
    planned = {name: plan_pools(find_lives(lowered(module))) for name, module in made.items()}
    return {name: (module, emit(module, name)) for name, module in planned.items()}


@pytest.mark.parametrize("name", ["net", "loops"])
def test_an_entry_with_sizes_or_loops_is_read_back(name: str) -> None:
    module, source = entries()[name]
    found = read_back(source, module)
    assert found.holds, found
    assert found.calls == len(module.program.calls)


ENTRY_FAULTS: list[tuple[str, str, str, str]] = [
    # what, the program, what stands there, what stands there instead
    ("a size too large", "net", "n > NET_N_MAX", "n > NET_N_MAX + INT64_C(1)"),
    ("a size that is refused", "net", "n > NET_N_MAX", "n >= NET_N_MAX"),
    ("a size below 0", "net", "n < NET_N_MIN || ", ""),
    ("no size but one", "net", "    return NET_OK;\n}\n\nstatic enum",
     "    if (n == 7) {\n        return NET_BAD_SIZE;\n    }\n    return NET_OK;\n}\n\nstatic enum"),
    ("a number that is cut off", "net", "const int32_t n_2 = (int32_t)n;", "const int16_t n_2 = (int16_t)n;"),
    ("a product that overflows", "net", "(int64_t)n_2 * m_2", "n_2 * m_2"),
    ("a workspace rounded down", "net", "+ 63) / 64", "+ 59) / 64"),
    ("a place rounded down", "net", "plan->offset_lv2 = ", "plan->offset_lv2 = -64 + "),
    ("a place that is not aligned", "net", "plan->offset_lv2 = ", "plan->offset_lv2 = 2 + "),
    ("sizes exchanged in a call", "net",
     "(base + 0), plan->size_4, plan->size_5", "(base + 0), plan->size_5, plan->size_4"),
    ("a size of another name", "net", "plan->size_4 = n_2", "plan->size_4 = m_2"),
    ("an assertion the other way", "net", "plan->size_4 != plan->size_5", "plan->size_4 == plan->size_5"),
    ("an assertion that is weaker", "net", "plan->size_4 != plan->size_5", "plan->size_4 < plan->size_5"),
    ("an assertion with another status", "net", "        status = NET_BAD_SIZE;", "        status = NET_OVERLAP;"),
    ("sizes handed over in another order", "net", "int status = net_find_plan(n, m, &found)",
     "int status = net_find_plan(m, n, &found)"),
    ("arguments that are not checked", "net", "        status = (int)net_check(buffers, plan);",
     "        status = NET_OK;"),
    ("bytes of another argument", "net", "{(size_t)plan->size, (size_t)plan->size_1,",
     "{(size_t)plan->size, (size_t)plan->size_2,"),
    ("the caller is told too little", "net", "sizes->workspace_bytes = (size_t)plan->size_1",
     "sizes->workspace_bytes = (size_t)plan->size_2"),
    ("the caller is told nothing of one", "net", "    sizes->x_bytes = (size_t)plan->size_2;\n", ""),
    ("a member that is set twice", "net", "    plan->size_5 = m_2;\n",
     "    plan->size_5 = m_2;\n    plan->size_5 = n_2;\n"),
    ("a loop that is run once", "loops", "        again[0] = 1u;", "        again[0] = 0u;"),
    ("the inner loop for the outer one", "loops", "            again[0] = 1u;", "            again[1] = 1u;"),
    ("a loop that nothing resets", "loops", "        again[0] = 0u;\n", ""),
    ("a loop that asks for another", "loops", "&& again[1] != 0u", "&& again[0] != 0u"),
    ("a loop that asks the other way", "loops", "&& again[0] != 0u", "&& again[0] == 0u"),
    ("a loop that no status ends", "loops", "while (status == LOOPS_OK && again[0] != 0u)", "while (again[0] != 0u)"),
    ("too few bytes for the loops", "loops", "unsigned char loops[2];", "unsigned char loops[1];"),
    ("bytes of loops in the workspace", "loops", "unsigned char *const again = loops;",
     "unsigned char *const again = base;"),
    ("a loop that is none", "loops", "    } while (status == LOOPS_OK && again[0] != 0u);", "    } while (0);"),
    ("steps told behind a failure", "net", "_STEP(i) if (status ==", "_STEP(i) if (status !="),
    ("more where steps are told", "net", "int net_trace(int step);\n", "int net_trace(int step);\nstatic int more;\n"),
    ("the condition of a loop the other way", "loops", "LV15_LV1) != 0)", "LV15_LV1) == 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), [f[1:] for f in ENTRY_FAULTS], ids=[f[0] for f in ENTRY_FAULTS])
def test_a_fault_in_an_entry_is_not_read(name: str, old: str, new: str) -> None:
    module, source = entries()[name]
    assert old in source.source and old != new
    found = read_back(replace(source, source=source.source.replace(old, new, 1)), module)
    assert not found.holds


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("net", "plan->size_4 = n_2", "plan->size_4 = m_2"),
        ("net", "sizes->workspace_bytes = (size_t)plan->size_1", "sizes->workspace_bytes = (size_t)plan->size_2"),
        ("net", "(base + 0), plan->size_4, plan->size_5", "(base + 0), plan->size_5, plan->size_4"),
        ("loops", "            again[0] = 1u;", "            again[1] = 1u;"),
    ],
    ids=["a size", "what the caller is told", "a call", "a loop"],
)
@pytest.mark.parametrize("where", ["ifdef", "ifndef"])
def test_a_fault_in_one_configuration_of_an_entry_is_not_read(name: str, old: str, new: str, where: str) -> None:
    """What is the same in both is read once, and nothing else."""
    module, source = entries()[name]
    lines = source.source.split("\n")
    at = next(i for i, line in enumerate(lines) if old in line)
    wrong = lines[at].replace(old, new)
    lines[at : at + 1] = [f"#{where} {name.upper()}_REPRODUCIBLE", wrong, "#else", lines[at], "#endif"]
    assert wrong != lines[at + 3]
    assert not read_back(replace(source, source="\n".join(lines)), module).holds


def test_entries_are_the_same_only_where_all_that_they_hang_on_is() -> None:
    _, source = entries()["net"]

    def read(text: str, *macros: str) -> CFile:
        return read_file("net.h", source.header, text, {**PLAIN, **dict.fromkeys(macros, "1")})

    one = read(source.source)
    kernels = {n for n in one.functions if n.startswith("net_k_")}
    for macros in ((), ("NET_REPRODUCIBLE",)):
        assert kernels and same_entry(one, read(source.source, *macros), "net", kernels)
    numbers = {**one.numbers, "NET_N_MAX": 7}
    assert one.numbers != numbers and not same_entry(one, replace(one, numbers=numbers), "net", kernels)
    assert not same_entry(one, replace(one, constants={**one.constants, "NET_OK": 1}), "net", kernels)
    for name in ("net_run", "net_find_plan", "net_sizes", "net_check", "net_overlap"):
        other = replace(one.functions[name], tree=copy(one.functions[name].tree))
        assert not same_entry(one, replace(one, functions={**one.functions, name: other}), "net", kernels)
    kernel = min(kernels)
    heading = replace(one.functions[kernel], result="int8_t")
    assert not same_entry(one, replace(one, functions={**one.functions, kernel: heading}), "net", kernels)
    unknown = {n: f for n, f in one.functions.items() if n != "net_overlap"}
    assert not same_entry(one, replace(one, functions=unknown), "net", kernels)


def test_what_stands_behind_the_end_of_an_iteration_is_not_read() -> None:
    """The text goes on there, and the program does not."""
    step = Step("f", (), ())
    require_last(flow((Loop(3), Branch("is", 3, 3), Continue(), step)))
    for steps in ((Loop(3), Continue(), step), (Loop(4), Branch("is", 3, 3), Continue(), step)):
        with pytest.raises(NotRead, match="behind the one at which its loop begins anew"):
            require_last(flow(steps))


# --- loops in another order ------------------------------------------------------------------------------------------

NOT_READ = {"half floats, rounded at each step": "numbers of float16 are not read"}


@pytest.mark.parametrize("name", [*CARRIED])
def test_rows_with_short_loops_inside_are_read(name: str) -> None:
    module = lone(CARRIED[name]().kernel)
    found = read_back(emit(module, "m"), module)
    assert found.kernels == {"f": NOT_READ.get(name, "")}, found


@pytest.mark.parametrize("name", [*STAY])
def test_loops_whose_order_matters_stay(name: str) -> None:
    """Nothing of them is put into another order by the reader either."""
    kernel = STAY[name]().kernel
    assert isinstance(kernel.body, Seq)
    last = kernel.body.body[-1]
    assert isinstance(last, For) and carried_in(last) is None


CARRIED_FAULTS = [
    ("a step that is left out", " + x[row_2 + (int64_t)(j_2 + 2)] * w[2]", ""),
    ("a step that is done twice", " + x[row_2 + (int64_t)(j_2 + 2)] * w[2]", " + x[row_2 + (int64_t)(j_2 + 1)] * w[1]"),
    ("steps in another order", "x[row_2 + (int64_t)(j_2 + 1)] * w[1] + x[row_2 + (int64_t)(j_2 + 2)] * w[2]",
     "x[row_2 + (int64_t)(j_2 + 2)] * w[2] + x[row_2 + (int64_t)(j_2 + 1)] * w[1]"),
    ("a sum that begins anew", "= out[row + (int64_t)j_2] + x[", "= 0.0f + x["),
    ("memory that another has too", "float *restrict out", "float *out"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [f[1:] for f in CARRIED_FAULTS], ids=[f[0] for f in CARRIED_FAULTS])
def test_a_fault_in_rows_with_short_loops_inside_is_not_read(old: str, new: str) -> None:
    module = lone(CARRIED["a window along a row"]().kernel)
    source = emit(module, "m")
    assert old in source.source, source.source
    assert read_back(replace(source, source=source.source.replace(old, new)), module).read == 0


# --- what is certain -------------------------------------------------------------------------------------------------

CERTAIN = [
    ("a place of the pool", "net", "#define NET_OFFSET_T1 448u", "#define NET_OFFSET_T1 512u", "argument 1 of step"),
    ("another constant", "net", "INFINITY, 0x1.65p-140f", "INFINITY, 0x1.66p-140f", "whose element"),
    ("an argument for another", "odd", "status = odd_k_large(plane, last);", "status = odd_k_large(is, last);",
     "argument 0 of step"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "said"), [f[1:] for f in CERTAIN], ids=[f[0] for f in CERTAIN])
def test_a_certain_difference_fails(name: str, old: str, new: str, said: str) -> None:
    """Another place or constant than the plan's is refuted, with the two."""
    module, source = texts()[name]
    assert old in source.source
    changed = replace(source, source=source.source.replace(old, new, 1))
    assert read_back(changed, module).differs
    _, evidence, _ = check_c(changed, module)
    assert evidence.word == "FAILS" and said in evidence.detail, evidence


def test_operands_that_are_exchanged_are_left_open() -> None:
    """A sum comes to the same with its operands exchanged: that is not read, and nothing is said of it."""
    module, source = texts()["odd"]
    old = "odd_k_turned(real, whole,"
    assert old in source.source
    changed = source.source.replace(old, "odd_k_turned((const float *)(const void *)whole, whole,", 1)
    found = read_back(replace(source, source=changed), module)
    assert not found.holds and not found.differs


def test_another_nan_is_no_certain_difference() -> None:
    module, source = texts()["net"]
    bias = module.constants["bias"].copy()
    bias[1] = np.nan
    known = replace(module, constants={**module.constants, "bias": bias})
    bits = bias.view(np.uint32).copy()
    bits[1] |= 1
    other = replace(module, constants={**module.constants, "bias": bits.view(np.float32)})
    assert not read_back(emit(known, "net"), other).differs


def test_a_multiple_is_seen_by_its_form() -> None:
    """Of what is chosen every number has to be one: the offset of a buffer in a plan of several arrangements."""
    table = TermTable()
    n, taken = table.fresh("n", "int"), table.fresh("taken", "bool")

    def either(a: Term, b: Term) -> Term:
        return table.term("ite", (taken, a, b), "int")

    even, odd = table.total([(64, n)]), table.total([(64, n), (126, table.whole(1))])
    for right in (even, either(even, table.whole(128)), table.term("imax", (even, table.whole(8)), "int")):
        assert has_factor(right, 4) and has_factor(table.product(right, n), 4)
    for wrong in (odd, n, either(odd, even), either(even, odd), table.term("imin", (even, odd), "int")):
        assert not has_factor(wrong, 4)
    assert has_factor(table.total([(2, either(odd, even))]), 4) and not has_factor(table.product(n, n), 4)
