"""Networks to ONNX by PyTorch's two exporters: `python -m tests.exported.export DIR [NAME...]`."""

from __future__ import annotations

import argparse
import io
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch

from tests.exported.cases import CASES
from tests.exported.networks import NETWORKS

OLD, NEW = (14, 17), (18, 20, 23)
"""Operator sets by exporter: the one that traces, and the one of torch.export."""


def traced(name: str, opset: int) -> onnx.ModelProto:
    """By the older exporter."""
    case, module = CASES[name], NETWORKS[name]().eval()
    given = tuple(torch.from_numpy(a) for a in case.arrays(case.example).values())
    axes = {n: g.axes for n, g in case.inputs.items()}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the exporter is the older one, and of what it traces as numbers
        torch.onnx.export(
            module,
            given,
            file,
            input_names=list(case.inputs),
            output_names=list(case.outputs),
            dynamic_axes=axes,
            opset_version=opset,
            dynamo=False,
        )
    return onnx.load_from_string(file.getvalue())


def exported(name: str, opset: int) -> onnx.ModelProto:
    """By the one of torch.export, which finds for itself what sizes have to do with one another."""
    case, module = CASES[name], NETWORKS[name]().eval()
    given = tuple(torch.from_numpy(a) for a in case.arrays(case.example).values())
    shapes: list[Any] = [dict.fromkeys(g.axes, torch.export.Dim.DYNAMIC) for g in case.inputs.values()]
    if "past_key.0" in case.inputs:
        shapes = [*shapes[:2], tuple(shapes[2:])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the exporter calls in itself
        made = torch.onnx.export(
            module,
            given,
            input_names=list(case.inputs),
            output_names=list(case.outputs),
            dynamic_shapes=tuple(shapes),
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
    return made.model_proto


CANNOT = {
    **{(n, exported, o): "LSTM and GRU by decomposition" for n in ("lstm", "gru_two_ways") for o in (20, 23)},
    **{("lstm_two_ways", exported, o): "two layers, two ways" for o in NEW},
    **{(n, exported, o): "T5's buckets of positions" for n in ("t5_encoder", "t5_decoder") for o in NEW},
    **{("attention", traced, o): "a causal flag that is a tensor" for o in OLD},
    **{("whisper_decoder", traced, o): "aten::diff" for o in OLD},
}
"""What torch 2.13 beside transformers 5.23 cannot export, and on what."""

EXPORTS = [
    (n, w, o) for n in NETWORKS for w, os in ((traced, OLD), (exported, NEW)) for o in os if (n, w, o) not in CANNOT
]


def main() -> None:
    """Write each, or those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for name, way, opset in EXPORTS:
        if not given.names or name in given.names:
            torch.manual_seed(0)
            onnx.save(way(name, opset), given.dir / f"{name}_{way.__name__}_{opset}.onnx")


if __name__ == "__main__":
    main()
