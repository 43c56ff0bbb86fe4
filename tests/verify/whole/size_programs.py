"""Small programs of unknown sizes, in Relay and ONNX: what each gives at several sizes, and what `check` says of it.

They stand in `size_programs.txt`, called as the cases of TVM's test_vm.py, test_any.py and
test_pass_dynamic_to_static.py that they are. A line begins a program: its name, and 0 or the label of the message with
which a stage refuses to plan it. Behind its text each line `-- INPUTS -> RESULTS` is a run: inputs are NumPy
expressions, in which f(...), i(...) and b(...) make numbers of a shape; results are, too, or `trap KIND`, `invalid
LABEL` or `said WORD`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import parser

TABLE = Path(__file__).with_suffix(".txt")
ONNX = '<ir_version: 10, opset_import: ["" : 20]>\nmodel '
RELAY = '#[version = "0.0.5"]\n'
WORDS = ("trap", "invalid", "said")


@dataclass(frozen=True)
class Run:
    """Inputs, and what comes of them: arrays, or a word (`trap`) and what it is of (`shape`)."""

    inputs: Mapping[str, Any]
    results: tuple[Any, ...]
    word: str = ""
    of: str = ""


@dataclass(frozen=True)
class Sized:
    """A program; `says` is 0, the label of its refusal, or "vm" and the label with which a plan refuses it."""

    name: str
    says: str
    text: str
    runs: tuple[Run, ...]

    def write(self, folder: Path) -> Path:
        """The file of the program."""
        if self.text.startswith("("):
            onnx.save(parser.parse_model(ONNX + self.text), path := folder / "p.onnx")
        else:
            (path := folder / "p.relay").write_text(RELAY + self.text, "utf-8")
        return path


def programs() -> list[Sized]:
    """The table."""
    text = re.sub(r"^=== .*\n|\\\n", "", TABLE.read_text("utf-8"), flags=re.MULTILINE)
    return [_program(part) for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]]


def _program(part: str) -> Sized:
    head, _, rest = part.partition("\n")
    name, says = (x.strip() for x in head.split("|"))
    lines = rest.splitlines()
    runs = tuple(_run(line.removeprefix("--")) for line in lines if line.startswith("--"))
    return Sized(name, says, "\n".join(line for line in lines if line and not line.startswith("--")) + "\n", runs)


def _run(line: str) -> Run:
    given, _, wanted = (x.strip() for x in line.partition("->"))
    inputs: dict[str, Any] = {}
    for each in filter(None, given.split("; ")):
        name, _, value = each.partition(" = ")
        inputs[name] = np.asarray(eval(value, dict(MADE)))
    word, _, of = wanted.partition(" ")
    if word in WORDS:
        return Run(inputs, (), word, of)
    found = eval(wanted, {**MADE, **{name.replace(".", "_"): x for name, x in inputs.items()}})
    return Run(inputs, tuple(map(np.asarray, found if isinstance(found, tuple) else (found,))))


def floats(*shape: int) -> Any:
    """Multiples of 1/4 around 0, no two neighbours alike."""
    return ((np.arange(np.prod(shape)) * 7 % 11 - 5) / 4).reshape(shape).astype(np.float32)


def integers(*shape: int) -> Any:
    return (np.arange(np.prod(shape)) * 7 % 11).reshape(shape).astype(np.int32)


def conv(x: Any, w: Any, strides: tuple[int, int], pad: int) -> Any:
    """A convolution in two dims, by windows."""
    x = np.pad(x, [(0, 0), (0, 0), *[(pad if w.shape[2] > 1 else 0,) * 2, (pad,) * 2]])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w)


MADE: Mapping[str, Any] = {
    "np": np,
    "f": floats,
    "i": integers,
    "n": np.int32,
    "conv": conv,
    "nz": lambda x: np.array(np.nonzero(x)),
}
