"""Python code that a user brings: whatever a pass, a table, an engine or an extern does or gives is said in one line
that names it, and none of it passes for a proof or for a fault of Assay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph.engines import EngineRegion
from assay.lower.anf import to_anf
from assay.lower.partition import Composite, partition
from assay.lower.rewriting.pattern import op
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, call
from assay.semantics.module import Module
from assay.semantics.store import contents, require_form
from assay.semantics.text.module_text import parse
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.cli import main
from assay.verify.app.foreign import load_externs
from assay.verify.partition import check_engines
from tests.lower.engines import TABLE as NPU_TABLE, Npu

SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), "float32")):
        return R.exp(R.add(x, R.const([1.0, 2.0], "float32")))
"""
HERE = __name__


def lines(passes: str) -> list[Line]:
    return list(CheckRun(Lowering(parse(SOURCE), "model", passes=passes), stop_after="legalize").lines())


def refused(passes: str) -> Invalid:
    with pytest.raises(Invalid) as wrong:
        lines(passes)
    assert "\n" not in str(wrong.value)
    return wrong.value


# --- what it raises ------------------------------------------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED: dict[str, tuple[BaseException, str]] = {
    "exit": (SystemExit(0), "SystemExit: 0"),
    "generator exit": (GeneratorExit(), "GeneratorExit"),
    "stop iteration": (StopIteration(), "StopIteration"),
    "no text to be had": (Unprintable(), "Unprintable"),
    "several lines": (ValueError("bad\n  news"), "ValueError: bad news"),
    "no text": (AssertionError(), "AssertionError"),
    "a crash": (Crash("mine"), "Crash: mine"),
    "a trap": (Trap("assert", "mine"), "Trap: trap (assert): mine"),
}
kind = ""
"""The one of these that `raising` raises."""


def raising(*args: Any) -> Any:
    raise RAISED[kind][0]


def interrupted(*args: Any) -> Any:
    raise KeyboardInterrupt


RAISING_TABLE = [Composite("exp", op("exp"), raising)]


@pytest.mark.parametrize("name", RAISED)
def test_whatever_a_pass_or_a_table_raises_is_a_refusal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[HERE], "kind", name)
    wrong = refused(f"own[run={HERE}:raising]")
    assert (wrong.message, wrong.label) == (f"{HERE}:raising raised {RAISED[name][1]}", "passes.C4")
    wrong = refused(f"partition[table={HERE}:RAISING_TABLE;compiler=npu]")
    assert (wrong.message, wrong.label) == (f"{HERE}:RAISING_TABLE raised {RAISED[name][1]}", "passes.C4")


def test_whatever_an_extern_or_an_engine_raises_is_a_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("--extern", "--engine"):
        for name in ("exit", "generator exit", "no text to be had", "several lines", "a crash"):
            monkeypatch.setattr(sys.modules[HERE], "kind", name)
            with pytest.raises(Trap) as trap:
                load_externs([f"act={HERE}:raising"], option)["act"]()
            assert (trap.value.what, trap.value.label) == (f"act raised {RAISED[name][1]}", "extern.T1")


