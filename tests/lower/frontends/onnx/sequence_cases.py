"""RNN, GRU, LSTM, transforms of signals and determinants: cases for ONNX Runtime, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.lower.frontends.onnx.onnx_cases import Array, Case, cases, floats

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 2, 4


def small(*shape: int) -> Array:
    return floats(*shape, low=-1.0, high=1.0)


def recurrent(
    op: str,
    gates: int,
    direction: str = "forward",
    *,
    bias: bool = True,
    lengths: tuple[int, ...] | None = None,
    state: bool = True,
    holes: bool = False,
    steps: int = STEPS,
    **attrs: Any,
) -> Iterator[Case]:
    """A use in every version since 7, with all outputs."""
    ways = 2 if direction == "bidirectional" else 1
    begin = small(ways, BATCH, HIDDEN)
    inputs: list[Array | None] = [
        small(steps, BATCH, INPUTS),
        small(ways, gates * HIDDEN, INPUTS),
        small(ways, gates * HIDDEN, HIDDEN),
        small(ways, 2 * gates * HIDDEN) if bias else None,
        np.array(lengths, np.int32) if lengths is not None else None,
        begin if state else None,
    ]
    if op == "LSTM":
        inputs += [-begin if state else None, small(ways, 3 * HIDDEN) if holes else None]
    while inputs[-1] is None:
        inputs.pop()
    outputs = 3 if op == "LSTM" else 2
    yield from cases(op, inputs, outputs=outputs, hidden_size=HIDDEN, direction=direction, **attrs)


WAYS = ("forward", "reverse", "bidirectional")
ALL = (("RNN", 1), ("GRU", 3), ("LSTM", 4))

SEQUENCES = [
    *(c for op, gates in ALL for way in WAYS for c in recurrent(op, gates, way)),
    *(c for op, gates in ALL for way in WAYS for c in recurrent(op, gates, way, lengths=(5, 2, 1))),
    *(c for op, gates in ALL for c in recurrent(op, gates, bias=False, state=False)),
    *(c for op, gates in ALL for c in recurrent(op, gates, "bidirectional", steps=17, lengths=(3, 17, 11))),
    *(c for op, gates in ALL[:2] for c in recurrent(op, gates, clip=0.25)),
    *recurrent("GRU", 3, "bidirectional", linear_before_reset=1),
    *recurrent("GRU", 3, bias=False, linear_before_reset=1),
    *recurrent("LSTM", 4, "bidirectional", holes=True),
    *recurrent("LSTM", 4, input_forget=1),
    *(
        c
        for f, more in (
            ("Relu", {}),
            ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.1]}),
            ("LeakyRelu", {"activation_alpha": [0.2]}),
            ("ThresholdedRelu", {"activation_alpha": [0.3]}),
            ("ScaledTanh", {"activation_alpha": [0.5], "activation_beta": [0.7]}),
            ("HardSigmoid", {"activation_alpha": [0.3], "activation_beta": [0.4]}),
            ("Elu", {"activation_alpha": [0.5]}),
            ("Softsign", {}),
            ("Softplus", {}),
        )
        for c in recurrent("RNN", 1, activations=[f], **more)
    ),
    *recurrent("LSTM", 4, activations=["HardSigmoid", "Relu", "tanh"], activation_alpha=[0.3], activation_beta=[0.4]),
    # transforms
    *cases("DFT", [floats(2, 5, 1)], 17, 19, axis=1),
    *cases("DFT", [floats(2, 5, 3, 2)], 17, 19, axis=-2, inverse=1),
    *cases("DFT", [floats(2, 6, 1)], 20),
    *cases("DFT", [floats(2, 6, 1)], 20, onesided=1),
    *cases("DFT", [floats(3, 7, 2), np.int64(8), np.int64(0)], 20, constants=[1, 2]),
    *cases("DFT", [floats(3, 7, 2), np.int64(5), np.int64(-2)], 20, constants=[1, 2], inverse=1),
    *cases("Det", [floats(3, 3)], 11),
    *cases("Det", [floats(2, 3, 4, 4)], 11),
    *cases("STFT", [floats(2, 20, 1), np.int64(3), floats(8)], 17, constants=[1]),
    *cases("STFT", [floats(2, 20, 1), np.int64(4), None, np.int64(6)], 17, constants=[1, 3], onesided=0),
    *cases(
        "MelWeightMatrix",
        [np.int64(8), np.int64(64), np.int64(8192), np.float32(0), np.float32(4096)],
        17,
        constants=range(5),
    ),
]
