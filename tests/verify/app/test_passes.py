"""Optional passes by `--passes`: each does something, on its own checked line, and a fault planted into it is caught
there; orders, options and what is kept in a certificate."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

from assay.lower.constants.made import LAYOUTS
from assay.lower.instrument import Instruments, Leaving
from assay.lower.pipeline import Pass
from assay.lower.simplify.bind_params import bind_params
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call, CallTIR, Expr, Function, call
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Apply, Expr as Scalar, apply
from assay.semantics.tensor import PrimFunc, Store
from assay.semantics.text.module_text import parse
from assay.semantics.walk import rewrite
from assay.verify.api.check import build, verify
from assay.verify.app import bound as binding, certificate
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.cli import main
from assay.verify.app.passes import FORMS, passes_for, with_passes
from assay.verify.app.stages import PASSES, STAGES, lowering_passes
from tests.lower.engines import TABLE
from tests.shown.case import Shown, run as run_commands
from tests.verify.app.test_cli import assay

HEAD = "@I.ir_module\nclass Module:\n"
SOURCE = """
    @R.function(private=True)
    def f(x: R.Tensor((4, 3), "float32")) -> R.Tensor((4, 3), "float32"):
        y = R.exp(x)
        return R.add(y, y)
    @R.function
    def main(x: R.Tensor((4, 3), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        @R.function
        def g(z: R.Tensor((4, 3), "float32")) -> R.Tensor((4, 3), "float32"):
            return R.tanh(R.abs(z))
        with R.dataflow():
            a = cls.f(x)
            s = R.add(R.const([1.0, 2.0, 3.0], "float32"), R.const([4.0, 5.0, 6.0], "float32"))
            b = R.exp(g(x))
            b2 = R.exp(g(x))
            unused = R.tanh(b)
            e = b
            k = R.add(R.add(R.add(e, b2), a), s)
            R.output(k)
        if c:
            r = R.tanh(k)
        else:
            r = R.exp(k)
        return r
"""
WEIGHTS = """
    @R.function
    def main(x: R.Tensor((8, 16), "float32")):
        w = R.const(WEIGHT, "float32")
        m = R.matmul(R.exp(x), w)
        return R.tanh(m)
"""
BOUND = """
    @R.function
    def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
        return R.matmul(x, R.exp(w))
"""
PEAK = """
    @R.function
    def main(x: R.Tensor((64,), "float32")):
        n = R.negative(x)
        wide = R.broadcast_to(R.exp(n), R.shape([16, 64]))
        low = R.sum(R.multiply(wide, wide), axis=[0], keepdims=False)
        return R.add(R.sqrt(low), n)
"""
RECURRING = """
    @R.function
    def f(n: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if R.less(n, R.const(1, "int64")):
            r = x
        else:
            r = R.add(R.tanh(Module.f(R.subtract(n, R.const(1, "int64")), R.negative(x))), x)
        return r
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")):
        return Module.f(n, x)
"""


def program(text: str) -> Module:
    weight = np.arange(16 * 40, dtype=np.float32).reshape(16, 40).tolist()
    return parse(HEAD + text.replace("WEIGHT", str(weight)))


# --- faults --------------------------------------------------------------------------------------------------------


def other_operator(module: Module) -> Module:
    """Every tanh is an exp."""

    def change(node: Expr) -> Expr:
        is_tanh = isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "tanh"
        return call("exp", *node.children) if is_tanh else node

    return in_graphs(module, change)


def other_kernel(module: Module) -> Module:
    """Every call of tanh, or of sqrt, is one of exp."""

    def change(node: Expr) -> Expr:
        wrong = isinstance(node, CallTIR) and node.func.startswith(("tanh", "sqrt"))
        name = next((n for n in module.kernels if n.startswith("exp")), "")
        return replace(node, func=name) if wrong and isinstance(node, CallTIR) else node

    return in_graphs(module, change)


def in_graphs(module: Module, change: Callable[[Expr], Expr]) -> Module:
    def changed(root: Expr) -> Function:
        made = rewrite(root, change)
        assert isinstance(made, Function)
        return made

    return module.with_(**{n: changed(d) for n, d in module.definitions.items() if isinstance(d, Function)})


def differences(module: Module) -> Module:
    """Every sum in a tensor function of a product is a difference."""

    def value(node: Scalar) -> Scalar:
        return apply("sub", *node.args) if isinstance(node, Apply) and node.op == "add" else node

    def changed(kernel: PrimFunc) -> PrimFunc:
        body = rewrite(kernel.body, lambda s: replace(s, value=rewrite(s.value, value)) if isinstance(s, Store) else s)
        return replace(kernel, body=body)

    return module.with_(**{n: changed(k) for n, k in module.kernels.items() if n.startswith("matmul")})


def other_constants(module: Module) -> Module:
    """One element of each constant is another."""
    changed = {n: a.copy() for n, a in module.constants.items()}
    for array in changed.values():
        array.reshape(-1)[3] += 1
    return replace(module, constants=changed)


Case = tuple[str, str, Callable[[Module], Module], str]
CASES: dict[str, Case] = {
    "bind": ("bind[params=x]", SOURCE, other_operator, "as many parts"),
    "inline": ("inline", SOURCE, other_operator, "nodes"),
    "lift": ("lift", SOURCE, other_operator, "2 to 3 definitions"),
    "fold": ("fold", SOURCE, other_operator, "nodes"),
    "common": ("common", SOURCE, other_operator, "nodes"),
    "dead": ("dead", SOURCE, other_operator, "nodes"),
    "canonical": ("canonical", SOURCE, other_operator, "nodes"),
    "plain": ("plain", SOURCE, other_operator, "as many"),
    "bbnf": ("bbnf", SOURCE, other_operator, "nodes|nothing"),
    "shapes": ("shapes", SOURCE, other_operator, "statements about sizes"),
    "partition": (f"partition[table={__name__}:TABLE;compiler=npu]", WEIGHTS, other_operator, "1 region"),
    "own": (f"own[run={__name__}:unchanged]", SOURCE, other_operator, "nothing changed"),
    "recursion": ("recursion[depth=9]", RECURRING, other_operator, "f in 2 parts and at most 9 frames"),
    "tile": ("tile", WEIGHTS, differences, "1 tensor function in other loops"),
    "pack": ("pack", WEIGHTS, other_constants, "1 packed kernels"),
    "link": ("link", WEIGHTS, other_kernel, "1 constants are linked"),
    "unlink": ("link,unlink", WEIGHTS, other_kernel, "0 constants are linked"),
    "repeat": ("repeat", PEAK, other_kernel, "peak 8448 B to 8192 B"),
}
"""Of each optional pass: how it is asked for, a program, a fault behind it, and what its line says."""


def unchanged(module: Module) -> Module:
    """A pass of one's own."""
    return module


def checked(asked: str, text: str, name: str, fault: Callable[[Module], Module] | None = None) -> list[Line]:
    """The lines up to that of a pass, with a fault behind it."""
    changed: dict[str, Pass] = {}
    given = {"x": np.full((4, 3), 2, np.float32)} if asked == "bind[params=x]" else {}
    if fault is not None:
        right = lowering_passes(stages=with_passes(asked), inputs=given)[name]
        changed = {name: lambda module: fault(right(module))}
    lowering = Lowering(program(text), "model", passes=asked, changed=changed, inputs=given)
    looking = Instruments(Leaving("fuse", "schedule"))
    return list(CheckRun(lowering, given, instruments=looking, stop_after=name).lines())


def test_every_optional_pass_has_a_case() -> None:
    assert CASES.keys() == {s.name for s in PASSES} and len(TABLE) == 4


@pytest.mark.parametrize("name", CASES)
def test_a_pass_does_what_it_says_on_its_own_line(name: str) -> None:
    asked, text, _, said = CASES[name]
    line = checked(asked, text, name)[-1]
    assert line.stage == name and line.evidence.holds, line.evidence.detail
    assert re.search(said, f"{line.did}; {line.evidence.detail}"), (line.did, line.evidence.detail)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_caught_on_the_line_of_its_pass(name: str) -> None:
    asked, text, fault, _ = CASES[name]
    lines = checked(asked, text, name, fault)
    assert lines[-1].stage == name and lines[-1].evidence.holds is False, lines[-1].evidence.detail
    assert all(line.evidence.holds for line in lines[:-1])


@pytest.mark.parametrize("stage", PASSES, ids=lambda s: s.name)
def test_what_the_table_names_is_there(stage: object) -> None:
    from assay.verify.app.stages import Stage

    assert isinstance(stage, Stage)
    names = [s.name for s in STAGES]
    assert callable(resolve_name(stage.lower)) and callable(resolve_name(stage.verify))
    assert names.index(stage.behind) < names.index(stage.before) and stage.ensures and stage.how


# --- order and options ----------------------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    return [s.name for s in with_passes(text)]


def test_a_pass_stands_where_it_may_first_and_behind_those_before_it() -> None:
    assert names("") == [s.name for s in STAGES]
    assert names("inline,tile")[:5] == ["import", "inline", "devices", "anf", "legalize"]
    assert names("anf,common")[:4] == ["import", "devices", "anf", "common"]
    assert names("common,common")[1:3] == ["common", "common-2"]


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        ("nothing", "passes.C1", "no pass 'nothing'"),
        ("fold,[", "passes.C1", "NAME"),
        ("fold[x=1]", "passes.C2", "fold takes nothing in brackets"),
        ("pack[layout]", "passes.C2", "pack takes layout=transposed|tiles in brackets, not 'layout'"),
        ("pack[layout=round]", "passes.C2", "transposed|tiles"),
        ("bind[params=,]", "passes.C2", "params=NAME,... in brackets, not 'params=,'"),
        ("partition", "passes.C2", "partition needs table=MODULE:NAME;compiler=NAME in brackets"),
        ("partition[table=a:b]", "passes.C2", "partition needs table=MODULE:NAME;compiler=NAME in brackets"),
        ("own", "passes.C2", "own needs run=MODULE:FUNCTION in brackets"),
        ("own[run=somewhere]", "passes.C2", "own takes run=MODULE:FUNCTION in brackets"),
        ("own[run=a:b;run=a:c]", "passes.C2", "own has run= twice in brackets"),
        ("tile,inline", "passes.C3", "an order that can be is --passes inline,tile"),
        ("legalize,fold,tile", "passes.C3", "--passes fold,legalize,tile"),
        ("fuse,anf", "passes.C3", "--passes anf,fuse"),
        ("anf,anf", "passes.C3", "anf cannot stand behind anf"),
        ("import,import", "passes.C3", "import cannot stand behind import"),
        ("tile,common,bind[params=x,y]", "passes.C3", "bind cannot stand behind tile"),
        ("tile,pack[layout=tiles],inline", "passes.C3", "--passes inline,tile,pack[layout=tiles]"),
        ("own[run=a:b],tile,anf,inline", "passes.C3", "--passes inline,anf,tile,own[run=a:b]"),
        ("inline,tile,inline,dead", "passes.C3", "inline cannot stand behind tile"),
    ],
)
def test_what_cannot_be_is_refused(text: str, label: str, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)) as wrong:
        with_passes(text)
    assert wrong.value.label == label


