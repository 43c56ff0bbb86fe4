"""The check of fused tensor functions: it passes what is right, and refuses every fault of the museum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.interp import vector
from assay.semantics.dtypes import FLOAT32
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, apply
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor import Buffer, PrimFunc, loops, seq, store
from assay.verify.compare import step_outside
from assay.verify.evidence import Evidence
from assay.verify.fuse_terms import Terms, Unproved, results
from assay.verify.stages import STAGES, Context
from tests.lower import fusing
from tests.lower.fusing import Program, fused, legalized, only_group, random
from tests.museum.fuse_faults import FAULTS, Fault

pytestmark = pytest.mark.row("R23")

(STAGE,) = (s for s in STAGES if s.name == "fuse")


def verdict(before: Module, after: Module) -> Evidence:
    return STAGE.check(before, after, Context())


@pytest.mark.parametrize(
    "program",
    [
        fusing.conv_add_relu, fusing.conv_norm_clip, fusing.residual, fusing.diamond, fusing.second_user, fusing.transposed,
        fusing.summed, fusing.joined, fusing.around_a_pool, fusing.squares,
    ],
)  # fmt: skip
def test_what_is_right_is_proved(program: Program) -> None:
    before, after = fused(program)
    found = verdict(before, after)
    assert found.holds and found.how == "proved", found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_fault_is_found(fault: Fault) -> None:
    before = legalized(*fault.program())
    found = verdict(before, fault.transform(before))
    assert not found.holds and fault.said in found.detail, found.detail


# --- terms ---------------------------------------------------------------------------------------------------------


def terms_of(func: PrimFunc, terms: Terms, **sizes: int) -> list[list[int | None]]:
    symbols = {d: sizes[d.name] for b in func.params for d in b.shape if isinstance(d, Symbol)}
    counts = [int(np.prod([d if isinstance(d, int) else symbols[d] for d in b.shape])) for b in func.inputs]  # type: ignore[index]
    return results(func, [terms.inputs(i, n) for i, n in enumerate(counts)], symbols, terms)


def summing(order: int, of: Buffer) -> PrimFunc:
    out = Buffer("out", (), FLOAT32)
    start = store(out, (), 0)
    return PrimFunc("s", (of, out), 1, seq(start, loops("k", (5,), lambda k: store(out, (), out[()] + of[k * order + (4 if order < 0 else 0)]))))


def test_terms_keep_the_order_of_additions() -> None:
    a = Buffer("a", (5,), FLOAT32)
    terms = Terms(10_000)
    forwards, again, backwards = (terms_of(summing(o, a), terms) for o in (1, 1, -1))
    assert forwards == again and forwards != backwards


def test_terms_of_symbolic_sizes_and_unused_elements() -> None:
    n = Symbol("n")
    a, out = Buffer("a", (n,), FLOAT32), Buffer("out", (n,), FLOAT32)
    twice = PrimFunc("t", (a, out), 1, loops("i", (n,), lambda i: store(out, i, apply("neg", a[i]))))
    terms = Terms(10_000)
    assert terms_of(twice, terms, n=4)[0][:3] == terms_of(twice, terms, n=3)[0]


def test_terms_give_up_in_time() -> None:
    with pytest.raises(Unproved, match="too many"):
        terms_of(summing(1, Buffer("a", (5,), FLOAT32)), Terms(6))


def test_a_stored_module_is_checked_alike(tmp_path: Path) -> None:
    before, after = fused(fusing.conv_norm_clip)
    modules = []
    with (tmp_path / "tensors").open("wb") as file:
        texts = [encode(m, ArrayWriter(file)) for m in (before, after)]
    for text in texts:
        modules.append(decode(text, ArrayReader(tmp_path / "tensors")))
    assert verdict(*modules).how == "proved"


def test_a_step_that_is_a_group_is_judged_by_the_bounds_of_its_calls() -> None:
    _, after = fused(fusing.residual)
    kernel, inputs = only_group(after), random(after.main.params)
    (other,) = vector.run(after.kernel("matmul"), [inputs["a"], inputs["w"]])
    given = [inputs["a"], inputs["v"], other]
    (right,) = vector.run(kernel, given)
    assert step_outside(kernel, after, given, [right]) is None
    assert step_outside(kernel, after, given, [right * np.float32(1 + 2**-22)]) is None, "a rounding is within the bounds"
    assert step_outside(kernel, after, given, [right + np.float32(0.01)]) is not None
