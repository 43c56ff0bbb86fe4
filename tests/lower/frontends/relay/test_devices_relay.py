"""What Relay's text says of devices: the forms of on_device, copies with both ends, parameters, results (rows V2 and
V3)."""

from __future__ import annotations

import pytest

from assay.lower.devices import plan_devices
from assay.lower.frontends.relay import parse_relay
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, OnDevice, Tuple
from assay.semantics.walk import post_order
from tests.lower.devices import device_cases

pytestmark = [pytest.mark.row("V2"), pytest.mark.row("V3"), pytest.mark.row("R26")]
CPU, GPU = VirtualDevice("cpu", 0), VirtualDevice("cuda", 0)
T = "Tensor[(5, 7), float32]"
C, G = "meta[VirtualDevice][0]", "meta[VirtualDevice][1]"
METADATA = """
#[metadata]
{
  "root": 1,
  "nodes": [
    {"type_key": ""},
    {"type_key": "Map", "keys": ["VirtualDevice"], "data": [2]},
    {"type_key": "Array", "data": [3, 4]},
    {"type_key": "VirtualDevice", "attrs": {"device_type_int": "1", "virtual_device_id": "0", "target": "0", \
"memory_scope": "5"}},
    {"type_key": "VirtualDevice", "attrs": {"device_type_int": "2", "virtual_device_id": "0", "target": "0", \
"memory_scope": "5"}},
    {"type_key": "runtime.String", "repr_str": ""}
  ]
}
"""


def relay(body: str, params: str = f"%a: {T}, %b: {T}, %c: {T}, %d: {T}") -> graph.Function:
    return parse_relay(f'#[version = "0.0.5"]\ndef @main({params}) {{\n{body}\n}}\n{METADATA}').main


def marks(function: graph.Function) -> list[tuple[VirtualDevice, bool, bool]]:
    root: Expr = function
    return [(n.wanted, n.constrain_body, n.constrain_result) for n in post_order(root) if isinstance(n, OnDevice)]


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        (f"virtual_device={C}", (CPU, True, False)),
        (f"virtual_device={G}, constrain_result=True", (GPU, True, True)),
        (f"virtual_device={C}, constrain_body=False", (CPU, False, False)),
        (f"virtual_device={C}, constrain_body=False, constrain_result=True", (CPU, False, True)),
        ("device_type=2", (VirtualDevice("cuda"), True, False)),
        ("device_type=1, is_fixed=True", (VirtualDevice("cpu"), True, True)),
        ("", (ANYWHERE, True, False)),
    ],
)
def test_on_device(attrs: str, wanted: tuple[VirtualDevice, bool, bool]) -> None:
    assert marks(relay(f"on_device(add(%a, %b){', ' + attrs if attrs else ''})")) == [wanted]


def test_a_copy_says_both_ends() -> None:
    main = relay(f"device_copy(add(%a, %b), src_virtual_device={C}, dst_virtual_device={G})")
    assert marks(main) == [(CPU, True, True)] and main.body.device == GPU
    assert isinstance(main.body, Call) and getattr(main.body.op, "name", "") == "device_copy"
    old = relay("device_copy(%a, src_dev_type=1, dst_dev_type=2)")
    assert marks(old) == [(VirtualDevice("cpu"), True, True)] and old.body.device == VirtualDevice("cuda")


def test_a_tuple_is_copied_field_by_field() -> None:
    main = relay(f"%0 = (%a, %b);\n device_copy(%0, dst_virtual_device={G})")
    assert isinstance(main.body, Tuple) and [f.device for f in main.body.fields] == [GPU, GPU]


def test_parameters_and_results() -> None:
    params = f"%a {{virtual_device={C}}}: {T}, %b: {T}, virtual_device={G}"
    main = relay(f"let %x {{virtual_device={C}}} = add(%a, %a);\n add(%x, %b)", params)
    assert [p.device for p in main.params] == [CPU, ANYWHERE]
    assert main.device == GPU and not main.attrs
    assert isinstance(main.body, graph.Let) and main.body.var.device == CPU


@pytest.mark.parametrize("body", ["on_device(%a, virtual_device=1)", "on_device(%a, device_type=99)"])
def test_what_is_no_device(body: str) -> None:
    with pytest.raises(Invalid, match=r"(?s)on_device.*\[relay.C11\]"):
        relay(body)


CASES = {
    "left_add_on_cpu": f"%0 = on_device(add(%a, %b), virtual_device={C});\n subtract(%0, add(%c, %d))",
    "left_add_on_cpu_via_copy":
        f"%0 = device_copy(add(%a, %b), src_virtual_device={C}, dst_virtual_device={G});\n subtract(%0, add(%c, %d))",
    "let_on_cpu":
        f"let %l = add(%a, %b);\n let %r = add(%c, %d);\n subtract(on_device(%l, virtual_device={C}), %r)",
    "unpropagatable_graph":
        f"%0 = on_device(add(%a, %b), virtual_device={C});\n %1 = on_device(multiply(%c, %d), virtual_device={G});\n"
        f" on_device(subtract(%0, %1), virtual_device={C})",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_relay_is_planned_as_our_text(name: str) -> None:
    case = device_cases.read(name)
    module = parse_relay(
        f'#[version = "0.0.5"]\ndef @main(%a: {T}, %b: {T}, %c: {T}, %d: {T}) {{ {CASES[name]} }}\n{METADATA}'
    )
    assert first_difference(plan_devices(module, case.config), case.planned) is None