def test_recursion_has_its_pass_without_being_asked_for() -> None:
    """At its place among those that are; a program without any has none."""
    made = program(RECURRING)
    for asked, found in {
        "": "recursion",
        "inline,tile": "inline,recursion,tile",
        "anf,common": "anf,recursion,common",
        "own[run=a:b],fuse": "own[run=a:b],recursion,fuse",
        "fold,recursion[depth=3]": "fold,recursion[depth=3]",
    }.items():
        assert passes_for(made, asked) == found and with_passes(found)
        assert passes_for(program(BOUND), asked) == asked
    assert Lowering(made, "model").passes == "recursion"


ENTRIES = ["anf", "fuse", "inline", "common", "bind[params=x,y]", "partition[table=a:b;compiler=c]", "tile"]


@pytest.mark.parametrize("count", [2, 3])
def test_an_order_that_is_suggested_can_be_and_has_the_same_entries(count: int) -> None:
    suggested = 0
    for entries in product(ENTRIES, repeat=count):
        try:
            with_passes(",".join(entries))
        except Invalid as wrong:
            _, _, order = wrong.message.partition("an order that can be is --passes ")
            assert bool(order) == all(entries.count(stage) < 2 for stage in ("anf", "fuse")), entries
            if order:
                suggested += 1
                stages = with_passes(order)
                assert sorted(order) == sorted(",".join(entries))
                assert sum(s.behind != "" for s in stages) == sum(e not in ("anf", "fuse") for e in entries)
    assert suggested > 10


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        ("bind", "passes.C2", "give some with --inputs"),
        ("bind[params=w]", "passes.C2", "--inputs has no w"),
        ("fold,anf,partition[table=nothing:TABLE;compiler=npu]", "cli.C4", "--passes partition"),
        ("partition[table=math:pi;compiler=npu]", "cli.C4", "no list of Composites"),
        ("fold,legalize,own[run=nothing:there]", "cli.C4", "--passes own"),
        ("own[run=math:none]", "cli.C4", "none"),
        ("own[run=math:pi]", "cli.C4", "no function"),
    ],
)
def test_what_cannot_be_had_is_refused_before_any_line(text: str, label: str, said: str) -> None:
    given = {"x": np.ones((8, 16), np.float32)} if "params" in text else {}
    lines: list[Line] = []
    with pytest.raises(Invalid, match=re.escape(said)) as wrong:
        lines.extend(CheckRun(Lowering(program(WEIGHTS), "model", passes=text, inputs=given), given).lines())
    assert wrong.value.label == label and lines == []


