"""What TVM says of devices in Relax is read, from live objects and from the text that it prints for them, as the
same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Call, Expr, Let, OnDevice
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.semantics.walk import post_order

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")

from tvm.script import ir as I, relax as R  # noqa: E402

from assay.lower.devices import plan_devices  # noqa: E402
from assay.lower.frontends.tvm import from_tvm  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.row("V2"), pytest.mark.row("V3")]
CPU, GPU = VirtualDevice("cpu", 0, "llvm", "global"), VirtualDevice("opencl", 0, "opencl", "global")
TEXTURE = VirtualDevice("opencl", 0, "opencl", "global.texture")


@I.ir_module
class Hinted:
    I.module_global_infos(
        {
            "vdevice": [
                I.vdevice({"kind": "llvm"}, 0),
                I.vdevice({"kind": "opencl"}, 0),
                I.vdevice({"kind": "opencl"}, 0, "global.texture"),
            ]
        }
    )

    @R.function
    def main(x: R.Tensor((2,), "float32", "llvm:0"), y: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32", "opencl:0"
    ):
        a = R.add(x, x)
        b = R.to_vdevice(a, "opencl:0")
        c = R.hint_on_device(y, tvm.cpu())
        d = R.to_vdevice(c, "opencl:0")
        far = R.to_vdevice(b, "opencl:1")  # noqa: F841
        e: R.Tensor((2,), "float32", "opencl:0") = R.add(b, d)
        return e


def test_live_and_text_say_the_same() -> None:
    live, text = from_tvm(Hinted), parse(Hinted.script())
    bare = [Module({"main": replace(m.main, attrs={})}) for m in (live, text)]  # TVM does not print global_symbol
    assert first_difference(*bare) is None
    check(live)
    main = live.main
    assert main.params[0].device == CPU and main.device == GPU
    root: Expr = main
    copies = [n.device for n in post_order(root) if isinstance(n, Call) and getattr(n.op, "name", "") == "device_copy"]
    assert copies == [GPU, GPU, TEXTURE]
    hints = [n for n in post_order(root) if isinstance(n, OnDevice)]
    assert [(h.wanted, h.constrain_body, h.constrain_result) for h in hints] == [
        (VirtualDevice("cpu", 0, scope="global"), False, True)
    ]
    lets = {n.var.name: n.var.device for n in post_order(root) if isinstance(n, Let)}
    assert lets["e"] == GPU


def test_it_is_planned_and_means_the_same() -> None:
    module = from_tvm(Hinted)
    given = {"x": np.float32([1, 2]), "y": np.float32([3, 4])}
    before, after = run(module, given), run(plan_devices(module), given)
    for a, b in zip(before.values(), after.values(), strict=True):
        np.testing.assert_array_equal(a, b)
