"""Assay: what a tensor program means, its lowering to C, and the proof of each step (specs/verify.md, "From Python").

    module = assay.load("model.onnx", dims={"N": 2})
    outputs = assay.run(module, {"x": x})
    judgement = assay.judge("model.onnx", ["onnxruntime"])
    report = assay.check("model.onnx", backends=["onnxruntime"])
    assay.build("model.onnx", "out")
    assay.verify("out")
    assay.prove(module)
    assay.plan("buffers.csv", capacity=65536)

What stands in `__all__` is stable; each name is imported where it is first used. The four rooms below are
`assay.semantics` (what it is), `assay.interp` (run it), `assay.lower` (make it concrete) and `assay.verify` (is it
right?).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.semantics import builder as builder
    from assay.semantics.errors import (
        AssayError as AssayError,
        BudgetSpent as BudgetSpent,
        Crash as Crash,
        EnvironmentFailure as EnvironmentFailure,
        Invalid as Invalid,
        Trap as Trap,
        Unsupported as Unsupported,
    )
    from assay.semantics.module import Module as Module
    from assay.verify import strategies as strategies
    from assay.verify.api.check import Report as Report, build as build, check as check, verify as verify
    from assay.verify.api.judge import judge as judge
    from assay.verify.api.plan import MemoryPlan as MemoryPlan, plan as plan
    from assay.verify.api.programs import load as load
    from assay.verify.api.prove import Proofs as Proofs, prove as prove
    from assay.verify.api.run import run as run
    from assay.verify.backends.protocol import Backend as Backend
    from assay.verify.judge.judgement import Judgement as Judgement
    from assay.verify.plugins import onnx_backend as onnx_backend

    __version__: str

_HOMES = {
    "assay.semantics.errors": (
        "AssayError", "BudgetSpent", "Crash", "EnvironmentFailure", "Invalid", "Trap", "Unsupported",
    ),
    "assay.semantics.module": ("Module",),
    "assay.semantics.text.brief": ("text_for_people",),
    "assay.verify.api.check": ("Report", "build", "check"),
    "assay.verify.api.judge": ("judge",),
    "assay.verify.api.plan": ("MemoryPlan", "plan"),
    "assay.verify.api.programs": ("load",),
    "assay.verify.api.prove": ("Proofs", "prove"),
    "assay.verify.api.run": ("run",),
    "assay.verify.backends.protocol": ("Backend",),
    "assay.verify.judge.judgement": ("Judgement",),
}  # fmt: skip
"""The module of each name that is no module itself."""
_MODULES = {
    "builder": "assay.semantics.builder", "onnx_backend": "assay.verify.plugins.onnx_backend",
    "strategies": "assay.verify.strategies", "verify": "assay.verify",
}  # fmt: skip
"""`verify` is a room, which can be called: verify/__init__.py."""

__all__ = [
    "AssayError",
    "Backend",
    "BudgetSpent",
    "Crash",
    "EnvironmentFailure",
    "Invalid",
    "Judgement",
    "MemoryPlan",
    "Module",
    "Proofs",
    "Report",
    "Trap",
    "Unsupported",
    "__version__",
    "build",
    "builder",
    "check",
    "judge",
    "load",
    "onnx_backend",
    "plan",
    "prove",
    "run",
    "strategies",
    "verify",
]


if not TYPE_CHECKING:  # a type checker knows the names, and what is none of them

    def __getattr__(name: str) -> Any:
        home = next((home for home, names in _HOMES.items() if name in names), "")
        if name in _MODULES:
            value = import_module(_MODULES[name])
        elif name == "__version__":
            value = import_module("importlib.metadata").version("assay")
        elif home:
            value = getattr(import_module(home), name)
            if home.startswith("assay.verify.api.") and not isinstance(value, type):
                value = import_module("assay.verify.api.surface").for_python(value)
        else:
            raise AttributeError(f"module 'assay' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