@pytest.mark.parametrize("run", ["raises", "names"])
def test_what_an_own_pass_gives_is_looked_at(run: str) -> None:
    with pytest.raises(Invalid) as wrong:
        checked(f"own[run={__name__}:{run}]", WEIGHTS, "own")
    assert wrong.value.label == "passes.C4"


def test_every_form_of_an_option_is_one_that_is_known() -> None:
    taken = {name: form for stage in PASSES for name, form in stage.takes.items()}
    assert taken.pop("layout").split("|") == [*LAYOUTS] and {*taken.values()} <= FORMS.keys()


def test_another_value_is_refuted_and_what_is_bound_is_in_the_certificate(tmp_path: Path) -> None:
    text = program(BOUND)
    given = {"w": np.full((2, 2), 2, np.float32)}
    other = bind_params(text, {"w": np.full((2, 2), 3, np.float32)})
    lowering = Lowering(text, "model", passes="bind", inputs=given, changed={"bind": lambda m: other})
    line = list(CheckRun(lowering, given).lines())[-1]
    assert line.stage == "bind" and line.evidence.holds is False
    made = build(text, tmp_path / "out", given, passes="bind,fold")
    assert made.holds and "float *w" not in (tmp_path / "out" / "model.h").read_text("utf-8")
    assert verify(tmp_path / "out").holds


