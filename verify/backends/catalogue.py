"""What the tools of backends are called, and how they are installed (specs/verify.md, "Backends").

Nothing here imports a tool: `assay backends` reads its version from what is installed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class ToolInfo:
    """A tool of a backend: the packages that it comes in, the first one with its version; the modules that they must
    give; our extra that installs it, "" if it comes with Assay; what form of a program it takes; a program that it
    calls, if it needs one; and the freedoms that it declares beyond those of every backend, which were measured."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    extra: str
    takes: str = "ONNX"
    program: str = ""
    freedoms: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """What to type for it to be installed."""
        return f"pip install 'assay[{self.extra}]'"

    @property
    def version(self) -> str:
        """The version that is installed; "" where one of the packages is not."""
        try:
            return [version(p) for p in self.packages][0]
        except PackageNotFoundError:
            return ""

    def missing_program(self) -> str:
        """The program that it needs and that there is not, or ""."""
        return "" if not self.program or shutil.which(self.program) else self.program


OWN = ToolInfo(("assay",), (), "", "a module")
TOOLS = {
    "onnxruntime": ToolInfo(("onnxruntime",), ("onnxruntime",), "judge"),
    "reference": ToolInfo(("onnx",), ("onnx",), ""),
    "tvm": ToolInfo(("apache-tvm",), ("tvm",), "tvm"),
    "torch": ToolInfo(("torch",), ("torch",), "torch", "a module"),
    "xla": ToolInfo(("jaxlib",), ("jaxlib",), "jax", "a module", freedoms=("flushes",)),
    "openvino": ToolInfo(("openvino",), ("openvino",), "openvino", freedoms=("flushes",)),
    "tract": ToolInfo(("tract",), ("tract",), "tract", freedoms=("flushes",)),
    "opencv": ToolInfo(("opencv-python-headless",), ("cv2",), "opencv", freedoms=("flushes",)),
    "mnn": ToolInfo(("mnn",), ("MNN",), "mnn"),
    "tinygrad": ToolInfo(("tinygrad",), ("tinygrad",), "tinygrad", program="clang"),
    "iree": ToolInfo(
        ("iree-base-compiler", "iree-base-runtime"), ("iree.compiler", "iree.runtime"), "iree", freedoms=("flushes",)
    ),
    "emx-onnx-cgen": ToolInfo(("emx-onnx-cgen",), ("emx_onnx_cgen",), "emx-onnx-cgen"),
    "adversarial": replace(OWN, freedoms=("flushes",)),
    "numpy": OWN,
    "c": OWN,
}
"""The tool of each backend of ours, by the name in front of its colon."""


def family_of(name: str) -> str:
    """What stands in front of the colon of a name."""
    return name.partition(":")[0]


def version_of(name: str) -> str:
    """The version of the package that a backend of ours is of, "" where that is not known, or it is Assay."""
    tool = TOOLS.get(family_of(name), OWN)
    return "" if tool.packages == OWN.packages else tool.version
