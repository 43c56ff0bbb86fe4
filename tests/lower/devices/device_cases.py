"""The programs under specs/devices: each a config, a module, and the module that planning makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from assay.semantics.compilation import CompilationConfig
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from tests.places import SPECS

FOLDER = SPECS / "devices"


@dataclass(frozen=True)
class Case:
    """What a file says: its head in words, and its parts."""

    name: str
    head: str
    config: CompilationConfig
    source: Module
    planned: Module


def names() -> list[str]:
    return sorted(p.stem for p in FOLDER.glob("*.txt"))


def read(name: str) -> Case:
    """The case in FOLDER/name.txt: a head, then after lines `== config`, `== source` and `== planned` these three."""
    parts: dict[str, list[str]] = {"": []}
    at = ""
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if line.startswith("== "):
            at = line.removeprefix("== ")
            assert at not in parts, f"{name}: two parts are called {at}"
            parts[at] = []
        else:
            parts[at].append(line)
    assert list(parts) == ["", "config", "source", "planned"], f"{name}: the parts are {list(parts)}"
    source, planned = (parse("\n".join(parts[p]), f"{name}.txt, {p}") for p in ("source", "planned"))
    return Case(name, "\n".join(parts[""]), config([line for line in parts["config"] if line]), source, planned)


def config(lines: list[str]) -> CompilationConfig:
    """Devices, one a line; `host NAME` and `default NAME` choose among them."""
    roles = {
        word: line.split(" ", 1)[1] for line in lines for word in ("host", "default") if line.startswith(f"{word} ")
    }
    devices = [line for line in lines if not line.startswith(("host ", "default "))]
    return CompilationConfig.read(devices, roles.get("host"), roles.get("default"))
