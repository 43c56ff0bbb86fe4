"""Devices as a stranger writes them: odd words, impossible wishes, damaged configurations, deep types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.lower.devices import plan_devices
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, function, on_device, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.app import certificate
from assay.verify.devices import check_devices
from assay.verify.devices.demands import Demands

TWO = CompilationConfig.read(["cpu", "cuda"], default="cuda")


def main(
    body: str, params: str = 'x: R.Tensor((3,), "float32")', gives: str = 'R.Tensor((3,), "float32")', head: str = ""
) -> str:
    return f"@I.ir_module\nclass Module:\n{head}    @R.function\n    def main({params}) -> {gives}:\n        {body}\n"


@pytest.mark.row("V2")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (main('return A.on_device(x, "cuda", constrain_body="no")'), "are True or False"),
        (main('return A.on_device(x, "cuda", 0, "", "texture", 9)'), "are True or False"),
        (main('return A.on_device(x, "cuda", id=3, id=4)'), "the argument id is given twice"),
        (main('return R.sum(x, axis=0, axis=None)', gives='R.Tensor((), "float32")'),
            "the argument axis is given twice"),
        (main('return A.on_device(x, "cuda", 1 << 31)'.replace("1 << 31", str(2**31))), "at most 2147483647"),
        (
            main('return x', head='    A.devices({"a:0": ("cpu", 0)})\n    A.devices({"a:0": ("cuda", 0)})\n'),
            "'a:0' is the name of cpu:0 already",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_shown_in_its_line(text: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        parse(text, "m.py")
    assert says in str(wrong.value) and "m.py:" in str(wrong.value)


@pytest.mark.row("V4")
def test_a_device_of_a_command_line_has_an_id_that_c_can_say() -> None:
    with pytest.raises(Invalid, match=r"at most 2147483647.*device\.C1"):
        CompilationConfig.read(["cuda:9999999999"])


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    ("body", "params"),
    [
        ('return A.on_device(R.shape_of(x), "cuda")', 'x: R.Tensor(("n",), "float32")'),
        ("return s", 's: A.on(R.Shape(["n"]), "cuda")'),
    ],
)
def test_a_shape_elsewhere_is_told_the_rule(body: str, params: str) -> None:
    """Nobody has written that it is on the cpu, and it cannot be copied."""
    module = parse(main(body, params, 'R.Shape(["n"])'), "m.py")
    check(module)
    with pytest.raises(Invalid) as wrong:
        plan_devices(module, TWO)
    said = str(wrong.value)
    assert "on cuda; but a shape lives on the host, cpu:0" in said and "m.py:" in said
    assert "device_copy" not in said


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    "damage",
    [
        {"there": [["cuda", 0, "cuda"], ["cpu", 0, []]]},
        {"there": [["cuda", 0, "cuda"], ["cpu", 1.5, "c"]]},
        {"there": [["cuda", 0, "cuda"], ["cpu", True, "c"]]},
        {"there": [["cuda", 0, "cuda"], ["cpu", -1, "c"]]},
        {"there": [["cuda", 0, "cuda"], ["cpu", 10**30, "c"]]},
        {"there": [["cuda", 0, "cuda"], ["cuda", 0, "cuda"]]},
        {"there": []}, {"host": True}, {"host": -1}, {"default": 2}, {"default": "0"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_damaged_configuration_is_no_certificate(tmp_path: Path, damage: dict[str, Any]) -> None:
    devices = {"there": [["cuda", 0, "cuda"], ["cpu", 0, "c"]], "host": 1, "default": 0}
    whole = {"format": certificate.FORMAT, "name": "m", "seed": 0, "interface": "unpacked", "device": ""}
    behind = {
        "model": {
            "file": "0" * 64,
            "beside": {},
            "dims": {},
            "bounds": {},
            "defaults": {},
            "given": [],
            "module": "0" * 64,
        },
        "lines": [],
        "about": {"seconds": [], "compiler": "", "libm": ""},
        "files": {},
    }
    path = tmp_path / certificate.FOLDER / "manifest.json"
    path.parent.mkdir()
    for given, says in ((devices, "no digest"), ({**devices, **damage}, "")):
        path.write_text(
            json.dumps({**whole, "devices": given, "passes": "", "prove": False, **behind}, indent=1) + "\n"
        )
        with pytest.raises(Invalid, match=r"certificate\.C1") as wrong:
            certificate.Stored(tmp_path)
        assert says in str(wrong.value) and (says or "no digest" not in str(wrong.value))


@pytest.mark.row("V21")
def test_deep_tuples_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a nested type once, not once for each tuple around it."""
    x = var("x", TensorType((3,), FLOAT32))
    value: Expr = x
    for _ in range(2000):
        value = tuple_of(value)
    module = Module({"main": function([x], on_device(value, VirtualDevice("cuda")))})
    demands = Demands(module, TWO, "place")
    assert demands.tensors(value.type) == 1 and len(demands.counts) <= 2 * 2001
    assert check_devices(module, plan_devices(module, TWO), TWO).holds
