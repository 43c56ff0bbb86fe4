"""Constants in a memory that kernels cannot read: loaded from there by copies, which you may write yourself (row
C8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp import machine, vector
from assay.lower.c import emit
from assay.lower.pool import Memory
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Trap
from assay.semantics.memory import Pool
from assay.semantics.module import Module
from assay.semantics.text.constants_text import house
from assay.semantics.text.module_text import parse
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from assay.verify.evidence import Context
from assay.verify.pool import check_pool
from tests.lower.memory.planned import same_bits

W = np.arange(8, dtype=np.float32)
X = np.ones(8, np.float32)
XIP = VirtualDevice("cpu", 0, "", "global.flash_xip")
TEXT = f"""
@I.ir_module
class Module:
    A.infos({{"w": [64, "", ["cpu", 0, "", "global.flash_xip"]]}})
    w = {house(W)}
    @T.prim_func(private=True)
    def add(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
        for i in range(8):
            c[i] = a[i] + b[i]
    @R.function
    def main(x: R.Tensor((8,), dtype="float32")):
        cls = Module
        y = R.call_tir(cls.add, (x, A.on(cls.w, "cpu", 0, "", "global.flash_xip")), out_ty=R.Tensor((8,), \
dtype="float32"))
        return y
"""


@pytest.fixture(scope="module")
def lowered() -> Module:
    """The program through all stages, each checked; the weights lie in the memory that is theirs."""
    memory = Memory((Pool("xip", "constant", XIP, read_only=True),))
    module, stages = parse(TEXT), lowering_passes(vector.run, memory)
    for stage in STAGES:
        made = stages[stage.name](module) if stage.name in stages else module
        evidence = stage.check(module, made, Context())
        assert evidence.holds, (stage.name, evidence.detail)
        module = made
    return module


@pytest.mark.row("C8")
def test_weights_are_copied_out_of_flash_before_use(lowered: Module) -> None:
    """The planner has put the copy in; it is not folded, and the machine never reads across."""
    program = lowered.program
    assert [s.kernel for s in program.calls] == ["device_copy", "add"]
    assert program.slots["w"].pool == "xip" and program.slots["w"].device.scope == XIP.scope
    assert program.slots[program.calls[0].writes[0]].device.scope == "global"
    assert check_pool(lowered)[0].holds
    assert same_bits(machine.run(lowered, {"x": X})["output_0"], X + W)
    direct = replace(program.calls[1], reads=("x", "w"))
    planted = lowered.with_(main=replace(program, steps=(program.steps[0], direct)))
    with pytest.raises(Trap) as wrong:
        machine.run(planted, {"x": X})
    assert wrong.value.kind == "wrong device"
    assert not check_pool(planted)[0].holds


@pytest.mark.row("C8", "C9")
def test_the_load_can_be_yours(lowered: Module) -> None:
    """In C the constants of the scope stand behind its macro, and the kernel that copies can be a driver's."""
    source = emit(lowered, "m")
    assert "ASSAY_SCOPE_GLOBAL_FLASH_XIP static const struct m_pool_xip_contents m_pool_xip" in source.source
    assert same_bits(compile_c(source, reproducible=True, flags=STRICT).run({"x": X})["output_0"], X + W)
    driver = """
int m_k_device_copy(const float *x, float *out)
{
    int i;
    for (i = 0; i < 8; ++i) {
        out[i] = x[i] + 100.0f; /* so that it can be told from the generated one */
    }
    return 0;
}
"""
    own = replace(source, source=source.source + driver)
    flags = (*STRICT, "-DM_EXTERNAL_DEVICE_COPY")
    assert same_bits(compile_c(own, reproducible=True, flags=flags).run({"x": X})["output_0"], X + W + np.float32(100))