def test_statements_about_sizes_are_no_steps() -> None:
    with pytest.raises(Unsupported) as wrong:
        list(CheckRun(Lowering(program(WEIGHTS), "model", passes="shapes")).lines())
    assert wrong.value.label == "liveness.C9"


def raises(module: Module) -> Module:
    raise KeyError("no such thing")


# --- commands ------------------------------------------------------------------------------------------------------


def test_a_certificate_says_which_passes_there_were(tmp_path: Path) -> None:
    asked = "inline,lift,fold,plain,bbnf,common,canonical,dead,legalize,tile,pack,link,unlink,repeat"
    bound = binding.Bound("0" * 64)
    lowering = Lowering(
        program(WEIGHTS),
        "model",
        passes=asked,
        digest=lambda m: binding.header_digest(binding.module_digest(m), bound, 0),
    )
    check = CheckRun(lowering)
    lines = list(check.lines())
    assert [line.stage for line in lines if not line.evidence.holds] == []
    certificate.write(tmp_path / "out", check, lines, bound)
    stored = certificate.Stored(tmp_path / "out")
    again = CheckRun(stored, stored.inputs(), stored.seed)
    told = list(certificate.lines(stored, again))
    assert [(line.stage, line.evidence.detail) for line in told if not line.evidence.holds] == []
    manifest = tmp_path / "out" / certificate.MANIFEST
    data = json.loads(manifest.read_text("utf-8"))
    assert data["passes"] == asked
    manifest.write_text(json.dumps({**data, "passes": "inline"}, indent=1) + "\n", "utf-8")
    with pytest.raises(Invalid, match="certificate"):
        certificate.Stored(tmp_path / "out")


def test_a_certificate_that_names_code_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote it may name any module; what it made is checked, and the module is not imported."""
    monkeypatch.chdir(tmp_path)
    mine, ran = tmp_path / "code_of_a_stranger.py", tmp_path / "ran"
    mine.write_text(f"open({str(ran)!r}, 'w').close()\n\ndef same(module):\n    return module\n", "utf-8")
    module = program(WEIGHTS)
    assert build(module, tmp_path / "out", passes="own[run=code_of_a_stranger:same]").holds and ran.exists()
    ran.unlink()
    monkeypatch.delitem(sys.modules, "code_of_a_stranger")
    assert verify(tmp_path / "out").holds and not ran.exists()


def test_a_run_ends_at_the_line_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("assay.lower.loops.tiles.tile_kernels", differences)
    case = Shown(
        "R31", "run FILE.py --passes fold,tile", HEAD + WEIGHTS.replace("WEIGHT", str([[1.0] * 40] * 16)), code=1
    )
    said = run_commands(replace(case, program=str(case.program)[len(HEAD) :]), tmp_path, monkeypatch, capsys)
    assert "tile FAILS" in said and "output_0" not in said


@pytest.mark.parametrize("command", ["check", "run"])
def test_passes_that_are_asked_for_in_several_options_all_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text(HEAD + SOURCE)
    asked = ["--passes", "common", "--passes", "dead", *(["--stop-after", "dead"] if command == "check" else [])]
    assert assay(monkeypatch, command, tmp_path / "program.py", *asked) == 0
    told = re.findall(r"^(\w+) +proved ", capsys.readouterr().out, re.MULTILINE)
    assert told == ["common", "dead"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_says_what_each_pass_takes(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "argv", ["assay", "passes"])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= width
    assert assay(monkeypatch, "passes", "--json") == 0
    rows = {row["pass"].partition("[")[0]: row["pass"] for row in json.loads(capsys.readouterr().out)["passes"]}
    assert "\u2026" not in told and "..." not in told.replace("NAME,...", "")
    for stage in PASSES:
        for option in (f"{name}={form}" for name, form in stage.takes.items()):
            assert option in told and option in rows[stage.name]
