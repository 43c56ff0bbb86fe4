"""apache-tvm judged from inside: after each pass, and at each call of a kernel (specs/verify.md, "Inside a backend").

    from assay.verify.tvm import judge_passes, judge_kernels

    report = judge_passes(mod, {"x": x}, pipeline="cpu")      # mod: a tvm.IRModule
    report.first                                              # the first pass that changed the meaning, or None
    judge_kernels(mod, {"x": x}).first                        # the first call of a kernel that is wrong, or None

apache-tvm is imported only where it is used; without the version that `assay.lower.frontends.tvm` reads, Unsupported
(tvm.C1).
"""

from __future__ import annotations

from assay.verify.tvm.kernels import KernelReport, judge_kernels
from assay.verify.tvm.passes import PassReport, judge_passes
from assay.verify.tvm.peer import PIPELINES, from_onnx, from_script

__all__ = [
    "PIPELINES",
    "KernelReport",
    "PassReport",
    "from_onnx",
    "from_script",
    "judge_kernels",
    "judge_passes",
]
