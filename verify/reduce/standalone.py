"""A case as a test that stands alone (specs/verify.md, "reduce")."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import numpy_helper

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.files import directory_at
from assay.verify.border.files import replace_file, replace_text
from assay.verify.border.inputs import save
from assay.verify.reduce.case import ReducedCase
from assay.verify.reduce.finding import CaseFinding

Array = np.ndarray[Any, Any]
ENDS = {
    "wrong": "is wrong",
    "implausible": "is implausible",
    "open": "differs where the standard leaves it open",
    "died": "ends the process",
    "late": "does not end in time",
    "crash": "meets what must not be raised",
}
INLINE = 256
"""Elements of an array that are written into the text; larger ones lie beside it."""

TEXT = '''"""{title}

{said}

Run it with pytest, or as a program.
"""

{imports}from assay.verify.fuzz.rerun import check_again, rerun

BACKEND = {backend!r}
MODEL = {model}
INPUTS = {inputs}


def verdict():
    return rerun(MODEL, INPUTS, BACKEND)


def test_{name}() -> None:
    """It fails while the fault is there, and is skipped where the backend is not installed."""
    check_again(MODEL, INPUTS, BACKEND)


if __name__ == "__main__":
    print(verdict())
'''


def make_directory(directory: Path) -> None:
    """Invalid (output.C1): it cannot be made."""
    try:
        directory_at(directory)
    except OSError as wrong:
        raise Invalid(f"cannot be a directory: {wrong.strerror}", where=str(directory), label="output.C1") from None


def write_standalone(directory: Path, name: str, case: ReducedCase, backend: str, found: CaseFinding) -> Path:
    """Write DIR/test_NAME.py, with NAME.onnx and NAME.npz beside it if model or inputs are too large to read, and the
    path of the test. `name` is an identifier; where another test has it, it gets a number."""
    make_directory(directory)
    model = _model_literal(case.model, "{stem}")
    inputs = _inputs_literal(case.inputs, "{stem}")
    operators = ", ".join(dict.fromkeys(n.op_type for n in case.nodes))
    title = f"{backend}: {operators} {ENDS[found.kind]}"

    def content(called: str) -> str:
        parts = (model.replace("{stem}", called), inputs.replace("{stem}", called))
        return text_of_test(called, title, found.said, backend, *parts)

    name = free_name(directory, name, content)
    if "{stem}" in model:
        replace_file(directory / f"{name}.onnx", lambda path: path.write_bytes(case.model.SerializeToString()))
    if "{stem}" in inputs:
        save(directory / f"{name}.npz", case.inputs)
    replace_text(directory / f"test_{name}.py", content(name))
    return directory / f"test_{name}.py"


@dataclass(frozen=True)
class Failed:
    """What is to be said of a failure: its kind, a word of the ladder of verdicts, and the details."""

    kind: str
    said: str


def write_failure_test(
    directory: Path, stem: str, who: str, found: Failed, model: onnx.ModelProto | None, inputs: Mapping[str, Array]
) -> Path:
    """Write DIR/test_STEM.py for a failure whose inputs are in STEM.npz, and whose program is in STEM.onnx, or where it
    is no model in STEM.py."""
    name = re.sub(r"\W+", "_", stem)
    program = f'load_text(Path(__file__).with_name("{stem}.py"))' if model is None else _model_literal(model, stem)
    text = text_of_test(
        name, f"{who} {ENDS[found.kind]}", found.said, who, program, _inputs_literal(inputs, stem)
    )  # fmt: skip
    path = directory / f"test_{name}.py"
    replace_text(path, text)
    return path


def _model_literal(model: onnx.ModelProto, stem: str) -> str:
    """A model as an expression: its text, or what reads STEM.onnx where that does not say all of it or is long."""
    text = onnx.printer.to_text(model)
    if _is_text(model, text):
        return f'onnx.parser.parse_model("""\n{text.strip()}\n""")'
    return f'onnx.load(Path(__file__).with_name("{stem}.onnx"))'


def _inputs_literal(inputs: Mapping[str, Array], stem: str) -> str:
    """Inputs as an expression: what reads STEM.npz where they are large."""
    if any(a.size > INLINE for a in inputs.values()):
        return f'load_npz(Path(__file__).with_name("{stem}.npz"))'
    if not inputs:
        return "{}"
    return "{" + "".join(f"\n    {n!r}: {array_literal(a)}," for n, a in inputs.items()) + "\n}"


def text_of_test(name: str, title: str, said: str, backend: str, model: str, inputs: str) -> str:
    """The text of a test; `model` and `inputs` are expressions."""
    both = model + inputs
    used = [m for m in ("ml_dtypes", "numpy as np", "onnx", "onnx.parser") if f"{m.split()[-1]}." in both]
    lines = [f"import {m}" for m in used if not (m == "onnx" and "onnx.parser" in used)]
    if "Path(" in both:
        lines = ["from pathlib import Path", "", *lines]
    lines += [""] * bool(lines)
    lines += ["from assay.verify.app.text_run import load_text"] * ("load_text(" in both)
    lines += ["from assay.verify.border.inputs import load_npz"] * ("load_npz(" in both)
    plain = said.replace("\\", "\\\\").replace('"""', "'''")
    imports = "".join(f"{line}\n" for line in lines)
    return TEXT.format(title=title, said=plain, imports=imports, backend=backend, model=model, inputs=inputs, name=name)


def free_name(directory: Path, name: str, content: Callable[[str], str]) -> str:
    """A name of which there is no other test: nothing is overwritten but a test that says the same."""
    called, number = name, 1
    while (path := directory / f"test_{called}.py").exists() and path.read_text("utf-8") != content(called):
        number += 1
        called = f"{name}_{number}"
    return called


def _is_text(model: onnx.ModelProto, text: str) -> bool:
    """Whether ONNX's own text says all of a model."""
    if '"""' in text or "\\" in text or any(_size(t) > INLINE for t in model.graph.initializer):
        return False
    try:
        return _plain(onnx.parser.parse_model(text)) == _plain(model)
    except onnx.parser.ParseError:
        return False


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model in which what is empty is not there, and data is bytes: two that are equal are so in every bit."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    plain.ClearField("producer_name")
    for node in plain.graph.node:
        for name in ("name", "domain", "doc_string"):
            if not getattr(node, name):
                node.ClearField(name)
    for tensor in plain.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return plain


def _size(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


def array_literal(array: Array) -> str:
    """An array as an expression that gives its very bits."""
    of = dtype(array.dtype)
    name = array.dtype.name if array.dtype.name != "bool" else "bool_"
    standard = hasattr(np, name)
    values = [_number(x, of.is_float) for x in array.reshape(-1).tolist()]
    special = of.is_float and bool(np.isnan(array).any())
    if not standard or special:
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
        made = (
            f"np.array({bits.tolist()},"
            f" np.uint{8 * array.dtype.itemsize}).view({'np' if standard else 'ml_dtypes'}.{name})"
        )
    else:
        made = f"np.array([{', '.join(values)}], np.{name})"
    return made if array.ndim == 1 else f"{made}.reshape({array.shape})"


def _number(x: Any, is_float: bool) -> str:
    if is_float and x in (float("inf"), float("-inf")):
        return "np.inf" if x > 0 else "-np.inf"
    return repr(x)
