"""The models that come with the onnx package, with weights that show something.

Their weights are one number over and over, so all outputs are equal, and a fault in the order of channels cannot show.
`python -m tests.zoo.light squeezenet --image 32 -o FILE.onnx` writes one with other weights, for images of that size.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def names() -> list[str]:
    """The models that there are."""
    return sorted(p.stem.removeprefix("light_") for p in LIGHT.glob("light_*.onnx"))


def with_weights(model: ModelProto, seed: int = 0) -> ModelProto:
    """The model with weights such as training begins with, so that values keep their size from layer to layer; scales,
    means and variances of batch norms are different ones for each channel."""
    rng = np.random.default_rng(seed)
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    sizes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    filled = {n.output[0]: tuple(sizes[n.input[0]]) for n in graph.node if n.op_type == "ConstantOfShape"}
    roles = {name: (n.op_type, i) for n in graph.node for i, name in enumerate(n.input)}
    kept = [n for n in graph.node if not n.output or n.output[0] not in filled]
    del graph.node[:]
    graph.node.extend(kept)
    shapes = {n.input[0] for n in model.graph.node if n.op_type == "ConstantOfShape"}
    stored = [t for t in graph.initializer if t.name not in shapes]
    del graph.initializer[:]
    graph.initializer.extend(stored)
    data = [i for i in graph.input if i.name not in sizes]
    del graph.input[:]
    graph.input.extend(data)
    for name, shape in filled.items():
        graph.initializer.append(numpy_helper.from_array(_weights(*roles[name], shape, rng), name))
    return made


def on_images(model: ModelProto, size: int) -> ModelProto:
    """The model for images of other sizes, where it takes any: what is convolved and pooled, and ends in one mean for
    each channel."""
    made = ModelProto()
    made.CopyFrom(model)
    for i in made.graph.input:
        dims = i.type.tensor_type.shape.dim
        if len(dims) == 4:
            dims[2].dim_value = dims[3].dim_value = size
    del made.graph.value_info[:]
    return made


def _weights(operator: str, place: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    match operator, place:
        case "BatchNormalization", (1 | 4):  # scale and variance: sums of many layers stay small
            made = rng.uniform(*((0.3, 0.7) if place == 1 else (0.5, 1.5)), shape)
        case _ if len(shape) == 1:  # whatever is added
            made = rng.normal(0, 0.1, shape)
        case _:
            made = rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
    return made.astype(np.float32)


def main() -> None:
    """Write one of the models."""
    words = argparse.ArgumentParser(prog="python -m tests.zoo.light", description=__doc__)
    words.add_argument("name", choices=names())
    words.add_argument("--image", type=int, help="height and width of an image")
    words.add_argument("-o", "--output", type=Path, required=True)
    asked = words.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    made = with_weights(onnx.load(LIGHT / f"light_{asked.name}.onnx"))
    onnx.save(made if asked.image is None else on_images(made, asked.image), asked.output)


if __name__ == "__main__":
    main()
