"""The check of fused tensor functions: it passes what is right, and refuses every fault of the museum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp import vector
from assay.semantics.module import Module
from assay.semantics.scalar import apply
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor import Store
from assay.semantics.walk import rewrite
from assay.verify.app.stages import STAGES
from assay.verify.compare import step_outside
from assay.verify.evidence import Context, Evidence
from assay.verify.fuse import check_fuse, check_group
from tests.lower.fuse import fusing
from tests.lower.fuse.fusing import Program, fused, only_group, random
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.fuse_faults import halves, trap_of_its_own
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("R23")

(STAGE,) = (s for s in STAGES if s.name == "fuse")


def verdict(before: Module, after: Module) -> Evidence:
    return STAGE.check(before, after, Context())


@pytest.mark.parametrize(
    "program",
    [
        fusing.conv_add_relu, fusing.conv_norm_clip, fusing.residual, fusing.diamond, fusing.second_user,
            fusing.transposed,
        fusing.summed, fusing.joined, fusing.around_a_pool, fusing.squares,
    ],
)  # fmt: skip
def test_what_is_right_is_proved(program: Program) -> None:
    before, after = fused(program)
    found = verdict(before, after)
    assert found.holds and found.how == "proved", found


@planted("fuse_faults")
def test_every_fault_is_found(fault: PlantedFault) -> None:
    is_caught(fault)


def test_whole_numbers_are_proved() -> None:
    """What is used twice has a name in the tensor function; it is data, as every element is."""
    before, after = fused(halves)
    found = verdict(before, after)
    assert found.holds and found.how == "proved", found


def test_what_is_too_long_is_only_run() -> None:
    before, after = fused(fusing.squares)
    kernel = only_group(after)
    assert check_group(kernel, after, 0).how == "proved" and check_group(kernel, after, 0, most=20).how == "checked"


def test_the_check_alone_sees_what_else_changed() -> None:
    before, after = fused(fusing.residual)
    negated = after.kernel("nn_relu")
    negated = replace(
        negated,
        body=rewrite(negated.body, lambda s: replace(s, value=apply("neg", s.value)) if isinstance(s, Store) else s),
    )
    assert "nn_relu has changed" in check_fuse(before, after.with_(nn_relu=negated)).detail
    one, two = ({"c": np.full(3, k, np.float32)} for k in (1, 2))
    found = check_fuse(replace(before, constants=one), replace(after, constants=two))
    assert not found.holds and "table of constants" in found.detail


def test_a_group_of_the_source_is_no_more_believed_than_a_new_one() -> None:
    _, after = fused(fusing.residual)
    kernel = only_group(after)
    wrong = after.with_(**{kernel.name: trap_of_its_own(kernel)})
    assert check_fuse(after, after).holds and not check_fuse(wrong, wrong).holds


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
    assert step_outside(kernel, after, given, [right * np.float32(1 + 2**-22)]) is None, (
        "a rounding is within the bounds"
    )
    assert step_outside(kernel, after, given, [right + np.float32(0.01)]) is not None
