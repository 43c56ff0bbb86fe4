"""Recursion over frames runs as the recursion does: the same values, prints and traps, as far as there are frames."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from assay.interp import graph
from assay.lower.anf import to_anf
from assay.lower.recursion import frame_recursion, needs_frames
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Call, Function, let_chain
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.lower.recursion.framed import framed, normal, runs
from tests.lower.recursion.programs import (
    LINEAR,
    LOCAL,
    MUTUAL,
    ORDER,
    PROGRAMS,
    SIZES,
    TAILS,
    TREE,
    Recursive,
    program,
)
from tests.observation import observe


@pytest.mark.parametrize("name", PROGRAMS)
def test_frames_run_as_the_recursion_does(name: str) -> None:
    """At depths 0, 1, 2 and more; the last takes all frames that there are, and one frame less is too few for it."""
    case = PROGRAMS[name]
    before, after = framed(case, case.frames)
    check(after)
    assert needs_frames(parse(case.text)) and not needs_frames(after)
    for given in runs(case, before):
        assert observe(before, given).difference(observe(after, given)) is None, given
    _, lower = framed(case, case.frames - 1)
    wanted, found = observe(before, given), observe(lower, given)
    assert found.trap is not None and found.trap.kind == "assertion"
    assert f"takes more than {case.frames - 1} frames" in found.trap.what and "recursion[depth=N]" in found.trap.what
    assert len(found.trace) <= len(wanted.trace)


def test_a_trap_of_the_program_comes_behind_the_same_prints() -> None:
    before, after = framed(ORDER)
    given = {**next(runs(ORDER, before)), "n": 7}
    wanted = observe(before, given)
    assert wanted.trap is not None and "too large" in wanted.trap.what and len(wanted.trace) > 10
    assert wanted.difference(observe(after, given)) is None


def test_what_needs_no_frame_takes_none() -> None:
    """A tail call beside calls that are none; and a loop is left as it is."""
    before, after = framed(TAILS, 3)
    given = {"m": 1, "n": 2}  # three calls that wait at most, and as many tail calls
    assert observe(before, given).difference(observe(after, given)) is None
    loop = LINEAR.text.replace('R.add(cls.f(R.subtract(n, R.const(1, "int64")), R.nn.relu(x)), x)', "cls.f(n, x)")
    module = parse(loop)
    assert not needs_frames(module)
    module = to_anf(module)
    assert frame_recursion(module) is module


def stacks(module: Module, name: str) -> list[str]:
    of = module.definitions[name]
    assert isinstance(of, Function)
    return [str(p.type) for p in of.params if p.name.startswith("s")]


def test_what_each_call_hands_on_and_what_is_made_again_is_not_kept() -> None:
    handed_on = LINEAR.text.replace("R.nn.relu(x)", "x")
    assert stacks(frame_recursion(normal(handed_on)), "f_parts") == []
    assert stacks(framed(LINEAR)[1], "f_parts") == ["Tensor((64, 3), float32)"]
    assert stacks(framed(TREE)[1], "fib_parts") == ["Tensor((64), int64)"]  # n, then the value of the first call
    assert stacks(framed(SIZES)[1], "f_g_parts") == ["Tensor((64, k, 2), float32)", "Tensor((64, k), float32)"]


@pytest.mark.parametrize(("said", "asked", "there"), [(None, "", 64), (5, "", 5), (5, "9", 9)])
def test_who_says_how_many_frames_there_are(said: int | None, asked: str, there: int) -> None:
    text = LINEAR.text
    if said is not None:
        head = text.index("if R.less")
        text = f'{text[:head]}R.func_attr({{"recursion_depth": {said}}})\n        {text[head:]}'
    after = frame_recursion(normal(text), asked)
    of = after.definitions["f_parts"]
    assert isinstance(of, Function)
    kind = of.params[-1].type
    assert isinstance(kind, TensorType) and kind.shape[0] == there


def test_an_attribute_that_says_no_depth_is_refused() -> None:
    head = TREE.text.index("if R.less")
    text = f'{TREE.text[:head]}R.func_attr({{"recursion_depth": 0}})\n        {TREE.text[head:]}'
    with pytest.raises(Invalid, match="a whole number from 1") as wrong:
        frame_recursion(normal(text))
    assert wrong.value.label == "recursion.C5"


def changed(case: Recursive, *pairs: tuple[str, str]) -> str:
    text = case.text
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


HIGHER = program(
    """
