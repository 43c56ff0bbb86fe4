"""Instruments around passes: order, contexts, what is left out, what they write, what they find."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp import graph, vector
from assay.lower.instrument import Dump, Instrument, Instruments, Leaving, run_passes
from assay.lower.pipeline import Pass
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function, call, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse, read_module
from assay.verify.app.stages import SKIPPABLE, lowering_passes

pytestmark = pytest.mark.row("A22", "R13")


def small() -> Module:
    text = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.negative(R.add(R.abs(x), x))'
    return parse(text)


class Recorder(Instrument):
    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails

    def say(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if self.fails == what:
            raise Invalid(f"{self.name} fails at {what}", label="test.C1")

    def enter(self) -> None:
        self.say("enter")

    def leave(self) -> None:
        self.say("leave")

    def before_pass(self, module: Module, name: str) -> None:
        self.say(f"before {name}")

    def after_pass(self, module: Module, name: str) -> None:
        self.say(f"after {name}")


class Timing(Instrument):
    """The seconds of each pass, in the order in which they ran: `seconds`. So it says that order too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    def before_pass(self, module: Module, name: str) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def after_pass(self, module: Module, name: str) -> None:
        """Add the time since the start to that of the pass."""
        if self._start:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - self._start
        self._start = 0.0


class Validation(Instrument):
    """Holds each module to the static rules. Invalid with their label, and the name of the pass."""

    def after_pass(self, module: Module, name: str) -> None:
        """Check the module; Invalid names the pass that made it."""
        try:
            check(module)
        except Invalid as wrong:
            raise Invalid(f"after {name}: {wrong.message}", where=wrong.where, label=wrong.label) from None


def two(log: list[str]) -> dict[str, Pass]:
    def step(name: str) -> Pass:
        return lambda module: log.append(name) or module  # type: ignore[func-returns-value]

    return {"one": step("one"), "two": step("two")}


def test_each_is_told_of_each_pass_in_order() -> None:
    log: list[str] = []
    run_passes(small(), two(log), [Recorder("a", log), Recorder("b", log)])
    assert log == [
        "a enter", "b enter", "a before one", "b before one", "one", "a after one", "b after one",
        "a before two", "b before two", "two", "a after two", "b after two", "b leave", "a leave",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fails", "left"),
    [("enter", ["a leave"]), ("before one", ["b leave", "a leave"]), ("after one", ["b leave", "a leave"])],
)
def test_those_that_were_entered_are_left_whatever_happens(fails: str, left: list[str]) -> None:
    log: list[str] = []
    with pytest.raises(Invalid, match=f"b fails at {fails}"):
        run_passes(small(), two(log), [Recorder("a", log), Recorder("b", log, fails)])
    assert [line for line in log if line.endswith("leave")] == left and "two" not in log


def test_the_order_of_passes_can_be_asserted_from_outside() -> None:
    timing = Timing()
    run_passes(small(), lowering_passes(vector.run), [timing, Validation()])
    order = list(timing.seconds)
    assert order.index("anf") < order.index("legalize") and order[-1] == "pool"
    assert all(s >= 0 for s in timing.seconds.values())


def test_a_pass_that_breaks_a_module_is_named() -> None:
    def wrong(module: Module) -> Module:
        return module.with_(main=replace(module.main, body=call("exp", var("loose", module.main.params[0].type))))

    with pytest.raises(Invalid, match=r"after anf: .*loose"):
        run_passes(small(), {**lowering_passes(vector.run), "anf": wrong}, [Validation()])
    run_passes(small(), {"anf": wrong})  # nobody looks


def test_a_pass_is_left_out_if_one_says_so_and_it_may_be() -> None:
    kernels = [
        len(run_passes(small(), lowering_passes(vector.run), [*i], "fuse", SKIPPABLE).kernels)
        for i in ([], [Leaving("fuse")], [Instrument(), Leaving("fuse")])
    ]
    assert kernels == [4, 3, 3]
    with pytest.raises(Invalid) as caught:
        run_passes(small(), lowering_passes(vector.run), [Leaving("legalize")], skippable=SKIPPABLE)
    assert caught.value.label == "instrument.C1"


def test_stop_after() -> None:
    made = run_passes(small(), lowering_passes(vector.run), stop_after="anf")
    assert isinstance(made.definitions["main"], Function) and not made.kernels
    with pytest.raises(Invalid) as caught:
        run_passes(small(), lowering_passes(vector.run), stop_after="nothing")
    assert caught.value.label == "instrument.C2"


def test_dumped_modules_can_be_read_and_run(tmp_path: Path) -> None:
    given = {"x": np.arange(4, dtype=np.float32)}
    wanted = graph.run(small(), given)["output_0"].tobytes()
    run_passes(small(), lowering_passes(vector.run), [Dump(tmp_path / "new" / "dir")])
    texts = sorted(p.name for p in (tmp_path / "new" / "dir").iterdir())
    assert texts[:3] == ["01-devices.py", "02-anf.py", "03-legalize.py"]
    assert texts[-4:] == ["07-liveness.main.txt", "07-liveness.py", "08-pool.main.txt", "08-pool.py"]
    for name in texts[:6]:
        assert graph.run(read_module(tmp_path / "new" / "dir" / name), given)["output_0"].tobytes() == wanted
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match=r"output\.C1"):
        run_passes(small(), lowering_passes(vector.run), [Dump(tmp_path / "file")])


def test_instruments_may_be_used_again() -> None:
    log: list[str] = []
    each = Instruments(Recorder("a", log))
    for _ in range(2):
        with each:
            pass
    assert log == ["a enter", "a leave"] * 2
