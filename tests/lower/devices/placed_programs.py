"""Programs on several devices for the tests of liveness, pools, the machine and C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.interp import vector
from assay.lower.devices import plan_devices
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Expr, call, constant, device_copy, function, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.types import TensorType
from assay.verify.app.stages import lowering_passes

CPU = VirtualDevice("cpu", 0, "c", "global")
CUDA = VirtualDevice("cuda", 0, "cuda", "global")
TEXTURE = replace(CUDA, scope="global.texture")
CONFIG = CompilationConfig.make([CPU.place, CUDA.place], default=CPU.place)
F4 = TensorType((2, 4), FLOAT32)
X = np.array([[0.5, -1.0, 2.0, 0.25], [1.0, 2.0, -3.0, 0.0]], np.float32)


def on(device: VirtualDevice, name: str, *args: Expr) -> Expr:
    """A call of an operator on a device."""
    return replace(call(operator(name), *args), device=device)


def source() -> Module:
    """Some steps on the one device, some on the other, one value in a texture, a choice on the host, a constant on
    each."""
    x, flag = replace(var("x", F4), device=CPU), replace(var("flag", TensorType((), BOOL)), device=CPU)
    b = on(CUDA, "exp", device_copy(on(CPU, "tanh", x), CUDA))
    t = on(TEXTURE, "nn.relu", b)
    s = on(CUDA, "nn.softmax", b)
    three = np.full((2, 4), 3, np.float32)
    w = on(CUDA, "multiply", on(CUDA, "add", s, t), replace(constant(three), device=CUDA))
    back = var("back", F4)
    z = if_(flag, on(CPU, "negative", back), x)
    y = on(CPU, "add", z, replace(constant(three), device=CPU))
    return Module({"main": function([x, flag], let(back, device_copy(w, CPU), tuple_of(y, w)))})


def planned_source() -> Module:
    """`source` with a full device on every expression."""
    return plan_devices(source(), CONFIG)


def living(module: Module) -> Module:
    """A module with devices up to liveness."""
    for name, stage in lowering_passes(vector.run).items():
        if name == "liveness":
            break
        module = stage(module)
    return module


def planned() -> Module:
    """`source` through all stages."""
    return plan_pools(find_lives(living(planned_source()), host=CPU))
