"""Sequences, optional values and control flow: chains of nodes for ONNX Runtime, in every version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.defs
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from tests.lower.frontends.onnx.onnx_cases import Array, Case, chain, floats, ints, versions, whole
from tests.models import NEWEST_RELEASED, model, value

Nodes = Sequence[tuple[str, list[str], list[str], dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Chain(Case):
    """Nodes from the inputs x0, x1, ... to y0, y1, ...; one of them is an `op`."""

    nodes: Sequence[NodeProto] = ()

    def model(self) -> ModelProto:
        given = {f"x{i}": a for i, a in enumerate(self.inputs) if a is not None}
        fixed = {f"x{i}": given[f"x{i}"] for i in self.constants}
        types = {n: (a.dtype, a.shape) for n, a in given.items() if n not in fixed}
        made = model(self.nodes, types, {}, fixed, self.opset)
        made.graph.output.extend(ValueInfoProto(name=f"y{i}") for i in range(self.outputs))
        return made


def chains(
    op: str, inputs: Sequence[Array], nodes: Nodes, since: int = 11, *, constants: Sequence[int] = (), outputs: int = 1
) -> Iterator[Chain]:
    """A case for each version of `op` from an operator set on."""
    for opset in versions(op, since, NEWEST_RELEASED):
        version = onnx.defs.get_schema(op, opset, "").since_version
        used = ",".join(n[0] for n in nodes)
        yield Chain(op, opset, inputs, {}, constants, outputs, version, f" {used}", chain(*nodes))


def graph_of(nodes: Nodes, given: Mapping[str, Any], gives: Mapping[str, Any]) -> Any:
    """A subgraph: names with (dtype, shape)."""
    made = [[value(n, *t) for n, t in side.items()] for side in (given, gives)]
    return helper.make_graph(chain(*nodes), "body", *made)


F = TensorProto.FLOAT
A, B = floats(2, 3), floats(4, 3)
TWO = ("SequenceConstruct", ["x0", "x1"], ["s"], {})
WRAPPED = ("Optional", ["x0"], ["o"], {})

CONTAINERS = [
    *chains("SequenceConstruct", [A, B], [TWO, ("ConcatFromSequence", ["s"], ["y0"], {"axis": 0})]),
    *chains("SequenceAt", [A, B, ints(-1)[0]], [TWO, ("SequenceAt", ["s", "x2"], ["y0"], {})]),
    *chains("SequenceAt", [A, B, ints(1)[0]], [TWO, ("SequenceAt", ["s", "x2"], ["y0"], {})], constants=[2]),
    *chains("SequenceLength", [A, B], [TWO, ("SequenceLength", ["s"], ["y0"], {})]),
    *chains(
        "SequenceErase",
        [A, B, ints(-2)[0]],
        [TWO, ("SequenceErase", ["s", "x2"], ["t"], {}), ("ConcatFromSequence", ["t"], ["y0"], {"axis": -2})],
    ),
    *chains(
        "SequenceInsert",
        [A, B, ints(1)[0]],
        [TWO, ("SequenceInsert", ["s", "x1", "x2"], ["t"], {}), ("ConcatFromSequence", ["t"], ["y0"], {"axis": 0})],
    ),
    *chains(
        "SequenceEmpty",
        [whole(2, 3)],
        [
            ("SequenceEmpty", [], ["s"], {"dtype": TensorProto.INT64}),
            ("SequenceInsert", ["s", "x0"], ["t"], {}),
            ("ConcatFromSequence", ["t"], ["y0"], {"axis": 1, "new_axis": 1}),
            ("SequenceLength", ["s"], ["y1"], {}),
        ],
        outputs=2,
    ),
    *chains(
        "ConcatFromSequence",
        [A, A + 1],
        [TWO, ("ConcatFromSequence", ["s"], ["y0"], {"axis": -1, "new_axis": 1})],
    ),
    *(
        c
        for split, attrs in (
            ([], {"axis": 1}),
            ([], {"axis": 0, "keepdims": 0}),
            ([ints(1, 3)], {}),
            ([ints(3)[0]], {}),
        )
        for c in chains(
            "SplitToSequence",
            [B, ints(0)[0], *split],
            [
                ("SplitToSequence", ["x0", "x2"][: 1 + len(split)], ["s"], attrs),
                ("SequenceAt", ["s", "x1"], ["y0"], {}),
                ("SequenceLength", ["s"], ["y1"], {}),
            ],
            constants=[2][: len(split)],
            outputs=2,
        )
    ),
    *chains("Optional", [A], [WRAPPED, ("OptionalGetElement", ["o"], ["y0"], {})], 15),
    *chains("OptionalGetElement", [A], [WRAPPED, ("OptionalGetElement", ["o"], ["y0"], {})], 15),
    *chains("OptionalHasElement", [A], [WRAPPED, ("OptionalHasElement", ["o"], ["y0"], {})], 15),
    *chains("OptionalHasElement", [A], [("OptionalHasElement", ["x0"], ["y0"], {})], 18),
    *chains("OptionalGetElement", [A], [("OptionalGetElement", ["x0"], ["y0"], {})], 18),
]

CONTROL = [
    *(
        c
        for way in (True, False)
        for c in chains(
            "If",
            [np.array(way), A, A + 1],
            [
                (
                    "If",
                    ["x0"],
                    ["y0"],
                    {
                        "then_branch": graph_of([("Neg", ["x1"], ["t"], {})], {}, {"t": (F, (2, 3))}),
                        "else_branch": graph_of([("Abs", ["x2"], ["e"], {})], {}, {"e": (F, (2, 3))}),
                    },
                )
            ],
            7,
        )
    ),
    *chains(
        "Loop",
        [ints(3)[0], A],
        [
            (
                "Loop",
                ["x0", "", "x1"],
                ["y0", "y1"],
                {
                    "body": graph_of(
                        [
                            ("Add", ["v", "x1"], ["w"], {}),
                            ("Identity", ["go"], ["more"], {}),
                            ("ReduceSum", ["w"], ["r"], {"keepdims": 0}),
                        ],
                        {"i": (TensorProto.INT64, ()), "go": (TensorProto.BOOL, ()), "v": (F, (2, 3))},
                        {"more": (TensorProto.BOOL, ()), "w": (F, (2, 3)), "r": (F, ())},
                    )
                },
            )
        ],
        7,
        outputs=2,
    ),
    *chains(
        "Scan",
        [floats(3), B],
        [
            (
                "Scan",
                ["x0", "x1"],
                ["y0", "y1"],
                {
                    "num_scan_inputs": 1,
                    "body": graph_of(
                        [("Add", ["s", "r"], ["t"], {}), ("Mul", ["s", "r"], ["o"], {})],
                        {"s": (F, (3,)), "r": (F, (3,))},
                        {"t": (F, (3,)), "o": (F, (3,))},
                    ),
                },
            )
        ],
        9,
        outputs=2,
    ),
    # with an axis for the batch in front, and the lengths of its sequences, which may be left out
    next(
        chains(
            "Scan",
            [floats(2, 3), floats(2, 4, 3)],
            [
                (
                    "Scan",
                    ["", "x0", "x1"],
                    ["y0", "y1"],
                    {
                        "num_scan_inputs": 1,
                        "directions": [1],
                        "body": graph_of(
                            [("Add", ["s", "r"], ["t"], {}), ("Mul", ["s", "r"], ["o"], {})],
                            {"s": (F, (3,)), "r": (F, (3,))},
                            {"t": (F, (3,)), "o": (F, (3,))},
                        ),
                    },
                )
            ],
            8,
            outputs=2,
        )
    ),
]
