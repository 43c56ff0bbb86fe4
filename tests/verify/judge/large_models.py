"""Models whose weights are most of them, and what judging one takes.

    python -m tests.verify.judge.large_models NARROW.onnx WIDE.onnx [inside]

prints, as JSON, the verdict on the wide one and the memory that it takes more than the narrow one; `inside`: with its
weights in the protobuf message, as small models are judged.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import assay
from assay.lower.frontends.onnx import outside
from tests.lower.frontends.onnx.onnx_cases import F32
from tests.models import model

ROWS = 2


def weight(width: int, layer: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The weights of a layer, of such size that activations stay of order one."""
    rng = np.random.default_rng(layer)
    return rng.standard_normal((width, width), np.float32) * np.float32((2 / width) ** 0.5)


def layered(width: int, layers: int) -> onnx.ModelProto:
    """Matrix products with a Relu behind each, without its weights."""
    nodes, at = [], "x"
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [at, f"w{i}"], [f"p{i}"], name=f"matmul{i}"))
        nodes.append(helper.make_node("Relu", [f"p{i}"], [at := f"h{i}"], name=f"relu{i}"))
    nodes.append(helper.make_node("Neg", [at], ["y"], name="last"))
    return model(nodes, {"x": (F32, (ROWS, width))}, {"y": (F32, (ROWS, width))})


def with_weights(width: int, layers: int) -> onnx.ModelProto:
    """The same with its weights in it."""
    made = layered(width, layers)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(weight(width, i), f"w{i}") for i in range(layers))
    return made


def write_beside(folder: Path, width: int, layers: int) -> Path:
    """The same with its weights in a file beside it, written one after the other."""
    made = layered(width, layers)
    with (folder / "weights.bin").open("wb") as file:
        for i in range(layers):
            tensor = made.graph.initializer.add(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[width, width])
            tensor.data_location = TensorProto.EXTERNAL
            data = weight(width, i).tobytes()
            place = {"location": "weights.bin", "offset": str(file.tell()), "length": str(len(data))}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
            file.write(data)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def judged(path: Path) -> tuple[str, int, int]:
    """The verdict, and the most bytes that this process has had by now, and that the backend's had."""
    theirs = 0

    def told(verdict: object) -> None:
        nonlocal theirs
        found = [int(n) for n in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
        theirs = max(map(most_bytes, found))

    verdict = assay.judge(path, "onnxruntime", kinds="random", on_verdict=told).verdicts[0]
    return verdict.outcome, most_bytes(os.getpid()), theirs


def most_bytes(process: int) -> int:
    """The most memory that a process has had since it began to run its program."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main(narrow: Path, wide: Path, inside: bool) -> None:
    """Judge a narrow model, then a wide one, and print what the wide one takes more, in units of its size."""
    if inside:
        outside.MOST_INSIDE = 1 << 62
    (_, own, child), (outcome, ours, theirs) = judged(narrow), judged(wide)
    size = sum(f.stat().st_size for f in wide.parent.iterdir() if f.is_file())
    print(json.dumps({"outcome": outcome, "ours": (ours - own) / size, "child": (theirs - child) / size}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "inside" in sys.argv[3:])
