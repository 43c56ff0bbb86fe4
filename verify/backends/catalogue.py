"""What the tools of backends are called, and how they are installed (specs/verify.md, "Backends").

Nothing here imports a tool: `assay backends` reads its version from what is installed.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/version")
"""What is there where NVIDIA's driver is."""


@dataclass(frozen=True)
class ToolInfo:
    """A tool of a backend: the packages that it comes in, the first one with its version; the modules that they must
    give; our extra that installs it, "" if it comes with Assay; what form of a program it takes; a program that it
    calls, if it needs one; the freedoms that it declares beyond those of every backend, which were measured on the
    host; what installs it, where no extra of ours does; and the device that it needs, "" for the host."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    extra: str
    takes: str = "ONNX"
    program: str = ""
    freedoms: tuple[str, ...] = ()
    install: str = ""
    device: str = ""

    @property
    def how(self) -> str:
        """What to type for it to be installed."""
        return self.install or f"pip install 'assay[{self.extra}]'"

    @property
    def version(self) -> str:
        """The version that is installed; "" where one of the packages is not."""
        try:
            return [version(p) for p in self.packages][0]
        except PackageNotFoundError:
            return ""

    def missing_device(self) -> str:
        """The device that it needs, where nothing here drives one, or ""."""
        return "" if not self.device or DRIVER.exists() else f"a GPU with {self.device} and its driver"

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
ON_A_GPU = {
    "onnxruntime:cuda": ToolInfo(
        ("onnxruntime-gpu",), ("onnxruntime",), "", freedoms=("tf32",), device="CUDA",
        install="pip install onnxruntime-gpu, in place of onnxruntime",
    ),
    **dict.fromkeys(
        ("torch:cuda", "torch:compile:cuda"), replace(TOOLS["torch"], freedoms=("tf32",), device="CUDA")
    ),
    "xla:cuda": replace(TOOLS["xla"], freedoms=("tf32",), device="CUDA", install="pip install 'jax[cuda13]'"),
}  # fmt: skip
"""The same of those on a GPU, by the whole name."""


def tool_of(name: str) -> ToolInfo:
    """The tool of a backend of ours."""
    return ON_A_GPU.get(name) or TOOLS[family_of(name)]


PLACED = re.compile(r"(.+)@([a-z]+://.+)", re.DOTALL)
"""NAME@ADDRESS, a backend on another machine."""


def split_place(name: str) -> tuple[str, str]:
    """The name of a backend where it runs, and the address of the scheduler through which it is asked, "" for this
    machine."""
    found = PLACED.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def family_of(name: str) -> str:
    """What stands in front of the colon of a name."""
    return split_place(name)[0].partition(":")[0]


def version_of(name: str) -> str:
    """The version of the package that a backend of ours is of, "" where that is not known, or it is Assay."""
    if split_place(name)[1]:
        return ""
    tool = ON_A_GPU.get(name) or TOOLS.get(family_of(name), OWN)
    return "" if tool.packages == OWN.packages else tool.version
