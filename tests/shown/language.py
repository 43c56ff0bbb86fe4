"""Rows on the graph language and its tools, through commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from assay.semantics.builder import Builder, nn, tensor
from assay.semantics.builder.layers import Layer, export
from assay.semantics.graph import Expr
from assay.semantics.text.module_text import write_module
from tests.shown.case import HEAD, Shown


class Model(Layer):
    """A few layers of several kinds."""

    def __init__(self) -> None:
        self.table = nn.Embedding(5, 4)
        self.blocks = nn.ModuleList([nn.MultiHeadAttention(4, 2), nn.RMSNorm(4), nn.SiLU()])
        self.head = nn.ConvTranspose1d(3, 1, 2, strides=2)

    def forward(self, b: Builder, ids: Expr) -> Expr:
        return self.head(b, self.blocks(b, self.table(b, ids)))


def model(path: Path) -> None:
    write_module(export(Model(), ids=tensor(1, 3, of="int64")), path)

    np.savez(path.parent / "ids.npz", ids=np.array([[4, 0, 2]]))


SCALE = """
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        return R.multiply(x, y)
"""


def scale(path: Path) -> None:
    path.write_text(HEAD + SCALE.strip("\n") + "\n", "utf-8")
    np.savez(path.parent / "all.npz", x=np.float32([2, 3]), y=np.float32([4, 5]))


SHOWN: tuple[Shown, ...] = (
    Shown(
        "R31", "check FILE.py", model, (r"import checked .*operators", "compare tested .*C bit for bit the machine's")
    ),
    Shown(
        "R27",
        "run FILE.py --inputs all.npz --save warm -o DIR/saved.py\nrun DIR/saved.py --function warm",
        scale,
        (r"output_0: .*8.* 15",),
        files={"saved.py": r"def warm\(\)"},
    ),
    Shown(
        "R27",
        "run FILE.py --inputs all.npz --save main -o DIR/saved.py",
        scale,
        (r"has a 'main' already.*session\.C4",),
        code=2,
    ),
    Shown(
        "R17 R27",
        "run FILE.py --function twice",
        SCALE + '    @R.function\n    def twice(z: R.Tensor((2,), "float32")):\n        return Module.main(z, z)\n',
        (r"output_0: ",),
    ),
    Shown("R27", "run FILE.py --save warm", scale, (r"--save writes a module",), code=2),
    Shown("R31", "run FILE.py", model, ("blocks_layers_0_q_proj_weight|blocks.layers.0.q_proj.weight", r"output_0")),
)
