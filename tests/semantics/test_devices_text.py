"""Devices in the text: printing then parsing keeps the device of everything, what is wrong is shown in its line."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_hash
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, Let, OnDevice, Var, call, let, var
from assay.semantics.module import Module
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.text.graph.default_device import parts_of, with_devices
from assay.semantics.text.module_text import parse, show, show_function
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.strategies.graphs import Maker
from tests.lower import small_programs
from tests.lower.anf import shared_programs
from tests.semantics.device_scatter import CPU, FULL, GPU, OTHER, PARTIAL, scattered
from tests.verify.app.test_cli import assay

pytestmark = [pytest.mark.row("V2"), pytest.mark.row("V3")]
V = TensorType((2,), FLOAT32)


def identity(module: Module) -> str:
    """The text of a module, which is read back as an equal one and printed again as the same text."""
    text = show(module)
    back = parse(text, "printed.py")
    assert first_difference(module, back) is None
    assert show(back) == text
    return text


def body(
    *lines: str, params: str = 'x: R.Tensor((2,), "float32")', result: str = "", head: Sequence[str] = ()
) -> Module:
    """A module of one function with these lines."""
    arrow = f" -> {result}" if result else ""
    text = [
        "@I.ir_module",
        "class Module:",
        *(f"    {h}" for h in head),
        "    @R.function",
        f"    def main({params}){arrow}:",
    ]
    return parse("\n".join([*text, *(f"        {line}" for line in lines)]) + "\n", "m.py")


# --- identity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("devices", "often"), [(FULL, 1.0), (FULL[:2], 1.0), (FULL, 0.5), ((*PARTIAL, *FULL), 0.7)])
def test_every_device_is_read_back(devices: Sequence[VirtualDevice], often: float) -> None:
    homes = 0
    for seed in range(10):
        rng = random.Random(seed)
        plain = Maker(rng.randrange).module()
        module = scattered(plain, rng, devices, often)
        text = identity(module)
        homes += "A.home(" in text
        assert first_difference(plain, module) is not None
        for make in (shared_programs.program, small_programs.program):
            identity(scattered(make(seed)[0], rng, devices, often))
    assert homes == 10 if often == 1.0 else homes <= 2  # by chance all of a small program can say one device


def test_a_change_of_one_device_is_seen() -> None:
    """The planted fault: equality, hash and text tell two modules apart that differ in the device of one thing only."""
    for seed in range(40):
        rng = random.Random(seed)
        module = scattered(Maker(rng.randrange).module(), rng, FULL)
        main = module.main
        at = rng.choice(list(parts_of(main)))
        changed = module.with_(main=with_devices(main, {id(at): CPU if at.device == OTHER else OTHER}))
        assert first_difference(module, changed) is not None, at
        assert structural_hash(module) != structural_hash(changed)
        assert show(module) != show(changed)


def test_a_function_alone_is_read_back() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        one = scattered(Module({"main": _without_data(seed)}), rng, FULL)
        assert first_difference(one, parse(show_function(one.main))) is None


def _without_data(seed: int) -> Function:
    x = var("x", V)
    value = call("add", call("exp", x), x)
    body = graph.if_(graph.constant(seed % 2 == 0), graph.let(y := var("y", V), value, call("multiply", y, value)), x)
    return graph.function([x], body)


def test_a_planned_function_says_what_differs() -> None:
    a, b, c = (replace(var(n, V), device=d) for n, d in (("a", CPU), ("b", CPU), ("c", GPU)))
    left = replace(var("left", V), device=CPU)
    there = replace(var("there", V), device=GPU)
    value = replace(call("add", a, b), device=CPU)
    total = replace(call("subtract", there, c), device=GPU)
    inner = replace(let(there, graph.device_copy(left, GPU), total), device=GPU)
    main = replace(graph.function([a, b, c], replace(let(left, value, inner), device=GPU)), device=GPU)
    lines = [line.strip() for line in identity(Module({"main": main})).splitlines()]
    of = 'R.Tensor((2,), dtype="float32")'
    assert lines[-5:] == [
        f'def main(a: A.on({of}, "cpu:0"), b: A.on({of}, "cpu:0"), c: {of}) -> {of}:',
        'A.home("cuda:0")',
        'left: R.Tensor((2,), dtype="float32") = A.on(R.add(a, b), "cpu:0")',
        'there: R.Tensor((2,), dtype="float32") = A.device_copy(left)',
        "return R.subtract(there, c)",
    ]
    named = '{"cpu:0": ("cpu", 0, "llvm -mcpu=native", "global"), "cuda:0": ("cuda", 0, "cuda -arch=sm_80", "global")}'
    assert f"A.devices({named})" in lines


def test_references_are_short() -> None:
    """A device that says little is written out, one of which a function is full is said once; others have names."""
    x = replace(var("x", V), device=VirtualDevice("cuda"))
    lines = {
        VirtualDevice("cuda"): '"cuda"', VirtualDevice("cuda", 1): '"cuda", 1', VirtualDevice(id=2): "id=2",
        VirtualDevice(scope="shared"): 'scope="shared"', VirtualDevice("npu", scope="tiles"): '"npu", -1, "", "tiles"',
    }  # fmt: skip
    for device, words in lines.items():
        value = graph.on_device(x, device, constrain_body=False)
        assert f"A.on_device(x, {words}, constrain_body=False)" in identity(
            Module({"main": graph.function([x], value)})
        )


@pytest.mark.parametrize("body", [True, False])
@pytest.mark.parametrize("result", [True, False])
@pytest.mark.parametrize("device", [*FULL, *PARTIAL, ANYWHERE], ids=str)
def test_every_form_of_on_device(body: bool, result: bool, device: VirtualDevice) -> None:
    x = var("x", V)
    value = graph.on_device(call("exp", x), device, constrain_body=body, constrain_result=result)
    module = Module({"main": graph.function([x], call("negative", value))})
    identity(module)
    back = parse(show(module)).main.body.children[0]
    assert isinstance(back, OnDevice)
    assert (back.wanted, back.constrain_body, back.constrain_result) == (device, body, result)


def test_a_copy_says_both_ends() -> None:
    module = body('return A.on(A.device_copy(A.on(R.exp(x), "cpu", 0)), "cuda:1:shared")')
    copy = module.main.body
    assert isinstance(copy, Call) and copy.device == VirtualDevice("cuda", 1, scope="shared")
    assert copy.args[0].device == VirtualDevice("cpu", 0)
    identity(module)


def test_names_of_devices() -> None:
    head = ['A.devices({"cuda:0": ("cuda", 0, "cuda -arch=sm_80", "global"), "fast:1": ("npu",)})']
    module = body('return A.on(R.exp(A.on(R.negative(x), "fast:1")), "cuda:0", scope="global")', head=head)
    assert module.main.body.device == GPU and module.main.body.children[0].device == VirtualDevice("npu")
    plain = body('return A.on(R.exp(A.on(R.negative(x), "llvm:1")), "cuda:0")')
    assert plain.main.body.device == VirtualDevice("cuda", 0)
    assert plain.main.body.children[0].device == VirtualDevice("cpu", 1, "llvm")


def test_tvms_devices_count_those_of_a_kind() -> None:
    head = [
        (
            'I.module_global_infos({"vdevice":'
            ' [I.vdevice("llvm"), I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0, "shared")]})'
        )
    ]
    module = body(
        'y: R.Tensor((2,), "float32", "cuda:0:shared") = R.to_vdevice(x, dst_vdevice="cuda:0:shared")',
        "return y",
        head=head,
    )
    to = VirtualDevice("cuda", 0, "cuda", "shared")
    plain = body('return A.on(R.exp(x), "cuda")', head=head)
    assert plain.main.body.device == VirtualDevice("cuda")  # a word without a colon is a type
    let_ = module.main.body
    assert isinstance(let_, Let) and let_.var.device == let_.value.device == to
    pair = body(
        "return x", params='x: R.Tuple(R.Tensor((2,), "float32", "cuda:0"), R.Tensor((2,), "float32"))', head=head
    )
    assert pair.main.params[0].device == to
    hint = body('return R.hint_on_device(x, R.device(device_type=2, index=1), "global")').main.body
    assert isinstance(hint, OnDevice) and hint.wanted == VirtualDevice("cuda", 1, scope="global")
    assert (hint.constrain_body, hint.constrain_result) == (False, True)


def test_many_nodes_and_deep_ones() -> None:
    nested = x = replace(var("x", V), device=GPU)
    for i in range(4_000):
        nested = replace(call("negative", nested), device=CPU if i % 1000 == 0 else GPU)
    names = [x, *(replace(var("v", V), device=GPU) for _ in range(4_000))]
    chained = names[-1]
    for a, b in reversed(list(zip(names, names[1:], strict=False))):
        chained = replace(let(b, replace(call("negative", a), device=GPU), chained), device=GPU)
    for made in (nested, chained):
        module = Module({"main": replace(graph.function([x], made), device=GPU)})
        assert first_difference(module, parse(show(module))) is None


# --- other ways of keeping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [FULL, PARTIAL])
def test_storing_and_rewriting_keep_devices(devices: Sequence[VirtualDevice], tmp_path: Path) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        module = scattered(Maker(rng.randrange).module(), rng, devices)
        with (tmp_path / "arrays").open("wb") as file:
            text = encode(module, ArrayWriter(file))
        assert first_difference(module, decode(text, ArrayReader(tmp_path / "arrays"))) is None
        for d in module.definitions.values():
            if isinstance(d, Function):
                for node in parts_of(d):
                    copies = [replace(c, span=None) for c in node.children]
                    again: Expr = node.with_children(copies)
                    assert again.device == node.device and replace(node, span=None).device == node.device
                    assert node.with_children(node.children) is node
        main: Expr = module.main
        assert (
            first_difference(main, rewrite(main, lambda n: n if isinstance(n, Var) else replace(n, span=None))) is None
        )


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "label", "says"),
    [
        (['return R.exp(A.on(x, "cuda"))'], "text.C19", "x lives where it is bound: write A.on(type, ...) there"),
        (["with A.graph():", "    g = R.exp(x)", 'return R.negative(A.on(g, "cuda"))'], "text.C19",
            "g = A.on(..., ...)"),
        (['return A.on(R.exp(x), "cuda", "0")'], "text.C6", "a type, an id, a target and a scope"),
        (['return A.on(R.exp(x), "cuda", True)'], "text.C6", "a type, an id, a target and a scope"),
        (['return A.on(R.exp(x), "cuda:one")'], "text.C6", "'cuda:one' is no device"),
        (['return A.on(R.exp(x), ":1")'], "text.C6", "':1' is no device"),
        (['return A.on(R.exp(x), "cuda:0", 1)'], "text.C6", "nothing but a scope can follow it"),
        (['return A.on(R.exp(x), "cuda:0:global", scope="shared")'], "device.C3", "cannot live on any shared"),
        (['return A.on(R.exp(x), "cpu", 0, "cuda")'], "device.C1", "which is for cuda"),
        (['return A.on(R.exp(x), "cpu", -2)'], "device.C1", "0 or more is wanted"),
        (['return A.on_device(x, 3)'], "text.C6", "a type, an id, a target and a scope"),
        (['y: R.Tuple(R.Tensor((2,), "float32", "cpu:0"), R.Tensor((2,), "float32", "cpu:1")) = (x, x)', "return y"],
            "text.C7", "cpu:0 and cpu:1"),
        (['return R.to_vdevice(x, 3)'], "text.C6", 'such as "llvm:0"'),
        (['return R.hint_on_device(x, "cuda:0")'], "text.C6", "R.device(device_type=1, index=0)"),
        (['return R.hint_on_device(x, R.device(device_type=99))'], "text.C6", "99 is no number of a type of device"),
        (['A.home("cuda:0")', 'A.home("cpu:0")', "return x"], "text.C20", "stands once"),
        (["if R.const(True):", '    y: A.on(R.Tensor((2,), "float32"), "cuda") = R.exp(x)', "else:", "    y = x",
            "return y"], "text.C19", "y = A.on(...)"),
    ],
)  # fmt: skip
def test_a_wrong_device_is_shown_in_its_line(lines: list[str], label: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        body(*lines)
    shown = str(wrong.value)
    assert wrong.value.label == label and says in shown
    assert "m.py:" in shown and "\n" in shown and "^" in shown


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('A.devices({"cuda": ("cuda", 0)})', "the name of a device has a colon"),
        ('A.devices({"cuda:0": "cuda"})', "names devices by their parts"),
        ('A.devices({"cuda:0": ("cpu", 0, "cuda")})', "which is for cuda"),
        ('I.module_global_infos({"vdevice": [I.vdevice("cuda")]})', "1 virtual devices of cuda"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_shown_in_its_line(head: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        body('y: R.Tensor((2,), "float32", "cuda:3") = R.exp(x)', "return y", head=[head])
    shown = str(wrong.value)
    assert says in shown and "m.py:" in shown and "^" in shown


def test_the_command_line_says_it_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):\n'
        '        return R.exp(A.on(x, "cuda"))\n'
    )
    assert assay(monkeypatch, "run", file) == 2
    said = "".join(capsys.readouterr())
    assert "lives where it is bound" in said and "^" in said
