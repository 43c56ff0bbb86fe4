"""`assay backends`: what there is to be judged (specs/verify.md, "Backends"). No tool is imported."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from assay.verify.backends.catalogue import ToolInfo, tool_of
from assay.verify.backends.registry import BACKENDS, packages_of, registered
from assay.verify.oracle.declarations import Accepts


@dataclass(frozen=True)
class ListedBackend:
    """A backend: the version of its tool, "" if it is not installed; what it takes; the freedoms that it declares, None
    where only its own code could say; what is missing, in words, and the command that installs it."""

    name: str
    tool: str
    installed: bool
    version: str
    takes: str
    freedoms: list[str] | None
    missing: str = ""
    install: str = ""

    def line(self) -> str:
        """What a person is told of it."""
        if not self.installed:
            return f"not installed: {self.install or self.missing}"
        said = "says what it accepts when it runs" if self.freedoms is None else f"accepts {', '.join(self.freedoms)}"
        return f"{self.tool} {self.version}, takes {self.takes}, {said}"

    def as_data(self) -> dict[str, Any]:
        """The same for machines."""
        return asdict(self)


def listed_backends() -> list[ListedBackend]:
    """All backends: ours, and those that other packages register."""
    ours = [_ours(name, tool_of(name)) for name in BACKENDS]
    return [*ours, *(_stranger(name) for name in sorted(registered()))]


def _ours(name: str, tool: ToolInfo) -> ListedBackend:
    freedoms = [n for n, taken in Accepts.of(tool.freedoms).by_name.items() if taken]
    version, program = tool.version, tool.missing_program()
    missing = " and ".join(tool.packages) if not version else f"the program {program}" if program else ""
    missing = missing or tool.missing_device()
    install = tool.how if not version else ""
    return ListedBackend(name, tool.packages[0], not missing, version, tool.takes, freedoms, missing, install)


def _stranger(name: str) -> ListedBackend:
    found = packages_of(name)
    return ListedBackend(
        name, ", ".join(p for p, _ in found), len(found) == 1, found[0][1], "ONNX, or a module", None,
        "" if len(found) == 1 else "one package that registers it, not several",
    )  # fmt: skip
