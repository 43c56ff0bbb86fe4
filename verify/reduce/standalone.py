"""A case as a test that stands alone (specs/verify.md, "reduce")."""

from __future__ import annotations

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
ENDS = {"wrong": "is wrong", "died": "ends the process", "late": "does not end in time"}
INLINE = 256
"""Elements of an array that are written into the text; larger ones lie beside it."""

TEXT = '''"""{title}

{said}

Run it with pytest, or as a program.
"""

{imports}from assay.verify.backends import {maker}, subject_of_model
{load}from assay.verify.oracle import judge_backend

MODEL = {model}
INPUTS = {inputs}


def verdict():
    return judge_backend(subject_of_model(MODEL), {maker}({backend!r}), INPUTS)


def test_{name}() -> None:
    assert verdict().outcome != "wrong", str(verdict())


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
    path of the test. `name` is an identifier."""
    make_directory(directory)
    text = onnx.printer.to_text(case.model)
    if _is_text(case.model, text):
        model = f'onnx.parser.parse_model("""\n{text.strip()}\n""")'
    else:
        model = f'onnx.load(Path(__file__).with_name("{name}.onnx"))'
        data = case.model.SerializeToString()
        replace_file(directory / f"{name}.onnx", lambda path: path.write_bytes(data))
    if all(a.size <= INLINE for a in case.inputs.values()):
        inputs = "{" + "".join(f"\n    {n!r}: {array_literal(a)}," for n, a in case.inputs.items()) + "\n}"
    else:
        inputs = f'load_npz(Path(__file__).with_name("{name}.npz"))'
        save(directory / f"{name}.npz", case.inputs)
    used = [m for m in ("ml_dtypes", "numpy as np", "onnx", "onnx.parser") if f"{m.split()[-1]}." in model + inputs]
    imports = "".join(f"import {m}\n" for m in used if not (m == "onnx" and "onnx.parser" in used))
    if "Path(" in model + inputs:
        imports = "from pathlib import Path\n\n" + imports
    operators = ", ".join(dict.fromkeys(n.op_type for n in case.nodes))
    title = f"{backend}: {operators} {ENDS[found.kind]}"
    content = TEXT.format(
        title=title, said=found.said.replace("\\", "\\\\").replace('"""', "'''"), model=model, inputs=inputs,
        backend=backend,
        name=name, maker="backend" if found.kind == "wrong" else "Isolated", imports=imports + "\n" * bool(imports),
        load="from assay.verify.border.inputs import load_npz\n" if "load_npz(Path" in inputs else "",
    )  # fmt: skip
    path = directory / f"test_{name}.py"
    replace_text(path, content)
    return path


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