@R.function
def f(n: <N>, x: <V>) -> <V>:
    @R.function
    def inner(y: <V>) -> <V>:
        return cls.f(R.subtract(n, R.const(1, "int64")), y)
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        r = R.add(inner(x), x)
    return r
@R.function
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    (),
    0,
)
GROWING = program(
    """
@R.function
def f(n: <N>, x: R.Tensor(("k",), "float32")) -> R.Tensor((), "float32"):
    if R.less_equal(n, R.const(0, "int64")):
        r = R.sum(x)
    else:
        r = R.add(cls.f(R.subtract(n, R.const(1, "int64")), R.concat((x, x), axis=0)), R.sum(x))
    return r
@R.function
def main(n: <N>, x: <V>) -> R.Tensor((), "float32"):
    return cls.f(n, x)
""",
    (),
    0,
)
REFERENCE = program(
    """
@R.function(pure=False)
def f(n: <N>, x: <V>) -> <V>:
    c = A.ref(x)
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        y = cls.f(R.subtract(n, R.const(1, "int64")), x)
        r = R.add(A.read(c), y)
    return r
@R.function(pure=False)
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    (),
    0,
)
SQUARE = program(
    """
@R.function
def f(n: <N>, x: R.Tensor(("a", "b"), "float32")) -> R.Tensor((), "float32"):
    if R.less_equal(n, R.const(0, "int64")):
        r = R.sum(x)
    else:
        y = A.match_cast(x, R.Tensor(("a", "a"), "float32"))
        r = R.add(cls.g(R.subtract(n, R.const(1, "int64")), y), R.sum(x))
    return r
@R.function
def g(n: <N>, x: R.Tensor(("k", "k"), "float32")) -> R.Tensor((), "float32"):
    return R.negative(cls.f(n, x))
@R.function
def main(n: <N>, x: R.Tensor((2, 2), "float32")) -> R.Tensor((), "float32"):
    return cls.f(n, x)
""".replace("A.match_cast", "R.match_cast"),
    ((0,), (2,)),
    4,
)
TOLD = program(
    """
@R.function
def f(n: <N>, x: R.Tensor(("k",), "float32")) -> R.Tensor((), "float32"):
    if R.less_equal(n, R.const(0, "int64")):
        r = R.sum(x)
    else:
        m = T.int64()
        u = R.match_cast(cls.part(n, x), R.Tensor(("m",), "float32"))
        y = cls.f(R.subtract(n, R.const(1, "int64")), x)
        v = R.match_cast(cls.part(n, x), R.Tensor(("m",), "float32"))
        r = R.add(R.sum(v), y)
    return r
@R.function
def part(n: <N>, x: R.Tensor(("k",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
    if R.less_equal(n, R.const(1, "int64")):
        r = x
    else:
        r = R.concat((x, x), axis=0)
    return r
@R.function
def main(n: <N>, x: <V>) -> R.Tensor((), "float32"):
    return cls.f(n, x)
""",
    ((0,), (2,)),
    2,
)
REFUSED = {
    "square": (SQUARE.text, "recursion.C2", "a and b of one function are one size of another"),
    "told": (TOLD.text, "recursion.C2", "m is a size that a run tells, of its result or in several places"),
    "told once": (
        changed(TOLD, ('v = R.match_cast(cls.part(n, x), R.Tensor(("m",), "float32"))', "v = R.exp(u)")),
        "recursion.C2",
        "is needed behind a call",
    ),
    "inside": (HIGHER.text, "recursion.C1", "a function inside of it calls it"),
    "growing": (GROWING.text, "recursion.C2", "arguments keep the sizes that they began with"),
    "reference": (REFERENCE.text, "recursion.C4", "is needed behind a call"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_refused_by_name(name: str) -> None:
    text, label, said = REFUSED[name]
    with pytest.raises(Unsupported, match=re.escape(said)) as wrong:
        frame_recursion(normal(text))
    assert wrong.value.label == label and "--vm" in wrong.value.message and wrong.value.where is not None


def test_functions_on_several_devices_are_refused() -> None:
    there = {p: VirtualDevice(p, 0, p) for p in ("cpu", "cuda")}
    before = normal(LINEAR.text)
    f = before.definitions["f"]
    assert isinstance(f, Function)
    one = rewrite_function(f, lambda n: replace(n, device=there["cuda"]) if isinstance(n, Call) else n)
    with pytest.raises(Unsupported, match="it is on anywhere and cuda") as wrong:
        frame_recursion(before.with_(f=one))
    assert wrong.value.label == "recursion.C7"


def test_functions_with_results_of_other_types_are_refused() -> None:
    text = changed(
        MUTUAL,
        ("def odd(x: R.Tensor((3,), \"float32\"), n: R.Tensor((), \"int64\")) -> R.Tensor((3,), \"float32\")",
         "def odd(x: R.Tensor((3,), \"float32\"), n: R.Tensor((), \"int64\")) -> R.Tensor((3,), \"float64\")"),
        ("r = R.negative(x)\n", "r = R.astype(R.negative(x), \"float64\")\n"),
        ("r = R.subtract(y, z)", "r = R.astype(R.subtract(y, z), \"float64\")"),
        ("r = R.add(y, x)", "r = R.add(R.astype(y, \"float32\"), x)"),
        ("-> R.Tuple(R.Tensor((3,), \"float32\"), R.Tensor((3,), \"float32\"))",
         "-> R.Tuple(R.Tensor((3,), \"float32\"), R.Tensor((3,), \"float64\"))"),
    )  # fmt: skip
    with pytest.raises(Unsupported, match=re.escape("its functions give")) as wrong:
        frame_recursion(normal(text))
    assert wrong.value.label == "recursion.C3"


def test_many_calls_in_one_body_are_cut() -> None:
    lines = "".join(f"        y{i} = cls.f(m, {f'y{i - 1}' if i else 'x'})\n" for i in range(60))
    text = LINEAR.text.replace(
        '            r = R.add(cls.f(R.subtract(n, R.const(1, "int64")), R.nn.relu(x)), x)\n',
        '            m = R.subtract(n, R.const(1, "int64"))\n' + lines.replace("        y", "            y")
        + "            r = R.add(y59, x)\n",
    )  # fmt: skip
    before = normal(text)
    after = frame_recursion(before)
    given = {**next(runs(LINEAR, before)), "n": 1}
    assert observe(before, given).difference(observe(after, given)) is None


def test_main_may_call_itself() -> None:
    text = LINEAR.text[: LINEAR.text.index("    @R.function\n    def main")].replace("def f(", "def main(")
    before = normal(text.replace("cls.f(", "cls.main("))
    after = frame_recursion(before)
    assert len(let_chain(after.main.body)[0]) > 3 and not needs_frames(after)
    given = {**next(runs(LINEAR, before)), "n": 5}
    assert observe(before, given).difference(observe(after, given)) is None


def test_local_functions_have_frames_of_their_own() -> None:
    before, after = framed(LOCAL)
    assert [n for n in after.definitions if n not in before.definitions] == ["g_frame", "f_frame"]
    with pytest.raises(Trap):
        graph.run(framed(LOCAL, 1)[1], {**next(runs(LOCAL, before)), "n": 3})