def test_an_interrupt_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt):
        lines(f"own[run={HERE}:interrupted]")
    with pytest.raises(KeyboardInterrupt):
        load_externs([f"{HERE}:interrupted"])["interrupted"]()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def same(m) return m\n", "expected ':'"),
        ("raise GeneratorExit\n", "GeneratorExit"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("module_of_a_user.py").write_text(text, "utf-8")
    sys.modules.pop("module_of_a_user", None)
    place = "module_of_a_user:same"
    works: list[Callable[[], Any]] = [
        lambda: lines(f"own[run={place}]"),
        lambda: lines(f"partition[table={place};compiler=npu]"),
        lambda: load_externs([f"act={place}"]),
        lambda: load_externs([f"npu={place}"], "--engine"),
    ]
    for work in works:
        with pytest.raises(Invalid) as wrong:
            work()
        assert said in wrong.value.message and wrong.value.label == "cli.C4"


# --- what it changes -----------------------------------------------------------------------------------------------


def wrong_main(module: Module) -> Any:
    return replace(module.main, body=call("tanh", *module.main.body.children))


def definition_changed(module: Module) -> Module:
    module.definitions["main"] = wrong_main(module)  # type: ignore[index]
    return module


def definition_changed_twice(module: Module) -> Module:
    made = module.with_(main=wrong_main(module))
    module.definitions["main"] = made.main  # type: ignore[index]
    return made


def field_changed(module: Module) -> Module:
    object.__setattr__(module, "definitions", {"main": wrong_main(module)})
    return module


def node_changed(module: Module) -> Module:
    object.__setattr__(module.main, "body", wrong_main(module).body)
    return module


def parameter_renamed(module: Module) -> Module:
    object.__setattr__(module.main.params[0], "name", "y")
    return module


def weight_changed(module: Module) -> Module:
    body = module.main.body
    assert isinstance(body, Call)
    (weight,) = (n for n in body.args[0].children if isinstance(n, Constant))
    data = weight.data
    while isinstance(data.base, np.ndarray):
        data = data.base
    data.flags.writeable = True
    data[...] = 7
    return module


def held_by_itself(module: Module) -> Module:
    object.__setattr__(module.main.body, "args", (module.main.body,))
    return module


@pytest.mark.parametrize(
    "name",
    [
        "definition_changed",
        "definition_changed_twice",
        "field_changed",
        "node_changed",
        "parameter_renamed",
        "weight_changed",
        "held_by_itself",
    ],
)
def test_a_pass_that_changes_what_it_is_given_is_refused(name: str) -> None:
    wrong = refused(f"own[run={HERE}:{name}]")
    assert wrong.message.startswith(f"{HERE}:{name} changed the module") and wrong.label == "passes.C4"


def writing_engine(region: EngineRegion, args: Sequence[Any]) -> Any:
    result = Npu()(region, args)
    args[0].flags.writeable = True
    args[0][...] = 0
    return result


def test_an_engine_that_writes_into_what_it_is_handed_is_refuted() -> None:
    found = partition(to_anf(parse(SOURCE)), "npu", [Composite("exp", op("exp"))])
    assert check_engines(found, {"npu": Npu()}).holds
    evidence = check_engines(found, {"npu": writing_engine})
    assert evidence.holds is False and "writes into argument 0" in evidence.detail


# --- what it gives -------------------------------------------------------------------------------------------------


def with_body(module: Module, body: Any) -> Module:
    return module.with_(main=replace(module.main, body=body))


def cyclic(module: Module) -> Module:
    node = replace(module.main.body)
    object.__setattr__(node, "args", (node,))
    return with_body(module, node)


class Strange(Expr):
    """A node of a class of the user's own."""


GIVEN: dict[str, Callable[[Module], Any]] = {
    "no definitions": lambda m: replace(m, definitions={}),
    "main renamed": lambda m: replace(m, definitions={"other": m.main}),
    "main a number": lambda m: replace(m, definitions={"main": 3}),  # type: ignore[dict-item]
    "no table of definitions": lambda m: replace(m, definitions=None),  # type: ignore[arg-type]
    "a definition that is None": lambda m: replace(m, definitions={**m.definitions, "q": None}),  # type: ignore[dict-item]
    "a name that is a number": lambda m: replace(m, definitions={**m.definitions, 3: m.main}),  # type: ignore[dict-item]
    "no constants": lambda m: replace(m, constants=None),  # type: ignore[arg-type]
    "a constant that is a text": lambda m: replace(m, constants={"c": "x"}),  # type: ignore[dict-item]
    "no body": lambda m: with_body(m, None),
    "a node of another class": lambda m: with_body(m, Strange(m.main.body.type)),
    "a cycle": cyclic,
    "no operator": lambda m: with_body(m, replace(m.main.body, op=None)),
    "an operator by name": lambda m: with_body(m, replace(m.main.body, op="exp")),
    "arguments in a list": lambda m: with_body(m, replace(m.main.body, args=list(m.main.body.children))),
    "no attributes": lambda m: with_body(m, replace(m.main.body, attrs=None)),
    "an attribute of no kind": lambda m: with_body(m, replace(m.main.body, attrs={"a": object()})),
    "no parameters": lambda m: m.with_(main=replace(m.main, params=None)),  # type: ignore[arg-type]
    "data in a list": lambda m: with_body(m, Constant(m.main.body.type, [1, 2])),  # type: ignore[arg-type]
    "no type": lambda m: with_body(m, Constant(None, np.zeros((2, 2), np.float32))),  # type: ignore[arg-type]
}


def giving(module: Module) -> Any:
    return GIVEN[kind](module)


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_no_well_formed_module_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[HERE], "kind", name)
    wrong = refused(f"own[run={HERE}:giving]")
    assert wrong.message.startswith(f"{HERE}:giving gave no well-formed module: ") and wrong.label == "passes.C4"


def test_a_module_of_the_right_form_is_left_to_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    loose: dict[str, Callable[[Module], Any]] = {
        "unbound": lambda m: with_body(m, GlobalVar(m.main.body.type, "nowhere")),
        "same": lambda m: with_body(m, replace(m.main.body)),
    }
    monkeypatch.setattr(sys.modules[HERE], "GIVEN", loose)
    for name, holds in (("unbound", False), ("same", True)):
        monkeypatch.setattr(sys.modules[HERE], "kind", name)
        found = next(x for x in lines(f"own[run={HERE}:giving]") if x.stage == "own")
        assert found.evidence.holds is holds


def test_the_form_of_a_module_and_what_it_says() -> None:
    module = parse(SOURCE)
    require_form(module)
    assert contents(module) == contents(parse(SOURCE)) != contents(module.with_(main=wrong_main(module)))
    for name, label in (("a cycle", "store.C4"), ("no body", "store.C4")):
        with pytest.raises(Invalid) as wrong:
            require_form(GIVEN[name](module))
        assert wrong.value.label == label


NUMBER, ONE, TEXTS = 7, NPU_TABLE[0], ["a", "b"]
UNMATCHED = [Composite("odd", 3)]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["NUMBER", "ONE", "TEXTS", "UNMATCHED", "raising"])
def test_a_table_is_a_list_of_composites(name: str) -> None:
    wrong = refused(f"partition[table={HERE}:{name};compiler=npu]")
    assert f"{HERE}:{name} is no list of Composites" in wrong.message and wrong.label == "cli.C4"


# --- commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def act(m):\n    print('hello')\n    return m\n", 0),
        ("print('hello')\ndef act(m):\n    return m\n", 0),
        ("import sys\ndef act(m):\n    print('hello')\n    sys.exit(0)\n", 2),
        ("print('hello')\n1 / 0\n", 2),
    ],
)
def test_what_a_pass_prints_is_beside_the_json(
    text: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pass_of_a_user.py").write_text(text, "utf-8")
    Path("e.py").write_text(SOURCE.lstrip(), "utf-8")
    monkeypatch.delitem(sys.modules, "pass_of_a_user", raising=False)
    command = ["check", "e.py", "--passes", "own[run=pass_of_a_user:act]", "--stop-after", "anf", "--json"]
    monkeypatch.setattr(sys, "argv", ["assay", *command])
    with pytest.raises(SystemExit) as done:
        main()
    said = capsys.readouterr()
    assert done.value.code == code
    assert isinstance(json.loads(said.out), dict) and "hello" in said.err
    sys.modules.pop("pass_of_a_user", None)
