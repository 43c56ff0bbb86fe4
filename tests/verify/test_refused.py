"""Rules of checks, of the command line and of files that other tests do not name: each is broken once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import evaluate
from assay.lower.constants.made import pack
from assay.lower.legalize import legalize
from assay.lower.liveness.problem import problem
from assay.lower.loops.layout import Layout
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import AssayError
from assay.semantics.graph import GlobalVar, call, call_tir, function, let, var
from assay.semantics.module import Branch, Continue, Item, Module, Program, Step
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.text.module_text import entry_name, parse
from assay.semantics.types import TensorType
from assay.verify.app.foreign import load_externs
from assay.verify.backends.protocol import call_prepared
from assay.verify.border.inputs import as_members, load_npz
from assay.verify.border.values import from_value
from assay.verify.evidence import Evidence
from assay.verify.fuzz.campaign import Campaign, Plan
from assay.verify.fuzz.targets import Result
from assay.verify.fuzz.worker import ExampleReport, Failure
from assay.verify.liveness.lives import check_lives
from assay.verify.memory.second import answers
from assay.verify.oracle.declarations import Accepts
from assay.verify.strategies import chosen_by
from assay.verify.value_numbering import group_results, step_results
from assay.verify.value_numbering.terms import Table
from tests.interp.test_machine import STEPS, module as planned
from tests.lower.fuse import fusing
from tests.lower.fuse.fusing import legalized, only_group
from tests.museum.faults.fuse_faults import group_in_a_group
from tests.verify.fuzz.test_fuzz import SMALL

V = TensorType((2,), FLOAT32)
X, Y = var("x", V), var("y", V)


def program(**changes: Any) -> Program:
    main = planned().definitions["main"]
    assert isinstance(main, Program)
    return replace(main, **changes)


def lives(**changes: Any) -> Evidence:
    return check_lives(program(**changes), planned().kernels)


def two_constants() -> Module:
    """A product of two constants of the table."""
    of = TensorType((3, 3), FLOAT32)
    one, two = (GlobalVar(of, n) for n in ("one", "two"))
    table = {n: np.ones((3, 3), np.float32) for n in ("one", "two")}
    return legalize(Module({"main": function([], call("matmul", one, two))}, table))


def group_of_itself() -> object:
    """The numbers of a fused call whose group calls it again."""
    module = group_in_a_group(legalized(*fusing.squares()))
    kernel = only_group(module)
    return step_results(kernel, list(range(len(kernel.inputs))), Table(), module)


def other_sizes() -> object:
    """A tensor function takes two tensors of one size, and a run gives two sizes."""
    k = Symbol("k")
    a, b, out = (Buffer(n, (k,), FLOAT32) for n in ("a", "b", "out"))
    add = PrimFunc("add", (a, b, out), 1, loops("i", (k,), lambda i: store(out, i, a[i] + b[i])))
    x, y = (var(n, TensorType((Symbol(s),), FLOAT32)) for n, s in (("x", "n"), ("y", "m")))
    module = Module({"main": function([x, y], call_tir("add", [x, y], x.type)), "add": add})
    from assay.interp.graph import run

    return run(module, {"x": np.zeros(2, np.float32), "y": np.zeros(3, np.float32)})


def changes(inputs: Any) -> dict[str, Any]:
    inputs["x"][...] = 1
    return {"y": inputs["x"]}


def generated_wrong() -> None:
    campaign = Campaign(Plan(("off",), SMALL, examples=1))
    failure = Failure(0, Result("crash", "generator", detail="no rule"), ())
    campaign._take(ExampleReport((0,), "off", failures=[failure]))


def without_hypothesis() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hypothesis", None)
        return chosen_by(lambda pick: pick(2))


BROKEN: dict[str, tuple[str, Callable[[], object]]] = {
    "a group that computes": (
        "fuse.C3",
        lambda: group_results(function([X], let(Y, call("exp", X), Y)), [0], lambda node, numbers: numbers),
    ),
    "a group in a group": ("fuse.C4", group_of_itself),
    "what is placed is no input": ("problem.C1", lambda: problem(program(), ["nothing"])),
    "two operands to lay out": ("made.C3", lambda: pack(two_constants(), lambda node, kernel, i: Layout((1, 0)))),
    "sizes that a tensor function does not take": ("call.T2", other_sizes),
    "an extern without a function": ("cli.C4", lambda: load_externs(["nothing"])),
    "an extern of no module": ("cli.C4", lambda: load_externs(["no_such_module:act"])),
    "an extern that is a number": ("cli.C4", lambda: load_externs(["math:pi"])),
    "an extern that raises": ("extern.T1", lambda: load_externs(["half=operator:truediv"])["half"](1, 0)),
    "a right that there is not": ("cli.C6", lambda: Accepts().excluding(["nothing"])),
    "no function of the name": ("text.C16", lambda: entry_name(Module({"f": function([X], X)}), "g")),
    "several functions": ("text.C16", lambda: entry_name(Module({"f": function([X], X), "g": function([X], X)}))),
    "no module in a text": ("text.C16", lambda: parse("x = 1\n")),
    "answers of another solver": ("smt.C2", lambda: answers(["sat", "maybe"], 2)),
    "a file that is not there": ("input.C5", lambda: load_npz(Path("no-such-file.npz"))),
    "a name too long for a file": ("output.C3", lambda: as_members({"x" * 70_000: np.zeros(1)})),
    "a string that ends with a NUL": ("output.C3", lambda: as_members({"x": np.array(["a\0"], object)})),
    "a result that is a function": ("values.C2", lambda: from_value(evaluate(function([X], X)), Module({}))),
    "a backend that changes its inputs": ("backend.C8", lambda: call_prepared("odd", changes, {"x": np.zeros(2)})),
    "an example that is not valid": ("fuzz.C4", generated_wrong),
    "strategies without Hypothesis": ("strategies.C1", without_hypothesis),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    label, break_it = BROKEN[name]
    with pytest.raises(AssayError) as caught:
        break_it()
    assert caught.value.label == label, caught.value


@pytest.mark.parametrize(
    ("label", "steps"),
    [
        ("lives.C1", (*STEPS, Branch("x", 9, 9))),
        ("lives.C2", (replace(STEPS[0], phases=3), *STEPS[1:])),
        ("lives.C3", (Step("double", ("nothing",), ("a",)), *STEPS[1:])),
        ("lives.C4", (*STEPS, Continue())),
    ],
)
def test_a_program_without_a_flow(label: str, steps: tuple[Item, ...]) -> None:
    evidence = lives(steps=steps)
    assert not evidence.holds and f"[{label}]" in evidence.detail, evidence


def test_an_output_that_takes_fewer_characters(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    head = '@I.ir_module\nclass M:\n    @R.function(pure=False)\n    def main(x: R.Tensor((2,), "float32")):\n'
    path.write_text(head + '        R.print(x, format="\\u00e9")\n        return x\n', encoding="utf-8")
    command = [sys.executable, "-m", "assay", "run", str(path), "--text"]
    env = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert done.returncode == 6 and "[output.C4]" in done.stderr, (done.returncode, done.stdout, done.stderr)
