"""Failures as values (specs/semantics.md, "Observation")."""

from __future__ import annotations

import pickle

import pytest

from assay.semantics.errors import AssayError, BudgetSpent, Crash, Invalid, Span, Trap, Unsupported

FAILURES: tuple[AssayError, ...] = (
    Invalid("no such axis", where=Span("m.onnx", "c1"), label="concat.C2"),
    Unsupported("not yet"),
    BudgetSpent("too much", where="m.py"),
    Crash("never"),
    Trap(
        "bounds", "read at 9", right="0 to 8", buffer="A", index=(9,), iteration=(("i", 3),), where=Span("m.py", line=3)
    ),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: type(f).__name__)
def test_a_failure_goes_to_another_process(failure: AssayError) -> None:
    got = pickle.loads(pickle.dumps(failure))
    assert type(got) is type(failure) and str(got) == str(failure)
    assert (got.args, vars(got)) == (failure.args, vars(failure))
    assert str(got.at("elsewhere")) == str(failure.at("elsewhere"))
