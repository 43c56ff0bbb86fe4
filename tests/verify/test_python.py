"""How `assay` is called from Python: options, types, backends that are objects (specs/verify.md, "From Python")."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
from assay.lower.interfaces import Interface
from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import AssayError
from assay.verify.api.how import DEFAULTS, How
from assay.verify.api.surface import TAKEN, for_python, in_python
from assay.verify.app.commands.declared import LOWERING

call: Any = assay  # what a type checker refuses is what is tried here


@pytest.fixture(scope="module")
def module() -> assay.Module:
    b = Builder()
    with b.function("main", x=tensor(2, 3, of="float32")) as f:
        b.result(b.exp(f.x))
    return b.module()


@pytest.fixture
def sized(tmp_path: Path) -> Path:
    text = '@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor(("n", 3), "float32")):\n'
    (tmp_path / "sized.py").write_text(text + "        return R.add(x, x)\n")
    return tmp_path / "sized.py"


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("check", {"pases": "nonsense"}, "no option 'pases'; did you mean passes"),
        ("check", {"stopafter": "import"}, "no option 'stopafter'; did you mean stop_after"),
        ("check", {"backend": "onnxruntime"}, "no option 'backend'; did you mean backends"),
        ("build", {"directory": "no", "quux": 1}, "no option 'quux'; there are model, directory"),
        ("load", {"dim": {}}, "no option 'dim'; did you mean dims"),
        ("run", {"seeds": 1}, "no option 'seeds'; did you mean seed"),
        ("prove", {"bound": {}}, "no option 'bound'; did you mean bounds"),
        ("plan", {"capcity": 1}, "no option 'capcity'; did you mean capacity"),
        ("verify", {"keys": 1}, "no option 'keys'; did you mean key"),
    ],
)
def test_an_option_that_is_not_there(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        getattr(call, name)("nothing", **options)


def test_a_backend_is_judged_where_the_stages_stop_before(module: assay.Module) -> None:
    report = assay.check(module, backends="reference", stop_after="import")
    assert report.verdicts == {"reference": "right"} and len(report.lines) == 2


# --- backends that are objects ----------------------------------------------------------------------------------------


class Own:
    """A backend that does as it is told to."""

    def __init__(self, name: str, prepare: Callable[[], Any]) -> None:
        self.name, self._prepare = name, prepare

    def prepare(self, subject: Any, wanted: Sequence[str]) -> Any:
        return self._prepare()


def _raising(wrong: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise wrong

    return raises


class Unspeakable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("prepare", "outcome", "said"),
    [
        (
            _raising(NotImplementedError("no Exp\nyet")),
            "refused",
            "mine cannot run this model: NotImplementedError: no E",
        ),
        (lambda: _raising(NotImplementedError()), "refused", "mine cannot run this model: NotImplementedError"),
        (_raising(assay.Invalid("my own words")), "refused", "Invalid: my own words"),
        (_raising(assay.Unsupported("my own words")), "refused", "Unsupported: my own words"),
        (lambda: _raising(assay.Trap("cast", "much")), "wrong", "fails where it must not: trap (cast): much"),
        (_raising(assay.Trap("", "much")), "wrong", "fails where it must not: trap: much"),
        (_raising(ValueError("bad\nnews")), "died", "mine raised ValueError: bad news (test_python.py:"),
        (_raising(SystemExit(3)), "died", "SystemExit: 3"),
        (lambda: _raising(KeyError("y")), "died", "KeyError: 'y'"),
        (lambda: _raising(Unspeakable()), "died", "mine raised Unspeakable (test_python.py:"),
        (lambda: 3, "died", "its prepare gives a int, and a function is wanted"),
        (lambda: lambda inputs: 3, "died", "gives a int; tensors by name are wanted"),
    ],
)
def test_what_a_backend_raises_is_its_verdict_and_the_others_are_judged(
    module: assay.Module, prepare: Callable[[], Any], outcome: str, said: str
) -> None:
    report = assay.check(module, backends=[Own("mine", prepare), "reference"], stop_after="import")
    assert report.verdicts == {"mine": outcome, "reference": "right"}
    assert report.holds is (None if outcome == "refused" else False)
    [line] = [line for line in report.lines if line.stage == "mine"]
    assert said in line.evidence.detail


def test_two_backends_of_one_name_are_refused(module: assay.Module) -> None:
    mine = Own("mine", lambda: 3)
    for backends in ([mine, Own("mine", lambda: 3)], ["reference", Own("reference", lambda: 3)]):
        with pytest.raises(assay.Invalid, match=r"two that are judged have the name .*\[backend\.C4\]"):
            call.check(module, backends=backends)
    with pytest.raises(assay.Invalid, match=r"'expected'.*\[backend\.C4\]"):
        call.check(module, backends=Own("expected", lambda: 3), expected={"y": np.zeros(3)})


@pytest.mark.parametrize("wrong", [3, [3], [object()], [Own]])
def test_what_is_no_backend(module: assay.Module, wrong: Any) -> None:
    with pytest.raises(assay.Invalid, match=r"backends= (is|takes)"):
        call.check(module, backends=wrong)


# --- one for a list, a list for one -----------------------------------------------------------------------------------


def test_one_text_is_a_list_of_one(module: assay.Module, tmp_path: Path) -> None:
    ends: dict[str, Any] = {"stop_after": "fuse"}
    one = assay.check(module, skip="fuse", exclude="kept-wider", on="cpu", passes="common,dead", **ends)
    several = assay.check(module, skip=["fuse"], exclude=["kept-wider"], on=["cpu"], passes=["common", "dead"], **ends)
    assert [(x.stage, x.did, x.evidence) for x in one.lines] == [(x.stage, x.did, x.evidence) for x in several.lines]
    assert {"common", "dead"} < {line.stage for line in one.lines}
    assay.check(module, dump=str(tmp_path / "dumped"), stop_after="import")
    assert list((tmp_path / "dumped").iterdir())


# --- what is of a wrong type ------------------------------------------------------------------------------------------


def test_dims_are_whole_numbers(sized: Path) -> None:
    assert [str(p.type) for p in call.load(sized, dims={"n": np.int64(3)}).main.params] == ["Tensor((3, 3), float32)"]
    assert call.run(sized, dims={"n": np.uint8(3)}, seed=np.int32(0))["output_0"].shape == (3, 3)
    for wrong in ({"n": "3"}, {"n": 2.5}, {"n": None}, 3, [("n", 3)], {3: 3}):
        with pytest.raises(assay.Invalid, match="dims"):
            call.load(sized, dims=wrong)


@pytest.mark.parametrize(
    ("name", "arguments", "options", "said"),
    [
        ("load", (None,), {}, "path= takes a path, not None"),
        ("prove", (None,), {}, "program= takes"),
        ("run", (None,), {}, "program= takes"),
        ("check", (3,), {}, "model= takes"),
        ("run", ("m", np.zeros((2, 2))), {}, "inputs= takes arrays by name"),
        ("check", ("m",), {"expected": 3}, "expected= takes arrays by name"),
        ("run", ("m",), {"seed": -1}, "seed= takes a whole number of at least 0"),
        ("run", ("m",), {"seed": "a"}, "seed= takes a whole number"),
        ("check", ("m",), {"alignment": "3"}, "alignment= takes a whole number"),
        ("check", ("m",), {"pools": {"a": 1}}, "pools= takes a text"),
        ("check", ("m",), {"skip": 3}, "skip= takes a name, or a list of names"),
        ("check", ("m",), {"on": [3]}, "on= takes a name, or a list of names"),
        ("check", ("m",), {"on_line": 3}, "on_line= takes a function"),
        ("build", ("m", None), {}, "directory= takes a path"),
        ("build", ("m", "no"), {"interface": "foo"}, f"interface= takes one of {', '.join(Interface)}, not 'foo'"),
        ("verify", (None,), {}, "directory= takes a path"),
        ("verify", ("no",), {"model": Builder()}, "model= takes a path"),
        ("prove", ("m",), {"bounds": "n=1"}, "bounds= takes pairs by name"),
        ("plan", (None,), {}, "buffers= takes"),
        ("plan", ([("a", 0, 1, 4)],), {}, "buffers= takes the path of a CSV file, or a list of BufferInfo"),
        ("plan", ("s.csv",), {"bounds": {"n": (1.5, 3)}}, "takes a whole number, not 1.5"),
        ("plan", ("s.csv",), {"bounds": {"n": 3}}, "takes the least and the most"),
        ("plan", ("s.csv",), {"bounds": {"n": (0,)}}, "takes the least and the most"),
        ("plan", ("s.csv",), {"capacity": "12"}, "capacity= takes a whole number"),
        ("plan", ("s.csv",), {"time_limit": "1"}, "time_limit= takes a number"),
    ],
)
def test_an_argument_of_a_wrong_type_is_invalid(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(assay.Invalid) as wrong:
        getattr(call, name)(*arguments, **options)
    assert said in wrong.value.message and wrong.value.label == "cli.C3"


def _functions() -> Iterator[Callable[..., Any]]:
    from assay.verify.api.check import verify

    yield from (assay.load, assay.run, assay.check, assay.judge, assay.build, assay.prove, assay.plan)
    yield for_python(verify)


def test_every_parameter_is_of_a_type_that_is_checked() -> None:
    seen = {
        str(p.annotation).removesuffix(" | None")
        for f in _functions()
        for p in inspect.signature(f).parameters.values()
    }
    assert seen == set(TAKEN)


# --- words ------------------------------------------------------------------------------------------------------------


def test_messages_name_parameters(module: assay.Module, tmp_path: Path) -> None:
    def said(name: str, *arguments: Any, **options: Any) -> str:
        with pytest.raises(AssayError) as wrong:
            getattr(call, name)(*arguments, **options)
        assert str(wrong.value).count("--") == 0
        return wrong.value.message

    csv = tmp_path / "b.csv"
    csv.write_text("id,lower,upper,size\na,0,2,64\n")
    assert said("check", module, stop_after="foo").startswith("stop_after= takes one of import, ")
    assert said("check", module, skip="anf").startswith("skip= takes fuse or schedule")
    assert said("check", module, host="cpu") == "host= goes with on=: name the devices, the first as on="
    assert said("check", module, exclude="foo").startswith("exclude= foo: ")
    assert said("check", module, pools="a=b").startswith("pools= takes ")
    assert said("check", module, alignment=3).startswith("alignment= is 3, ")
    assert said("plan", csv, capacity=-1).startswith("capacity= is -1, ")
    assert said("plan", csv, time_limit=-1) == "time_limit= is -1, and must be 0 or more seconds"
    assert said("plan", csv, bounds={"n": (3, 1)}).startswith("bounds= n: ")
    assert said("prove", module, dims={"n": 3}, bounds={"n": (4, 9)}) == "n is 3, and bounds= n=4..9 excludes that"


def test_a_flag_that_is_no_parameter_stays() -> None:
    assert (
        in_python("give --dim n=4 --dim m=4, or --inputs", ["dims"]) == 'give dims={"n": 4} dims={"m": 4}, or --inputs'
    )
    assert in_python("as --timeout raises", ["dims", "seed"]) == "as --timeout raises"


def test_help_lists_every_option() -> None:
    assert {"pools", "passes", "skip", "on"} < set(inspect.signature(assay.check).parameters)
    assert "how" not in inspect.signature(assay.build).parameters
    assert inspect.signature(assay.check).parameters["planner"].default == "exact"
    assert {n for n in dir(assay) if not n.startswith("__")} == set(assay.__all__) - {"__version__"}
    assert "assay.verify(directory, *, model=None" in (assay.verify.__doc__ or "")


def test_each_option_of_a_lowering_is_one_of_python_and_of_the_command_line() -> None:
    assert list(LOWERING) == list(How.__annotations__) == list(DEFAULTS)
